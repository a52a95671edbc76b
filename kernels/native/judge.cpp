// Verification by chance: a draft is accepted as likely as the target would have drawn it, and what
// replaces a rejected one is drawn from what is left. Drafts are certain here: whoever made them gave no
// probabilities. Noise is that of the other paths: of seed, begin of the round and position.
#include <vector>

#include "step.h"

namespace native {
namespace {

// Of drafts judged as a block, how many are accepted. weight: how likely all of a prefix would have been
// drawn. Each prefix has a chance of its own to be the one that is kept; the longest kept one is.
int kept_together(const std::vector<double>& likely, const Isa& isa, int64_t seed, int32_t begin) {
  int accepted = 0, drafts = (int)likely.size();
  double weight = 1;
  for (int i = 0; i < drafts; ++i) {
    weight *= likely[i];
    double chance = weight;
    if (i + 1 < drafts) {
      double rest = weight * (1 - likely[i + 1]), all = rest + 1 - weight;
      chance = all > 0 ? rest / all : 1;
    }
    if (isa.verdict(seed, begin, begin + i) < chance) accepted = i + 1;
  }
  return accepted;
}

}  // namespace

int Step::judge_row(int index, int thread) {
  const Row& row = rows_[index];
  Slot& slot = m_.slots[row.slot];
  int output = first_output_[index], begin = slot.known, taken = 0;
  bool block = m_.shape.verify == Verify::block;
  int64_t seed = slot.choice.seed;
  const int32_t* ids = m_.slots.ids(row.slot) + begin;
  std::vector<int32_t> drafts(ids, ids + row.drafts);
  std::vector<double> likely;
  std::vector<TextEnd> ends = {m_.slots.end(row.slot)};
  // Each place is asked with the drafts before it in the text, as penalties want it.
  for (; taken < row.drafts; ++taken) {
    likely.push_back(isa_.likelihood(choice_at(row, output + taken, thread), drafts[taken]));
    if (!block && !(isa_.verdict(seed, begin, begin + taken) < likely.back())) break;
    yield(row, output + taken, drafts[taken]);
    ends.push_back(m_.slots.end(row.slot));
  }
  int accepted = block ? kept_together(likely, isa_, seed, begin) : taken;
  m_.slots.rewind(row.slot, ends[accepted]);
  ChooseWork last = choice_at(row, output + accepted, thread);
  if (accepted < row.drafts) {
    last.without = drafts[accepted];
    last.seed = isa_.residual_seed(seed, begin);
  }
  yield(row, output + accepted, isa_.choose(last));
  return accepted + 1;
}

}  // namespace native
