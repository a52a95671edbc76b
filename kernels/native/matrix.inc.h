// Products on AMX: registers of 16 rows of 64 bytes, and instructions that multiply two of them into a third.
// Sums of 8 bits are those of the vectors, bit for bit, and few rows stay there. In bf16 every product is made
// here, of single rows too, since these instructions add in an order of their own. Weights of 4 bits stay in
// vectors: to unpack them into memory and take sums from there for each 32 inputs costs what is won.
#pragma once

namespace {

constexpr int kMatrixRows = 32;  // of a product: two registers of them
constexpr int kMostRows = kMatrixRows;
constexpr int kFewVectorRows = 4;  // up to so many rows of 8 bits go through vectors

// By name: what the compiler's own functions read and write in memory, it does not know of.
#define TILE_CONFIG(at) asm volatile("ldtilecfg %0" ::"m"(*(at)))
#define TILE_ZERO(tile) asm volatile("tilezero %%tmm" #tile ::: "memory")
#define TILE_LOAD(tile, at, stride) \
  asm volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(at), "r"((size_t)(stride)) : "memory")
#define TILE_STORE(tile, at, stride) \
  asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(at), "r"((size_t)(stride)) : "memory")
// sum += rows * columns
#define TILE_BF16(sum, rows, columns) \
  asm volatile("tdpbf16ps %%tmm" #columns ", %%tmm" #rows ", %%tmm" #sum ::: "memory")
#define TILE_INT8(sum, rows, columns) \
  asm volatile("tdpbsud %%tmm" #columns ", %%tmm" #rows ", %%tmm" #sum ::: "memory")

// Shapes of the eight registers.
struct alignas(64) TileShapes {
  uint8_t palette, start, reserved[14];
  uint16_t bytes[16];  // of a row
  uint8_t rows[16];

  constexpr void set(int tile, int height, int width) {
    rows[tile] = (uint8_t)height;
    bytes[tile] = (uint16_t)(height ? width : 0);
  }
};

// Of a product of `rows` rows: sums 0 to 3, rows 4 and 5, columns 6 and 7. width: bytes of a row.
constexpr TileShapes product_shapes(int rows, int width) {
  TileShapes shapes = {};
  shapes.palette = 1;
  int upper = rows < 16 ? rows : 16, lower = rows - upper;
  for (int tile = 0; tile < 4; ++tile) shapes.set(tile, tile < 2 ? upper : lower, 64);
  shapes.set(4, upper, width);
  shapes.set(5, lower, width);
  shapes.set(6, width / 4, 64);
  shapes.set(7, width / 4, 64);
  return shapes;
}

// Of attention of `rows` query rows: sums 0 to 3, then rows and columns of 64 bytes, and those of 32.
constexpr TileShapes attention_shapes(int rows) {
  TileShapes shapes = {};
  shapes.palette = 1;
  for (int tile = 0; tile < 4; ++tile) shapes.set(tile, rows, 64);
  shapes.set(4, rows, 64);
  shapes.set(5, 16, 64);
  shapes.set(6, rows, 32);
  shapes.set(7, 8, 64);
  return shapes;
}

struct AllShapes {
  TileShapes wide[kMatrixRows + 1], narrow[kMatrixRows + 1], attention[kScoreRows + 1];
};

constexpr AllShapes all_shapes() {
  AllShapes all = {};
  for (int rows = 1; rows <= kMatrixRows; ++rows) {
    all.wide[rows] = product_shapes(rows, 64);
    all.narrow[rows] = product_shapes(rows, 32);
  }
  for (int rows = 1; rows <= kScoreRows; ++rows) all.attention[rows] = attention_shapes(rows);
  return all;
}

constexpr AllShapes kShapes = all_shapes();

// So many lines of `next`, 64 for 2 KB of a panel at most.
ALWAYS void fetch_some(const uint8_t*& next, int lines) {
  for (int i = 0; i < lines; ++i) prefetch(next + 64 * i);
  next += 64 * lines;
}

// lines: as for `product`.
KERNEL void bf16_matrix(const TileArgs& t, int rows, int lines, Tile* out) {
  TILE_CONFIG(&kShapes.wide[rows]);
  const uint8_t *w = t.weights, *next = t.next, *a = t.acts, *b = a + 16 * t.stride;
  TILE_ZERO(0);
  TILE_ZERO(1);
  if (rows > 16) {
    TILE_ZERO(2);
    TILE_ZERO(3);
  }
  for (const uint8_t* end = a + 2 * (size_t)t.inputs; a != end; a += 64, b += 64, w += 2048) {
    TILE_LOAD(6, w, 128);
    TILE_LOAD(4, a, t.stride);
    TILE_BF16(0, 4, 6);
    fetch_some(next, 8 * lines);
    TILE_LOAD(7, w + 64, 128);
    TILE_BF16(1, 4, 7);
    fetch_some(next, 8 * lines);
    if (rows <= 16) continue;
    TILE_LOAD(5, b, t.stride);
    TILE_BF16(2, 5, 6);
    TILE_BF16(3, 5, 7);
  }
  TILE_STORE(0, out[0], sizeof(Tile));
  TILE_STORE(1, out[0] + 16, sizeof(Tile));
  if (rows <= 16) return;
  TILE_STORE(2, out[16], sizeof(Tile));
  TILE_STORE(3, out[16] + 16, sizeof(Tile));
}

typedef int32_t Sums[kMatrixRows][kPanel];

// The sums of a group of inputs, of which columns 6 and 7 are there.
ALWAYS void sum_group(const uint8_t* acts, size_t stride, int rows, Sums& out) {
  TILE_ZERO(0);
  TILE_ZERO(1);
  TILE_LOAD(4, acts, stride);
  TILE_INT8(0, 4, 6);
  TILE_INT8(1, 4, 7);
  if (rows > 16) {
    TILE_ZERO(2);
    TILE_ZERO(3);
    TILE_LOAD(5, acts + 16 * stride, stride);
    TILE_INT8(2, 5, 6);
    TILE_INT8(3, 5, 7);
    TILE_STORE(2, out[16], sizeof(out[0]));
    TILE_STORE(3, out[16] + 16, sizeof(out[0]));
  }
  TILE_STORE(0, out[0], sizeof(out[0]));
  TILE_STORE(1, out[0] + 16, sizeof(out[0]));
}

// What int8_tile does with the sums of a group.
ALWAYS void add_int8_group(const TileArgs& t, int rows, int g, const Sums& sums, Tile* out) {
  for (int i = 0; i < rows; ++i) {
    size_t at = (size_t)i * t.groups + g;
    F scale = set1(t.scales[at]);
    I offset = seti(t.offsets[at]);
    UNROLL for (int j = 0; j < kPanel; j += 16) {
      F part = to_float(addi(loadi(sums[i] + j), offset));
      store(out[i] + j, g ? fma(part, scale, load(out[i] + j)) : mul(part, scale));
    }
  }
}

KERNEL void int8_matrix(const TileArgs& t, int rows, int lines, Tile* out) {
  TILE_CONFIG(t.group == 64 ? &kShapes.wide[rows] : &kShapes.narrow[rows]);
  // Of two groups: while one is added up, the next one is multiplied.
  alignas(64) Sums sums[2];
  const uint8_t *w = t.weights, *next = t.next, *a = t.acts;
  for (int g = 0; g < t.groups; ++g, a += t.group, w += (size_t)kPanel * t.group) {
    TILE_LOAD(6, w, 128);
    TILE_LOAD(7, w + 64, 128);
    sum_group(a, t.stride, rows, sums[g % 2]);
    fetch_some(next, t.group / 4 * lines);
    if (g) add_int8_group(t, rows, g - 1, sums[(g - 1) % 2], out);
  }
  add_int8_group(t, rows, t.groups - 1, sums[(t.groups - 1) % 2], out);
  const float* scales = (const float*)(t.weights + (size_t)t.inputs * kPanel);
  for (int i = 0; i < rows; ++i) UNROLL for (int j = 0; j < kPanel; j += 16)
      store(out[i] + j, mul(load(out[i] + j), load(scales + j)));
}

ALWAYS int rows_at_once(Format format, int rows) {
  if (format == Format::int4) return kInt4Rows;
  return format == Format::bf16 || rows > kFewVectorRows ? kMatrixRows : kFewVectorRows;
}

// lines: of `next`, fetched for two that are consumed.
ALWAYS void product(Format format, int rows, int lines, const TileArgs& args, Tile* out) {
  if (format == Format::bf16) return bf16_matrix(args, rows, lines, out);
  if (format == Format::int8 && rows > kFewVectorRows) return int8_matrix(args, rows, lines, out);
  kTiles[(int)format][lines].of[rows](args, out);
}

// Rows that share sums are independent, so that their number changes nothing.
ALWAYS int rows_together(Format kept, int left) {
  if (kept != Format::bf16) return vector_rows(left);
  return left < kScoreRows ? left : kScoreRows;
}

KERNEL void score_matrix(Scratch* s, int rows, const uint16_t* q, int width, const Chunk& chunk,
                         const float* scale, Ahead* ahead) {
  size_t stride = sizeof(uint16_t) * (size_t)width;
  for (int tile = 0; tile < chunk.count; ++tile) {
    if (ahead) ahead->go();
    const uint8_t* keys = chunk.tiles[tile];
    int d = 0;
    TILE_ZERO(0);
    for (; d + 32 <= width; d += 32, keys += 1024) {
      TILE_LOAD(5, keys, 64);
      TILE_LOAD(4, q + d, stride);
      TILE_BF16(0, 4, 5);
    }
    if (d < width) {
      TILE_LOAD(7, keys, 64);
      TILE_LOAD(6, q + d, stride);
      TILE_BF16(0, 6, 7);
    }
    TILE_STORE(0, s->scores[0] + tile * kTile, sizeof(s->scores[0]));
  }
  for (int r = 0; r < rows; ++r)
    for (int at = 0; at < chunk.count * kTile; at += kTile)
      store(s->scores[r] + at, mul(load(s->scores[r] + at), set1(scale[r])));
}

// Weighted values in N vectors of columns.
template <int N>
KERNEL void weigh_matrix(Scratch* s, const Chunk& chunk, int width, int column, float* out, size_t stride,
                         Ahead* ahead) {
  size_t row = sizeof(uint32_t) * (size_t)width;
  TILE_ZERO(0);
  if (N > 1) {
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
  }
  for (int tile = 0; tile < chunk.count; ++tile) {
    if (ahead) ahead->go();
    const uint8_t* v = chunk.tiles[tile] + (size_t)(width / 2 + column / 16) * 64;
    TILE_LOAD(6, s->weights[0] + tile * kTile, sizeof(s->weights[0]));
    TILE_LOAD(7, v, row);
    TILE_BF16(0, 6, 7);
    if (N == 1) continue;
    TILE_LOAD(7, v + 64, row);
    TILE_BF16(1, 6, 7);
    TILE_LOAD(7, v + 128, row);
    TILE_BF16(2, 6, 7);
    TILE_LOAD(7, v + 192, row);
    TILE_BF16(3, 6, 7);
  }
  out += column;
  TILE_STORE(0, out, sizeof(float) * stride);
  if (N == 1) return;
  TILE_STORE(1, out + 16, sizeof(float) * stride);
  TILE_STORE(2, out + 32, sizeof(float) * stride);
  TILE_STORE(3, out + 48, sizeof(float) * stride);
}

template <typename C>
ALWAYS void scores_of(Scratch* s, int rows, const uint16_t* q, int width, const Chunk& chunk,
                      const float* scale, Ahead* ahead) {
  if constexpr (C::kGrouped) return score_rows<C>(s, rows, q, width, chunk, scale, ahead);
  TILE_CONFIG(&kShapes.attention[rows]);
  score_matrix(s, rows, q, width, chunk, scale, ahead);
}

template <typename C>
ALWAYS void values_of(Scratch* s, int rows, const Chunk& chunk, int width, float* out, size_t stride,
                      Ahead* ahead) {
  if constexpr (C::kGrouped) return weigh_chunk<C>(s, rows, chunk, width, out, stride, ahead);
  int column = 0;
  for (; column + 64 <= width; column += 64, ahead = nullptr)
    weigh_matrix<4>(s, chunk, width, column, out, stride, ahead);
  for (; column < width; column += 16, ahead = nullptr)
    weigh_matrix<1>(s, chunk, width, column, out, stride, ahead);
}

// A thread that is switched need not carry 8 KB of registers.
ALWAYS void products_end() { asm volatile("tilerelease"); }

KERNEL uint64_t multiply_add(Format format, uint64_t rounds, uint8_t* memory) {
  TILE_CONFIG(&kShapes.wide[kMatrixRows]);
  TILE_LOAD(4, memory, 0);
  TILE_LOAD(5, memory, 0);
  TILE_LOAD(6, memory + 64, 0);
  TILE_LOAD(7, memory + 64, 0);
  for (uint64_t round = 0; round < rounds; ++round) {
    if (format == Format::bf16) {
      TILE_BF16(0, 4, 6);
      TILE_BF16(1, 4, 7);
      TILE_BF16(2, 5, 6);
      TILE_BF16(3, 5, 7);
    } else {
      TILE_INT8(0, 4, 6);
      TILE_INT8(1, 4, 7);
      TILE_INT8(2, 5, 6);
      TILE_INT8(3, 5, 7);
    }
  }
  products_end();
  return (format == Format::bf16 ? 2 : 4) * 16 * (uint64_t)kMatrixRows * kPanel;
}

}  // namespace
