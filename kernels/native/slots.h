// What the device knows of each request: its tokens, how many are computed, its blocks, and how its
// tokens are chosen. Nobody outside reads a length from here.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "abi.h"
#include "memory.h"

namespace native {

struct Slot {
  int32_t computed = 0;  // tokens whose keys and values are in the cache
  int32_t known = 0;     // tokens of prompt and output
  Choice choice = {};
  std::vector<int32_t> bias_ids, stop_ids;
  std::vector<float> bias_values;

  // Distinct tokens of the text and how often each was emitted; kept where penalties ask for it.
  bool penalised = false;
  std::vector<int32_t> seen_ids, seen_counts;
  std::unordered_map<int32_t, int32_t> seen_at;

  void saw(int32_t id, bool emitted);
  bool plain() const;  // the likeliest token is the answer
};

struct TextEnd {
  int32_t known;
  size_t seen;
};

class Slots {
 public:
  void allocate(const Shape& shape);
  void reset();

  Slot& operator[](int slot) { return slots_[slot]; }
  int32_t* ids(int slot) { return ids_.get() + (size_t)slot * width_; }
  int32_t* table(int slot) { return table_.get() + (size_t)slot * columns_; }
  int width() const { return width_; }
  int columns() const { return columns_; }

  // Throws std::invalid_argument, before anything changes, for a slot that is none, and for tokens and counts
  // that no slot can have.
  void check(int slot) const;
  void check_id(int32_t id) const;
  void open(int slot, const int32_t* ids, int count, int cached, const Choice& choice);
  void set_block(int slot, int column, int block) { table(slot)[column] = block; }
  void append(int slot, int32_t id);
  // Where the text ends now, and back to where it ended then. Its tokens stay behind it, as drafts.
  TextEnd end(int slot) { return {slots_[slot].known, slots_[slot].seen_ids.size()}; }
  void rewind(int slot, TextEnd end);

 private:
  std::vector<Slot> slots_;
  Buffer<int32_t> ids_, table_;
  int width_ = 0, columns_ = 0, vocab_ = 0;
};

}  // namespace native
