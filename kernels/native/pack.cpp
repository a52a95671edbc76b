#include "pack.h"

#include <cmath>
#include <cstring>

namespace native {
namespace {

uint16_t bf16_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void pack_bf16(uint8_t* panel, int lane, const float* row, int count) {
  uint16_t* out = reinterpret_cast<uint16_t*>(panel) + 2 * lane;
  for (int k = 0; k < count; ++k) out[(size_t)(k / 2) * 2 * kPanel + k % 2] = bf16_of(row[k]);
}

void pack_int8(uint8_t* panel, int inputs, int lane, const float* row, int count) {
  float largest = 1e-12f;
  for (int k = 0; k < count; ++k) largest = std::fmax(largest, std::fabs(row[k]));
  float scale = largest / 127, inverse = 127 / largest;
  std::memcpy(panel + (size_t)inputs * kPanel + 4 * lane, &scale, 4);
  for (int k = 0; k < inputs; ++k) {
    int value = k < count ? (int)std::nearbyint(row[k] * inverse) : 0;
    panel[(size_t)(k / 4) * 4 * kPanel + 4 * lane + k % 4] = (uint8_t)(value + 128);
  }
}

}  // namespace

void to_bf16(const float* values, int count, uint16_t* out) {
  for (int i = 0; i < count; ++i) out[i] = bf16_of(values[i]);
}

int output_of(const Place& place, int row) {
  if (place.half < 0) return place.first + row;
  return row / 16 * kPanel + place.half * 16 + row % 16;
}

void pack_row(Linear& linear, int output, const float* row, int count) {
  uint8_t* panel = linear.panels + (size_t)(output / kPanel) * linear.panel_bytes;
  if (linear.format == Format::bf16)
    pack_bf16(panel, output % kPanel, row, count);
  else
    pack_int8(panel, linear.inputs, output % kPanel, row, count);
}

}  // namespace native
