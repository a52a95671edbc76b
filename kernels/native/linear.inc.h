// Matrix products: a tile of rows against a panel of 32 outputs, one chain of additions for each
// result in the same order whatever the tile's height, so that a row's numbers do not depend on its
// neighbours.
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

ALWAYS int largest_tile(Format format) {
  return format == Format::bf16 ? kTileRows : format == Format::int8 ? kInt8Rows : kInt4Rows;
}

ALWAYS F silu(F x) {
  F e = exp2v(mul(x, set1(-kLog2E)));
  return div(x, add(set1(1.0f), e));
}

void finish_gate(const Epilogue& e, const Tile& t, int row, int panel) {
  F value = mul(silu(load(t)), load(t + 16));
  if (e.half)
    store_bf16(e.half + (size_t)row * e.half_stride + 16 * panel, value);
  else
    store(e.out + (size_t)row * e.stride + 16 * panel, value);
}

void finish_pick(const Epilogue& e, const Tile& t, int row, int from, int count) {
  float top = -__builtin_inff(), sum = 0;
  if (count == kPanel) {
    top = reduce_max(vmax(load(t), load(t + 16)));
    sum = reduce_add(add(load(t), load(t + 16)));
  } else {
    for (int j = 0; j < count; ++j) top = t[j] > top ? t[j] : top;
    for (int j = 0; j < count; ++j) sum += t[j];
  }
  Best& best = e.best[row];
  // Of what is compared with a NaN nothing is larger: it would be passed over, or stay.
  if (sum != sum) best.value = sum;
  // Of equals the first, in whatever order panels come.
  if (top > best.value || (top == best.value && from < best.id)) {
    int j = 0;
    while (t[j] != top) ++j;
    best.value = top;
    best.id = from + j;
  }
  if (e.out) {
    float* out = e.out + (size_t)row * e.stride + from;
    if (count == kPanel) {
      store(out, load(t));
      store(out + 16, load(t + 16));
    } else {
      for (int j = 0; j < count; ++j) out[j] = t[j];
    }
  }
}

void finish(const Linear& linear, const Epilogue& e, const Tile& t, int row, int panel) {
  int from = panel * kPanel;
  float* out = e.out ? e.out + (size_t)row * e.stride + from : nullptr;
  switch (e.finish) {
    case Finish::store:
      for (int j = 0; j < kPanel; j += 16) store(out + j, load(t + j));
      return;
    case Finish::add:
      for (int j = 0; j < kPanel; j += 16) store(out + j, add(load(out + j), load(t + j)));
      return;
    case Finish::gate:
      return finish_gate(e, t, row, panel);
    case Finish::pick:
      int count = linear.real_outputs - from;
      return finish_pick(e, t, row, from, count < kPanel ? count : kPanel);
  }
}

// lines: of `next`, fetched for two that are consumed. out: the tile's rows, bias included.
void run_tile(const Linear& linear, const Acts& acts, int panel, int row, int rows,
              const uint8_t* next, int lines, Tile* out) {
  size_t at = (size_t)row * acts.groups;
  TileArgs args = {linear.panels + (size_t)panel * linear.panel_bytes,
                   linear.inputs,
                   linear.group,
                   acts.values + (size_t)row * acts.stride,
                   acts.stride,
                   acts.scales + at,
                   acts.sums + at,
                   acts.offsets + at,
                   linear.inputs / linear.group,
                   next};
  kTiles[(int)linear.format][lines].of[rows](args, out);
  if (!linear.bias) return;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < kPanel; j += 16)
      store(out[i] + j, add(load(out[i] + j), load(linear.bias + panel * kPanel + j)));
}

// Rows [low, low + count) of one panel, a tile at a time: take(tile, its first row, how many).
// after: what is read next, as long as a panel, or null.
template <typename Take>
ALWAYS void panel_rows(const Linear& linear, const Acts& acts, int panel, int low, int count,
                       const uint8_t* after, const Take& take) {
  int most = largest_tile(linear.format), tiles = (count + most - 1) / most;
  for (int tile = 0; tile < tiles; ++tile) {
    int begin = (int)((int64_t)count * tile / tiles), end = (int)((int64_t)count * (tile + 1) / tiles);
    // One pass over the panel fetches the next one whole, of several the first two half each: more
    // at a time than memory gives would only make them wait.
    int lines = !after || tile > 1 ? 0 : tiles == 1 ? 2 : 1;
    const uint8_t* piece = tile == 1 && lines ? after + linear.panel_bytes / 128 * 64 : after;
    Tile* out = take.place(low + begin);
    run_tile(linear, acts, panel, low + begin, end - begin, piece, lines, out);
    take.done(out, low + begin, end - begin);
  }
}

// Panels [from, to) for a few rows, finished by nobody yet: tiles [panel][row][32].
struct Keep {
  Tile* tiles;
  Tile* place(int row) const { return tiles + row; }
  void done(Tile*, int, int) const {}
};

void multiply(const Linear& linear, const Acts& acts, int rows, int from, int to,
              const uint8_t* next, float* tiles) {
  for (int panel = from; panel < to; ++panel) {
    const uint8_t* after =
        panel + 1 < to ? linear.panels + (size_t)(panel + 1) * linear.panel_bytes : next;
    Keep keep = {(Tile*)tiles + (size_t)(panel - from) * rows};
    panel_rows(linear, acts, panel, 0, rows, after, keep);
  }
}

// What `multiply` left, to where it belongs.
void finish_panels(const Linear& linear, int rows, int from, int to, const float* tiles,
                   const Epilogue& e) {
  const Tile* tile = (const Tile*)tiles;
  for (int panel = from; panel < to; ++panel)
    for (int row = 0; row < rows; ++row) finish(linear, e, *tile++, row, panel);
}

// Rows whose activations stay in cache while a panel passes over them.
constexpr int kRowsAtOnce = 384;

struct Finisher {
  const Linear& linear;
  const Epilogue& e;
  int panel;
  Tile* tile;
  Tile* place(int) const { return tile; }
  void done(Tile* out, int row, int rows) const {
    for (int i = 0; i < rows; ++i) finish(linear, e, out[i], row + i, panel);
  }
};

// Panels [from, to) of a linear for all rows. next: what this thread reads after its last panel.
void linear_panels(const Linear& linear, const Acts& acts, int rows, int from, int to,
                   const Epilogue& e, const uint8_t* next) {
  alignas(64) Tile tile[kTileRows];
  for (int low = 0; low < rows; low += kRowsAtOnce) {
    int here = rows - low < kRowsAtOnce ? rows - low : kRowsAtOnce;
    for (int panel = from; panel < to; ++panel) {
      const uint8_t* after =
          panel + 1 < to ? linear.panels + (size_t)(panel + 1) * linear.panel_bytes : next;
      panel_rows(linear, acts, panel, low, here, after, Finisher{linear, e, panel, tile});
    }
  }
}

}  // namespace
