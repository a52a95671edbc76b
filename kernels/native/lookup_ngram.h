// Drafts from the request's own tokens: what followed its last ones when they came before.
#pragma once

#include <unordered_map>

#include "lookup.h"

namespace native {

class NgramLookup final : public Lookup {
 public:
  NgramLookup(size_t shortest, size_t longest) : shortest_(shortest), longest_(longest) {}

  void open(int32_t slot, const std::string* salt, const int32_t* ids, size_t count) override;
  void close(int32_t slot) override { texts_.erase(slot); }
  void accepted(int32_t slot, const int32_t* ids, size_t count) override;
  int32_t propose(int32_t slot, int32_t most, int32_t* out) override;
  size_t bytes() const override;

 private:
  size_t match(const std::vector<int32_t>& text) const;

  size_t shortest_, longest_;
  std::unordered_map<int32_t, std::vector<int32_t>> texts_;
};

}  // namespace native
