// Single operators for tests and benchmarks, in an instruction set of their choice.
#include <sched.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "model.h"
#include "pack.h"

namespace native {
namespace {

int padded(int size) { return (size + kAlign - 1) / kAlign * kAlign; }

float widened(uint16_t bf16) {
  uint32_t bits = (uint32_t)bf16 << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Rows [rows, size] into rows of whole vectors.
Buffer<float> widened(const float* values, int rows, int size, int width) {
  Buffer<float> out((size_t)rows * width);
  for (int i = 0; i < rows; ++i)
    std::memcpy(out.get() + (size_t)i * width, values + (size_t)i * size, sizeof(float) * (size_t)size);
  return out;
}

void narrowed(const Buffer<float>& values, int rows, int size, int width, float* out) {
  for (int i = 0; i < rows; ++i)
    std::memcpy(out + (size_t)i * size, values.get() + (size_t)i * width, sizeof(float) * (size_t)size);
}

// Phases that count how often each of their parts was brought home. In the first one the second thread
// begins a part and does not get on before the others have been through all of them.
struct Counting : Job {
  Counting(Pool& pool, int phases, int parts, int32_t* counts)
      : pool(pool), phases(phases), count(parts), counts(counts) {}

  void work(Walk& walk) override {
    for (int phase = 0; phase < phases; ++phase)
      pool.parts(
          walk, count, [](int) { return size_t(0); }, [&](int) { compute(walk, phase); },
          [&](int part) { ++counts[phase * count + part]; });
    if (walk.thread == 0) over.store(true);
  }

  void compute(const Walk& walk, int phase) {
    if (phase) return;
    if (walk.thread == 1) held.store(true);
    const std::atomic<bool>& wanted = walk.thread == 1 ? over : held;
    while (!wanted.load()) sched_yield();
  }

  Pool& pool;
  int phases, count;
  int32_t* counts;
  std::atomic<bool> held{false}, over{false};
};

}  // namespace
}  // namespace native

using namespace native;

// How often each part of so many phases was brought home by a pool whose second thread is held up in
// the middle of its first part until everything is over. counts [phases, parts], zeros before.
NATIVE_API void native_op_parts(int32_t threads, int32_t phases, int32_t parts, int32_t* counts) {
  Pool pool(threads);
  pool.run(std::make_shared<Counting>(pool, phases, parts, counts));
}

// A product with stored weights [outputs, inputs], transposed, and what becomes of it: see Finish.
// x [rows, inputs]. gate: `weights` are those of the gate, `up` are the other half; otherwise null. pick: the best
// of each row in `best` [rows] and `ids` [rows]. out [rows, outputs], which `add` adds to.
// halves: product and finish one behind the other, as for what is computed twice; at most kFewRows rows.
NATIVE_API int32_t native_op_linear(const char* isa, Format format, int32_t group, int32_t type,
                                    int32_t outputs, int32_t inputs, const uint8_t* weights,
                                    const uint8_t* up, Finish finish, int32_t halves, int32_t rows,
                                    const float* x, float* out, float* best, int32_t* ids) {
  const Isa& set = *find_isa(isa);
  int width = padded(inputs), columns = padded(outputs);
  Weights matrix;
  shape_linear(matrix, up ? 2 * columns : outputs, up ? 2 * columns : columns, width, format, group);
  const Linear& linear = matrix.linear;
  Pool pool(1);
  for (int half = 0; half < (up ? 2 : 1); ++half) {
    StoredRows stored = {(Stored)type, outputs, inputs, half ? up : weights, nullptr};
    if (!pack_rows(matrix.linear, stored, 0, up ? half : -1, pool)) return 1;
  }
  ActsBuffer acts;
  acts.allocate(rows, width);
  acts.view.groups = width / linear.group;
  Buffer<float> wide = widened(x, rows, inputs, width), result = widened(out, rows, outputs, columns);
  for (int i = 0; i < rows; ++i)
    set.quantise(wide.get() + (size_t)i * width, width, format, linear.group, acts.view, i);
  std::vector<Best> found(rows, {-INFINITY, 0});
  Epilogue end = {finish, result.get(), (size_t)columns, nullptr, 0, found.data()};
  int panels = linear.outputs / kPanel;
  if (halves) {
    Buffer<float> tiles((size_t)panels * rows * kPanel);
    set.multiply(linear, acts.view, rows, 0, panels, nullptr, tiles.get());
    set.finish(linear, rows, 0, panels, tiles.get(), end);
  } else {
    set.linear(linear, acts.view, rows, 0, panels, end, nullptr);
  }
  narrowed(result, rows, outputs, columns, out);
  for (int i = 0; i < rows; ++i) best[i] = found[i].value, ids[i] = found[i].id;
  return 0;
}

// Rows as a linear of the format takes them: `values` [rows, inputs] are bf16 or whole numbers; scales, sums
// [rows, inputs / group] are what belongs to a group of these, see Acts. inputs: a multiple of 64.
NATIVE_API void native_op_quantise(const char* isa, Format format, int32_t group, int32_t rows,
                                   int32_t inputs, const float* x, float* values, float* scales,
                                   float* sums) {
  ActsBuffer acts;
  acts.allocate(rows, inputs);
  acts.view.groups = inputs / group;
  Buffer<float> wide = widened(x, rows, inputs, inputs);
  for (int i = 0; i < rows; ++i) {
    find_isa(isa)->quantise(wide.get() + (size_t)i * inputs, inputs, format, group, acts.view, i);
    const uint8_t* row = acts.view.values + (size_t)i * acts.view.stride;
    for (int k = 0; k < inputs; ++k) {
      float& value = values[(size_t)i * inputs + k];
      value = format == Format::bf16 ? widened(((const uint16_t*)row)[k]) : (float)((const int8_t*)row)[k];
    }
  }
  for (int g = 0; format != Format::bf16 && g < rows * acts.view.groups; ++g) {
    scales[g] = acts.view.scales[g];
    sums[g] = format == Format::int4 ? acts.view.sums[g] : (float)acts.view.offsets[g];
  }
}

// out [rows, size] = x over its root mean square, times weight [size].
NATIVE_API void native_op_rms_norm(const char* isa, int32_t rows, int32_t size, const float* x,
                                   const float* weight, float eps, float* out) {
  int width = padded(size);
  Buffer<float> wide = widened(x, rows, size, width), scale = widened(weight, 1, size, width);
  Buffer<float> result((size_t)rows * width);
  for (int i = 0; i < rows; ++i)
    find_isa(isa)->rms_norm(wide.get() + (size_t)i * width, scale.get(), size, width, eps,
                            result.get() + (size_t)i * width);
  narrowed(result, rows, size, width, out);
}

// How many bytes a block of the cache has, one head's tiles of it, and one tile.
NATIVE_API void native_op_geometry(int32_t heads, int32_t kv_heads, int32_t dim, int32_t block_size,
                                   Format kept, int32_t* bytes) {
  Geometry g = geometry_of(heads, kv_heads, dim, block_size, kept);
  bytes[0] = (int32_t)g.block_stride;
  bytes[1] = (int32_t)g.head_stride;
  bytes[2] = (int32_t)g.tile_stride;
}

// Queries, keys and values of a text, qkv [tokens, (heads + 2 kv_heads) dim], under norms of each head, [dim] or
// null, and turned by `turns` [tokens, dim]. queries [tokens, heads, dim]; keys and values go to the cache, which
// is the caller's. apart: each token as if it were a step's only one of its request.
NATIVE_API void native_op_rope(const char* isa, int32_t heads, int32_t kv_heads, int32_t dim,
                               int32_t block_size, Format kept, int32_t tokens, int32_t apart,
                               const float* qkv, const float* turns, const float* q_norm,
                               const float* k_norm, float eps, const int32_t* table, float* queries,
                               uint8_t* cache) {
  const Isa& set = *find_isa(isa);
  Geometry g = geometry_of(heads, kv_heads, dim, block_size, kept);
  int columns = heads + 2 * kv_heads;
  Buffer<uint16_t> rotated((size_t)tokens * heads * g.width);
  Buffer<float> scales((size_t)tokens * heads);
  RopeWork work = {&g, qkv, (size_t)columns * dim, turns, q_norm, k_norm, eps, rotated.get(), scales.get(), cache};
  for (int t = 0; t < tokens; ++t)
    for (int head = 0; head < columns; ++head)
      set.rope(work, t, head, table, t, apart || tokens == 1, apart || t + 1 == tokens);
  for (int i = 0; i < tokens * heads; ++i)
    for (int k = 0; k < dim; ++k) {
      uint16_t number = rotated.get()[(size_t)i * g.width + k];
      float& query = queries[(size_t)i * dim + k];
      query = kept == Format::bf16 ? widened(number) : (float)(int16_t)number * scales.get()[i];
    }
}

// A text's attention: keys and values of every token from qkv [tokens, (heads + 2 kv_heads) dim] are
// rotated by turns [tokens, dim] and written to blocks [], then the last `queries` tokens attend.
// pieces: 0, the context in one; 1, a chunk at a time, merged afterwards. out [queries, heads * dim].
NATIVE_API void native_op_attention(const char* isa, int32_t heads, int32_t kv_heads, int32_t dim,
                                    int32_t block_size, Format kept, int32_t window, int32_t tokens,
                                    int32_t queries, int32_t pieces, const float* qkv,
                                    const float* turns, const int32_t* table, int32_t blocks,
                                    float* out) {
  const Isa& set = *find_isa(isa);
  Geometry g = geometry_of(heads, kv_heads, dim, block_size, kept);
  int columns = heads + 2 * kv_heads, first = tokens - queries;
  Buffer<uint8_t> cache(g.block_stride * blocks);
  Buffer<uint16_t> rotated((size_t)tokens * heads * g.width);
  Buffer<float> scales((size_t)tokens * heads);
  RopeWork rope = {&g, qkv, (size_t)columns * dim, turns, nullptr, nullptr, 0, rotated.get(),
                   scales.get(), cache.get()};
  for (int t = 0; t < tokens; ++t)
    for (int head = 0; head < columns; ++head)
      set.rope(rope, t, head, table, t, tokens == 1, t + 1 == tokens);
  Buffer<uint8_t> scratch(set.attention_scratch(g.width));
  int chunks = (tokens - 1) / kChunk + 1;
  Buffer<float> partial((size_t)tokens * heads * chunks * (g.width + kTile));
  Buffer<float> result((size_t)tokens * heads * dim);
  AttentionWork work = {};
  work.geometry = &g;
  work.queries = rotated.get();
  work.query_scales = scales.get();
  work.cache = cache.get();
  work.table = table;
  work.window = window;
  work.scale = score_scale(dim);
  work.scratch = scratch.get();
  work.kv_heads = kv_heads;
  work.partial_heads = heads;
  work.partial_chunks = chunks;
  work.out_stride = (size_t)heads * dim;
  int most = kQueryRows / (heads / kv_heads);
  for (int t = first; t < tokens; t += most) {
    work.token = work.position = t;
    work.tokens = tokens - t < most ? tokens - t : most;
    work.out = result.get() + (size_t)t * heads * dim;
    int begin = window && t >= window ? (t + 1 - window) / kChunk : 0;
    int end = (t + work.tokens - 1) / kChunk + 1;
    for (work.chunk = begin; work.chunk < end; work.chunk += work.chunks) {
      work.chunks = pieces ? 1 : end - begin;
      if (pieces)
        work.partial = partial.get() + ((size_t)t * heads * chunks + work.chunk) * (g.width + kTile);
      set.attend(work);
    }
    for (int i = t; pieces && i < t + work.tokens; ++i)
      for (int head = 0; head < heads; ++head) {
        size_t at = (size_t)i * heads + head;
        const float* parts = partial.get() + (at * chunks + begin) * (g.width + kTile);
        set.merge({&g, parts, i / kChunk + 1 - begin, result.get() + at * dim, nullptr});
      }
  }
  std::memcpy(out, result.get() + (size_t)first * heads * dim,
              sizeof(float) * (size_t)queries * heads * dim);
}
