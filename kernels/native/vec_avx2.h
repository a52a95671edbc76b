// Sixteen lanes on AVX2 with FMA and F16C, with VNNI where __AVXVNNI__ says so. The same names as in
// the other vec_*.h.
#pragma once

#include <immintrin.h>

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
constexpr int kTileRows = 4;  // eight accumulators of sixteen registers
#ifdef __AVXVNNI__
constexpr int kInt8Rows = 4;
#else
constexpr int kInt8Rows = 2;
#endif
constexpr int kInt4Rows = 1;
constexpr int kScoreRows = 4;
constexpr int kValueRows = 1;
constexpr int kWide = 1;
constexpr int kWideRows = 1;

struct F {
  __m256 a, b;
};
struct I {
  __m256i a, b;
};
typedef I W;
struct X {
  __m256i even, odd;
};

ALWAYS F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
ALWAYS void store(float* p, F v) {
  _mm256_storeu_ps(p, v.a);
  _mm256_storeu_ps(p + 8, v.b);
}
ALWAYS F set1(float v) { return {_mm256_set1_ps(v), _mm256_set1_ps(v)}; }
ALWAYS F add(F x, F y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
ALWAYS F sub(F x, F y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
ALWAYS F mul(F x, F y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
ALWAYS F div(F x, F y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
ALWAYS F fma(F x, F y, F z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
ALWAYS F vmax(F x, F y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
ALWAYS F vmin(F x, F y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
ALWAYS F vabs(F x) {
  __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
ALWAYS float reduce_add(F x) {
  __m256 s = _mm256_add_ps(x.a, x.b);
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
ALWAYS float reduce_max(F x) {
  __m256 s = _mm256_max_ps(x.a, x.b);
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
ALWAYS F where_less(F x, F y, F a, F b) {
  return {_mm256_blendv_ps(b.a, a.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
          _mm256_blendv_ps(b.b, a.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
}
ALWAYS uint32_t less_mask(F x, F y) {
  return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)) |
         (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)) << 8;
}
ALWAYS F first(int n, F a, F b) {
  F lane = {_mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_ps(8, 9, 10, 11, 12, 13, 14, 15)};
  return where_less(lane, set1((float)n), a, b);
}

ALWAYS I seti(int32_t v) { return {_mm256_set1_epi32(v), _mm256_set1_epi32(v)}; }
ALWAYS I loadi(const int32_t* p) {
  return {_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)(p + 8))};
}
ALWAYS void storei(int32_t* p, I v) {
  _mm256_storeu_si256((__m256i*)p, v.a);
  _mm256_storeu_si256((__m256i*)(p + 8), v.b);
}
ALWAYS I addi(I x, I y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
ALWAYS I subi(I x, I y) { return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
ALWAYS I muli(I x, I y) { return {_mm256_mullo_epi32(x.a, y.a), _mm256_mullo_epi32(x.b, y.b)}; }
ALWAYS I xori(I x, I y) { return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)}; }
ALWAYS I andi(I x, I y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
ALWAYS I ori(I x, I y) { return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
template <int N>
ALWAYS I shr(I x) { return {_mm256_srli_epi32(x.a, N), _mm256_srli_epi32(x.b, N)}; }
template <int N>
ALWAYS I shl(I x) { return {_mm256_slli_epi32(x.a, N), _mm256_slli_epi32(x.b, N)}; }
ALWAYS F to_float(I x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
ALWAYS I to_int(F x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
ALWAYS F as_float(I x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
ALWAYS I as_int(F x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
ALWAYS int32_t reduce_addi(I x) {
  __m256i s = _mm256_add_epi32(x.a, x.b);
  __m128i q = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
  q = _mm_add_epi32(q, _mm_shuffle_epi32(q, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(q, _mm_shuffle_epi32(q, 0xb1)));
}
ALWAYS F round_even(F x) { return {_mm256_round_ps(x.a, 8), _mm256_round_ps(x.b, 8)}; }

ALWAYS I widen(const uint16_t* p) {
  return {_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)),
          _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)(p + 8)))};
}
ALWAYS __m256 widen_bf16(const uint16_t* p) {
  __m256i v = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
}
ALWAYS F load_bf16(const uint16_t* p) { return {widen_bf16(p), widen_bf16(p + 8)}; }
ALWAYS __m256i rounded_bf16(__m256 v) {
  __m256i bits = _mm256_castps_si256(v);
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  bits = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  __m256i none = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  return _mm256_srli_epi32(_mm256_blendv_epi8(bits, _mm256_set1_epi32(0x7fc00000), none), 16);
}
ALWAYS void store_bf16(uint16_t* p, F v) {
  __m256i both = _mm256_packus_epi32(rounded_bf16(v.a), rounded_bf16(v.b));
  _mm256_storeu_si256((__m256i*)p, _mm256_permute4x64_epi64(both, 0xd8));
}
ALWAYS F load_f16(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)),
          _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(p + 8)))};
}
ALWAYS void store_s8(int8_t* p, I v) {
  __m256i half = _mm256_permute4x64_epi64(_mm256_packs_epi32(v.a, v.b), 0xd8);
  __m128i low = _mm256_castsi256_si128(half), high = _mm256_extracti128_si256(half, 1);
  _mm_storeu_si128((__m128i*)p, _mm_packs_epi16(low, high));
}
ALWAYS void store_s16(uint16_t* p, I v) {
  __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi32(v.a, v.b), 0xd8);
  _mm256_storeu_si256((__m256i*)p, both);
}

ALWAYS F power2(F n) {
  I bits = addi(to_int(n), seti(127));
  return as_float(shl<23>(bits));
}

ALWAYS F zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
ALWAYS I zeroi() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }

ALWAYS W load_w(const void* p) {
  return {_mm256_load_si256((const __m256i*)p), _mm256_load_si256((const __m256i*)p + 1)};
}
ALWAYS W low_nibbles(W v) {
  __m256i mask = _mm256_set1_epi8(15);
  return {_mm256_and_si256(v.a, mask), _mm256_and_si256(v.b, mask)};
}
ALWAYS W high_nibbles(W v) {
  return low_nibbles({_mm256_srli_epi16(v.a, 4), _mm256_srli_epi16(v.b, 4)});
}
ALWAYS int32_t dword(const void* p) {
  int32_t v;
  std::memcpy(&v, p, 4);
  return v;
}

// bf16 pairs are taken apart into float32: even ones shifted up, odd ones masked.
ALWAYS X pair(const void* p) {
  __m256i v = _mm256_set1_epi32(dword(p));
  return {_mm256_slli_epi32(v, 16), _mm256_and_si256(v, _mm256_set1_epi32((int)0xffff0000))};
}
ALWAYS __m256 dot2_half(__m256 c, __m256i w, X x) {
  __m256 even = _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
  __m256 odd =
      _mm256_castsi256_ps(_mm256_and_si256(w, _mm256_set1_epi32((int)0xffff0000)));
  c = _mm256_fmadd_ps(even, _mm256_castsi256_ps(x.even), c);
  return _mm256_fmadd_ps(odd, _mm256_castsi256_ps(x.odd), c);
}
ALWAYS F dot2(F c, W w, X x) { return {dot2_half(c.a, w.a, x), dot2_half(c.b, w.b, x)}; }

// 32 whole numbers of 8 bits as such of 16.
ALWAYS W load_s8(const void* p) {
  const __m128i* at = (const __m128i*)p;
  return {_mm256_cvtepi8_epi16(_mm_load_si128(at)), _mm256_cvtepi8_epi16(_mm_load_si128(at + 1))};
}
ALWAYS X words(const void* p) { return {_mm256_set1_epi32(dword(p)), __m256i()}; }

#ifdef __AVXVNNI__
ALWAYS I dot2(I c, W w, X x) {
  asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(c.a) : "x"(w.a), "x"(x.even));
  asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(c.b) : "x"(w.b), "x"(x.even));
  return c;
}
ALWAYS X quad(const void* p) { return {_mm256_set1_epi32(dword(p)), __m256i()}; }
ALWAYS I dot4(I c, W w, X x) {
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(c.a) : "x"(w.a), "x"(x.even));
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(c.b) : "x"(w.b), "x"(x.even));
  return c;
}
#else
ALWAYS __m256i dot2_half(__m256i c, __m256i w, __m256i x) {
  c = _mm256_add_epi32(c, _mm256_madd_epi16(w, x));
  asm("" : "+x"(c));
  return c;
}
ALWAYS I dot2(I c, W w, X x) { return {dot2_half(c.a, w.a, x.even), dot2_half(c.b, w.b, x.even)}; }
// Products of u8 and s8 in 16 bits would saturate in pairs: even and odd bytes go apart.
ALWAYS X quad(const void* p) {
  __m256i v = _mm256_set1_epi32(dword(p));
  return {_mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8), _mm256_srai_epi16(v, 8)};
}
ALWAYS __m256i dot4_half(__m256i c, __m256i w, X x) {
  __m256i even = _mm256_and_si256(w, _mm256_set1_epi16(255)), odd = _mm256_srli_epi16(w, 8);
  c = _mm256_add_epi32(c, _mm256_madd_epi16(even, x.even));
  c = _mm256_add_epi32(c, _mm256_madd_epi16(odd, x.odd));
  asm("" : "+x"(c));  // or the compiler makes a tree of the sums and spills its branches
  return c;
}
ALWAYS I dot4(I c, W w, X x) { return {dot4_half(c.a, w.a, x), dot4_half(c.b, w.b, x)}; }
#endif
// Into the first cache: out of the second one, lines come too late for products of several rows.
ALWAYS void prefetch(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T0); }

}  // namespace
