// Single operators for tests and benchmarks, in an instruction set of their choice.
#include <sched.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "model.h"
#include "pack.h"

namespace native {
namespace {

int padded(int size) { return (size + kAlign - 1) / kAlign * kAlign; }

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

// out [rows, outputs] = x [rows, inputs] times stored weights [outputs, inputs], transposed.
NATIVE_API int32_t native_op_linear(const char* isa, Format format, int32_t group, int32_t type,
                                    int32_t outputs, int32_t inputs, const uint8_t* weights,
                                    int32_t rows, const float* x, float* out) {
  const Isa& set = *find_isa(isa);
  int width = padded(inputs), columns = padded(outputs);
  Weights matrix;
  shape_linear(matrix, outputs, columns, width, format, group);
  Pool pool(1);
  StoredRows stored = {(Stored)type, outputs, inputs, weights, nullptr};
  if (!pack_rows(matrix.linear, stored, 0, -1, pool)) return 1;
  ActsBuffer acts;
  acts.allocate(rows, width);
  acts.view.groups = width / matrix.linear.group;
  Buffer<float> wide = widened(x, rows, inputs, width), result((size_t)rows * columns);
  for (int i = 0; i < rows; ++i)
    set.quantise(wide.get() + (size_t)i * width, width, format, matrix.linear.group, acts.view, i);
  Epilogue store = {Finish::store, result.get(), (size_t)columns, nullptr, 0, nullptr};
  set.linear(matrix.linear, acts.view, rows, 0, columns / kPanel, store, nullptr);
  narrowed(result, rows, outputs, columns, out);
  return 0;
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
