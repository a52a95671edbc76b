// Attention of a step: into which items it is cut, and what is done in one.
#include <algorithm>
#include <cstring>

#include "step.h"

namespace native {
namespace {

constexpr size_t kMostPartial = size_t(1) << 22;  // floats
constexpr int kRowsAPass = 8;  // query rows that take as long as what they read

}  // namespace

int Step::first_chunk(int position) const {
  int window = m_.shape.window;
  return window && position >= window ? (position + 1 - window) / kChunk : 0;
}

void Step::plan_attention() {
  int threads = threads_, heads = m_.cache_shape.kv_heads;
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
  keep_tables();
  // The longest first, so that the end is even.
  std::stable_sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
    return (int64_t)a.chunks * a.tokens * a.kv_heads > (int64_t)b.chunks * b.tokens * b.kv_heads;
  });
  deal_items();
  twice_ = items_.size() <= (size_t)Pool::kMostParts &&
           std::all_of(items_.begin(), items_.end(), [&](const Item& item) {
             return item.tokens * group * item.kv_heads <= kFewAttended;
           });
}

// Where the blocks of each row are now: a thread that comes late may still ask when its slot has others.
void Step::keep_tables() {
  tables_.clear();
  first_block_.clear();
  for (const Row& row : rows_) {
    const int32_t* table = m_.slots.table(row.slot);
    int end = row.start + row.queries;
    first_block_.push_back(tables_.size());
    tables_.insert(tables_.end(), table, table + (end + m_.shape.block_size - 1) / m_.shape.block_size);
  }
}

// Every thread's share gets its part of the long ones and of the short ones.
void Step::deal_items() {
  int threads = threads_, all = (int)items_.size(), thread = 0;
  std::vector<Item> dealt(items_.size());
  std::vector<int> at;
  for (int i = 0; i < threads; ++i) at.push_back(share(all, i, threads));
  for (const Item& item : items_) {
    while (at[thread] == share(all, thread + 1, threads)) thread = (thread + 1) % threads;
    dealt[at[thread]++] = item;
    thread = (thread + 1) % threads;
  }
  items_.swap(dealt);
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

void Step::attend(Walk& walk, int index) {
  AttentionWork work = {};
  work.geometry = &m_.cache_shape;
  work.queries = m_.queries.get();
  work.query_scales = m_.query_scales.get();
  work.cache = m_.cache.get() + index * m_.layer_stride;
  work.window = m_.shape.window;
  work.scale = score_scale(m_.shape.head_dim);
  work.scratch = m_.workspaces[walk.thread]->attention.get();
  bool half = m_.layers[index].o.linear.format == Format::bf16;
  int items = (int)items_.size(), parts = std::min(items, Pool::kMostParts);
  if (twice_) {
    auto compute = [&](int i) {
      place_aside(work, items_[i], half, walk.thread);
      attend_item(work, i);
    };
    m_.pool.parts(
        walk, items, [&](int i) { return item_bytes(items_[i]); }, compute,
        [&](int i) { bring_home(work, items_[i]); });
  } else {
    m_.pool.parts(walk, parts, [&](int part) {
      for (int i = share(items, part, parts); i < share(items, part + 1, parts); ++i) {
        place(work, items_[i], half);
        attend_item(work, i);
      }
    });
  }
  if (split_) merge(walk);
  lap(walk, kAttention);
}

// Bytes that are read in the time that an item takes.
size_t Step::item_bytes(const Item& item) const {
  const Geometry& g = m_.cache_shape;
  int rows = item.tokens * (g.heads / g.kv_heads);
  return (size_t)item.chunks * (kChunk / kTile) * g.tile_stride * item.kv_heads *
         ((rows + kRowsAPass - 1) / kRowsAPass);
}

// Results of an item go to where they are read.
void Step::place(AttentionWork& work, const Item& item, bool half) const {
  const Geometry& g = m_.cache_shape;
  size_t head = (size_t)item.kv_head * (g.heads / g.kv_heads), column = head * g.head_dim;
  work.partial_heads = g.heads;
  work.partial_chunks = partial_chunks_;
  size_t at = ((size_t)item.token * g.heads + head) * partial_chunks_ + item.chunk;
  work.partial = split_ ? m_.partial.get() + at * (g.width + kTile) : nullptr;
  work.out_stride = m_.attn_width;
  work.out = half ? nullptr : m_.mixed.get() + (size_t)item.token * m_.attn_width + column;
  work.half_stride = m_.inner.view.stride / 2;
  uint16_t* halves = reinterpret_cast<uint16_t*>(m_.inner.view.values);
  work.half = half ? halves + (size_t)item.token * work.half_stride + column : nullptr;
}

// To where no other thread reads.
void Step::place_aside(AttentionWork& work, const Item& item, bool half, int thread) const {
  const Geometry& g = m_.cache_shape;
  float* aside = m_.workspaces[thread]->attended.get();
  work.partial_heads = item.kv_heads * (g.heads / g.kv_heads);
  work.partial_chunks = 1;
  work.partial = split_ ? aside : nullptr;
  work.out_stride = work.half_stride = (size_t)work.partial_heads * g.head_dim;
  work.out = half ? nullptr : aside;
  work.half = half ? reinterpret_cast<uint16_t*>(aside) : nullptr;
}

// What was put aside, to where it is read.
void Step::bring_home(const AttentionWork& aside, const Item& item) const {
  AttentionWork home = {};
  place(home, item, aside.half);
  if (aside.partial) {
    size_t size = m_.cache_shape.width + kTile;
    for (int i = 0; i < item.tokens * aside.partial_heads; ++i) {
      size_t token = i / aside.partial_heads, head = i % aside.partial_heads;
      float* to = home.partial + (token * home.partial_heads + head) * home.partial_chunks * size;
      std::memcpy(to, aside.partial + i * size, size * sizeof(float));
    }
    return;
  }
  for (int token = 0; token < item.tokens; ++token)
    if (aside.half)
      std::memcpy(home.half + token * home.half_stride, aside.half + token * aside.half_stride,
                  aside.half_stride * sizeof(uint16_t));
    else
      std::memcpy(home.out + token * home.out_stride, aside.out + token * aside.out_stride,
                  aside.out_stride * sizeof(float));
}

void Step::attend_item(AttentionWork& work, int index) const {
  const Item& item = items_[index];
  work.next_table = nullptr;
  if (index + 1 < (int)items_.size()) {
    const Item& next = items_[index + 1];
    work.next_table = tables_.data() + first_block_[next.row];
    work.next_kv_head = next.kv_head;
    work.next_chunk = next.chunk;
    work.next_position = positions_[next.token + next.tokens - 1];
  }
  work.table = tables_.data() + first_block_[item.row];
  work.token = item.token;
  work.tokens = item.tokens;
  work.position = positions_[item.token];
  work.kv_head = item.kv_head;
  work.kv_heads = item.kv_heads;
  work.chunk = item.chunk;
  work.chunks = item.chunks;
  isa_.attend(work);
}

void Step::merge(Walk& walk) {
  int64_t all = (int64_t)ids_.size() * m_.cache_shape.heads;
  int parts = m_.pool.pieces(all);
  m_.pool.parts(walk, parts, [&](int part) {
    for (int i = share(all, part, parts); i < share(all, part + 1, parts); ++i) merge_head(i);
  });
}

void Step::merge_head(int index) const {
  const Geometry& g = m_.cache_shape;
  size_t chunk_size = g.width + kTile;
  int token = index / g.heads, head = index % g.heads;
  int begin = first_chunk(positions_[rows_[row_of_[token]].first_token]);
  int end = positions_[token] / kChunk + 1;
  MergeWork work = {&g, m_.partial.get() + ((size_t)index * partial_chunks_ + begin) * chunk_size,
                    end - begin, nullptr, nullptr};
  if (m_.layers[0].o.linear.format == Format::bf16)
    work.half = reinterpret_cast<uint16_t*>(m_.inner.view.values + token * m_.inner.view.stride) +
                head * g.head_dim;
  else
    work.out = m_.mixed.get() + (size_t)token * m_.attn_width + head * g.head_dim;
  isa_.merge(work);
}

}  // namespace native
