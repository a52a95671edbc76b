// Drafts that are looked up: in the tokens of a request, and in those of requests that have ended.
// Nothing here knows of models or devices. actors/proposer says the same in Python, draft for draft.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace native {

// Texts one behind the other. A node is the set of places where its string occurs, found through chains:
// each place knows the one before it that begins with the same pair of tokens, or one of its bucket.
class Tree {
 public:
  explicit Tree(size_t capacity) { allocate(capacity); }

  size_t size() const { return size_; }
  size_t bytes() const { return 3 * sizeof(int32_t) * capacity_; }
  const int32_t* tokens() const { return tokens_.get(); }
  int32_t before(int32_t place) const { return links_[place]; }

  // The latest place of the bucket of a pair, -1 where there is none.
  int32_t latest(int32_t left, int32_t right) const { return heads_[bucket(left, right)]; }
  void append(const int32_t* ids, size_t count);

 private:
  using Ints = std::unique_ptr<int32_t[]>;

  uint32_t bucket(int32_t left, int32_t right) const;
  void allocate(size_t capacity);
  void link(size_t start, size_t stop);

  size_t size_ = 0, capacity_ = 0;
  int shift_ = 0;
  Ints tokens_, links_, heads_;
};

// Drafts, and how many of them are accepted by estimate.
struct Walk {
  std::vector<int32_t> ids;
  double expected = 0;
};

// The latest tokens of ended texts, in two trees: the elder is dropped whole.
struct Shared {
  std::vector<std::unique_ptr<Tree>> trees;
  uint64_t newest = 0;  // when its latest text came

  size_t size() const;
  size_t bytes() const;
  void add(std::vector<int32_t> text, size_t half);
};

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

class SuffixLookup final : public Lookup {
 public:
  SuffixLookup(size_t depth, size_t capacity, double least)
      : depth_(depth), capacity_(capacity), least_(least) {}

  void open(int32_t slot, const std::string* salt, const int32_t* ids, size_t count) override;
  void close(int32_t slot) override;
  void accepted(int32_t slot, const int32_t* ids, size_t count) override;
  int32_t propose(int32_t slot, int32_t most, int32_t* out) override;
  size_t bytes() const override;

 private:
  // opened: tokens that it had then: what came later is remembered for others.
  struct Request {
    Tree tree;
    size_t opened;
    bool shares;
    std::string salt;
  };

  void remember(const std::string& salt, std::vector<int32_t> text);
  size_t remembered() const;  // tokens of all salts
  void walk(const Tree& tree, const Request& request, size_t before, int32_t count);

  size_t depth_, capacity_;
  double least_;
  uint64_t now_ = 0;
  std::unordered_map<int32_t, Request> requests_;
  std::unordered_map<std::string, Shared> salts_;
  Walk walk_, best_;
};

}  // namespace native
