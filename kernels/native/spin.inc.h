// What multiplication can do at best.
#pragma once

namespace {

// Multiplications out of registers, in as many chains at once as a linear's tile has accumulators. memory:
// two lines of operands. What the compiler knows of them may not shorten the sums.
KERNEL void spin_bf16(uint64_t rounds, uint8_t* memory) {
  F c[kTileRows][kSide];
  UNROLL for (int i = 0; i < kTileRows; ++i) UNROLL for (int j = 0; j < kSide; ++j) c[i][j] = zero();
  for (uint64_t round = 0; round < rounds; ++round) {
    W w = load_w(memory);
    X x = pair(memory + 64);
    UNROLL for (int i = 0; i < kTileRows; ++i) UNROLL for (int j = 0; j < kSide; ++j)
        c[i][j] = dot2(c[i][j], w, x);
    asm volatile("" ::: "memory");
  }
  F all = zero();
  UNROLL for (int i = 0; i < kTileRows; ++i) UNROLL for (int j = 0; j < kSide; ++j)
      all = add(all, c[i][j]);
  store((float*)memory, all);
}

KERNEL void spin_int8(uint64_t rounds, uint8_t* memory) {
  I c[kInt8Rows][kSide];
  UNROLL for (int i = 0; i < kInt8Rows; ++i) UNROLL for (int j = 0; j < kSide; ++j) c[i][j] = zeroi();
  for (uint64_t round = 0; round < rounds; ++round) {
    W w = load_w(memory);
    X x = quad(memory + 64);
    UNROLL for (int i = 0; i < kInt8Rows; ++i) UNROLL for (int j = 0; j < kSide; ++j)
        c[i][j] = dot4(c[i][j], w, x);
    asm volatile("" ::: "memory");
  }
  I all = zeroi();
  UNROLL for (int i = 0; i < kInt8Rows; ++i) UNROLL for (int j = 0; j < kSide; ++j)
      all = addi(all, c[i][j]);
  storei((int32_t*)memory, all);
}

ALWAYS uint64_t vector_multiply_add(Format format, uint64_t rounds, uint8_t* memory) {
  if (format == Format::bf16) {
    spin_bf16(rounds, memory);
    return 2 * 16 * kTileRows * kSide;
  }
  spin_int8(rounds, memory);
  return 4 * 16 * kInt8Rows * kSide;
}

}  // namespace
