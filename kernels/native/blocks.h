// Weights as model files store them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace native {

// Numbers of the types in GGUF files.
enum class Stored : int32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  bf16 = 30,
};

// Whether this is one of them.
bool is_stored(int32_t type);
// Bytes of a row of `count` weights, a whole number of blocks.
size_t row_bytes(Stored type, int count);
// A row of `count` weights in float32, bit for bit what the format says.
void dequantise(Stored type, const uint8_t* row, int count, float* out);

// Thirty-two weights of four bits: value = scale * number + least.
struct Group {
  uint8_t numbers[32];
  float scale, least;
};
// Whether rows of this type are such groups.
bool is_four_bit(Stored type);
// Group `index` of a row.
Group four_bit_group(Stored type, const uint8_t* row, int index);

float half_to_float(uint16_t half);
// Rounded to nearest, ties to even; what is too large becomes infinite.
uint16_t float_to_half(float value);

}  // namespace native
