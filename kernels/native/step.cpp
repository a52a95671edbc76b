#include "step.h"

#include <algorithm>
#include <cmath>

namespace native {

Step::Step(Model& model) : m_(model), isa_(model.isa) { m_.steps.fetch_add(1); }

bool Step::run(const Rows& rows, const Chosen& chosen, int layers) {
  if (!prepare(rows, false)) return false;
  layers_ = layers;
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
  layers_ = m_.shape.layers;
  chosen_ = nullptr;
  logits_ = logits;
  start();
  return true;
}

void Step::start() {
  m_.tokens = (int)ids_.size();
  thread_best_.assign(threads_, std::vector<Best>(outputs_.size(), {-INFINITY, 0}));
  since_ = now();
  waited_ = 0;
  if (!ids_.empty()) m_.pool.run(shared_from_this(), m_.profile.timed, threads_);
  for (const Row& row : rows_)
    if (!chosen_ || !row.samples) m_.slots[row.slot].computed = row.start + row.queries;
}

bool Step::prepare(const Rows& rows, bool every) {
  threads_ = m_.take_threads();
  rows_.clear();
  outputs_.clear();
  first_output_.clear();
  sampling_.clear();
  int tokens = 0;
  for (int i = 0; i < rows.rows; ++i) {
    Row row = {rows.slots[i],  0, rows.queries[i], rows.drafts ? rows.drafts[i] : 0,
               tokens, rows.samples[i] != 0};
    m_.slots.check(row.slot);
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
  if (row.drafts < 0 || row.queries <= row.drafts) {
    m_.error = where + "expected a query of a token more than its drafts, got " +
               std::to_string(row.queries) + " with " + std::to_string(row.drafts);
    return false;
  }
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
    for (int d = 0; draft && d < row.drafts; ++d) {
      m_.slots.check_id(*draft);
      ids[known + d] = *draft++;
    }
    for (int q = 0; q < row.queries; ++q) {
      ids_.push_back(ids[row.start + q]);
      positions_.push_back(row.start + q);
      row_of_.push_back((int)i);
    }
  }
}

void Step::work(Walk& walk) {
  if (scores_) return score(walk);
  embed(walk);
  for (int i = 0; i < layers_; ++i) {
    layer(walk, i);
    // By now the others are there: whoever is woken takes a core, and that one is not missed.
    if (walk.thread == 0) m_.tell_begun();
  }
  if (outputs_.empty()) return;
  outputs(walk);
  if (chosen_) choose(walk);
}

void Step::lap(Walk& walk, Phase phase) {
  if (!walk.timed) return;
  double at = now(), waited = walk.waited - waited_;
  m_.profile.seconds[phase] += at - since_ - waited;
  m_.profile.seconds[kWait] += waited;
  since_ = at;
  waited_ = walk.waited;
}

void Step::choose(Walk& walk) {
  int rows = (int)sampling_.size(), parts = std::min(rows, Pool::kMostParts);
  m_.pool.parts(walk, parts, [&](int part) {
    for (int i = share(rows, part, parts); i < share(rows, part + 1, parts); ++i)
      chosen_->counts[i] = choose_row(sampling_[i], walk.thread);
  });
  lap(walk, kChoose);
}

// The likeliest token behind an output, of equals the first.
Best Step::best_of(int output) const {
  Best best = thread_best_[0][output];
  for (size_t t = 1; t < thread_best_.size(); ++t) {
    const Best& other = thread_best_[t][output];
    if (std::isnan(other.value)) return other;
    if (other.value > best.value || (other.value == best.value && other.id < best.id)) best = other;
  }
  return best;
}

// What the next token of a row is chosen from, behind an output.
ChooseWork Step::choice_at(const Row& row, int output, int thread) const {
  const Slot& slot = m_.slots[row.slot];
  return {logits_ ? logits_ + (size_t)output * m_.shape.vocab : nullptr,
          m_.workspaces[thread]->choice.get(),
          m_.shape.vocab,
          &slot.choice,
          slot.known,
          slot.known - slot.choice.prompt_len,
          slot.seen_ids.data(),
          slot.seen_counts.data(),
          (int)slot.seen_ids.size(),
          best_of(output),
          slot.choice.seed,
          -1};
}

int Step::choose_row(int index, int thread) {
  const Row& row = rows_[index];
  Slot& slot = m_.slots[row.slot];
  bool judged = m_.shape.verify != Verify::sample && row.drafts && slot.choice.temperature > 0;
  int count = judged ? judge_row(index, thread) : compare_row(index, thread);
  slot.computed = row.start + row.queries - row.drafts + count - 1;
  return count;
}

// Draws a token behind each query token of interest for as long as the drafts are what was drawn.
int Step::compare_row(int index, int thread) {
  const Row& row = rows_[index];
  int output = first_output_[index];
  const int32_t* drafts = m_.slots.ids(row.slot) + m_.slots[row.slot].known;
  for (int count = 0;; ++count, ++output) {
    int32_t draft = count < row.drafts ? drafts[count] : -1;
    int32_t id = isa_.choose(choice_at(row, output, thread));
    yield(row, output, id);
    if (id != draft) return count + 1;
  }
}

// A token of the row, and what is said of it. Behind kNoToken, which ends the request, the text goes on
// with any token: steps may be under way already.
void Step::yield(const Row& row, int output, int32_t id) {
  chosen_->ids[output] = id;
  bool reported = m_.slots[row.slot].choice.alternatives >= 0 && chosen_->logprobs;
  if (reported && id >= 0) report(row, output, id);
  m_.slots.append(row.slot, std::max(id, 0));
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
