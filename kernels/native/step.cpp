#include "step.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

namespace native {
namespace {

constexpr size_t kMostPartial = size_t(1) << 22;  // floats

int share(int64_t all, int thread, int threads) { return (int)(all * thread / threads); }

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

}  // namespace

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Step::Step(Model& model) : m_(model), isa_(model.isa) {}

bool Step::run(const Rows& rows, const Chosen& chosen) {
  if (!prepare(rows, false)) return false;
  chosen_ = &chosen;
  logits_ = nullptr;
  bool plain = true;
  for (int row : sampling_) {
    const Slot& slot = m_.slots[rows_[row].slot];
    plain = plain && slot.plain() && slot.choice.alternatives < 0;
  }
  if (!plain) {
    size_t needed = outputs_.size() * (size_t)m_.shape.vocab;
    if (m_.logits.bytes() < needed * sizeof(float)) m_.logits.allocate(needed);
    logits_ = m_.logits.get();
  }
  start();
  return true;
}

bool Step::run(const Rows& rows, float* logits) {
  if (!prepare(rows, true)) return false;
  chosen_ = nullptr;
  logits_ = logits;
  start();
  return true;
}

void Step::start() {
  int threads = m_.shape.threads;
  thread_best_.assign(threads, std::vector<Best>(outputs_.size(), {-INFINITY, 0}));
  next_row_.store(0);
  since_ = now();
  m_.pool.run(enter, this, threads);
  for (const Row& row : rows_)
    if (!chosen_ || !row.samples) m_.slots[row.slot].computed = row.start + row.queries;
}

bool Step::prepare(const Rows& rows, bool every) {
  rows_.clear();
  outputs_.clear();
  first_output_.clear();
  sampling_.clear();
  int tokens = 0;
  for (int i = 0; i < rows.rows; ++i) {
    Row row = {rows.slots[i],  0, rows.queries[i], rows.drafts ? rows.drafts[i] : 0,
               tokens, rows.samples[i] != 0};
    row.start = m_.slots[row.slot].computed;
    if (!check(row, rows.lengths[i])) return false;
    int from = every ? 0 : row.queries - 1 - row.drafts;
    first_output_.push_back((int)outputs_.size());
    if (row.samples && !every) sampling_.push_back(i);
    for (int q = from; (row.samples || every) && q < row.queries; ++q) outputs_.push_back(tokens + q);
    tokens += row.queries;
    rows_.push_back(row);
  }
  if (tokens > m_.shape.max_tokens) {
    m_.error = "batch: expected at most " + std::to_string(m_.shape.max_tokens) +
               " query tokens, got " + std::to_string(tokens);
    return false;
  }
  place_tokens(rows);
  plan_attention();
  return true;
}

// What the batch says must be what the slot holds: its tokens are known, its blocks are there.
bool Step::check(const Row& row, int32_t length) {
  std::string where = "slot " + std::to_string(row.slot) + ": ";
  int end = row.start + row.queries;
  if (length >= 0 && length != end) {
    m_.error = where + "expected a length of " + std::to_string(end) + " after the step, got " +
               std::to_string(length);
    return false;
  }
  int known = m_.slots[row.slot].known;
  if (end - row.drafts > known || (row.samples && end - row.drafts != known)) {
    m_.error = where + "expected a query that ends at token " + std::to_string(known) +
               ", the last one known, got " + std::to_string(end - row.drafts);
    return false;
  }
  const int32_t* table = m_.slots.table(row.slot);
  int blocks = (end + m_.shape.block_size - 1) / m_.shape.block_size;
  bool held = end <= m_.shape.max_len && std::all_of(table, table + blocks, [](int b) { return b >= 0; });
  if (!held) m_.error = where + "has no blocks for " + std::to_string(end) + " tokens";
  return held;
}

void Step::place_tokens(const Rows& rows) {
  ids_.clear();
  positions_.clear();
  row_of_.clear();
  const int32_t* draft = rows.draft_ids;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    int32_t* ids = m_.slots.ids(row.slot);
    int known = row.start + row.queries - row.drafts;
    for (int d = 0; d < row.drafts; ++d) ids[known + d] = *draft++;
    for (int q = 0; q < row.queries; ++q) {
      ids_.push_back(ids[row.start + q]);
      positions_.push_back(row.start + q);
      row_of_.push_back((int)i);
    }
  }
}

int Step::first_chunk(int position) const {
  int window = m_.shape.window;
  return window && position >= window ? (position + 1 - window) / kChunk : 0;
}

void Step::plan_attention() {
  int threads = m_.shape.threads, heads = m_.cache_shape.kv_heads;
  int group = m_.cache_shape.heads / heads, most = std::max(1, kQueryRows / group);
  items_.clear();
  int longest = 0, chunks = 0;
  for (const Row& row : rows_) {
    longest = std::max(longest, row.queries);
    chunks = std::max(chunks, (row.start + row.queries - 1) / kChunk + 1);
  }
  size_t tokens = ids_.size(), rows = rows_.size();
  size_t partial = tokens * m_.cache_shape.heads * chunks * (m_.cache_shape.width + kTile);
  // Too few sequences to share out whole: heads go apart, then pieces of the context.
  bool by_head = longest > most || rows < 2 * (size_t)threads;
  split_ = threads > 1 && chunks > 1 && longest <= most && partial <= kMostPartial &&
           rows * heads < 4 * (size_t)threads;
  partial_chunks_ = chunks;
  if (split_ && m_.partial.bytes() < partial * sizeof(float)) m_.partial.allocate(partial);
  for (size_t i = 0; i < rows; ++i) add_items((int)i, by_head, split_);
  // The longest first, so that the end is even.
  std::stable_sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
    return (int64_t)a.chunks * a.tokens * a.kv_heads > (int64_t)b.chunks * b.tokens * b.kv_heads;
  });
}

void Step::add_items(int index, bool by_head, bool by_chunk) {
  const Row& row = rows_[index];
  int heads = m_.cache_shape.kv_heads, each = by_head ? 1 : heads;
  int most = std::max(1, kQueryRows / (m_.cache_shape.heads / heads));
  for (int low = 0; low < row.queries; low += most) {
    int here = std::min(most, row.queries - low), position = row.start + low;
    int begin = first_chunk(position), end = (position + here - 1) / kChunk + 1;
    int step = by_chunk ? 1 : end - begin;
    for (int head = 0; head < heads; head += each)
      for (int chunk = begin; chunk < end; chunk += step)
        items_.push_back({index, row.first_token + low, here, head, each, chunk, step});
  }
}

void Step::enter(void* step, int thread, int threads) {
  static_cast<Step*>(step)->work(thread, threads);
}

void Step::work(int thread, int threads) {
  embed(thread, threads);
  pass(thread, threads);
  for (int i = 0; i < m_.shape.layers; ++i) layer(i, thread, threads);
  if (outputs_.empty()) return;
  outputs(thread, threads);
  if (!chosen_) return;
  pass(thread, threads);
  choose(thread);
  lap(thread, kChoose);
}

void Step::pass(int thread, int threads) {
  m_.pool.barrier(threads);
  lap(thread, kWait);
}

void Step::lap(int thread, Phase phase) {
  if (!timed || thread) return;
  double at = now();
  seconds[phase] += at - since_;
  since_ = at;
}

void Step::embed(int thread, int threads) {
  int64_t tokens = (int64_t)ids_.size();
  int dim = m_.shape.head_dim, half = dim / 2;
  for (int t = share(tokens, thread, threads); t < share(tokens, thread + 1, threads); ++t) {
    float* out = m_.residual.get() + (size_t)t * m_.hidden_width;
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
  lap(thread, kEmbed);
}

// Which tokens this thread prepares, and where. Few rows every thread makes for itself: it costs less
// than to wait for the others.
Step::Duty Step::duty(ActsBuffer& shared, const Linear& next, int rows, int few, int thread,
                      int threads) {
  Duty duty = {rows <= few, 0, rows, {}};
  duty.acts = duty.alone ? m_.workspaces[thread]->acts.view : shared.view;
  duty.acts.groups = next.inputs / next.group;
  if (duty.alone) return duty;
  duty.from = share(rows, thread, threads);
  duty.to = share(rows, thread + 1, threads);
  return duty;
}

// A row of the residual stream, normed, as `next` takes it.
void Step::norm_row(const float* norm, const Linear& next, const Acts& acts, int token, int row,
                    int thread) {
  float* normed = m_.workspaces[thread]->row.get();
  isa_.rms_norm(m_.residual.get() + (size_t)token * m_.hidden_width, norm, m_.shape.hidden,
                m_.hidden_width, m_.shape.eps, normed);
  isa_.quantise(normed, next.inputs, next.format, next.group, acts, row);
}

Acts Step::normed(const float* norm, const Linear& next, int thread, int threads) {
  Duty duty = this->duty(m_.acts, next, (int)ids_.size(), kOwnRows, thread, threads);
  for (int t = duty.from; t < duty.to; ++t) norm_row(norm, next, duty.acts, t, t, thread);
  lap(thread, kNorm);
  if (!duty.alone) pass(thread, threads);
  return duty.acts;
}

// What attention or the gate left, as `next` takes it. In bf16 it lies there already.
Acts Step::finished(const Linear& next, int thread, int threads) {
  if (next.format == Format::bf16) return m_.inner.view;
  Duty duty = this->duty(m_.inner, next, (int)ids_.size(), kOwnRows, thread, threads);
  for (int t = duty.from; t < duty.to; ++t)
    isa_.quantise(m_.mixed.get() + (size_t)t * next.inputs, next.inputs, next.format, next.group,
                  duty.acts, t);
  lap(thread, kNorm);
  if (!duty.alone) pass(thread, threads);
  return duty.acts;
}

void Step::multiply(const Linear& linear, const Acts& acts, int rows, const Epilogue& epilogue,
                    const Linear* next, int thread, int threads) {
  int panels = linear.outputs / kPanel;
  const uint8_t* after = nullptr;
  if (next)
    after = next->panels + share(next->outputs / kPanel, thread, threads) * next->panel_bytes;
  isa_.linear(linear, acts, rows, share(panels, thread, threads), share(panels, thread + 1, threads),
              epilogue, after);
}

void Step::layer(int index, int thread, int threads) {
  Layer& layer = m_.layers[index];
  const Linear &qkv = layer.qkv.linear, &o = layer.o.linear, &gate_up = layer.gate_up.linear,
               &down = layer.down.linear;
  int rows = (int)ids_.size();
  Epilogue into_stream = to_floats(Finish::add, m_.residual.get(), m_.hidden_width);

  multiply(qkv, normed(layer.attn_norm.get(), qkv, thread, threads), rows,
           to_floats(Finish::store, m_.qkv.get(), m_.qkv_width), &o, thread, threads);
  lap(thread, kQkv);
  pass(thread, threads);
  if (thread == 0) next_item_.store(0, std::memory_order_relaxed);
  rope(index, thread, threads);
  lap(thread, kRope);
  pass(thread, threads);
  attend(index, thread);
  if (split_) {
    lap(thread, kAttention);
    pass(thread, threads);
    merge(thread, threads);
  }
  lap(thread, kAttention);
  pass(thread, threads);
  multiply(o, finished(o, thread, threads), rows, into_stream, &gate_up, thread, threads);
  lap(thread, kO);
  pass(thread, threads);

  Epilogue gate = to_floats(Finish::gate, m_.mixed.get(), m_.ffn_width);
  if (down.format == Format::bf16) {
    gate.half = reinterpret_cast<uint16_t*>(m_.inner.view.values);
    gate.half_stride = m_.inner.view.stride / 2;
  }
  multiply(gate_up, normed(layer.ffn_norm.get(), gate_up, thread, threads), rows, gate, &down, thread,
           threads);
  lap(thread, kGateUp);
  pass(thread, threads);
  const Linear& after =
      index + 1 < m_.shape.layers ? m_.layers[index + 1].qkv.linear : m_.head.linear;
  multiply(down, finished(down, thread, threads), rows, into_stream, &after, thread, threads);
  lap(thread, kDown);
  pass(thread, threads);
}

void Step::rope(int index, int thread, int threads) {
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
                   m_.cache.get() + index * m_.layer_stride};
  int heads = g.heads + 2 * g.kv_heads;
  int64_t all = (int64_t)ids_.size() * heads;
  for (int i = share(all, thread, threads); i < share(all, thread + 1, threads); ++i) {
    int token = i / heads;
    const Row& row = rows_[row_of_[token]];
    isa_.rope(work, token, i % heads, m_.slots.table(row.slot), positions_[token], row.queries == 1,
              token + 1 == row.first_token + row.queries);
  }
}

void Step::attend(int index, int thread) {
  const Linear& next = m_.layers[index].o.linear;
  bool half = next.format == Format::bf16;
  AttentionWork work = {};
  work.geometry = &m_.cache_shape;
  work.queries = m_.queries.get();
  work.cache = m_.cache.get() + index * m_.layer_stride;
  work.window = m_.shape.window;
  work.scale = score_scale(m_.shape.head_dim);
  work.scratch = m_.workspaces[thread]->attention.get();
  work.partial = split_ ? m_.partial.get() : nullptr;
  work.partial_chunks = partial_chunks_;
  work.out = half ? nullptr : m_.mixed.get();
  work.out_stride = m_.attn_width;
  work.half = half ? reinterpret_cast<uint16_t*>(m_.inner.view.values) : nullptr;
  work.half_stride = m_.inner.view.stride / 2;
  int at = next_item_.fetch_add(1, std::memory_order_relaxed), count = (int)items_.size();
  while (at < count) {
    const Item& item = items_[at];
    int next = next_item_.fetch_add(1, std::memory_order_relaxed);
    work.next_table = nullptr;
    if (next < count) {
      const Item& after = items_[next];
      work.next_table = m_.slots.table(rows_[after.row].slot);
      work.next_kv_head = after.kv_head;
      work.next_chunk = after.chunk;
      work.next_position = positions_[after.token + after.tokens - 1];
    }
    work.table = m_.slots.table(rows_[item.row].slot);
    work.token = item.token;
    work.tokens = item.tokens;
    work.position = positions_[item.token];
    work.kv_head = item.kv_head;
    work.kv_heads = item.kv_heads;
    work.chunk = item.chunk;
    work.chunks = item.chunks;
    isa_.attend(work);
    at = next;
  }
}

void Step::merge(int thread, int threads) {
  const Geometry& g = m_.cache_shape;
  size_t chunk_size = g.width + kTile;
  bool half = m_.layers[0].o.linear.format == Format::bf16;
  int64_t all = (int64_t)ids_.size() * g.heads;
  for (int i = share(all, thread, threads); i < share(all, thread + 1, threads); ++i) {
    int token = i / g.heads, head = i % g.heads;
    int begin = first_chunk(positions_[rows_[row_of_[token]].first_token]);
    int end = positions_[token] / kChunk + 1;
    MergeWork work = {&g, m_.partial.get() + ((size_t)i * partial_chunks_ + begin) * chunk_size,
                      end - begin, nullptr, nullptr};
    if (half)
      work.half = reinterpret_cast<uint16_t*>(m_.inner.view.values + token * m_.inner.view.stride) +
                  head * g.head_dim;
    else
      work.out = m_.mixed.get() + (size_t)token * m_.attn_width + head * g.head_dim;
    isa_.merge(work);
  }
}

void Step::outputs(int thread, int threads) {
  const Linear& head = m_.head.linear;
  int count = (int)outputs_.size();
  Duty duty = this->duty(m_.acts, head, count, kOwnOutputs, thread, threads);
  for (int i = duty.from; i < duty.to; ++i)
    norm_row(m_.norm.get(), head, duty.acts, outputs_[i], i, thread);
  lap(thread, kNorm);
  if (!duty.alone) pass(thread, threads);
  Epilogue pick = to_floats(Finish::pick, logits_, m_.shape.vocab);
  pick.best = thread_best_[thread].data();
  multiply(head, duty.acts, count, pick, &m_.layers[0].qkv.linear, thread, threads);
  lap(thread, kHead);
}

void Step::choose(int thread) {
  for (;;) {
    int at = next_row_.fetch_add(1, std::memory_order_relaxed);
    if (at >= (int)sampling_.size()) return;
    chosen_->counts[at] = choose_row(sampling_[at], thread);
  }
}

// Draws a token behind each query token of interest for as long as the drafts are what was drawn.
int Step::choose_row(int index, int thread) {
  const Row& row = rows_[index];
  Slot& slot = m_.slots[row.slot];
  int output = first_output_[index], known = slot.known, count = 0;
  const int32_t* drafts = m_.slots.ids(row.slot) + known;
  for (; count <= row.drafts; ++count, ++output) {
    Best best = thread_best_[0][output];
    for (size_t t = 1; t < thread_best_.size(); ++t)
      if (thread_best_[t][output].value > best.value) best = thread_best_[t][output];
    const float* logits = logits_ ? logits_ + (size_t)output * m_.shape.vocab : nullptr;
    ChooseWork work = {logits,
                       m_.workspaces[thread]->choice.get(),
                       m_.shape.vocab,
                       &slot.choice,
                       slot.known,
                       slot.known - slot.choice.prompt_len,
                       slot.seen_ids.data(),
                       slot.seen_counts.data(),
                       (int)slot.seen_ids.size(),
                       best};
    int32_t draft = count < row.drafts ? drafts[count] : -1;
    int32_t id = isa_.choose(work);
    chosen_->ids[output] = id;
    if (slot.choice.alternatives >= 0) report(row, output, id);
    m_.slots.append(row.slot, id);
    if (id != draft) {
      ++count;
      break;
    }
  }
  slot.computed = row.start + row.queries - row.drafts + count - 1;
  return count;
}

void Step::report(const Row& row, int output, int32_t id) {
  const Chosen& c = *chosen_;
  size_t at = (size_t)output * c.alternatives;
  Report report = {0, 0, c.top_ids + at, c.top_values + at,
                   m_.slots[row.slot].choice.alternatives};
  isa_.report(logits_ + (size_t)output * m_.shape.vocab, m_.shape.vocab, id, report);
  c.logprobs[output] = report.logprob;
  c.ranks[output] = report.rank;
}

}  // namespace native
