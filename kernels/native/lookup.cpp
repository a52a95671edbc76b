// What lookups have in common, and their C interface: see lookup.h.
#include "lookup.h"

#include <algorithm>
#include <exception>
#include <new>

#include "abi.h"
#include "lookup_ngram.h"
#include "lookup_suffix.h"

namespace native {

// A text that is known is gone through as if each of its tokens had been drafted for: those that a draft
// would have brought are not asked for again. No draft is held against a token that is not known yet.
Worth Lookup::rehearse(int32_t slot, const int32_t* ids, int32_t count, int32_t most) {
  Worth worth;
  tried_.resize(size_t(std::max(most, 1)));
  for (int32_t at = 0; at < count;) {
    const int32_t left = count - at, found = propose(slot, std::min(most, left), tried_.data());
    int32_t right = 0;
    while (right < found && tried_[size_t(right)] == ids[at + right]) ++right;
    const int32_t step = std::min(right + 1, left);
    ++worth.asked, worth.offered += found > 0;
    worth.drafted += std::min(right + 1, found), worth.accepted += right;
    accepted(slot, ids + at, size_t(step));
    at += step;
  }
  return worth;
}

template <typename Work>
static int32_t guarded(const Work& work) {
  try {
    return work();
  } catch (const std::exception&) {
    return -1;
  }
}

}  // namespace native

using namespace native;

// Null where memory does not suffice.
NATIVE_API Lookup* native_lookup_ngram(int64_t shortest, int64_t longest) {
  return new (std::nothrow) NgramLookup(shortest, longest);
}

NATIVE_API Lookup* native_lookup_suffix(int64_t depth, int64_t capacity, double least) {
  return new (std::nothrow) SuffixLookup(depth, capacity, least);
}

NATIVE_API void native_lookup_destroy(Lookup* lookup) { delete lookup; }

// salt: so many bytes; length -1: it shares with nobody. Returns -1 where memory does not suffice.
NATIVE_API int32_t native_lookup_open(Lookup* lookup, int32_t slot, const char* salt, int32_t length,
                                      const int32_t* ids, int32_t count) {
  return guarded([&] {
    const std::string name(salt, size_t(std::max(length, 0)));
    lookup->open(slot, length < 0 ? nullptr : &name, ids, size_t(count));
    return 0;
  });
}

NATIVE_API int32_t native_lookup_close(Lookup* lookup, int32_t slot) {
  return guarded([&] { return lookup->close(slot), 0; });
}

// All rows of a step: each went on with counts[row] tokens of `ids` and wants at most most[row] drafts.
// Writes how many each gets to `drafts`, and which to `found`, which has room for as many as are wanted.
// Returns how many those are together, -1 for a slot that is not open or too little memory.
NATIVE_API int32_t native_lookup_step(Lookup* lookup, int32_t rows, const int32_t* slots,
                                      const int32_t* counts, const int32_t* most, const int32_t* ids,
                                      int32_t* drafts, int32_t* found) {
  return guarded([&] {
    int32_t total = 0;
    for (int32_t row = 0; row < rows; ++row) {
      lookup->accepted(slots[row], ids, size_t(counts[row]));
      ids += counts[row];
      drafts[row] = most[row] > 0 ? lookup->propose(slots[row], most[row], found + total) : 0;
      total += drafts[row];
    }
    return total;
  });
}

// The same of rows that want none. Writes what drafts would have been worth to four columns, one behind the
// other, of `room` rows each. Returns 0, -1 as above.
NATIVE_API int32_t native_lookup_rehearse(Lookup* lookup, int32_t rows, const int32_t* slots,
                                          const int32_t* counts, int32_t most, const int32_t* ids,
                                          int32_t room, int32_t* worth) {
  return guarded([&] {
    for (int32_t row = 0; row < rows; ++row) {
      const Worth one = lookup->rehearse(slots[row], ids, counts[row], most);
      ids += counts[row];
      int32_t* at = worth + row;
      for (const int32_t value : {one.asked, one.offered, one.drafted, one.accepted}) {
        *at = value, at += room;
      }
    }
    return 0;
  });
}

NATIVE_API uint64_t native_lookup_bytes(Lookup* lookup) { return lookup->bytes(); }
