#include "model.h"

#include <sched.h>
#include <unistd.h>

#include <cmath>
#include <stdexcept>

namespace native {
namespace {

int padded(int64_t size, int unit) { return (int)((size + unit - 1) / unit * unit); }

size_t panel_bytes(Format format, int inputs) {
  switch (format) {
    case Format::bf16:
      return (size_t)inputs * 2 * kPanel;
    case Format::int8:
      return (size_t)inputs * kPanel + kPanel * sizeof(float);
    default:
      return (size_t)inputs / 32 * 640;
  }
}

}  // namespace

void shape_linear(Weights& weights, int real_outputs, int outputs, int inputs, Format format, int group) {
  Linear& linear = weights.linear;
  linear.outputs = outputs;
  linear.inputs = inputs;
  linear.real_outputs = real_outputs;
  linear.group = group ? group : inputs;
  linear.format = format;
  linear.panel_bytes = panel_bytes(format, inputs);
  weights.panels.allocate(linear.panel_bytes * (outputs / kPanel));
  linear.panels = weights.panels.get();
  linear.bias = nullptr;
}

Geometry geometry_of(int heads, int kv_heads, int head_dim, int block_size, Format kept) {
  Geometry g;
  g.heads = heads;
  g.kv_heads = kv_heads;
  g.head_dim = head_dim;
  g.width = padded(head_dim, 16);
  g.tiles_a_block = block_size / kTile;
  g.kept = kept;
  g.key_groups = (g.width + kKeyGroup - 1) / kKeyGroup;
  size_t values = (size_t)2 * kTile * g.width;
  int scales = padded((int64_t)(g.key_groups + 1) * kTile * sizeof(uint16_t), 64);
  g.tile_stride = kept == Format::bf16 ? 2 * values : values + scales;
  g.head_stride = g.tile_stride * g.tiles_a_block;
  g.block_stride = g.head_stride * kv_heads;
  return g;
}

float score_scale(int head_dim) {
  return (float)(1.44269504088896340736 / std::sqrt((double)head_dim));
}

void ActsBuffer::allocate(int rows, int widest) {
  // An odd number of cache lines: rows do not fall on the same few sets of the cache.
  size_t lines = (size_t)widest * 2 / 64 | 1;
  view.stride = lines * 64;
  view.groups = 0;
  size_t groups = (size_t)rows * (widest / 32);
  values.allocate(rows * view.stride);
  scales.allocate(groups);
  sums.allocate(groups);
  offsets.allocate(groups);
  view.values = values.get();
  view.scales = scales.get();
  view.sums = sums.get();
  view.offsets = offsets.get();
}

Model::Model(const Shape& given, const Isa& set)
    : shape(given),
      isa(set),
      shared_pool(Pool::shared(given.threads)),
      pool(*shared_pool),
      cache_shape(geometry_of(given.heads, given.kv_heads, given.head_dim, given.block_size, given.kept)) {
  if (given.heads / given.kv_heads > kQueryRows)
    throw std::invalid_argument("heads: expected at most " + std::to_string(kQueryRows) + " for each KV head, got " +
                                std::to_string(given.heads / given.kv_heads));
  frequencies.assign(given.frequencies, given.frequencies + given.head_dim / 2);
  shape.frequencies = frequencies.data();
  hidden_width = padded(shape.hidden, kAlign);
  qkv_width = padded((int64_t)(shape.heads + 2 * shape.kv_heads) * shape.head_dim, kAlign);
  attn_width = padded((int64_t)shape.heads * shape.head_dim, kAlign);
  ffn_width = padded(shape.ffn, kAlign);
  layers.resize(shape.layers);
  for (Layer& layer : layers) {
    layer.attn_norm.allocate(hidden_width);
    layer.ffn_norm.allocate(hidden_width);
    if (!shape.qk_norm) continue;
    layer.q_norm.allocate(cache_shape.width);
    layer.k_norm.allocate(cache_shape.width);
  }
  norm.allocate(hidden_width);
  layer_stride = cache_shape.block_stride * shape.blocks;
  cache.allocate(layer_stride * shape.layers);
  slots.allocate(shape);

  int tokens = shape.max_tokens;
  int widest = hidden_width > ffn_width ? hidden_width : ffn_width;
  widest = widest > attn_width ? widest : attn_width;
  residual.allocate((size_t)tokens * hidden_width);
  qkv.allocate((size_t)tokens * qkv_width);
  mixed.allocate((size_t)tokens * widest);
  turns.allocate((size_t)tokens * shape.head_dim);
  queries.allocate((size_t)tokens * shape.heads * cache_shape.width);
  if (shape.kept != Format::bf16) query_scales.allocate((size_t)tokens * shape.heads);
  acts.allocate(tokens, widest);
  inner.allocate(tokens, widest);
  for (int i = 0; i < shape.threads; ++i) {
    workspaces.push_back(std::make_unique<Workspace>());
    Workspace& own = *workspaces.back();
    own.acts.allocate(kOwnOutputs, widest);
    own.row.allocate(widest);
    own.tiles.allocate(kFewTiles * kPanel);
    own.attention.allocate(isa.attention_scratch(cache_shape.width));
    own.attended.allocate((size_t)kFewAttended * (cache_shape.width + kTile));
    own.choice.allocate(isa.choose_scratch(shape.vocab));
  }
}

Model::~Model() {
  while (steps.load(std::memory_order_acquire)) sched_yield();
}

Weights& Model::weights(int layer, Part part) {
  switch (part) {
    case Part::qkv:
      return layers[layer].qkv;
    case Part::o:
      return layers[layer].o;
    case Part::gate_up:
      return layers[layer].gate_up;
    case Part::down:
      return layers[layer].down;
    default:
      return head;
  }
}

void Model::allocate_linear(int layer, Part part, Format format, int group) {
  int outputs = shape.hidden, inputs = hidden_width;
  switch (part) {
    case Part::qkv:
      outputs = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
      break;
    case Part::o:
      inputs = attn_width;
      break;
    case Part::gate_up:
      outputs = 2 * ffn_width;
      break;
    case Part::down:
      inputs = ffn_width;
      break;
    default:
      outputs = shape.vocab;
      break;
  }
  int unit = part == Part::head ? kPanel : kAlign;
  shape_linear(weights(layer, part), outputs, padded(outputs, unit), inputs, format, group);
}

int Model::take_threads() {
  computing = shape.shares ? pool.part() : shape.threads;
  return computing;
}

void Model::tell_begun() {
  if (begun < 0) return;
  uint64_t one = 1;
  // It fails where so many have been told of that one more makes no difference.
  ssize_t written = write(begun, &one, sizeof(one));
  (void)written;
  begun = -1;
}

}  // namespace native
