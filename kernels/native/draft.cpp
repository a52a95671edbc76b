// Drafts by the network's own first layers: steps of one token a row, whose tokens are put behind the text,
// and the text's end put back. They are drawn with the noise that the verifying step draws with, so that
// both tend to agree. Keys and values that they leave in the cache are those which that step writes again.
#include <algorithm>
#include <vector>

#include "step.h"

namespace native {
namespace {

// One more token of each of these slots.
bool guess(Model& model, Step& step, const std::vector<int32_t>& slots, int layers) {
  size_t count = slots.size();
  std::vector<int32_t> ones(count, 1), unknown(count, -1), none(count, 0), counts(count), ids(count);
  Rows rows = {(int32_t)count, slots.data(), ones.data(), unknown.data(), ones.data(), none.data(), nullptr};
  Chosen chosen = {counts.data(), ids.data(), nullptr, nullptr, nullptr, nullptr, 0};
  return step.run(rows, chosen, layers);
}

}  // namespace

bool draft(Model& model, Steps& steps, int rows, const int32_t* slots, const int32_t* counts, int layers) {
  if (layers < 1 || layers > model.shape.layers) {
    model.error = "draft: expected 1 to " + std::to_string(model.shape.layers) + " layers, got " +
                  std::to_string(layers);
    return false;
  }
  for (int i = 0; i < rows; ++i) model.slots.check(slots[i]);
  std::vector<TextEnd> ends;
  std::vector<int32_t> computed;
  for (int i = 0; i < rows; ++i) {
    ends.push_back(model.slots.end(slots[i]));
    computed.push_back(model.slots[slots[i]].computed);
  }
  int most = rows ? *std::max_element(counts, counts + rows) : 0;
  bool good = true;
  for (int drafted = 0; good && drafted < most; ++drafted) {
    std::vector<int32_t> which;
    for (int i = 0; i < rows; ++i)
      if (counts[i] > drafted) which.push_back(slots[i]);
    good = guess(model, steps.next(), which, layers);
  }
  for (int i = 0; i < rows; ++i) {
    model.slots.rewind(slots[i], ends[i]);
    model.slots[slots[i]].computed = computed[i];
  }
  return good;
}

}  // namespace native
