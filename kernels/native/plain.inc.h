// Products in vectors, for instruction sets that have nothing wider.
#pragma once

namespace {

constexpr int kMostRows = kTileRows;  // of a product

// Rows that pass over a panel together, of so many.
ALWAYS int rows_at_once(Format format, int) {
  return format == Format::bf16 ? kTileRows : format == Format::int8 ? kInt8Rows : kInt4Rows;
}

// lines: of `next`, fetched for two that are consumed.
ALWAYS void product(Format format, int rows, int lines, const TileArgs& args, Tile* out) {
  kTiles[(int)format][lines].of[rows](args, out);
}

// Query rows of attention that are computed together, of so many that are left.
ALWAYS int rows_together(Format, int left) { return vector_rows(left); }

template <typename C>
ALWAYS void scores_of(Scratch* s, int rows, const uint16_t* q, int width, const Chunk& chunk,
                      const float* scale, Ahead* ahead) {
  score_rows<C>(s, rows, q, width, chunk, scale, ahead);
}

template <typename C>
ALWAYS void values_of(Scratch* s, int rows, const Chunk& chunk, int width, float* out, size_t stride,
                      Ahead* ahead) {
  weigh_chunk<C>(s, rows, chunk, width, out, stride, ahead);
}

// What products leave behind in the processor is given back.
ALWAYS void products_end() {}

ALWAYS uint64_t multiply_add(Format format, uint64_t rounds, uint8_t* memory) {
  return vector_multiply_add(format, rounds, memory);
}

}  // namespace
