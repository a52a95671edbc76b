// Token selection by itself, for tests and benchmarks, in an instruction set of their choice.
#include <cmath>

#include "isa.h"
#include "model.h"

using namespace native;

namespace {

// As the head's linear finds it: NaN where a logit is.
Best best_of(const float* logits, int vocab) {
  Best best = {-INFINITY, 0};
  for (int i = 0; i < vocab; ++i) {
    if (std::isnan(logits[i])) return {logits[i], i};
    if (logits[i] > best.value) best = {logits[i], i};
  }
  return best;
}

}  // namespace

// The token that a row chooses of logits [vocab] at a position, with the noise of `seed`, all but `without` (-1: of
// all). known ids and counts [known]: distinct tokens of its text, and how often it emitted them; `emitted` in
// all. likely: with which probability it would choose `id`, where its temperature is above zero.
NATIVE_API int32_t native_op_choose(const char* isa, int32_t vocab, const float* logits, const Choice* choice,
                                    int32_t position, int32_t emitted, int32_t known,
                                    const int32_t* known_ids, const int32_t* known_counts, int64_t seed,
                                    int32_t without, int32_t id, float* likely) {
  const Isa& set = *find_isa(isa);
  Buffer<float> scratch(set.choose_scratch(vocab));
  ChooseWork work = {logits,       scratch.get(), vocab, choice,  position, emitted, known_ids,
                     known_counts, known,         best_of(logits, vocab), seed, without};
  if (choice->temperature > 0) *likely = set.likelihood(work, id);
  return set.choose(work);
}

// Log-probability and rank of a token of logits [vocab], and the likeliest tokens, [alternatives].
NATIVE_API void native_op_report(const char* isa, int32_t vocab, const float* logits, int32_t id,
                                 int32_t alternatives, float* logprob, int32_t* rank, int32_t* top_ids,
                                 float* top_values) {
  Report report = {0, 0, top_ids, top_values, alternatives};
  find_isa(isa)->report(logits, vocab, id, report);
  *logprob = report.logprob;
  *rank = report.rank;
}

// The number that decides about the draft at a position in the round that begins at `begin`, and the seed of what
// is drawn in place of a rejected one.
NATIVE_API double native_op_verdict(const char* isa, int64_t seed, int32_t begin, int32_t position,
                                    int64_t* residual) {
  *residual = find_isa(isa)->residual_seed(seed, begin);
  return find_isa(isa)->verdict(seed, begin, position);
}
