// Choosing a token: penalties, single edits, temperature, filters, noise that depends on seed,
// position and token alone, and the likeliest of what that gives.
#pragma once

namespace {

constexpr uint32_t kGolden = 0x9e3779b9u, kFirst = 0x7feb352du, kSecond = 0x846ca68bu,
                   kOther = 0x85ebca6bu;

ALWAYS uint32_t mix(uint32_t x) {
  x = (x ^ x >> 16) * kFirst;
  x = (x ^ x >> 15) * kSecond;
  return x ^ x >> 16;
}
ALWAYS I mixv(I x) {
  x = muli(xori(x, shr<16>(x)), seti((int32_t)kFirst));
  x = muli(xori(x, shr<15>(x)), seti((int32_t)kSecond));
  return xori(x, shr<16>(x));
}

struct Keys {
  uint32_t first, second;
};

ALWAYS Keys noise_keys(int64_t seed, int32_t position) {
  uint32_t low = (uint32_t)seed, high = (uint32_t)((uint64_t)seed >> 32), at = (uint32_t)position;
  return {mix(mix(mix(low ^ kOther) ^ high) ^ at), mix(mix(mix(at ^ kGolden) ^ high) ^ low)};
}

// Gumbel noise of sixteen neighbouring tokens.
ALWAYS F noise(Keys keys, I ids) {
  I bits = mixv(xori(muli(ids, seti((int32_t)kGolden)), seti((int32_t)keys.first)));
  bits = andi(mixv(xori(bits, seti((int32_t)keys.second))), seti(0x7fffffff));
  F uniform = mul(add(to_float(bits), set1(0.5f)), set1(0x1p-31f));
  uniform = vmin(uniform, set1(1.0f - 0x1p-24f));
  F inner = log1mv(uniform);
  return sub(set1(0.0f), logv(sub(set1(0.0f), inner)));
}

ALWAYS I lanes() {
  static const int32_t order[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return loadi(order);
}

// The first largest value. Lanes behind the vocabulary must hold -inf.
Best largest(const float* values, int vocab) {
  F top = set1(-__builtin_inff());
  for (int i = 0; i < vocab; i += 16) top = vmax(top, load(values + i));
  float best = reduce_max(top);
  for (int i = 0; i < vocab; i += 16)
    if (uint32_t hit = less_mask(load(values + i), set1(best)) ^ 0xffffu)
      for (int j = 0; j < 16; ++j)
        if (hit >> j & 1 && values[i + j] == best) return {best, i + j};
  return {best, 0};
}

void penalise(float* logits, const ChooseWork& work) {
  const Choice& c = *work.choice;
  for (int i = 0; i < work.known; ++i) {
    float& logit = logits[work.known_ids[i]];
    int32_t count = work.known_counts[i];
    logit = logit > 0 ? logit / c.repetition : logit * c.repetition;
    logit = logit - (float)count * c.frequency;
    logit = logit - (count > 0 ? c.presence : 0.0f);
  }
}

void edit(float* logits, const ChooseWork& work) {
  const Choice& c = *work.choice;
  for (int i = 0; i < c.biases; ++i) logits[c.bias_ids[i]] += c.bias_values[i];
  if (work.emitted < c.min_tokens)
    for (int i = 0; i < c.stops; ++i) logits[c.stop_ids[i]] = -__builtin_inff();
}

// Scores lie in [-inf, 0]. Their bits without the sign grow as they fall, so the upper ones sort them
// roughly: 64 buckets for each power of two.
constexpr int kBuckets = 1 << 14;
ALWAYS uint32_t magnitude(float score) {
  uint32_t bits;
  __builtin_memcpy(&bits, &score, 4);
  return bits & 0x7fffffffu;
}
ALWAYS int bucket_of(float score) { return (int)(magnitude(score) >> 17); }

// Sorts the few scores of one bucket, largest first.
void sort_down(float* values, int count) {
  for (int gap = count / 2; gap > 0; gap /= 2)
    for (int i = gap; i < count; ++i) {
      float value = values[i];
      int j = i;
      for (; j >= gap && values[j - gap] < value; j -= gap) values[j] = values[j - gap];
      values[j] = value;
    }
}

// The scores of one bucket, sorted, into `out`. Returns how many.
int gather_bucket(const float* scores, int vocab, int bucket, float* out) {
  int count = 0;
  for (int i = 0; i < vocab; ++i)
    if (bucket_of(scores[i]) == bucket) out[count++] = scores[i];
  sort_down(out, count);
  return count;
}

// The k-th largest score.
float top_k_floor(const float* scores, int vocab, int k, float* out, int32_t* counts) {
  for (int b = 0; b < kBuckets; ++b) counts[b] = 0;
  for (int i = 0; i < vocab; ++i) ++counts[bucket_of(scores[i])];
  int bucket = 0, before = 0;
  while (before + counts[bucket] < k) before += counts[bucket++];
  gather_bucket(scores, vocab, bucket, out);
  return out[k - 1 - before];
}

// The least score among the likeliest that together reach p of the mass of those from `floor` on.
float top_p_floor(const float* scores, int vocab, float p, float floor, float* out, double* masses) {
  for (int b = 0; b < kBuckets; ++b) masses[b] = 0;
  double all = 0;
  for (int i = 0; i < vocab; i += 16) {
    if (!(~less_mask(load(scores + i), set1(floor)) & 0xffffu)) continue;
    alignas(64) float mass[16];
    store(mass, expv(load(scores + i)));
    for (int j = 0; j < 16; ++j) {
      if (scores[i + j] < floor) continue;
      masses[bucket_of(scores[i + j])] += (double)mass[j];
      all += (double)mass[j];
    }
  }
  double wanted = (double)p * all, before = 0;
  int bucket = 0;
  while (bucket + 1 < kBuckets && before + masses[bucket] < wanted) before += masses[bucket++];
  int count = gather_bucket(scores, vocab, bucket, out);
  float least = 0;
  for (int i = 0; i < count && out[i] >= floor; ++i) {
    if (i && before >= wanted) break;
    least = out[i];
    alignas(64) float mass[16];
    store(mass, expv(set1(out[i])));
    before += (double)mass[0];
  }
  return least;
}

struct Filters {
  double masses[kBuckets];
  int32_t counts[kBuckets];
};

// Scores, room to sort some of them, and the tables of the filters.
size_t choose_scratch(int vocab) {
  size_t width = ((size_t)vocab + 15) / 16 * 16;
  return 2 * width + sizeof(Filters) / sizeof(float);
}

// Scores below the result are dropped. scores: [vocab], lanes behind it -inf; room: [vocab].
float score_floor(const Choice& c, const float* scores, int vocab, float* room, Filters* filters) {
  float floor = -__builtin_inff();
  if (c.top_k > 0 && c.top_k < vocab)
    floor = top_k_floor(scores, vocab, c.top_k, room, filters->counts);
  if (c.top_p < 1.0f) {
    float least = top_p_floor(scores, vocab, c.top_p, floor, room, filters->masses);
    floor = least > floor ? least : floor;
  }
  if (c.min_p > 0.0f) {
    alignas(64) float least[16];
    store(least, logv(set1(c.min_p)));
    floor = least[0] > floor ? least[0] : floor;
  }
  return floor;
}

// What the request's parameters make of the logits, in scratch: scores relative to the likeliest token,
// -inf behind the vocabulary. Those below the floor are dropped. drawn: false where the likeliest is
// the answer, which is kNoToken where its logit is no finite number.
struct Scored {
  Best best;
  float floor;
  bool drawn;
};

ALWAYS bool is_finite(float x) { return x - x == 0; }

Scored score_tokens(const ChooseWork& work) {
  if (!is_finite(work.best.value)) return {{work.best.value, kNoToken}, 0, false};
  const Choice& c = *work.choice;
  int vocab = work.vocab, width = (vocab + 15) / 16 * 16;
  bool edited = work.known || c.biases || work.emitted < c.min_tokens;
  Scored scored = {work.best, 0, c.temperature > 0.0f};
  if (!edited && !scored.drawn) return scored;
  float *scores = work.scratch, *room = scores + width;
  __builtin_memcpy(scores, work.logits, sizeof(float) * (size_t)vocab);
  for (int i = vocab; i < width; ++i) scores[i] = -__builtin_inff();
  if (edited) {
    penalise(scores, work);
    edit(scores, work);
    scored.best = largest(scores, width);
    if (!is_finite(scored.best.value)) return {{scored.best.value, kNoToken}, 0, false};
  }
  if (!scored.drawn) return scored;
  F most = set1(scored.best.value), heat = set1(c.temperature);
  for (int i = 0; i < width; i += 16) store(scores + i, div(sub(load(scores + i), most), heat));
  scored.floor = score_floor(c, scores, vocab, room, (Filters*)(room + width));
  return scored;
}

int32_t choose(const ChooseWork& work) {
  Scored scored = score_tokens(work);
  if (!scored.drawn) return scored.best.id;
  float* scores = work.scratch;
  int width = (work.vocab + 15) / 16 * 16;
  if (work.without >= 0) scores[work.without] = -__builtin_inff();
  F floor = set1(scored.floor), hidden = set1(-__builtin_inff());
  Keys keys = noise_keys(work.seed, work.position);
  for (int i = 0; i < width; i += 16) {
    F score = load(scores + i);
    if (less_mask(score, floor) == 0xffffu) {
      store(scores + i, hidden);
      continue;
    }
    F drawn = add(score, noise(keys, addi(lanes(), seti(i))));
    store(scores + i, where_less(score, floor, hidden, drawn));
  }
  Best found = largest(scores, width);
  // Where rounding left nothing else, the token that was to be left out is all there is.
  return work.without >= 0 && found.value == -__builtin_inff() ? work.without : found.id;
}

// The probability of a token among those that may be drawn. The temperature is above zero.
float likelihood(const ChooseWork& work, int32_t id) {
  Scored scored = score_tokens(work);
  if (scored.best.id == kNoToken) return 0;
  float floor = scored.floor, *scores = work.scratch, own = scores[id];
  double all = 0;
  for (int i = 0; i < work.vocab; i += 16) {
    F score = load(scores + i);
    if (less_mask(score, set1(floor)) == 0xffffu) continue;
    all += (double)reduce_add(where_less(score, set1(floor), set1(0.0f), expv(score)));
  }
  alignas(64) float mass[16];
  store(mass, expv(set1(own)));
  return own < floor ? 0.0f : (float)((double)mass[0] / all);
}

// Noise for one use at one place, apart from that of the draws: what decides whether drafts of the round
// that begins there are accepted, and what a token in place of a rejected one is drawn with.
enum { kAccept = 2, kResidual = 3 };

int64_t branch(int64_t seed, int32_t begin, uint32_t which) {
  Keys keys = noise_keys(seed, begin);
  uint64_t high = mix(mix(keys.first ^ which) ^ keys.second);
  return (int64_t)(high << 32 | mix(mix(keys.second ^ which) ^ keys.first));
}

int64_t residual_seed(int64_t seed, int32_t begin) { return branch(seed, begin, kResidual); }

double verdict(int64_t seed, int32_t begin, int32_t position) {
  Keys keys = noise_keys(branch(seed, begin, kAccept), position);
  return ((double)(mix(mix(keys.first) ^ keys.second) & 0x7fffffffu) + 0.5) * 0x1p-31;
}

// Log-probability and rank of a token under the raw logits, and the likeliest tokens, equals by id.
void report(const float* logits, int vocab, int32_t id, Report& out) {
  float most = logits[0];
  for (int i = 1; i < vocab; ++i) most = logits[i] > most ? logits[i] : most;
  double sum = 0;
  int at = 0;
  for (; at + 16 <= vocab; at += 16)
    sum += (double)reduce_add(expv(sub(load(logits + at), set1(most))));
  for (; at < vocab; ++at) {
    alignas(64) float e[16];
    store(e, expv(set1(logits[at] - most)));
    sum += (double)e[0];
  }
  double total = (double)most + __builtin_log(sum);
  float chosen = logits[id];
  int32_t rank = 0, held = 0;
  float bar = -__builtin_inff();
  for (int i = 0; i < vocab; ++i) {
    float logit = logits[i];
    rank += logit > chosen || (logit == chosen && i < id);
    if (held == out.alternatives && !(logit > bar)) continue;
    int place = held < out.alternatives ? held++ : held - 1;
    if (place < 0) continue;
    for (; place > 0 && out.top_values[place - 1] < logit; --place) {
      out.top_values[place] = out.top_values[place - 1];
      out.top_ids[place] = out.top_ids[place - 1];
    }
    out.top_values[place] = logit;
    out.top_ids[place] = i;
    bar = held == out.alternatives ? out.top_values[held - 1] : bar;
  }
  for (int i = 0; i < held; ++i) out.top_values[i] = (float)((double)out.top_values[i] - total);
  out.logprob = (float)((double)chosen - total);
  out.rank = rank;
}

}  // namespace
