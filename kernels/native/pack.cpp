#include "pack.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace native {
namespace {

uint16_t bf16_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (std::isnan(value)) return 0x7fc0;
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void pack_bf16(uint8_t* panel, int lane, const float* row, int count) {
  uint8_t* out = panel + 4 * lane;
  for (int k = 0; k < count; k += 2, out += 4 * kPanel) {
    uint16_t two[2] = {bf16_of(row[k]), k + 1 < count ? bf16_of(row[k + 1]) : (uint16_t)0};
    std::memcpy(out, two, 4);
  }
}

// The nearest whole number, of two the even one, of what is far below 2^22: without a call for each.
inline int nearest(float value) {
  constexpr float kWhole = 12582912;  // 1.5 * 2^23: behind its point there is no room
  return (int)((value + kWhole) - kWhole);
}

// One scale for the row, NaN where one of it is no finite number; 128 stands for zero.
void pack_int8(uint8_t* panel, int inputs, int lane, const float* row, int count) {
  float largest = 1e-12f, lost = 0;
  for (int k = 0; k < count; ++k) largest = std::max(largest, std::fabs(row[k])), lost += row[k] - row[k];
  float scale = largest / 127 + lost, inverse = 127 / largest;
  if (std::isnan(scale)) count = 0;
  std::memcpy(panel + (size_t)inputs * kPanel + 4 * lane, &scale, 4);
  uint8_t* out = panel + 4 * lane;
  for (int k = 0; k < inputs; k += 4, out += 4 * kPanel) {
    uint8_t four[4] = {128, 128, 128, 128};
    for (int i = 0; i < 4 && k + i < count; ++i) four[i] = (uint8_t)(nearest(row[k + i] * inverse) + 128);
    std::memcpy(out, four, 4);
  }
}

// The file's own numbers, in another order.
void pack_int4(uint8_t* panel, int lane, Stored type, const uint8_t* row, int count) {
  int half = lane / 16, within = lane % 16;
  for (int g = 0; g < count / 32; ++g, panel += 640) {
    Group group = four_bit_group(type, row, g);
    for (int q = 0; q < 4; ++q)
      for (int i = 0; i < 4; ++i)
        panel[256 * half + 64 * q + 4 * within + i] =
            (uint8_t)(group.numbers[4 * q + i] | group.numbers[16 + 4 * q + i] << 4);
    uint16_t scale = float_to_half(group.scale), least = float_to_half(group.least);
    std::memcpy(panel + 512 + 64 * half + 2 * within, &scale, 2);
    std::memcpy(panel + 512 + 64 * half + 32 + 2 * within, &least, 2);
  }
}

struct Packing : Job {
  Packing(Linear& linear, const StoredRows& rows, int first, int half, Pool& pool)
      : linear(linear), rows(rows), first(first), half(half), pool(pool) {}

  int output(int row) const {
    return half < 0 ? first + row : (first + row) / 16 * kPanel + half * 16 + (first + row) % 16;
  }

  void pack(int row, float* values) const {
    uint8_t* panel = linear.panels + (size_t)(output(row) / kPanel) * linear.panel_bytes;
    int lane = output(row) % kPanel;
    if (linear.format == Format::int4)
      return pack_int4(panel, lane, rows.type, rows.row(row), rows.inputs);
    dequantise(rows.type, rows.row(row), rows.inputs, values);
    if (linear.format == Format::bf16)
      pack_bf16(panel, lane, values, rows.inputs);
    else
      pack_int8(panel, linear.inputs, lane, values, rows.inputs);
  }

  // Threads take whole panels, so that none writes into another's cache lines.
  void work(Walk& walk) override {
    std::vector<float> values(rows.inputs);
    int unit = half < 0 ? kPanel : 16, begin = first / unit;
    int units = (first + rows.rows - 1) / unit + 1 - begin, parts = pool.pieces(units);
    pool.parts(walk, parts, [&](int part) {
      int low = (begin + share(units, part, parts)) * unit - first;
      int high = (begin + share(units, part + 1, parts)) * unit - first;
      for (int row = std::max(low, 0); row < std::min(high, rows.rows); ++row)
        pack(row, values.data());
    });
  }

  Linear& linear;
  const StoredRows rows;
  const int first, half;
  Pool& pool;
};

}  // namespace

void to_bf16(const float* values, int count, uint16_t* out) {
  for (int i = 0; i < count; ++i) out[i] = bf16_of(values[i]);
}

bool pack_rows(Linear& linear, const StoredRows& rows, int first, int half, Pool& pool) {
  if (linear.format == Format::int4 && !is_four_bit(rows.type)) return false;
  pool.run(std::make_shared<Packing>(linear, rows, first, half, pool));
  return true;
}

}  // namespace native
