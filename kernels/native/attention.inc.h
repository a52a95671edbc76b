// Attention over the paged cache: decode rows, verified drafts and prefill chunks alike. The context
// is cut into chunks of 128 tokens at fixed places; each gives its own maximum, sum and weighted
// values, and these are merged in order. So the numbers of a row depend neither on which rows are
// computed together nor on who computes which chunk.
#pragma once

namespace {

// What one more chunk does to what came before: the only place where partial results meet.
ALWAYS void merge_chunk(float* most, float* sum, float* values, float chunk_most, float chunk_sum,
                        const float* chunk_values, int columns) {
  if (chunk_most == kHidden) return;
  if (*most == kHidden) {
    *most = chunk_most;
    *sum = chunk_sum;
    for (int i = 0; i < columns; i += 16) store(values + i, load(chunk_values + i));
    return;
  }
  float top = chunk_most > *most ? chunk_most : *most;
  alignas(64) float factors[32];
  F both = first(1, set1(*most), set1(chunk_most));
  store(factors, exp2v(sub(both, set1(top))));
  F old = set1(factors[0]), fresh = set1(factors[1]);
  *sum = __builtin_fmaf(chunk_sum, factors[1], *sum * factors[0]);
  *most = top;
  for (int i = 0; i < columns; i += 16)
    store(values + i, fma(load(chunk_values + i), fresh, mul(load(values + i), old)));
}

// Tiles of a chunk up to a position, into `out`. Returns how many.
int chunk_tiles(const AttentionWork& work, const int32_t* table, int kv_head, int index, int position,
                const uint8_t** out) {
  const Geometry& g = *work.geometry;
  int count = position / kTile + 1 - index * kChunkTiles;
  count = count < kChunkTiles ? count : kChunkTiles;
  int column = index * kChunkTiles / g.tiles_a_block, within = index * kChunkTiles % g.tiles_a_block;
  for (int i = 0; i < count; ++i) {
    out[i] = work.cache + (size_t)table[column] * g.block_stride + kv_head * g.head_stride +
             within * g.tile_stride;
    if (++within < g.tiles_a_block) continue;
    within = 0;
    ++column;
  }
  return count;
}

ALWAYS Chunk chunk_at(const AttentionWork& work, int kv_head, int index, int last_position) {
  Chunk chunk;
  chunk.from = index * kChunk;
  chunk.count = chunk_tiles(work, work.table, kv_head, index, last_position, chunk.tiles);
  return chunk;
}

// Heads [begin, end) of an item whose query rows are computed together: chunk by chunk, so that memory is
// read in the order in which blocks hold it.
struct Heads {
  int begin, end, rows;  // rows: of each

  ALWAYS_MEMBER int base(int kv_head) const { return (kv_head - begin) * rows; }
};

// What comes behind chunk `index` of a head: the next head, chunk, heads or item.
void look_ahead(const AttentionWork& work, const Heads& heads, int kv_head, int index, int last,
                Ahead* ahead) {
  const int32_t* table = work.table;
  int head = kv_head + 1, next = index, position = last;
  if (head == heads.end) {
    head = heads.begin;
    ++next;
  }
  if (next == work.chunk + work.chunks) {
    next = work.chunk;
    head = heads.end;
  }
  if (head == work.kv_head + work.kv_heads) {
    table = work.next_table;
    head = work.next_kv_head;
    next = work.next_chunk;
    position = work.next_position;
  }
  int here = last / kTile + 1 - index * kChunkTiles;
  here = here < kChunkTiles ? here : kChunkTiles;
  ahead->tile = ahead->line = 0;
  ahead->lines = (int)(work.geometry->tile_stride / 64);
  ahead->count = table ? chunk_tiles(work, table, head, next, position, ahead->tiles) : 0;
  int rows = heads.rows;  // those that go last: it is they who fetch
  Format kept = work.geometry->kept;
  while (rows > rows_together(kept, rows)) rows -= rows_together(kept, rows);
  int times = 2 * (here + rows);
  ahead->each = (ahead->count * ahead->lines + times - 1) / times;
}

// The values of a chunk for query rows [row, row + rows), relative to each row's maximum.
template <typename C>
void chunk_values(Scratch* s, int row, int rows, const Chunk& chunk, const AttentionWork& work,
                  Ahead* ahead, float* most, float* sum, float* out) {
  int width = work.geometry->width;
  scores_of<C>(s, rows, scratch_queries(s) + (size_t)row * width, width, chunk, s->scale + row, ahead);
  for (int r = 0; r < rows; ++r) {
    float* scores = s->scores[r];
    s->unit[r] = 1;
    if (ahead) ahead->go();
    hide(scores, chunk.count, chunk.from, s->position[row + r], work.window);
    if (ahead) ahead->go();
    if (C::kGrouped)
      soften_bytes(scores, s->weights[r], chunk.tiles, width, chunk.count * kTile, &most[r], &sum[r],
                   &s->unit[r]);
    else
      soften(scores, s->weights[r], chunk.count * kTile, &most[r], &sum[r]);
  }
  values_of<C>(s, rows, chunk, width, out, kWidestHead, ahead);
}

// Where the partial result of a chunk goes: maximum, sum, values.
ALWAYS float* partial_at(const AttentionWork& work, int row, int group, int kv_head, int chunk) {
  size_t token = row / group, head = (size_t)(kv_head - work.kv_head) * group + row % group;
  return work.partial + ((token * work.partial_heads + head) * work.partial_chunks + chunk - work.chunk) *
                            (size_t)(work.geometry->width + kTile);
}

void attend_chunk(const AttentionWork& work, Scratch* s, const Heads& heads, int kv_head, int group,
                  int index) {
  const Geometry& g = *work.geometry;
  int width = g.width, base = heads.base(kv_head), rows = base + heads.rows;
  Ahead ahead;
  look_ahead(work, heads, kv_head, index, s->position[rows - 1], &ahead);
  float* values = scratch_values(s, width);
  alignas(64) float part[kScoreRows][kWidestHead];
  for (int row = base; row < rows;) {
    int here = rows_together(g.kept, rows - row);
    int last = s->position[row + here - 1], earliest = s->position[row];
    bool seen = last >= index * kChunk &&
                (!work.window || earliest - work.window < (index + 1) * kChunk - 1);
    if (!seen) {
      for (int r = 0; work.partial && r < here; ++r)
        partial_at(work, row + r - base, group, kv_head, index)[0] = kHidden;
      row += here;
      continue;
    }
    Chunk chunk = chunk_at(work, kv_head, index, last);
    Ahead* fetch = row + here < rows ? nullptr : &ahead;
    float most[kScoreRows], sum[kScoreRows];
    if (g.kept == Format::bf16)
      chunk_values<Halves>(s, row, here, chunk, work, fetch, most, sum, part[0]);
    else
      chunk_values<Bytes>(s, row, here, chunk, work, fetch, most, sum, part[0]);
    for (int r = 0; r < here; ++r) {
      if (work.partial) {
        float* out = partial_at(work, row + r - base, group, kv_head, index);
        out[0] = most[r];
        out[1] = sum[r];
        for (int i = 0; i < width; i += 16) store(out + kTile + i, load(part[r] + i));
      } else {
        merge_chunk(&s->most[row + r], &s->sum[row + r], values + (size_t)(row + r) * width, most[r],
                    sum[r], part[r], width);
      }
    }
    row += here;
  }
}

// The head's values over their sum, as the next linear wants them.
ALWAYS void put_head(const Geometry& g, const float* values, float sum, float* out, uint16_t* half) {
  F scale = set1(1.0f / sum);
  int i = 0;
  for (; i + 16 <= g.head_dim; i += 16) {
    F value = mul(load(values + i), scale);
    if (half)
      store_bf16(half + i, value);
    else
      store(out + i, value);
  }
  float rest = 1.0f / sum;
  for (; i < g.head_dim; ++i) {
    if (half)
      half[i] = half_of(values[i] * rest);
    else
      out[i] = values[i] * rest;
  }
}

// A query row of an item, and what it has found so far.
ALWAYS void begin_row(const AttentionWork& work, Scratch* s, int row, int token, int head) {
  const Geometry& g = *work.geometry;
  size_t at = (size_t)(work.token + token) * g.heads + head;
  __builtin_memcpy(scratch_queries(s) + (size_t)row * g.width, work.queries + at * g.width,
                   sizeof(uint16_t) * g.width);
  s->position[row] = work.position + token;
  s->scale[row] = work.scale;
  if (g.kept != Format::bf16) s->scale[row] *= work.query_scales[at];
  s->most[row] = kHidden;
  s->sum[row] = 0;
  float* values = scratch_values(s, g.width) + (size_t)row * g.width;
  for (int i = 0; !work.partial && i < g.width; i += 16) store(values + i, set1(0.0f));
}

// token, head: of the item.
ALWAYS void end_row(const AttentionWork& work, Scratch* s, int row, int token, int head) {
  const Geometry& g = *work.geometry;
  size_t at = token, column = (size_t)head * g.head_dim;
  put_head(g, scratch_values(s, g.width) + (size_t)row * g.width, s->sum[row],
           work.out ? work.out + at * work.out_stride + column : nullptr,
           work.half ? work.half + at * work.half_stride + column : nullptr);
}

void attend_heads(const AttentionWork& work, const Heads& heads) {
  Scratch* s = (Scratch*)work.scratch;
  int group = work.geometry->heads / work.geometry->kv_heads, rows = heads.rows;
  int all = (heads.end - heads.begin) * rows, first = heads.begin * group;
  for (int row = 0; row < all; ++row)
    begin_row(work, s, row, row % rows / group, first + row / rows * group + row % group);
  for (int chunk = work.chunk; chunk < work.chunk + work.chunks; ++chunk)
    for (int head = heads.begin; head < heads.end; ++head)
      attend_chunk(work, s, heads, head, group, chunk);
  first -= work.kv_head * group;
  for (int row = 0; !work.partial && row < all; ++row)
    end_row(work, s, row, row % rows / group, first + row / rows * group + row % group);
}

void attend(const AttentionWork& work) {
  int rows = work.tokens * (work.geometry->heads / work.geometry->kv_heads);
  int together = kQueryRows / rows, all = work.kv_head + work.kv_heads;
  for (int head = work.kv_head; head < all; head += together) {
    int end = head + together < all ? head + together : all;
    attend_heads(work, {head, end, rows});
  }
  products_end();
}

void merge(const MergeWork& work) {
  const Geometry& g = *work.geometry;
  alignas(64) float values[kWidestHead] = {};
  float most = kHidden, sum = 0;
  for (int chunk = 0; chunk < work.chunks; ++chunk) {
    const float* part = work.partial + (size_t)chunk * (g.width + kTile);
    merge_chunk(&most, &sum, values, part[0], part[1], part + kTile, g.width);
  }
  put_head(g, values, sum, work.out, work.half);
}

}  // namespace
