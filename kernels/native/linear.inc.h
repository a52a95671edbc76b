// Matrix products: rows against panels of 32 outputs, and what becomes of the results. A row's numbers do
// not depend on its neighbours.
#pragma once

namespace {

ALWAYS F silu(F x) {
  F e = exp2v(mul(x, set1(-kLog2E)));
  return div(x, add(set1(1.0f), e));
}

void finish_gate(const Epilogue& e, const Tile& t, int row, int panel) {
  F value = mul(silu(load(t)), load(t + 16));
  if (e.half)
    store_bf16(e.half + (size_t)row * e.half_stride + 16 * panel, value);
  else
    store(e.out + (size_t)row * e.stride + 16 * panel, value);
}

void finish_pick(const Epilogue& e, const Tile& t, int row, int from, int count) {
  float top = -__builtin_inff(), sum = 0;
  if (count == kPanel) {
    top = reduce_max(vmax(load(t), load(t + 16)));
    sum = reduce_add(add(load(t), load(t + 16)));
  } else {
    for (int j = 0; j < count; ++j) top = t[j] > top ? t[j] : top;
    for (int j = 0; j < count; ++j) sum += t[j];
  }
  Best& best = e.best[row];
  // Of what is compared with a NaN nothing is larger: it would be passed over, or stay.
  if (sum != sum) best.value = sum;
  // Of equals the first, in whatever order panels come.
  if (top > best.value || (top == best.value && from < best.id)) {
    int j = 0;
    while (t[j] != top) ++j;
    best.value = top;
    best.id = from + j;
  }
  if (e.out) {
    float* out = e.out + (size_t)row * e.stride + from;
    if (count == kPanel) {
      store(out, load(t));
      store(out + 16, load(t + 16));
    } else {
      for (int j = 0; j < count; ++j) out[j] = t[j];
    }
  }
}

void finish(const Linear& linear, const Epilogue& e, const Tile& t, int row, int panel) {
  int from = panel * kPanel;
  float* out = e.out ? e.out + (size_t)row * e.stride + from : nullptr;
  switch (e.finish) {
    case Finish::store:
      for (int j = 0; j < kPanel; j += 16) store(out + j, load(t + j));
      return;
    case Finish::add:
      for (int j = 0; j < kPanel; j += 16) store(out + j, add(load(out + j), load(t + j)));
      return;
    case Finish::gate:
      return finish_gate(e, t, row, panel);
    case Finish::pick:
      int count = linear.real_outputs - from;
      return finish_pick(e, t, row, from, count < kPanel ? count : kPanel);
  }
}

// lines: of `next`, fetched for two that are consumed. out: the tile's rows, bias included.
KERNEL void run_tile(const Linear& linear, const Acts& acts, int panel, int row, int rows,
              const uint8_t* next, int lines, Tile* out) {
  size_t at = (size_t)row * acts.groups;
  TileArgs args = {linear.panels + (size_t)panel * linear.panel_bytes,
                   linear.inputs,
                   linear.group,
                   acts.values + (size_t)row * acts.stride,
                   acts.stride,
                   acts.scales + at,
                   acts.sums + at,
                   acts.offsets + at,
                   linear.inputs / linear.group,
                   next};
  product(linear.format, rows, lines, args, out);
  if (!linear.bias) return;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < kPanel; j += 16)
      store(out[i] + j, add(load(out[i] + j), load(linear.bias + panel * kPanel + j)));
}

// Rows [low, low + count) of one panel, a tile at a time: take(tile, its first row, how many).
// after: what is read next, as long as a panel, or null.
template <typename Take>
ALWAYS void panel_rows(const Linear& linear, const Acts& acts, int panel, int low, int count,
                       const uint8_t* after, const Take& take) {
  int most = rows_at_once(linear.format, count), tiles = (count + most - 1) / most;
  for (int tile = 0; tile < tiles; ++tile) {
    int begin = (int)((int64_t)count * tile / tiles), end = (int)((int64_t)count * (tile + 1) / tiles);
    // One pass over the panel fetches the next one whole, of several the first two half each: more
    // at a time than memory gives would only make them wait.
    int lines = !after || tile > 1 ? 0 : tiles == 1 ? 2 : 1;
    const uint8_t* piece = tile == 1 && lines ? after + linear.panel_bytes / 128 * 64 : after;
    Tile* out = take.place(low + begin);
    run_tile(linear, acts, panel, low + begin, end - begin, piece, lines, out);
    take.done(out, low + begin, end - begin);
  }
}

// Panels [from, to) for a few rows, finished by nobody yet: tiles [panel][row][32].
struct Keep {
  Tile* tiles;
  Tile* place(int row) const { return tiles + row; }
  void done(Tile*, int, int) const {}
};

void multiply(const Linear& linear, const Acts& acts, int rows, int from, int to,
              const uint8_t* next, float* tiles) {
  for (int panel = from; panel < to; ++panel) {
    const uint8_t* after =
        panel + 1 < to ? linear.panels + (size_t)(panel + 1) * linear.panel_bytes : next;
    Keep keep = {(Tile*)tiles + (size_t)(panel - from) * rows};
    panel_rows(linear, acts, panel, 0, rows, after, keep);
  }
  products_end();
}

// What `multiply` left, to where it belongs.
void finish_panels(const Linear& linear, int rows, int from, int to, const float* tiles,
                   const Epilogue& e) {
  const Tile* tile = (const Tile*)tiles;
  for (int panel = from; panel < to; ++panel)
    for (int row = 0; row < rows; ++row) finish(linear, e, *tile++, row, panel);
}

// Rows whose activations stay in cache while a panel passes over them.
constexpr int kRowsAtOnce = 384;

struct Finisher {
  const Linear& linear;
  const Epilogue& e;
  int panel;
  Tile* tile;
  Tile* place(int) const { return tile; }
  void done(Tile* out, int row, int rows) const {
    for (int i = 0; i < rows; ++i) finish(linear, e, out[i], row + i, panel);
  }
};

// Panels [from, to) of a linear for all rows. next: what this thread reads after its last panel.
void linear_panels(const Linear& linear, const Acts& acts, int rows, int from, int to,
                   const Epilogue& e, const uint8_t* next) {
  alignas(64) Tile tile[kMostRows];
  for (int low = 0; low < rows; low += kRowsAtOnce) {
    int here = rows - low < kRowsAtOnce ? rows - low : kRowsAtOnce;
    for (int panel = from; panel < to; ++panel) {
      const uint8_t* after =
          panel + 1 < to ? linear.panels + (size_t)(panel + 1) * linear.panel_bytes : next;
      panel_rows(linear, acts, panel, low, here, after, Finisher{linear, e, panel, tile});
    }
  }
  products_end();
}

}  // namespace
