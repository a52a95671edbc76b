// What each instruction set provides. One table for each; everything behind it is compiled with that
// set's flags and shares no code with the others. Only plain data here: an inline function that two
// files compile with different flags might be linked from the wrong one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi.h"

namespace native {

constexpr int kPanel = 32;   // outputs that lie together
constexpr int kAlign = 64;   // widths of rows are multiples of it
constexpr int kTile = 16;    // tokens whose keys lie together
constexpr int kKeyGroup = 32;  // values of a key of 8 bits that share a scale
constexpr int kChunk = 128;  // tokens whose attention is one partial result, wherever it is computed

// Raised whenever packing makes other bytes of the same weights: files of packed weights name it. It is
// the same in every instruction set.
constexpr int kLayout = 1;

// A matrix [outputs, inputs] in panels of 32 outputs, both sizes padded with zeros.
//   bf16  [inputs / 2][32][2]
//   int8  [inputs / 4][32][4] as u8, 128 is zero; then 32 float scales
//   int4  for each 32 inputs: two halves of 16 outputs, 256 bytes of nibbles each, low ones inputs
//         0-15, high ones 16-31; then for each half 16 f16 scales and 16 f16 minima
struct Linear {
  int32_t outputs, inputs;  // padded
  int32_t real_outputs;
  int32_t group;  // inputs that share a scale of the activations
  Format format;
  uint8_t* panels;
  size_t panel_bytes;
  const float* bias;  // [outputs] or null
};

// Rows as a linear of its format takes them.
struct Acts {
  uint8_t* values;  // bf16 or s8
  size_t stride;    // bytes of a row
  float* scales;    // [rows][groups]
  float* sums;      // int4: sum of a group times its scale
  int32_t* offsets;  // int8: -128 times the sum of a group
  int32_t groups;
};

// NaN where one of the values is: nothing can be chosen among them.
struct Best {
  float value;
  int32_t id;
};

// In place of a token where the likeliest is none. Apart from what stands where there is no draft.
constexpr int32_t kNoToken = -2;

enum class Finish : int32_t { store, add, gate, pick };

// What becomes of a linear's result.
//   store  out = result
//   add    out += result
//   gate   out = silu(first half of the panel) * second half, 16 columns of a panel
//   pick   best of each row; out = result where out is not null
struct Epilogue {
  Finish finish;
  float* out;
  size_t stride;   // values of a row of out
  uint16_t* half;  // gate: bf16 in place of out, where not null
  size_t half_stride;
  Best* best;
};

// How keys and values lie in memory: [block][kv head][tile][keys [width / 2][16][2], values [8][width][2]],
// bf16 or s8. Behind those of s8 there are bf16 scales: 16 for each group of the keys, then 16 of values.
struct Geometry {
  int32_t heads, kv_heads, head_dim, width;  // width: of a head in memory, a multiple of 16
  int32_t tiles_a_block;
  Format kept;
  int32_t key_groups;
  size_t block_stride, head_stride, tile_stride;  // bytes
};

// Queries, keys and values of one layer. Queries in front of keys of s8 are whole numbers of 16 bits.
struct RopeWork {
  const Geometry* geometry;
  const float* qkv;
  size_t qkv_stride;
  const float* turns;  // [tokens][head_dim]: cosines, then sines
  const float *q_norm, *k_norm;
  float eps;
  uint16_t* queries;     // [tokens][heads][width]
  float* query_scales;  // [tokens][heads], where they have any
  uint8_t* cache;
};

struct AttentionWork {
  const Geometry* geometry;
  const uint16_t* queries;
  const float* query_scales;
  const uint8_t* cache;
  const int32_t* table;  // of the row
  int32_t token, tokens, position;  // the first query token of the step, how many, where it is
  int32_t kv_head, kv_heads;        // first, how many
  int32_t window;
  int32_t chunk, chunks;  // which part of the context
  // What this thread attends to afterwards: fetched meanwhile. Null: nothing is known.
  const int32_t* next_table;
  int32_t next_kv_head, next_chunk, next_position;
  float scale;            // of the scores, in powers of two
  uint8_t* scratch;
  // Where results go, each of the item's first token, head and chunk; the first or one of the others.
  float* partial;  // [tokens][heads][chunks][width + kTile], or null
  int32_t partial_heads, partial_chunks;
  float* out;  // [tokens][heads * head_dim], or null
  size_t out_stride;
  uint16_t* half;  // the same in bf16, or null
  size_t half_stride;
};

struct MergeWork {
  const Geometry* geometry;
  const float* partial;
  int32_t chunks;  // of this row and head
  float* out;
  uint16_t* half;
};

struct ChooseWork {
  const float* logits;  // [vocab], not changed
  float* scratch;       // see choose_scratch
  int32_t vocab;
  const Choice* choice;
  int32_t position, emitted;
  const int32_t *known_ids, *known_counts;  // distinct tokens of the text, how often they were emitted
  int32_t known;
  Best best;        // of the raw logits
  int64_t seed;     // of the noise
  int32_t without;  // a token that is not to be drawn, -1: none
};

struct Report {
  float logprob;
  int32_t rank;
  int32_t* top_ids;
  float* top_values;
  int32_t alternatives;
};

struct Isa {
  const char* name;
  size_t (*attention_scratch)(int width);  // bytes
  size_t (*choose_scratch)(int vocab);     // floats
  void (*linear)(const Linear&, const Acts&, int rows, int panel, int panels, const Epilogue&,
                 const uint8_t* next);
  // The same in two halves, so that the first can be done twice: products of a few rows with panels
  // [from, to) into tiles [panel][row][32], and what becomes of them.
  void (*multiply)(const Linear&, const Acts&, int rows, int from, int to, const uint8_t* next,
                   float* tiles);
  void (*finish)(const Linear&, int rows, int from, int to, const float* tiles, const Epilogue&);
  // acts row = x, in the format.
  void (*quantise)(const float* x, int width, Format, int group, const Acts&, int row);
  // out = x / rms(x) * weight.
  void (*rms_norm)(const float* x, const float* weight, int size, int width, float eps, float* out);
  // One head of one token: 0..heads-1 queries, then keys, then values. last: of the row's query.
  void (*rope)(const RopeWork&, int token, int head, const int32_t* table, int position, bool alone,
               bool last);
  void (*attend)(const AttentionWork&);
  void (*merge)(const MergeWork&);
  int32_t (*choose)(const ChooseWork&);
  void (*report)(const float* logits, int vocab, int32_t id, Report&);
  // A number that depends on all the bytes.
  uint64_t (*read)(const uint8_t* memory, size_t bytes);
  // Rounds of the multiplications of a linear's tile, out of registers, and how many each has.
  uint64_t (*multiply_add)(Format format, uint64_t rounds, uint8_t* memory);
  // The probability that a token is drawn with.
  float (*likelihood)(const ChooseWork&, int32_t id);
  // Numbers in (0, 1) that decide about drafts at positions from `begin` on, and the seed of what is
  // drawn in place of one.
  double (*verdict)(int64_t seed, int32_t begin, int32_t position);
  int64_t (*residual_seed)(int64_t seed, int32_t begin);
};

extern const Isa kPortable;
#ifdef NATIVE_X86
extern const Isa kAmx, kAvx512, kAvxVnni, kAvx2;
#endif

// The query rows that one call of attend may be asked for: tokens * heads / kv_heads.
constexpr int kQueryRows = 96;

// The best set of this machine, or the one of this name. Null: there is no such, or it cannot run.
const Isa* find_isa(const char* name);
// Whether the compiler knew the set of this name, whatever the machine has.
bool is_built(const char* name);

}  // namespace native
