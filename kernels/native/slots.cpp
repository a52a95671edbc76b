#include "slots.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace native {
namespace {

constexpr int32_t kNoBlock = -1;

void refuse(const std::string& what, const std::string& expected, int64_t got) {
  throw std::invalid_argument(what + ": expected " + expected + ", got " + std::to_string(got));
}

}  // namespace

void Slot::saw(int32_t id, bool emitted) {
  auto [found, fresh] = seen_at.try_emplace(id, (int32_t)seen_ids.size());
  if (fresh) {
    seen_ids.push_back(id);
    seen_counts.push_back(0);
  }
  seen_counts[found->second] += emitted;
}

bool Slot::plain() const {
  return !(choice.temperature > 0) && !penalised && bias_ids.empty() && choice.min_tokens == 0;
}

void Slots::allocate(const Shape& shape) {
  vocab_ = shape.vocab;
  width_ = shape.max_len + 1;
  columns_ = (shape.max_len + shape.block_size - 1) / shape.block_size;
  slots_.resize(shape.slots);
  ids_.allocate((size_t)shape.slots * width_);
  table_.allocate((size_t)shape.slots * columns_);
  reset();
}

void Slots::reset() {
  for (Slot& slot : slots_) slot = Slot();
  std::fill_n(table_.get(), slots_.size() * columns_, kNoBlock);
}

void Slots::check(int slot) const {
  if (slot < 0 || slot >= (int)slots_.size())
    refuse("slot", "0 to " + std::to_string(slots_.size() - 1), slot);
}

void Slots::check_id(int32_t id) const {
  if (id < 0 || id >= vocab_) refuse("token id", "0 to " + std::to_string(vocab_ - 1), id);
}

void Slots::open(int slot, const int32_t* ids, int count, int cached, const Choice& choice) {
  check(slot);
  if (count < 0 || count >= width_) refuse("tokens", "0 to " + std::to_string(width_ - 1), count);
  if (cached < 0 || cached > count) refuse("cached", "0 to " + std::to_string(count), cached);
  std::for_each(ids, ids + count, [this](int32_t id) { check_id(id); });
  Slot& s = slots_[slot];
  s = Slot();
  s.computed = cached;
  s.known = count;
  s.bias_ids.assign(choice.bias_ids, choice.bias_ids + choice.biases);
  s.bias_values.assign(choice.bias_values, choice.bias_values + choice.biases);
  s.stop_ids.assign(choice.stop_ids, choice.stop_ids + choice.stops);
  s.choice = choice;
  s.choice.bias_ids = s.bias_ids.data();
  s.choice.bias_values = s.bias_values.data();
  s.choice.stop_ids = s.stop_ids.data();
  s.penalised = choice.presence != 0 || choice.frequency != 0 || choice.repetition != 1;
  if (s.penalised)
    for (int i = 0; i < count; ++i) s.saw(ids[i], i >= choice.prompt_len);
  std::memcpy(this->ids(slot), ids, sizeof(int32_t) * (size_t)count);
  std::fill_n(table(slot), columns_, kNoBlock);
}

void Slots::append(int slot, int32_t id) {
  Slot& s = slots_[slot];
  ids(slot)[s.known++] = id;
  if (s.penalised) s.saw(id, true);
}

void Slots::rewind(int slot, TextEnd end) {
  Slot& s = slots_[slot];
  for (; s.known > end.known; --s.known)
    if (s.penalised) --s.seen_counts[s.seen_at[ids(slot)[s.known - 1]]];
  for (; s.seen_ids.size() > end.seen; s.seen_ids.pop_back(), s.seen_counts.pop_back())
    s.seen_at.erase(s.seen_ids.back());
}

}  // namespace native
