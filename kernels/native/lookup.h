// Drafts that are looked up: in the tokens of a request, and in those of requests that have ended.
// Nothing here knows of models or devices. actors/proposer says the same in Python, draft for draft.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace native {

// How often drafts would have been asked for, how often there were some, how many were made up to the
// first wrong one, and how many were right.
struct Worth {
  int32_t asked = 0, offered = 0, drafted = 0, accepted = 0;
};

// Requests by slot. One thread at a time; what goes wrong is thrown.
class Lookup {
 public:
  virtual ~Lookup() = default;

  // A request is in the slot. salt: of those that it shares with, null: with nobody.
  virtual void open(int32_t slot, const std::string* salt, const int32_t* ids, size_t count) = 0;
  virtual void close(int32_t slot) = 0;
  virtual void accepted(int32_t slot, const int32_t* ids, size_t count) = 0;
  // Writes what may come next to `out`, at most so many. Returns how many.
  virtual int32_t propose(int32_t slot, int32_t most, int32_t* out) = 0;
  virtual size_t bytes() const = 0;

  // As `accepted`; and what drafts, so many at most, would have been worth meanwhile.
  Worth rehearse(int32_t slot, const int32_t* ids, int32_t count, int32_t most);

 private:
  std::vector<int32_t> tried_;
};

}  // namespace native
