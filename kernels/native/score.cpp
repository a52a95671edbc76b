// How likely given tokens are behind query tokens of the step that ran last, whose residual stream is
// still there.
#include <algorithm>
#include <cmath>

#include "step.h"

namespace native {

bool Step::score(const Scores& scores) {
  int tokens = (int)ids_.size();
  for (int i = 0; i < scores.count; ++i) {
    bool good = scores.places[i] >= 0 && scores.places[i] < tokens && scores.ids[i] >= 0 &&
                scores.ids[i] < m_.shape.vocab;
    if (good) continue;
    m_.error = "score: expected a place below " + std::to_string(tokens) + " and an id below " +
               std::to_string(m_.shape.vocab) + ", got " + std::to_string(scores.places[i]) +
               " and " + std::to_string(scores.ids[i]);
    return false;
  }
  scores_ = &scores;
  // Logits are wide: those of a few tokens exist at once.
  for (scored_ = 0; scored_ < scores.count; scored_ += kOwnOutputs) {
    int here = std::min(kOwnOutputs, scores.count - scored_);
    outputs_.assign(scores.places + scored_, scores.places + scored_ + here);
    size_t needed = (size_t)here * m_.shape.vocab;
    if (m_.logits.bytes() < needed * sizeof(float)) m_.logits.allocate(needed);
    logits_ = m_.logits.get();
    thread_best_.assign(m_.shape.threads, std::vector<Best>(here, {-INFINITY, 0}));
    next_row_.store(0);
    since_ = now();
    m_.pool.run(enter_score, this, m_.shape.threads);
  }
  return true;
}

void Step::enter_score(void* step, int thread, int threads) {
  static_cast<Step*>(step)->score(thread, threads);
}

void Step::score(int thread, int threads) {
  outputs(thread, threads);
  pass(thread, threads);
  for (;;) {
    int at = next_row_.fetch_add(1, std::memory_order_relaxed);
    if (at >= (int)outputs_.size()) break;
    size_t top = (size_t)(scored_ + at) * scores_->alternatives;
    Report report = {0, 0, scores_->top_ids + top, scores_->top_values + top, scores_->alternatives};
    isa_.report(logits_ + (size_t)at * m_.shape.vocab, m_.shape.vocab, scores_->ids[scored_ + at],
                report);
    scores_->logprobs[scored_ + at] = report.logprob;
    scores_->ranks[scored_ + at] = report.rank;
  }
  lap(thread, kChoose);
}

}  // namespace native
