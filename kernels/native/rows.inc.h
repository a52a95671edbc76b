// Operators on single rows: norm, quantise, embedding, rotary positions and the write to the cache.
#pragma once

namespace {

void rms_norm(const float* x, const float* weight, int size, int width, float eps, float* out) {
  F even = set1(0.0f), odd = even;
  for (int k = 0; k < width; k += 32) {
    F a = load(x + k), b = load(x + k + 16);
    even = fma(a, a, even);
    odd = fma(b, b, odd);
  }
  float mean = reduce_add(add(even, odd)) / (float)size;
  F scale = set1(1.0f / __builtin_sqrtf(mean + eps));
  for (int k = 0; k < width; k += 16)
    store(out + k, mul(mul(load(x + k), scale), load(weight + k)));
}

void to_bf16(const float* x, int width, uint16_t* out) {
  for (int k = 0; k < width; k += 16) store_bf16(out + k, load(x + k));
}

// A scale for each group of inputs, so that an outlier costs its own group's precision alone. It is NaN where one
// of them is no finite number.
void to_s8(const float* x, int width, Format format, int group, const Acts& acts, int row) {
  int8_t* out = (int8_t*)acts.values + (size_t)row * acts.stride;
  size_t at = (size_t)row * acts.groups;
  for (int g = 0; g < width / group; ++g) {
    F top = set1(1e-10f), lost = set1(0.0f);
    for (int k = g * group; k < (g + 1) * group; k += 16) {
      top = vmax(top, vabs(load(x + k)));
      lost = add(lost, spoilt(load(x + k)));
    }
    float largest = reduce_max(top), scale = largest / 127.0f + reduce_add(lost);
    F inverse = set1(127.0f / largest);
    I sum = seti(0);
    for (int k = g * group; k < (g + 1) * group; k += 16) {
      I q = to_int(mul(load(x + k), inverse));
      store_s8(out + k, q);
      sum = addi(sum, q);
    }
    int32_t total = reduce_addi(sum);
    acts.scales[at + g] = scale;
    if (format == Format::int4)
      acts.sums[at + g] = (float)total * scale;
    else
      acts.offsets[at + g] = -128 * total;
  }
}

void quantise(const float* x, int width, Format format, int group, const Acts& acts, int row) {
  if (format == Format::bf16)
    to_bf16(x, width, (uint16_t*)(acts.values + (size_t)row * acts.stride));
  else
    to_s8(x, width, format, group, acts, row);
}

ALWAYS uint16_t half_of(float value) {
  if (value != value) return 0x7fc0;
  uint32_t bits;
  __builtin_memcpy(&bits, &value, 4);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// The rotate-half form: pairs are half a head apart.
ALWAYS void turn(const float* x, const float* turns, int dim, float* out) {
  int half = dim / 2, i = 0;
  const float *cosine = turns, *sine = turns + half;
  for (; i + 16 <= half; i += 16) {
    F a = load(x + i), b = load(x + half + i), c = load(cosine + i), s = load(sine + i);
    store(out + i, sub(mul(a, c), mul(b, s)));
    store(out + half + i, add(mul(b, c), mul(a, s)));
  }
  for (; i < half; ++i) {
    float a = x[i], b = x[half + i];
    out[i] = a * cosine[i] - b * sine[i];
    out[half + i] = b * cosine[i] + a * sine[i];
  }
}

ALWAYS void head_norm(const float* x, const float* weight, int dim, float eps, float* out) {
  float sum = 0;
  for (int i = 0; i < dim; ++i) sum += x[i] * x[i];
  float scale = 1.0f / __builtin_sqrtf(sum / (float)dim + eps);
  for (int i = 0; i < dim; ++i) out[i] = x[i] * scale * weight[i];
}

constexpr int kWidestHead = 256;

// Whether this write must zero what lies behind it in its tile: nobody has yet, and a weight of zero
// makes no zero of a NaN that an earlier request left there.
ALWAYS bool clears(int lane, bool alone, bool last) { return last && (!alone || lane == 0); }

// One token's halves of pairs that it alone writes to, sixteen at a time. Returns how many.
ALWAYS int write_halves(const float* x, uint16_t* pairs, int odd, int count) {
  int i = 0;
  for (; i + 16 <= count; i += 16) {
    alignas(64) uint16_t halves[32] = {};
    store_bf16(halves, load(x + i));
    int32_t* at = (int32_t*)(pairs + 2 * i);
    I fresh = widen(halves), kept = andi(loadi(at), seti(odd ? 0xffff : (int32_t)0xffff0000));
    storei(at, ori(kept, odd ? shl<16>(fresh) : fresh));
  }
  return i;
}

void write_value(const Geometry& g, const float* x, uint8_t* tile, int lane, bool alone, bool clear) {
  uint16_t* values = (uint16_t*)tile + (size_t)kTile * g.width;
  uint16_t* pairs = values + (size_t)(lane / 2) * 2 * g.width;
  int done = alone ? write_halves(x, pairs, lane % 2, g.head_dim) : 0;
  for (int i = done; i < g.head_dim; ++i) pairs[2 * i + lane % 2] = half_of(x[i]);
  if (!clear) return;
  for (int other = lane + 1; other < kTile; ++other) {
    uint16_t* rest = values + (size_t)(other / 2) * 2 * g.width + other % 2;
    for (int i = 0; i < g.head_dim; ++i) rest[2 * i] = 0;
  }
}

void write_key(const Geometry& g, const float* x, uint8_t* tile, int lane) {
  alignas(64) uint16_t halves[kWidestHead];
  to_bf16(x, g.width, halves);
  for (int i = 0; i < g.width / 2; ++i)
    __builtin_memcpy(tile + (size_t)(i * kTile + lane) * 4, halves + 2 * i, 4);
}

// NaN where one is no finite number.
ALWAYS float largest_of(const float* x, int width) {
  F top = set1(1e-10f), lost = set1(0.0f);
  for (int i = 0; i < width; i += 16) {
    top = vmax(top, vabs(load(x + i)));
    lost = add(lost, spoilt(load(x + i)));
  }
  return reduce_max(top) + reduce_add(lost);
}

// Values in whole numbers of 8 bits. Returns their scale, which is a bf16 number.
ALWAYS uint16_t narrow(const float* x, int width, int8_t* out) {
  uint16_t half = half_of(largest_of(x, width) / 127.0f);
  uint32_t bits = (uint32_t)half << 16;
  float scale;
  __builtin_memcpy(&scale, &bits, 4);
  F inverse = set1(1.0f / scale);
  for (int i = 0; i < width; i += 16) store_s8(out + i, to_int(mul(load(x + i), inverse)));
  return half;
}

// The scales of a tile.
ALWAYS uint16_t* scales_of(const Geometry& g, uint8_t* tile) {
  return (uint16_t*)(tile + (size_t)2 * kTile * g.width);
}

void write_narrow_key(const Geometry& g, const float* x, uint8_t* tile, int lane) {
  alignas(64) int8_t numbers[kWidestHead];
  for (int group = 0; group < g.key_groups; ++group) {
    int from = group * kKeyGroup, here = g.width - from < kKeyGroup ? g.width - from : kKeyGroup;
    scales_of(g, tile)[group * kTile + lane] = narrow(x + from, here, numbers + from);
  }
  for (int i = 0; i < g.width / 2; ++i)
    __builtin_memcpy(tile + (size_t)(i * kTile + lane) * 2, numbers + 2 * i, 2);
}

// What lies behind it in its tile is zero by its scales.
void write_narrow_value(const Geometry& g, const float* x, uint8_t* tile, int lane, bool clear) {
  alignas(64) int8_t numbers[kWidestHead];
  alignas(64) float padded[kWidestHead];
  __builtin_memcpy(padded, x, sizeof(float) * (size_t)g.head_dim);
  for (int i = g.head_dim; i < g.width; ++i) padded[i] = 0;
  uint16_t* scales = scales_of(g, tile) + g.key_groups * kTile;
  scales[lane] = narrow(padded, g.width, numbers);
  uint8_t* at = tile + (size_t)kTile * g.width + (size_t)(lane / 2) * 2 * g.width + lane % 2;
  for (int i = 0; i < g.width; ++i) at[2 * i] = (uint8_t)numbers[i];
  for (int other = lane + 1; clear && other < kTile; ++other) scales[other] = 0;
}

// A query in whole numbers of 16 bits, and their scale.
ALWAYS float widen_query(const float* x, int width, uint16_t* out) {
  float largest = largest_of(x, width);
  F inverse = set1(32767.0f / largest);
  for (int i = 0; i < width; i += 16) store_s16(out + i, to_int(mul(load(x + i), inverse)));
  return largest / 32767.0f;
}

// One head of `shares` fetches its share of the lines of a tile that a token's key and value go to.
ALWAYS void fetch_lane(const Geometry& g, const uint8_t* tile, int lane, int share, int shares) {
  int bytes = g.kept == Format::bf16 ? 2 : 1, keys = kTile * g.width * bytes, row = 2 * g.width * bytes;
  int step = (keys / 64 + shares - 1) / shares * 64;
  for (int at = share * step; at < keys && at < (share + 1) * step; at += 64) prefetch(tile + at);
  for (int at = 0; share + 1 == shares && at < row; at += 64) prefetch(tile + keys + lane / 2 * row + at);
}

void rope(const RopeWork& work, int token, int head, const int32_t* table, int position, bool alone,
          bool last) {
  const Geometry& g = *work.geometry;
  const float* x = work.qkv + (size_t)token * work.qkv_stride + (size_t)head * g.head_dim;
  bool query = head < g.heads, key = !query && head < g.heads + g.kv_heads;
  bool halves = g.kept == Format::bf16;
  int tile_at = position / kTile, lane = position % kTile;
  int group = g.heads / g.kv_heads, kv_head = query ? head / group : (head - g.heads) % g.kv_heads;
  uint8_t* tile = work.cache + (size_t)table[tile_at / g.tiles_a_block] * g.block_stride +
                  kv_head * g.head_stride + (size_t)(tile_at % g.tiles_a_block) * g.tile_stride;
  // Of several tokens the first one has fetched it for all.
  if (query && (alone || lane == 0)) fetch_lane(g, tile, lane, head % group, group);
  if (!query && !key) {
    bool clear = clears(lane, alone, last);
    if (halves)
      write_value(g, x, tile, lane, alone, clear);
    else
      write_narrow_value(g, x, tile, lane, clear);
    return;
  }
  alignas(64) float normed[kWidestHead], turned[kWidestHead];
  if (const float* weight = query ? work.q_norm : work.k_norm) {
    head_norm(x, weight, g.head_dim, work.eps, normed);
    x = normed;
  }
  turn(x, work.turns + (size_t)token * g.head_dim, g.head_dim, turned);
  for (int i = g.head_dim; i < g.width; ++i) turned[i] = 0;
  size_t at = (size_t)token * g.heads + head;
  if (!query)
    halves ? write_key(g, turned, tile, lane) : write_narrow_key(g, turned, tile, lane);
  else if (halves)
    to_bf16(turned, g.width, work.queries + at * g.width);
  else
    work.query_scales[at] = widen_query(turned, g.width, work.queries + at * g.width);
}

uint64_t read_memory(const uint8_t* memory, size_t bytes) {
  I sum[8];
  UNROLL for (int j = 0; j < 8; ++j) sum[j] = seti(0);
  for (size_t i = 0; i + 512 <= bytes; i += 512)
    UNROLL for (int j = 0; j < 8; ++j)
      sum[j] = xori(sum[j], loadi((const int32_t*)(memory + i + 64 * j)));
  int32_t all = 0;
  UNROLL for (int j = 0; j < 8; ++j) all ^= reduce_addi(sum[j]);
  return (uint64_t)(uint32_t)all;
}

}  // namespace
