// What the library holds: packed weights, the paged cache and the state of each slot.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "abi.h"
#include "blocks.h"
#include "isa.h"
#include "memory.h"
#include "pool.h"
#include "slots.h"

namespace native {

// A linear and the memory behind it.
struct Weights {
  Linear linear = {};
  Buffer<uint8_t> panels;
  Buffer<float> bias;
};

// Sizes, format and zeroed panels. outputs, inputs: padded. group: see Linear, 0 is one for all.
void shape_linear(Weights& weights, int real_outputs, int outputs, int inputs, Format format, int group);

// How a cache of these heads lies in memory.
Geometry geometry_of(int heads, int kv_heads, int head_dim, int block_size, Format kept);

// What scores are multiplied by before powers of two are taken.
float score_scale(int head_dim);

struct Layer {
  Weights qkv, o, gate_up, down;
  Buffer<float> attn_norm, ffn_norm, q_norm, k_norm;
};

// Activations of up to `rows` rows, ready for a linear of any format.
struct ActsBuffer {
  Buffer<uint8_t> values;
  Buffer<float> scales, sums;
  Buffer<int32_t> offsets;
  Acts view;

  void allocate(int rows, int widest);
};

// Rows a thread prepares for itself rather than share the work and wait.
constexpr int kOwnRows = 4;
// Output rows whose norm every thread computes for itself.
constexpr int kOwnOutputs = 64;
// Rows of which a part of a linear is small enough to be computed twice, and how many products of a
// row with a panel it may have.
constexpr int kFewRows = 64;
constexpr int kFewTiles = 256;

// Query rows of all heads of an item of attention that may be computed twice.
constexpr int kFewAttended = 96;

// Buffers of one thread.
struct Workspace {
  ActsBuffer acts;
  Buffer<float> row, choice, tiles;
  Buffer<uint8_t> attention;
  Buffer<float> attended;  // what comes of an item that may be computed twice
};

// Parts of a step whose time is counted.
enum Phase { kEmbed, kNorm, kQkv, kRope, kAttention, kO, kGateUp, kDown, kHead, kChoose, kWait, kPhases };

// Seconds that the caller's thread spent in each, while timed.
struct Profile {
  bool timed = false;
  double seconds[kPhases] = {};
};

struct Model {
  Model(const Shape& shape, const Isa& isa);
  // A thread that came too late may still look at a step, and the step at its model.
  ~Model();
  Model(const Model&) = delete;

  Weights& weights(int layer, Part part);
  // Zeroed panels for a matrix, whose sizes follow from the shape. group: see Linear.
  void allocate_linear(int layer, Part part, Format format, int group);
  // How many threads compute the next step: fewer beside engines of other processes, where that was asked for.
  int take_threads();
  // Whoever wants to know that a step is under way hears so, once.
  void tell_begun();

  Shape shape;
  const Isa& isa;
  std::shared_ptr<Pool> shared_pool;
  Pool& pool;
  std::atomic<int> steps{0};  // that live
  std::vector<double> frequencies;
  std::vector<Layer> layers;
  Weights head;
  Buffer<float> norm;
  Buffer<uint8_t> embedding;  // rows as stored; none where they are read out of a bf16 head
  Stored embedding_type = Stored::bf16;

  Geometry cache_shape;
  Buffer<uint8_t> cache;
  size_t layer_stride = 0;

  Slots slots;

  // Widths in values: every one a multiple of 64, what is beyond the real size stays zero.
  int hidden_width, qkv_width, attn_width, ffn_width;

  // Of a step: residual stream, projections, what attention or the gate gives before it is
  // quantised, rotations, logits, partial attention.
  Buffer<float> residual, qkv, mixed, turns, logits, partial, query_scales;
  Buffer<uint16_t> queries;
  ActsBuffer acts, inner;  // in front of qkv and gate_up; in front of o and down
  std::vector<std::unique_ptr<Workspace>> workspaces;
  int tokens = 0;  // query tokens of the last step, whose residual stream is there
  int computing = 0;  // threads of the last step
  int begun = -1;  // the eventfd of who wants to know it of the next step, none: -1
  std::string error;
  Profile profile;
};

}  // namespace native
