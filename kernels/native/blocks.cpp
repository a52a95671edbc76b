#include "blocks.h"

#include <cstring>

namespace native {
namespace {

struct Layout {
  Stored type;
  int weights, bytes;
};

constexpr Layout kLayouts[] = {
    {Stored::f32, 1, 4},     {Stored::f16, 1, 2},     {Stored::bf16, 1, 2},
    {Stored::q4_0, 32, 18},  {Stored::q4_1, 32, 20},  {Stored::q5_0, 32, 22},
    {Stored::q5_1, 32, 24},  {Stored::q8_0, 32, 34},  {Stored::q4_k, 256, 144},
    {Stored::q5_k, 256, 176}, {Stored::q6_k, 256, 210},
};

const Layout* layout_of(int32_t type) {
  for (const Layout& layout : kLayouts)
    if ((int32_t)layout.type == type) return &layout;
  return nullptr;
}

float half_at(const uint8_t* at) {
  uint16_t half;
  std::memcpy(&half, at, 2);
  return half_to_float(half);
}

uint32_t word_at(const uint8_t* at) {
  uint32_t word;
  std::memcpy(&word, at, 4);
  return word;
}

void q4_0(const uint8_t* b, float* out) {
  float scale = half_at(b);
  for (int i = 0; i < 16; ++i) {
    out[i] = ((b[2 + i] & 15) - 8) * scale;
    out[16 + i] = ((b[2 + i] >> 4) - 8) * scale;
  }
}

void q4_1(const uint8_t* b, float* out) {
  float scale = half_at(b), least = half_at(b + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = (b[4 + i] & 15) * scale + least;
    out[16 + i] = (b[4 + i] >> 4) * scale + least;
  }
}

// Low halves of the bytes come first; the fifth bits are those of one word.
void five_bits(const uint8_t* packed, uint32_t fifth, int* out) {
  for (int i = 0; i < 16; ++i) {
    out[i] = (packed[i] & 15) | (int)(fifth >> i & 1) << 4;
    out[16 + i] = packed[i] >> 4 | (int)(fifth >> (16 + i) & 1) << 4;
  }
}

void q5_0(const uint8_t* b, float* out) {
  int numbers[32];
  five_bits(b + 6, word_at(b + 2), numbers);
  float scale = half_at(b);
  for (int i = 0; i < 32; ++i) out[i] = (float)(numbers[i] - 16) * scale;
}

void q5_1(const uint8_t* b, float* out) {
  int numbers[32];
  five_bits(b + 8, word_at(b + 4), numbers);
  float scale = half_at(b), least = half_at(b + 2);
  for (int i = 0; i < 32; ++i) out[i] = (float)numbers[i] * scale + least;
}

void q8_0(const uint8_t* b, float* out) {
  float scale = half_at(b);
  for (int i = 0; i < 32; ++i) out[i] = (float)(int8_t)b[2 + i] * scale;
}

// Six-bit scale and minimum of one of eight groups out of twelve bytes.
struct Six {
  int scale, least;
};
Six six_bits(const uint8_t* packed, int group) {
  if (group < 4) return {packed[group] & 63, packed[4 + group] & 63};
  return {(packed[4 + group] & 15) | packed[group - 4] >> 6 << 4,
          packed[4 + group] >> 4 | packed[group] >> 6 << 4};
}

// The number of weight i of a group of 32 in a block of 256 nibbles.
int nibble_k(const uint8_t* packed, int group, int i) {
  uint8_t both = packed[32 * (group / 2) + i];
  return group % 2 ? both >> 4 : both & 15;
}

void q4_k(const uint8_t* b, float* out) {
  float scale = half_at(b), least = half_at(b + 2);
  for (int group = 0; group < 8; ++group) {
    Six six = six_bits(b + 4, group);
    float step = scale * (float)six.scale, low = least * (float)six.least;
    for (int i = 0; i < 32; ++i) out[32 * group + i] = (float)nibble_k(b + 16, group, i) * step - low;
  }
}

void q5_k(const uint8_t* b, float* out) {
  float scale = half_at(b), least = half_at(b + 2);
  for (int group = 0; group < 8; ++group) {
    Six six = six_bits(b + 4, group);
    float step = scale * (float)six.scale, low = least * (float)six.least;
    for (int i = 0; i < 32; ++i) {
      int number = nibble_k(b + 48, group, i) | (b[16 + i] >> group & 1) << 4;
      out[32 * group + i] = (float)number * step - low;
    }
  }
}

void q6_k(const uint8_t* b, float* out) {
  float scale = half_at(b + 208);
  for (int half = 0; half < 2; ++half)
    for (int part = 0; part < 4; ++part)
      for (int i = 0; i < 32; ++i) {
        uint8_t low = b[64 * half + 32 * (part % 2) + i], high = b[128 + 32 * half + i];
        int number = (part < 2 ? low & 15 : low >> 4) | (high >> 2 * part & 3) << 4;
        int at = 128 * half + 32 * part + i;
        out[at] = (float)(number - 32) * (scale * (float)(int8_t)b[192 + at / 16]);
      }
}

template <typename Fill>
void blocks(const Layout& layout, const uint8_t* row, int count, float* out, Fill fill) {
  for (int i = 0; i < count / layout.weights; ++i)
    fill(row + (size_t)i * layout.bytes, out + (size_t)i * layout.weights);
}

}  // namespace

float half_to_float(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff, bits;
  if (rest < 0x400) {
    float value = (float)rest * 0x1p-24f;
    return sign ? -value : value;
  }
  bits = rest >= 0x7c00 ? 0x7f800000u | (rest & 0x3ff) << 13 : (rest << 13) + (112u << 23);
  bits |= sign;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

uint16_t float_to_half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00);
  if (rest >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
  if (rest < 0x38800000) {
    // Below the normal numbers: adding a half's unit times 2^23 leaves the rounded multiple.
    float magnitude;
    std::memcpy(&magnitude, &rest, 4);
    magnitude += 0.5f;
    std::memcpy(&rest, &magnitude, 4);
    return (uint16_t)(sign | (rest - 0x3f000000));
  }
  rest += 0xfff + (rest >> 13 & 1);
  return (uint16_t)(sign | (rest - (112u << 23)) >> 13);
}

bool is_stored(int32_t type) { return layout_of(type) != nullptr; }

size_t row_bytes(Stored type, int count) {
  const Layout& layout = *layout_of((int32_t)type);
  return (size_t)(count / layout.weights) * layout.bytes;
}

void dequantise(Stored type, const uint8_t* row, int count, float* out) {
  const Layout& layout = *layout_of((int32_t)type);
  switch (type) {
    case Stored::f32:
      std::memcpy(out, row, sizeof(float) * (size_t)count);
      return;
    case Stored::f16:
      for (int i = 0; i < count; ++i) out[i] = half_at(row + 2 * (size_t)i);
      return;
    case Stored::bf16:
      for (int i = 0; i < count; ++i) {
        uint32_t bits = (uint32_t)(row[2 * (size_t)i] | row[2 * (size_t)i + 1] << 8) << 16;
        std::memcpy(out + i, &bits, 4);
      }
      return;
    case Stored::q4_0:
      return blocks(layout, row, count, out, q4_0);
    case Stored::q4_1:
      return blocks(layout, row, count, out, q4_1);
    case Stored::q5_0:
      return blocks(layout, row, count, out, q5_0);
    case Stored::q5_1:
      return blocks(layout, row, count, out, q5_1);
    case Stored::q8_0:
      return blocks(layout, row, count, out, q8_0);
    case Stored::q4_k:
      return blocks(layout, row, count, out, q4_k);
    case Stored::q5_k:
      return blocks(layout, row, count, out, q5_k);
    case Stored::q6_k:
      return blocks(layout, row, count, out, q6_k);
  }
}

bool is_four_bit(Stored type) {
  return type == Stored::q4_0 || type == Stored::q4_1 || type == Stored::q4_k;
}

Group four_bit_group(Stored type, const uint8_t* row, int index) {
  Group group;
  if (type == Stored::q4_k) {
    const uint8_t* b = row + (size_t)(index / 8) * 144;
    Six six = six_bits(b + 4, index % 8);
    group.scale = half_at(b) * (float)six.scale;
    group.least = -half_at(b + 2) * (float)six.least;
    for (int i = 0; i < 32; ++i) group.numbers[i] = (uint8_t)nibble_k(b + 16, index % 8, i);
    return group;
  }
  bool least = type == Stored::q4_1;
  const uint8_t *b = row + (size_t)index * (least ? 20 : 18), *packed = b + (least ? 4 : 2);
  group.scale = half_at(b);
  group.least = least ? half_at(b + 2) : -8 * group.scale;
  for (int i = 0; i < 16; ++i) {
    group.numbers[i] = packed[i] & 15;
    group.numbers[16 + i] = packed[i] >> 4;
  }
  return group;
}

}  // namespace native
