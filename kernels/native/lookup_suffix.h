// Drafts from suffix trees, of the request's own tokens and of what ended ones generated.
#pragma once

#include <memory>
#include <unordered_map>

#include "lookup.h"

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
