// Sixteen lanes on AVX-512 with VNNI and BF16. The same names as in the other vec_*.h.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#define ALWAYS static inline __attribute__((always_inline))
#define ALWAYS_MEMBER __attribute__((always_inline))
// A function of its own in the machine code, where its spills can be counted.
#define KERNEL __attribute__((noinline))
// Where the compiler must not load ahead, because it has no registers to hold what it loads.
#define IN_ORDER
// Must reach the largest tile: a loop over accumulators that stays a loop keeps them in memory.
#define UNROLL _Pragma("GCC unroll 16")

namespace {

constexpr int kSide = 2;        // halves of a panel side by side in a linear's tile
constexpr int kTileRows = 12;   // rows of the tile: 24 accumulators of 32 registers
constexpr int kInt8Rows = 12;
constexpr int kInt4Rows = 4;  // unpacking takes registers too
#ifdef NATIVE_MATRIX
constexpr int kScoreRows = 16;  // query rows whose scores are computed together
#else
constexpr int kScoreRows = 12;
#endif
constexpr int kValueRows = 6;   // query rows whose weighted values are summed together
constexpr int kWide = 2;        // score tiles beside each other,
constexpr int kWideRows = 6;    // twice as many up to this many rows

typedef __m512 F;
typedef __m512i I;
typedef __m512i W;  // 64 bytes of weights
typedef __m512i X;  // one dword of activations in every lane

ALWAYS F load(const float* p) { return _mm512_loadu_ps(p); }
ALWAYS void store(float* p, F v) { _mm512_storeu_ps(p, v); }
ALWAYS F set1(float v) { return _mm512_set1_ps(v); }
ALWAYS F add(F a, F b) { return _mm512_add_ps(a, b); }
ALWAYS F sub(F a, F b) { return _mm512_sub_ps(a, b); }
ALWAYS F mul(F a, F b) { return _mm512_mul_ps(a, b); }
ALWAYS F div(F a, F b) { return _mm512_div_ps(a, b); }
ALWAYS F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
ALWAYS F vmax(F a, F b) { return _mm512_max_ps(a, b); }
ALWAYS F vmin(F a, F b) { return _mm512_min_ps(a, b); }
ALWAYS F vabs(F a) { return _mm512_abs_ps(a); }
ALWAYS float reduce_add(F a) { return _mm512_reduce_add_ps(a); }
ALWAYS float reduce_max(F a) { return _mm512_reduce_max_ps(a); }
// The first `n` lanes of a, the others of b.
ALWAYS F first(int n, F a, F b) { return _mm512_mask_mov_ps(b, (__mmask16)((1u << n) - 1), a); }
// a where x < y, else b.
ALWAYS F where_less(F x, F y, F a, F b) {
  return _mm512_mask_mov_ps(b, _mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), a);
}
ALWAYS uint32_t less_mask(F x, F y) { return _mm512_cmp_ps_mask(x, y, _CMP_LT_OQ); }

ALWAYS I seti(int32_t v) { return _mm512_set1_epi32(v); }
ALWAYS I loadi(const int32_t* p) { return _mm512_loadu_si512(p); }
ALWAYS void storei(int32_t* p, I v) { _mm512_storeu_si512(p, v); }
ALWAYS I addi(I a, I b) { return _mm512_add_epi32(a, b); }
ALWAYS I subi(I a, I b) { return _mm512_sub_epi32(a, b); }
ALWAYS I muli(I a, I b) { return _mm512_mullo_epi32(a, b); }
ALWAYS I xori(I a, I b) { return _mm512_xor_si512(a, b); }
ALWAYS I andi(I a, I b) { return _mm512_and_si512(a, b); }
ALWAYS I ori(I a, I b) { return _mm512_or_si512(a, b); }
template <int N>
ALWAYS I shr(I a) { return _mm512_srli_epi32(a, N); }
template <int N>
ALWAYS I shl(I a) { return _mm512_slli_epi32(a, N); }
ALWAYS F to_float(I a) { return _mm512_cvtepi32_ps(a); }
ALWAYS I to_int(F a) { return _mm512_cvtps_epi32(a); }
ALWAYS F as_float(I a) { return _mm512_castsi512_ps(a); }
ALWAYS I as_int(F a) { return _mm512_castps_si512(a); }
ALWAYS int32_t reduce_addi(I a) { return _mm512_reduce_add_epi32(a); }
ALWAYS F round_even(F a) { return _mm512_roundscale_ps(a, 0); }

ALWAYS I widen(const uint16_t* p) {
  return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p));
}
ALWAYS F load_bf16(const uint16_t* p) {
  __m256i half = _mm256_loadu_si256((const __m256i*)p);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}
ALWAYS void store_bf16(uint16_t* p, F v) {
  _mm256_storeu_si256((__m256i*)p, (__m256i)_mm512_cvtneps_pbh(v));
}
ALWAYS F load_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
}
ALWAYS void store_s8(int8_t* p, I v) { _mm_storeu_si128((__m128i*)p, _mm512_cvtepi32_epi8(v)); }
ALWAYS void store_s16(uint16_t* p, I v) {
  _mm256_storeu_si256((__m256i*)p, _mm512_cvtepi32_epi16(v));
}

// 2^n for whole n in [-126, 127].
ALWAYS F power2(F n) { return _mm512_scalef_ps(_mm512_set1_ps(1.0f), n); }

// A zero of its own for each accumulator: gcc merges accumulators that begin as one register, and
// then copies and spills them.
ALWAYS F zero() {
  F z;
  asm volatile("vpxord %x0, %x0, %x0" : "=v"(z));
  return z;
}
ALWAYS I zeroi() {
  I z;
  asm volatile("vpxord %x0, %x0, %x0" : "=v"(z));
  return z;
}

ALWAYS W load_w(const void* p) { return _mm512_load_si512(p); }
ALWAYS W low_nibbles(W v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
ALWAYS W high_nibbles(W v) {
  return _mm512_and_si512(_mm512_srli_epi16(v, 4), _mm512_set1_epi8(15));
}
ALWAYS int32_t dword(const void* p) {
  int32_t v;
  std::memcpy(&v, p, 4);
  return v;
}
ALWAYS X pair(const void* p) { return _mm512_set1_epi32(dword(p)); }
ALWAYS X quad(const void* p) { return _mm512_set1_epi32(dword(p)); }
// 32 whole numbers of 8 bits as such of 16.
ALWAYS W load_s8(const void* p) {
  return _mm512_cvtepi8_epi16(_mm256_load_si256((const __m256i*)p));
}
ALWAYS X words(const void* p) { return _mm512_set1_epi32(dword(p)); }

// Instructions by name: from the intrinsics gcc 12 makes copies of the accumulators.
ALWAYS F dot2(F c, W w, X x) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(w), "v"(x));
  return c;
}
ALWAYS I dot4(I c, W w, X x) {
  asm("vpdpbusd %2, %1, %0" : "+v"(c) : "v"(w), "v"(x));
  return c;
}
ALWAYS I dot2(I c, W w, X x) {
  asm("vpdpwssd %2, %1, %0" : "+v"(c) : "v"(w), "v"(x));
  return c;
}
// Into the first cache: out of the second one, lines come too late for products of several rows.
ALWAYS void prefetch(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T0); }

}  // namespace
