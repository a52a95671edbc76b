// Products of a few rows with a panel of 32 outputs: one chain of additions for each result, in the same
// order however many rows there are.
#pragma once

namespace {

typedef float Tile[kPanel];

struct TileArgs {
  const uint8_t* weights;
  int inputs, group;
  const uint8_t* acts;  // of the tile's first row
  size_t stride;
  const float *scales, *sums;
  const int32_t* offsets;
  int groups;
  const uint8_t* next;  // what to fetch meanwhile, as long as the panel
};

ALWAYS void fetch(const uint8_t*& next, int lines) {
  UNROLL for (int i = 0; i < lines; ++i) prefetch(next + 64 * i);  // lines is a constant
  next += 64 * lines;
}

// R rows against kSide halves of a panel, 16 outputs each. NEXT: of two lines that are consumed, how
// many are fetched.
template <int R, int NEXT>
KERNEL void bf16_tile(const TileArgs& t, Tile* out) {
  for (int half = 0; half < 2; half += kSide) {
    F c[R][kSide];
    UNROLL for (int i = 0; i < R; ++i) UNROLL for (int j = 0; j < kSide; ++j) c[i][j] = zero();
    const uint8_t *w = t.weights + 64 * half, *next = t.next, *a = t.acts;
    for (const uint8_t* end = a + 2 * (size_t)t.inputs; a != end; a += 4, w += 128) {
      W v[kSide];
      UNROLL for (int j = 0; j < kSide; ++j) v[j] = load_w(w + 64 * j);
      UNROLL for (int i = 0; i < R; ++i) {
        X x = pair(a + i * t.stride);
        UNROLL for (int j = 0; j < kSide; ++j) c[i][j] = dot2(c[i][j], v[j], x);
      }
      if (NEXT && !half) fetch(next, NEXT);
    }
    UNROLL for (int i = 0; i < R; ++i) UNROLL for (int j = 0; j < kSide; ++j)
        store(out[i] + 16 * (half + j), c[i][j]);
  }
}

template <int R, int NEXT>
KERNEL void int8_tile(const TileArgs& t, Tile* out) {
  for (int half = 0; half < 2; half += kSide) {
    const uint8_t *w = t.weights + 64 * half, *next = t.next, *a = t.acts;
    for (int g = 0; g < t.groups; ++g) {
      I c[R][kSide];
      UNROLL for (int i = 0; i < R; ++i) UNROLL for (int j = 0; j < kSide; ++j)
          c[i][j] = seti(t.offsets[(size_t)i * t.groups + g]);
      for (const uint8_t* end = a + t.group; a != end; a += 4, w += 128) {
        W v[kSide];
        UNROLL for (int j = 0; j < kSide; ++j) v[j] = load_w(w + 64 * j);
        UNROLL for (int i = 0; i < R; ++i) {
          X x = quad(a + i * t.stride);
          UNROLL for (int j = 0; j < kSide; ++j) c[i][j] = dot4(c[i][j], v[j], x);
        }
        if (NEXT && !half) fetch(next, NEXT);
      }
      UNROLL for (int i = 0; i < R; ++i) {
        F scale = set1(t.scales[(size_t)i * t.groups + g]);
        UNROLL for (int j = 0; j < kSide; ++j) {
          float* at = out[i] + 16 * (half + j);
          F part = to_float(c[i][j]);
          store(at, g ? fma(part, scale, load(at)) : mul(part, scale));
        }
      }
    }
    const float* scales = (const float*)(t.weights + (size_t)t.inputs * kPanel) + 16 * half;
    UNROLL for (int i = 0; i < R; ++i) UNROLL for (int j = 0; j < kSide; ++j) {
      float* at = out[i] + 16 * (half + j);
      store(at, mul(load(at), load(scales + 16 * j)));
    }
  }
}

template <int R, int NEXT>
KERNEL void int4_tile(const TileArgs& t, Tile* out) {
  for (int half = 0; half < 2; half += kSide) {
    F c[R][kSide];
    UNROLL for (int i = 0; i < R; ++i) UNROLL for (int j = 0; j < kSide; ++j) c[i][j] = zero();
    const uint8_t *w = t.weights, *next = t.next, *a = t.acts;
    for (int g = 0; g < t.groups; ++g, w += 640, a += 32) {
      // The halves side by side: one behind the other, the compiler keeps every broadcast for both.
      I s[R][kSide];
      UNROLL for (int i = 0; i < R; ++i) UNROLL for (int j = 0; j < kSide; ++j) s[i][j] = zeroi();
      UNROLL for (int q = 0; q < 4; ++q) {
        W low[kSide], high[kSide];
        UNROLL for (int j = 0; j < kSide; ++j) {
          W v = load_w(w + 256 * (half + j) + 64 * q);
          low[j] = low_nibbles(v);
          high[j] = high_nibbles(v);
        }
        UNROLL for (int i = 0; i < R; ++i) {
          X x = quad(a + i * t.stride + 4 * q), y = quad(a + i * t.stride + 16 + 4 * q);
          UNROLL for (int j = 0; j < kSide; ++j)
              s[i][j] = dot4(dot4(s[i][j], low[j], x), high[j], y);
        }
        IN_ORDER;
      }
      UNROLL for (int j = 0; j < kSide; ++j) {
        F scale = load_f16((const uint16_t*)(w + 512 + 64 * (half + j)));
        F least = load_f16((const uint16_t*)(w + 512 + 64 * (half + j)) + 16);
        UNROLL for (int i = 0; i < R; ++i) {
          size_t at = (size_t)i * t.groups + g;
          c[i][j] = fma(to_float(s[i][j]), mul(scale, set1(t.scales[at])), c[i][j]);
          c[i][j] = fma(least, set1(t.sums[at]), c[i][j]);
        }
      }
      if (NEXT && !half) fetch(next, 5 * NEXT);
    }
    UNROLL for (int i = 0; i < R; ++i) UNROLL for (int j = 0; j < kSide; ++j)
        store(out[i] + 16 * (half + j), c[i][j]);
  }
}

typedef void (*TileFunction)(const TileArgs&, Tile*);

// Tile functions by how many rows they take, 1 to the largest.
struct Tiles {
  TileFunction of[kTileRows + 1];
};

template <Format FORMAT, int NEXT, int R>
constexpr TileFunction tile_of() {
  if constexpr (FORMAT == Format::bf16) return bf16_tile<R, NEXT>;
  if constexpr (FORMAT == Format::int8) return int8_tile<R, NEXT>;
  return int4_tile<R, NEXT>;
}

template <Format FORMAT, int NEXT, int R>
constexpr void fill_tiles(Tiles& tiles) {
  tiles.of[R] = tile_of<FORMAT, NEXT, R>();
  if constexpr (R > 1) fill_tiles<FORMAT, NEXT, R - 1>(tiles);
}

template <Format FORMAT, int NEXT, int R>
constexpr Tiles tiles_up_to() {
  Tiles tiles = {};
  fill_tiles<FORMAT, NEXT, R>(tiles);
  return tiles;
}

// By format and by how much they fetch ahead.
constexpr Tiles kTiles[3][3] = {
    {tiles_up_to<Format::bf16, 0, kTileRows>(), tiles_up_to<Format::bf16, 1, kTileRows>(),
     tiles_up_to<Format::bf16, 2, kTileRows>()},
    {tiles_up_to<Format::int8, 0, kInt8Rows>(), tiles_up_to<Format::int8, 1, kInt8Rows>(),
     tiles_up_to<Format::int8, 2, kInt8Rows>()},
    {tiles_up_to<Format::int4, 0, kInt4Rows>(), tiles_up_to<Format::int4, 1, kInt4Rows>(),
     tiles_up_to<Format::int4, 2, kInt4Rows>()},
};

}  // namespace
