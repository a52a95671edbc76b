// See lookup_ngram.h, and actors/proposer/ngram.py for the same in Python.
#include "lookup_ngram.h"

#include <algorithm>

namespace native {

void NgramLookup::open(int32_t slot, const std::string*, const int32_t* ids, size_t count) {
  std::vector<int32_t> text;
  text.reserve(std::max<size_t>(64, count + count / 2));
  text.assign(ids, ids + count);
  texts_[slot] = std::move(text);
}

void NgramLookup::accepted(int32_t slot, const int32_t* ids, size_t count) {
  auto& text = texts_.at(slot);
  text.insert(text.end(), ids, ids + count);
}

int32_t NgramLookup::propose(int32_t slot, int32_t most, int32_t* out) {
  const auto& text = texts_.at(slot);
  const size_t start = match(text);
  if (!start) return 0;
  // As if the text went on with the drafts themselves.
  for (size_t from = start, i = 0; i < size_t(most); ++i) {
    out[i] = text[from];
    if (++from == text.size()) from = start;
  }
  return most;
}

// Where the match of the last tokens ends, exclusively; 0 where so few do not occur before. The longest
// counts, of equally long ones the rightmost.
size_t NgramLookup::match(const std::vector<int32_t>& text) const {
  constexpr size_t STRIDE = 16;
  const size_t size = text.size();
  if (size <= shortest_) return 0;
  const int32_t* tokens = text.data();
  const int32_t* last = tokens + size - 1;
  size_t best = shortest_ - 1, found = 0;
  for (size_t end = size - 1; end >= shortest_; --end) {
    while (end > shortest_ + STRIDE) {
      bool any = false;
      for (size_t i = 1; i <= STRIDE; ++i) any |= tokens[end - i] == *last;
      if (any) break;
      end -= STRIDE;
    }
    if (tokens[end - 1] != *last) continue;
    const size_t most = std::min(longest_, end);
    size_t alike = 1;
    while (alike < most && tokens[end - 1 - alike] == last[-ptrdiff_t(alike)]) ++alike;
    if (alike <= best) continue;
    best = alike, found = end;
    if (best == longest_) break;
  }
  return found;
}

size_t NgramLookup::bytes() const {
  size_t total = 0;
  for (const auto& [slot, text] : texts_) total += text.capacity() * sizeof(int32_t);
  return total;
}

}  // namespace native
