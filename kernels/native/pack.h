// From rows of weights to panels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.h"

namespace native {

// Where rows of a matrix go: `first` on, one behind the other; or, for gate and up, whose rows
// alternate by 16 in a panel, into the half that `half` names.
struct Place {
  int32_t first;
  int32_t half;  // 0: gate, 1: up, -1: neither
};

int output_of(const Place& place, int row);

// A row of `count` weights becomes output `output`; inputs beyond them stay zero. bf16 and int8.
void pack_row(Linear& linear, int output, const float* row, int count);

// Rounded to nearest, ties to even.
void to_bf16(const float* values, int count, uint16_t* out);

}  // namespace native
