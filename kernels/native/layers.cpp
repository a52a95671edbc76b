// A step's way through the layers: which parts each phase has, and what is done in one.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "step.h"

namespace native {
namespace {

constexpr size_t kPartBytes = size_t(3) << 16;
// Of a thread's share. Of many rows a part takes long, and the last one of a phase is waited for.
constexpr int kFewParts = 4, kManyParts = 24;

Epilogue to_floats(Finish finish, float* out, size_t stride) {
  return {finish, out, stride, nullptr, 0, nullptr};
}

// Row `id` of a bf16 head, which is the embedding too.
void embed_from(const Linear& head, int32_t id, float* out) {
  const uint8_t* panel = head.panels + (size_t)(id / kPanel) * head.panel_bytes;
  const uint8_t* at = panel + 4 * (id % kPanel);
  for (int k = 0; k < head.inputs; k += 2, at += 4 * kPanel) {
    uint32_t both, bits[2];
    std::memcpy(&both, at, 4);
    bits[0] = both << 16;
    bits[1] = both & 0xffff0000u;
    std::memcpy(out + k, bits, 8);
  }
}

// Into how many parts to cut a linear: the same for every thread, few, but none of few rows so large
// that doing it twice takes long.
int parts_of(const Linear& linear, int rows, int threads) {
  int panels = linear.outputs / kPanel, least = rows > kFewRows ? kManyParts : kFewParts;
  if (rows <= kFewRows) {
    size_t bytes = panels * linear.panel_bytes;
    least = std::max(least, (int)(bytes / (kPartBytes * threads)) + 1);
    least = std::max(least, panels * rows / (kFewTiles / 2 * threads) + 1);
  }
  return std::min({panels, Pool::kMostParts / threads * threads, least * threads});
}

// Whether the results of a part fit where a thread keeps them until they are brought home. Those of a very
// wide matrix, which has more panels than a phase has parts, may not.
bool are_few(const Linear& linear, int rows, int threads) {
  int panels = linear.outputs / kPanel, parts = parts_of(linear, rows, threads);
  return (panels + parts - 1) / parts * rows <= kFewTiles;
}

}  // namespace

void Step::embed(Walk& walk) {
  int tokens = (int)ids_.size(), parts = m_.pool.pieces(tokens);
  m_.pool.parts(walk, parts, [&](int part) {
    for (int t = share(tokens, part, parts); t < share(tokens, part + 1, parts); ++t) embed_token(t);
  });
  lap(walk, kEmbed);
}

void Step::embed_token(int t) {
  int dim = m_.shape.head_dim, half = dim / 2;
  float* out = m_.residual.get() + (size_t)t * m_.hidden_width;
  // An earlier row may have left a NaN there, of which a weight of zero makes no zero.
  std::fill(out + m_.shape.hidden, out + m_.hidden_width, 0.0f);
  if (m_.embedding)
    dequantise(m_.embedding_type,
               m_.embedding.get() + (size_t)ids_[t] * row_bytes(m_.embedding_type, m_.shape.hidden),
               m_.shape.hidden, out);
  else
    embed_from(m_.head.linear, ids_[t], out);
  float* turns = m_.turns.get() + (size_t)t * dim;
  for (int i = 0; i < half; ++i) {
    double angle = positions_[t] * m_.frequencies[i];
    turns[i] = (float)(std::cos(angle) * m_.shape.rope_scale);
    turns[half + i] = (float)(std::sin(angle) * m_.shape.rope_scale);
  }
}

// Rows that `next` multiplies. Few of them every thread makes for itself: it costs less than to wait
// for the others.
Step::Input Step::input(ActsBuffer& shared, const Linear& next, int rows, int few) const {
  bool own = rows <= few && are_few(next, rows, threads_);
  Input input = {shared.view, &next, rows, own, nullptr, nullptr, nullptr};
  input.acts.groups = next.inputs / next.group;
  return input;
}

// The residual stream, normed, as `next` takes it.
Step::Input Step::normed(Walk& walk, const float* norm, const Linear& next, const int32_t* tokens,
                         int rows, int few) {
  Input input = this->input(m_.acts, next, rows, few);
  input.norm = norm;
  input.tokens = tokens;
  share_out(walk, input);
  return input;
}

// What attention or the gate left, as `next` takes it. In bf16 it lies there already.
Step::Input Step::finished(Walk& walk, const Linear& next) {
  bool there = next.format == Format::bf16;
  Input input = this->input(m_.inner, next, (int)ids_.size(), there ? 0 : kOwnRows);
  if (there) return input;
  input.values = m_.mixed.get();
  share_out(walk, input);
  return input;
}

// Make the rows together, unless every thread does it for itself.
void Step::share_out(Walk& walk, const Input& input) {
  if (input.own) return;
  int parts = m_.pool.pieces(input.rows);
  m_.pool.parts(walk, parts, [&](int part) {
    int end = share(input.rows, part + 1, parts);
    for (int row = share(input.rows, part, parts); row < end; ++row)
      make_row(input, input.acts, row, walk.thread);
  });
  lap(walk, kNorm);
}

void Step::make_row(const Input& input, const Acts& acts, int row, int thread) const {
  const Linear& next = *input.linear;
  const float* values = input.values + (size_t)row * next.inputs;
  if (input.norm) {
    int token = input.tokens ? input.tokens[row] : row;
    float* normed = m_.workspaces[thread]->row.get();
    isa_.rms_norm(m_.residual.get() + (size_t)token * m_.hidden_width, input.norm, m_.shape.hidden,
                  m_.hidden_width, m_.shape.eps, normed);
    values = normed;
  }
  isa_.quantise(values, next.inputs, next.format, next.group, acts, row);
}

void Step::multiply(Walk& walk, const Linear& linear, const Input& input, const Epilogue& epilogue,
                    const Linear* next) {
  int panels = linear.outputs / kPanel, parts = parts_of(linear, input.rows, walk.threads);
  if (are_few(linear, input.rows, walk.threads))
    return multiply_few(walk, linear, input, epilogue, next, parts);
  Epilogue own = epilogue;
  own.best = epilogue.best ? thread_best_[walk.thread].data() : nullptr;
  m_.pool.parts(walk, parts, [&](int part) {
    int from = share(panels, part, parts), to = share(panels, part + 1, parts);
    const uint8_t* after = to < panels ? linear.panels + to * linear.panel_bytes : nullptr;
    isa_.linear(linear, input.acts, input.rows, from, to, own, after);
  });
}

// Of few rows: what a thread has in work, another can do as well.
void Step::multiply_few(Walk& walk, const Linear& linear, const Input& input,
                        const Epilogue& epilogue, const Linear* next, int parts) {
  int panels = linear.outputs / kPanel;
  int end = share(parts, walk.thread + 1, walk.threads), last = -1;
  Workspace& own = *m_.workspaces[walk.thread];
  Acts acts = input.acts;
  bool made = !input.own;
  const uint8_t* then = nullptr;
  if (next)
    then = next->panels +
           share(next->outputs / kPanel, walk.thread, walk.threads) * next->panel_bytes;
  auto compute = [&](int part) {
    for (int row = 0; !made && row < input.rows; ++row) {
      acts = own.acts.view;
      acts.groups = input.acts.groups;
      make_row(input, acts, row, walk.thread);
    }
    made = true;
    // The way goes up, and down where another thread is at the front.
    int after = last == part + 1 ? part - 1 : part + 1;
    last = part;
    bool leaves = after < 0 || after == parts || after == end;
    const uint8_t* fetched =
        leaves ? then : linear.panels + share(panels, after, parts) * linear.panel_bytes;
    isa_.multiply(linear, acts, input.rows, share(panels, part, parts), share(panels, part + 1, parts),
                  fetched, own.tiles.get());
  };
  size_t bytes = panels / parts * linear.panel_bytes * ((input.rows + 7) / 8);
  auto read = [&](int) { return bytes; };
  m_.pool.parts(walk, parts, read, compute, [&](int part) {
    Epilogue mine = epilogue;
    mine.best = epilogue.best ? thread_best_[walk.thread].data() : nullptr;
    isa_.finish(linear, input.rows, share(panels, part, parts), share(panels, part + 1, parts),
                own.tiles.get(), mine);
  });
}

void Step::layer(Walk& walk, int index) {
  Layer& layer = m_.layers[index];
  const Linear &qkv = layer.qkv.linear, &o = layer.o.linear, &gate_up = layer.gate_up.linear,
               &down = layer.down.linear;
  int rows = (int)ids_.size();
  Epilogue into_stream = to_floats(Finish::add, m_.residual.get(), m_.hidden_width);

  Input stream = normed(walk, layer.attn_norm.get(), qkv, nullptr, rows, kOwnRows);
  multiply(walk, qkv, stream, to_floats(Finish::store, m_.qkv.get(), m_.qkv_width), &o);
  lap(walk, kQkv);
  rope(walk, index);
  attend(walk, index);
  multiply(walk, o, finished(walk, o), into_stream, &gate_up);
  lap(walk, kO);

  Epilogue gate = to_floats(Finish::gate, m_.mixed.get(), m_.ffn_width);
  if (down.format == Format::bf16) {
    gate.half = reinterpret_cast<uint16_t*>(m_.inner.view.values);
    gate.half_stride = m_.inner.view.stride / 2;
  }
  stream = normed(walk, layer.ffn_norm.get(), gate_up, nullptr, rows, kOwnRows);
  multiply(walk, gate_up, stream, gate, &down);
  lap(walk, kGateUp);
  const Linear& after =
      index + 1 < m_.shape.layers ? m_.layers[index + 1].qkv.linear : m_.head.linear;
  multiply(walk, down, finished(walk, down), into_stream, &after);
  lap(walk, kDown);
}

void Step::rope(Walk& walk, int index) {
  Layer& layer = m_.layers[index];
  const Geometry& g = m_.cache_shape;
  RopeWork work = {&g,
                   m_.qkv.get(),
                   (size_t)m_.qkv_width,
                   m_.turns.get(),
                   layer.q_norm.get(),
                   layer.k_norm.get(),
                   m_.shape.eps,
                   m_.queries.get(),
                   m_.query_scales.get(),
                   m_.cache.get() + index * m_.layer_stride};
  int heads = g.heads + 2 * g.kv_heads;
  int64_t all = (int64_t)ids_.size() * heads;
  int parts = m_.pool.pieces(all);
  m_.pool.parts(walk, parts, [&](int part) {
    for (int i = share(all, part, parts); i < share(all, part + 1, parts); ++i) {
      int token = i / heads;
      if (i % heads == 0) clear_rest(token, index);
      const Row& row = rows_[row_of_[token]];
      isa_.rope(work, token, i % heads, m_.slots.table(row.slot), positions_[token],
                row.queries == 1, token + 1 == row.first_token + row.queries);
    }
  });
  lap(walk, kRope);
}

// What lies behind the heads of a token, which `o` multiplies with zeros: see embed_token.
void Step::clear_rest(int token, int index) {
  int filled = m_.shape.heads * m_.shape.head_dim, rest = m_.attn_width - filled;
  if (m_.layers[index].o.linear.format == Format::bf16)
    std::memset(m_.inner.view.values + token * m_.inner.view.stride + 2 * filled, 0, 2 * (size_t)rest);
  else
    std::fill_n(m_.mixed.get() + (size_t)token * m_.attn_width + filled, rest, 0.0f);
}

void Step::outputs(Walk& walk) {
  const Linear& head = m_.head.linear;
  Epilogue pick = to_floats(Finish::pick, logits_, m_.shape.vocab);
  pick.best = thread_best_[walk.thread].data();
  Input last = normed(walk, m_.norm.get(), head, outputs_.data(), (int)outputs_.size(), kOwnOutputs);
  multiply(walk, head, last, pick, &m_.layers[0].qkv.linear);
  lap(walk, kHead);
}

}  // namespace native
