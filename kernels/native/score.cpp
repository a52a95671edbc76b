// How likely given tokens are behind query tokens of the step that ran last, whose residual stream is
// still there.
#include <algorithm>
#include <cmath>

#include "step.h"

namespace native {

// Logits are wide: those of a few tokens exist at once. A step of its own for each few: a thread that
// came late may still look at the one before.
bool score(Model& model, const Scores& scores) {
  for (int i = 0; i < scores.count; ++i) {
    bool good = scores.places[i] >= 0 && scores.places[i] < model.tokens && scores.ids[i] >= 0 &&
                scores.ids[i] < model.shape.vocab;
    if (good) continue;
    model.error = "score: expected a place below " + std::to_string(model.tokens) +
                  " and an id below " + std::to_string(model.shape.vocab) + ", got " +
                  std::to_string(scores.places[i]) + " and " + std::to_string(scores.ids[i]);
    return false;
  }
  for (int first = 0; first < scores.count; first += kOwnOutputs)
    std::make_shared<Step>(model)->score(scores, first, std::min(kOwnOutputs, scores.count - first));
  return true;
}

void Step::score(const Scores& scores, int first, int count) {
  threads_ = m_.take_threads();
  scores_ = &scores;
  first_score_ = first;
  outputs_.assign(scores.places + first, scores.places + first + count);
  size_t needed = (size_t)count * m_.shape.vocab;
  if (m_.logits.bytes() < needed * sizeof(float)) m_.logits.allocate(needed);
  logits_ = m_.logits.get();
  thread_best_.assign(threads_, std::vector<Best>(count, {-INFINITY, 0}));
  since_ = now();
  m_.pool.run(shared_from_this(), m_.profile.timed, threads_);
}

void Step::score(Walk& walk) {
  outputs(walk);
  m_.pool.parts(walk, (int)outputs_.size(), [&](int part) {
    int at = first_score_ + part;
    size_t top = (size_t)at * scores_->alternatives;
    Report report = {0, 0, scores_->top_ids + top, scores_->top_values + top, scores_->alternatives};
    isa_.report(logits_ + (size_t)part * m_.shape.vocab, m_.shape.vocab, scores_->ids[at], report);
    scores_->logprobs[at] = report.logprob;
    scores_->ranks[at] = report.rank;
  });
  lap(walk, kChoose);
}

}  // namespace native
