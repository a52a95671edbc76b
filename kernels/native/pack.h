// From rows of weights, as a file stores them, to panels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "blocks.h"
#include "isa.h"
#include "pool.h"

namespace native {

// Rows of a matrix as a file stores them.
struct StoredRows {
  Stored type;
  int32_t rows, inputs;
  const uint8_t* data;    // one row behind the other
  const int32_t* order;   // which stored row each row is; null: as they are

  const uint8_t* row(int index) const {
    return data + (size_t)(order ? order[index] : index) * row_bytes(type, inputs);
  }
};

// Pack rows from output `first` on, with every thread of the pool. half: for gate and up, whose rows
// alternate by 16 in a panel: 0 or 1; else -1. False: the rows are not what the format is made of.
bool pack_rows(Linear& linear, const StoredRows& rows, int first, int half, Pool& pool);

// Rounded to nearest, ties to even.
void to_bf16(const float* values, int count, uint16_t* out);

}  // namespace native
