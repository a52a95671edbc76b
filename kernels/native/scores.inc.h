// Scores of query rows against a chunk of keys, and its values by their weights: one chain for each result,
// whatever is computed beside it.
#pragma once

namespace {

constexpr int kChunkTiles = kChunk / kTile;
constexpr float kHidden = -__builtin_inff();

// Keys and values of bf16, whose products are summed in float32.
struct Halves {
  typedef F Sum;
  static constexpr int kUnit = 64;  // bytes of 32 of them
  static constexpr bool kGrouped = false;
  static ALWAYS_MEMBER Sum none() { return zero(); }
  static ALWAYS_MEMBER W read(const uint8_t* at) { return load_w(at); }
  static ALWAYS_MEMBER X both(const uint16_t* at) { return pair(at); }
  static ALWAYS_MEMBER F value(Sum sum, F scale) { return mul(sum, scale); }
  static ALWAYS_MEMBER F more(Sum sum, F scale, F before) { return fma(sum, scale, before); }
};

// Those of 8 bits, with scales for each token and head. Queries and weights have 16 bits and a scale,
// and sums of whole numbers are exact: 256 products of 23 bits at most.
struct Bytes {
  typedef I Sum;
  static constexpr int kUnit = 32;
  static constexpr bool kGrouped = true;  // keys have a scale for each kKeyGroup of them
  static ALWAYS_MEMBER Sum none() { return zeroi(); }
  static ALWAYS_MEMBER W read(const uint8_t* at) { return load_s8(at); }
  static ALWAYS_MEMBER X both(const uint16_t* at) { return words(at); }
  static ALWAYS_MEMBER F value(Sum sum, F scale) { return mul(to_float(sum), scale); }
  static ALWAYS_MEMBER F more(Sum sum, F scale, F before) { return fma(to_float(sum), scale, before); }
};

struct Scratch {
  alignas(64) float scores[kScoreRows][kChunk];
  alignas(64) uint16_t weights[kScoreRows][kChunk];
  float unit[kScoreRows];  // of the weights
  float most[kQueryRows], sum[kQueryRows];
  float scale[kQueryRows];  // of a row's scores, in powers of two
  int32_t position[kQueryRows];
  // Behind it: queries [kQueryRows][width], values [kQueryRows][width] float.
};

constexpr size_t kScratchHeader = (sizeof(Scratch) + 63) / 64 * 64;

ALWAYS uint16_t* scratch_queries(Scratch* s) { return (uint16_t*)((uint8_t*)s + kScratchHeader); }
ALWAYS float* scratch_values(Scratch* s, int width) {
  return (float*)((uint8_t*)s + kScratchHeader + sizeof(uint16_t) * kQueryRows * (size_t)width);
}

size_t attention_scratch(int width) {
  return kScratchHeader + (sizeof(uint16_t) + sizeof(float)) * kQueryRows * (size_t)width;
}

// Tiles of a chunk that comes later. Their lines are fetched a few at a time between other work: asked
// for all at once, most would wait for a place in the queue, and the work behind them.
struct Ahead {
  const uint8_t* tiles[kChunkTiles];
  int tile, count;
  int line, lines;  // of the tile
  int each;         // lines fetched for one tile of scores or of values, or before and after a row is masked

  ALWAYS_MEMBER void go() {
    for (int n = each; n > 0 && tile < count; --n) {
      prefetch(tiles[tile] + 64 * line);
      if (++line < lines) continue;
      line = 0;
      ++tile;
    }
  }
};

struct Chunk {
  const uint8_t* tiles[kChunkTiles];
  int count;  // tiles that any row sees
  int from;   // position of its first token
};

// Where the scales of a tile of bytes are.
ALWAYS const uint16_t* tile_scales(const uint8_t* tile, int width) {
  return (const uint16_t*)(tile + (size_t)2 * kTile * width);
}
// Those of its values.
ALWAYS const uint16_t* value_scales(const uint8_t* tile, int width) {
  return tile_scales(tile, width) + (width + kKeyGroup - 1) / kKeyGroup * kTile;
}

// Scores of R query rows against N tiles of keys, of values [low, high) of the head: a chain over pairs
// for each of them. What comes from other values of the head is there already.
template <typename C, int R, int N>
KERNEL void score(const uint16_t* q, int width, int low, int high, const uint8_t* const* tiles,
                  const float* scale, int at, float (*out)[kChunk]) {
  typename C::Sum c[R][N];
  UNROLL for (int r = 0; r < R; ++r) UNROLL for (int n = 0; n < N; ++n) c[r][n] = C::none();
  for (int d = low; d < high; d += 2) {
    W k[N];
    UNROLL for (int n = 0; n < N; ++n) k[n] = C::read(tiles[n] + (size_t)d / 2 * C::kUnit);
    UNROLL for (int r = 0; r < R; ++r) {
      X x = C::both(q + (size_t)r * width + d);
      UNROLL for (int n = 0; n < N; ++n) c[r][n] = dot2(c[r][n], k[n], x);
    }
  }
  UNROLL for (int n = 0; n < N; ++n) {
    F unit = set1(1.0f);
    if (C::kGrouped) unit = load_bf16(tile_scales(tiles[n], width) + low / kKeyGroup * kTile);
    UNROLL for (int r = 0; r < R; ++r) {
      float* to = out[r] + at + kTile * n;
      F one = C::kGrouped ? mul(unit, set1(scale[r])) : set1(scale[r]);
      store(to, C::kGrouped && low ? C::more(c[r][n], one, load(to)) : C::value(c[r][n], one));
    }
  }
}

// The same of whole heads.
template <typename C, int R, int N>
ALWAYS void score_heads(const uint16_t* q, int width, const uint8_t* const* tiles, const float* scale,
                        int at, float (*out)[kChunk]) {
  if (!C::kGrouped) return score<C, R, N>(q, width, 0, width, tiles, scale, at, out);
  for (int low = 0; low < width; low += kKeyGroup) {
    int high = width - low > kKeyGroup ? low + kKeyGroup : width;
    score<C, R, N>(q, width, low, high, tiles, scale, at, out);
  }
}

// Hide the tokens of a chunk that begins at `from` which the row does not see.
ALWAYS void hide(float* scores, int tiles, int from, int position, int window) {
  int end = position + 1 - from;
  for (int at = 0; at < tiles * kTile; at += kTile)
    if (end < at + kTile) store(scores + at, first(end > at ? end - at : 0, load(scores + at), set1(kHidden)));
  if (!window) return;
  int begin = position + 1 - window - from;
  for (int at = 0; at < tiles * kTile && at < begin; at += kTile)
    store(scores + at, first(begin - at < kTile ? begin - at : kTile, set1(kHidden), load(scores + at)));
}

// Scores to weights relative to their own maximum. Returns maximum and sum.
ALWAYS void soften(float* scores, uint16_t* weights, int tokens, float* most, float* sum) {
  F top = load(scores);
  for (int at = kTile; at < tokens; at += kTile) top = vmax(top, load(scores + at));
  *most = reduce_max(top);
  if (*most == kHidden) {
    for (int at = 0; at < tokens; at += kTile) store_bf16(weights + at, set1(0.0f));
    *sum = 0;
    return;
  }
  F shift = set1(*most), total = set1(0.0f);
  for (int at = 0; at < tokens; at += kTile) {
    F e = exp2v(sub(load(scores + at), shift));
    total = add(total, e);
    store_bf16(weights + at, e);
  }
  *sum = reduce_add(total);
}

// The same in front of bytes. Weights have the scales of their values in them, are whole numbers, and
// *unit is the value of 1. The sum is NaN where a value that has a weight is. What is hidden has no part in any of it.
ALWAYS void soften_bytes(float* scores, uint16_t* weights, const uint8_t* const* tiles, int width,
                         int tokens, float* most, float* sum, float* unit) {
  F top = load(scores);
  for (int at = kTile; at < tokens; at += kTile) top = vmax(top, load(scores + at));
  *most = reduce_max(top);
  bool hidden = *most == kHidden;
  F shift = set1(hidden ? 0.0f : *most), none = set1(0.0f), total = none, largest = set1(1e-30f);
  for (int at = 0, tile = 0; at < tokens; at += kTile, ++tile) {
    F e = exp2v(sub(load(scores + at), shift));
    F weight = where_less(none, e, mul(e, load_bf16(value_scales(tiles[tile], width))), none);
    total = add(total, e);
    largest = vmax(largest, weight);
    store(scores + at, weight);
  }
  float all = reduce_max(largest);
  *unit = all / 32767.0f;
  F inverse = set1(32767.0f / all), lost = none;
  for (int at = 0; at < tokens; at += kTile) {
    F weight = load(scores + at);
    lost = add(lost, spoilt(weight));
    store_s16(weights + at, to_int(mul(weight, inverse)));
  }
  *sum = reduce_add(add(total, lost));
}

// Weighted values of R rows in N vectors of columns, from zero.
template <typename C, int R, int N>
KERNEL void weigh(const uint16_t (*weights)[kChunk], const float* unit, const uint8_t* const* tiles,
                  int count, int width, int column, float* out, size_t stride, Ahead* ahead) {
  typename C::Sum c[R][N];
  UNROLL for (int r = 0; r < R; ++r) UNROLL for (int n = 0; n < N; ++n) c[r][n] = C::none();
  for (int tile = 0; tile < count; ++tile) {
    if (ahead) ahead->go();
    const uint8_t* v = tiles[tile] + (size_t)(width / 2 + column / 16) * C::kUnit;
    for (int p = 0; p < kTile / 2; ++p, v += (size_t)width / 16 * C::kUnit) {
      if constexpr (R == 1) {
        X x = C::both(weights[0] + tile * kTile + 2 * p);
        UNROLL for (int n = 0; n < N; ++n) {
          c[0][n] = dot2(c[0][n], C::read(v + C::kUnit * n), x);
          IN_ORDER;
        }
        continue;
      }
      W k[N];
      UNROLL for (int n = 0; n < N; ++n) k[n] = C::read(v + C::kUnit * n);
      UNROLL for (int r = 0; r < R; ++r) {
        X x = C::both(weights[r] + tile * kTile + 2 * p);
        UNROLL for (int n = 0; n < N; ++n) c[r][n] = dot2(c[r][n], k[n], x);
      }
    }
  }
  UNROLL for (int r = 0; r < R; ++r) UNROLL for (int n = 0; n < N; ++n)
      store(out + r * stride + column + 16 * n, C::value(c[r][n], set1(unit[r])));
}

// Query rows that vectors take together, of so many that are left.
ALWAYS int vector_rows(int left) {
  constexpr int sizes[] = {12, 8, 6, 4, 3, 2};
  for (int size : sizes)
    if (size <= kScoreRows && left >= size) return size;
  return 1;
}

template <typename C, int R>
void score_chunk(Scratch* s, const uint16_t* q, int width, const Chunk& chunk, const float* scale,
                 Ahead* ahead) {
  constexpr int N = R > kWideRows ? kWide : kWide * 2;
  int tile = 0;
  for (; tile + N <= chunk.count; tile += N) {
    for (int n = 0; ahead && n < N; ++n) ahead->go();
    score_heads<C, R, N>(q, width, chunk.tiles + tile, scale, tile * kTile, s->scores);
  }
  for (; tile < chunk.count; ++tile) {
    if (ahead) ahead->go();
    score_heads<C, R, 1>(q, width, chunk.tiles + tile, scale, tile * kTile, s->scores);
  }
}

template <typename C, int N>
void weigh_columns(Scratch* s, int rows, const Chunk& chunk, int width, int column, float* out,
                   size_t stride, Ahead* ahead) {
  constexpr int most = kValueRows, some = kValueRows >= 3 ? 3 : 1;
  for (int row = 0; row < rows; ahead = nullptr) {
    const uint16_t(*w)[kChunk] = s->weights + row;
    const float* unit = s->unit + row;
    float* at = out + (size_t)row * stride;
    if (rows - row >= most) {
      weigh<C, most, N>(w, unit, chunk.tiles, chunk.count, width, column, at, stride, ahead);
      row += most;
    } else if (rows - row >= some) {
      weigh<C, some, N>(w, unit, chunk.tiles, chunk.count, width, column, at, stride, ahead);
      row += some;
    } else {
      weigh<C, 1, N>(w, unit, chunk.tiles, chunk.count, width, column, at, stride, ahead);
      row += 1;
    }
  }
}

template <typename C>
void weigh_chunk(Scratch* s, int rows, const Chunk& chunk, int width, float* out, size_t stride,
                 Ahead* ahead) {
  int column = 0;
  for (; column + 64 <= width; column += 64, ahead = nullptr)
    weigh_columns<C, 4>(s, rows, chunk, width, column, out, stride, ahead);
  for (; column < width; column += 16, ahead = nullptr)
    weigh_columns<C, 1>(s, rows, chunk, width, column, out, stride, ahead);
}

template <typename C>
void score_rows(Scratch* s, int rows, const uint16_t* q, int width, const Chunk& chunk,
                const float* scale, Ahead* ahead) {
  constexpr bool wide = kScoreRows >= 12;
  switch (rows) {
    case 12: return score_chunk<C, wide ? 12 : 1>(s, q, width, chunk, scale, ahead);
    case 8: return score_chunk<C, wide ? 8 : 1>(s, q, width, chunk, scale, ahead);
    case 6: return score_chunk<C, wide ? 6 : 1>(s, q, width, chunk, scale, ahead);
    case 4: return score_chunk<C, 4>(s, q, width, chunk, scale, ahead);
    case 3: return score_chunk<C, 3>(s, q, width, chunk, scale, ahead);
    case 2: return score_chunk<C, 2>(s, q, width, chunk, scale, ahead);
    default: return score_chunk<C, 1>(s, q, width, chunk, scale, ahead);
  }
}

}  // namespace
