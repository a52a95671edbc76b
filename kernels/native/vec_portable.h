// Sixteen lanes in the compiler's own vectors: right everywhere, fast nowhere. The same names as in
// the other vec_*.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#define ALWAYS static inline __attribute__((always_inline))
#define ALWAYS_MEMBER __attribute__((always_inline))
// A function of its own in the machine code, where its spills can be counted.
#define KERNEL __attribute__((noinline))
// Where the compiler must not load ahead, because it has no registers to hold what it loads.
#define IN_ORDER asm volatile("" ::: "memory")
#define UNROLL _Pragma("GCC unroll 16")

namespace {

constexpr int kSide = 1;
constexpr int kTileRows = 2;
constexpr int kInt8Rows = 2;
constexpr int kInt4Rows = 1;
constexpr int kScoreRows = 4;
constexpr int kValueRows = 1;
constexpr int kWide = 1;
constexpr int kWideRows = 1;

typedef float F __attribute__((vector_size(64)));
typedef int32_t I __attribute__((vector_size(64)));
typedef uint32_t U __attribute__((vector_size(64)));
typedef uint8_t Bytes __attribute__((vector_size(64)));
struct W {
  uint8_t bytes[64];
};
struct X {
  float even, odd;
  int8_t bytes[4];
};

ALWAYS F load(const float* p) {
  F v;
  std::memcpy(&v, p, 64);
  return v;
}
ALWAYS void store(float* p, F v) { std::memcpy(p, &v, 64); }
ALWAYS F set1(float v) { return v - F{}; }
ALWAYS F add(F a, F b) { return a + b; }
ALWAYS F sub(F a, F b) { return a - b; }
ALWAYS F mul(F a, F b) { return a * b; }
ALWAYS F div(F a, F b) { return a / b; }
ALWAYS F fma(F a, F b, F c) { return a * b + c; }
ALWAYS F where_less(F x, F y, F a, F b) { return x < y ? a : b; }
ALWAYS F vmax(F a, F b) { return a > b ? a : b; }
ALWAYS F vmin(F a, F b) { return a < b ? a : b; }
ALWAYS F vabs(F a) { return (F)((I)a & 0x7fffffff); }
ALWAYS float reduce_add(F a) {
  float half[8];
  for (int i = 0; i < 8; ++i) half[i] = a[i] + a[i + 8];
  for (int n = 4; n; n /= 2)
    for (int i = 0; i < n; ++i) half[i] += half[i + n];
  return half[0];
}
ALWAYS float reduce_max(F a) {
  float best = a[0];
  for (int i = 1; i < 16; ++i) best = a[i] > best ? a[i] : best;
  return best;
}
ALWAYS F first(int n, F a, F b) {
  I lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return lane < n ? a : b;
}
ALWAYS uint32_t less_mask(F x, F y) {
  uint32_t mask = 0;
  for (int i = 0; i < 16; ++i) mask |= (uint32_t)(x[i] < y[i]) << i;
  return mask;
}

ALWAYS I seti(int32_t v) { return v - I{}; }
ALWAYS I loadi(const int32_t* p) {
  I v;
  std::memcpy(&v, p, 64);
  return v;
}
ALWAYS void storei(int32_t* p, I v) { std::memcpy(p, &v, 64); }
ALWAYS I addi(I a, I b) { return (I)((U)a + (U)b); }
ALWAYS I subi(I a, I b) { return (I)((U)a - (U)b); }
ALWAYS I muli(I a, I b) { return (I)((U)a * (U)b); }
ALWAYS I xori(I a, I b) { return a ^ b; }
ALWAYS I andi(I a, I b) { return a & b; }
ALWAYS I ori(I a, I b) { return a | b; }
template <int N>
ALWAYS I shr(I a) { return (I)((U)a >> N); }
template <int N>
ALWAYS I shl(I a) { return (I)((U)a << N); }
ALWAYS F to_float(I a) { return __builtin_convertvector(a, F); }
ALWAYS F round_even(F a) {
  // Adding and taking away 1.5 * 2^23 rounds to the nearest whole number, ties to even.
  F big = set1(12582912.0f);
  return vabs(a) < set1(4194304.0f) ? (a + big) - big : a;
}
ALWAYS I to_int(F a) { return __builtin_convertvector(round_even(a), I); }
ALWAYS F as_float(I a) { return (F)a; }
ALWAYS I as_int(F a) { return (I)a; }
ALWAYS int32_t reduce_addi(I a) {
  int32_t sum = 0;
  for (int i = 0; i < 16; ++i) sum += a[i];
  return sum;
}

ALWAYS I widen(const uint16_t* p) {
  I v;
  for (int i = 0; i < 16; ++i) v[i] = p[i];
  return v;
}
ALWAYS F load_bf16(const uint16_t* p) {
  U bits;
  for (int i = 0; i < 16; ++i) bits[i] = (uint32_t)p[i] << 16;
  return (F)bits;
}
ALWAYS void store_bf16(uint16_t* p, F v) {
  U bits = (U)v;
  bits = (v == v ? bits + 0x7fff + (bits >> 16 & 1) : 0x7fc00000) >> 16;
  for (int i = 0; i < 16; ++i) p[i] = (uint16_t)bits[i];
}
ALWAYS float half_to_float(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
  float value;
  uint32_t bits = sign | (rest >= 0x7c00 ? 0x7f800000u | (rest & 0x3ff) << 13 : (rest << 13) + (112u << 23));
  if (rest < 0x400) {
    value = (float)rest * 0x1p-24f;
    return sign ? -value : value;
  }
  std::memcpy(&value, &bits, 4);
  return value;
}
ALWAYS F load_f16(const uint16_t* p) {
  F v;
  for (int i = 0; i < 16; ++i) v[i] = half_to_float(p[i]);
  return v;
}
ALWAYS void store_s8(int8_t* p, I v) {
  for (int i = 0; i < 16; ++i) p[i] = (int8_t)v[i];
}
ALWAYS void store_s16(uint16_t* p, I v) {
  for (int i = 0; i < 16; ++i) p[i] = (uint16_t)v[i];
}
ALWAYS F power2(F n) { return as_float(shl<23>(addi(to_int(n), seti(127)))); }
ALWAYS F zero() { return F{}; }
ALWAYS I zeroi() { return I{}; }

ALWAYS W load_w(const void* p) {
  W v;
  std::memcpy(&v, p, 64);
  return v;
}
ALWAYS W low_nibbles(W v) {
  W out;
  for (int i = 0; i < 64; ++i) out.bytes[i] = v.bytes[i] & 15;
  return out;
}
ALWAYS W high_nibbles(W v) {
  W out;
  for (int i = 0; i < 64; ++i) out.bytes[i] = v.bytes[i] >> 4;
  return out;
}
ALWAYS X pair(const void* p) {
  uint16_t two[2];
  std::memcpy(two, p, 4);
  uint32_t bits[2] = {(uint32_t)two[0] << 16, (uint32_t)two[1] << 16};
  X x;
  std::memcpy(&x.even, &bits[0], 4);
  std::memcpy(&x.odd, &bits[1], 4);
  return x;
}
ALWAYS F dot2(F c, W w, X x) {
  U both;
  std::memcpy(&both, w.bytes, 64);
  c = (F)(both << 16) * x.even + c;
  return (F)(both & 0xffff0000u) * x.odd + c;
}
ALWAYS X quad(const void* p) {
  X x;
  std::memcpy(x.bytes, p, 4);
  return x;
}
ALWAYS I dot4(I c, W w, X x) {
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 4; ++j) c[i] += (int32_t)w.bytes[4 * i + j] * x.bytes[j];
  return c;
}
// 32 whole numbers of 8 bits as such of 16.
ALWAYS W load_s8(const void* p) {
  int8_t narrow[32];
  int16_t wide[32];
  std::memcpy(narrow, p, 32);
  for (int i = 0; i < 32; ++i) wide[i] = narrow[i];
  W v;
  std::memcpy(v.bytes, wide, 64);
  return v;
}
ALWAYS X words(const void* p) { return quad(p); }
ALWAYS I dot2(I c, W w, X x) {
  int16_t wide[32], two[2];
  std::memcpy(wide, w.bytes, 64);
  std::memcpy(two, x.bytes, 4);
  for (int i = 0; i < 16; ++i) c[i] += wide[2 * i] * two[0] + wide[2 * i + 1] * two[1];
  return c;
}
// Into the first cache: out of the second one, lines come too late for products of several rows.
ALWAYS void prefetch(const void* p) { __builtin_prefetch(p, 0, 3); }

}  // namespace
