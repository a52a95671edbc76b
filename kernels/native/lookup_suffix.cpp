// See lookup_suffix.h, and actors/proposer/suffix*.py for the same in Python.
#include "lookup_suffix.h"

#include <algorithm>
#include <cstring>

namespace native {

// As in actors/proposer: each of these decides on drafts.
constexpr size_t PLACES = 32;      // of a node, the latest: enough to judge its children by
constexpr int32_t END = -1;        // behind each text: it is no token, so nothing matches across it
constexpr size_t MOST_SALTS = 256;  // of which texts are remembered
constexpr uint32_t LEFT = 0x9E3779B1, RIGHT = 0x85EBCA6B;

uint32_t Tree::bucket(int32_t left, int32_t right) const {
  return ((uint32_t(left) * LEFT) ^ (uint32_t(right) * RIGHT)) * LEFT >> shift_;
}

void Tree::allocate(size_t capacity) {
  int bits = 1;
  while ((size_t(1) << bits) < capacity) ++bits;
  const size_t wider = size_t(1) << bits;
  Ints tokens(new int32_t[wider]), links(new int32_t[wider]), heads(new int32_t[wider]);
  if (size_) std::memcpy(tokens.get(), tokens_.get(), size_ * sizeof(int32_t));
  std::fill_n(heads.get(), wider, -1);
  tokens_ = std::move(tokens), links_ = std::move(links), heads_ = std::move(heads);
  capacity_ = wider, shift_ = 32 - bits;
  link(1, size_);
}

void Tree::link(size_t start, size_t stop) {
  for (size_t at = start; at < stop; ++at) {
    int32_t& head = heads_[bucket(tokens_[at - 1], tokens_[at])];
    links_[at] = head;
    head = int32_t(at);
  }
}

void Tree::append(const int32_t* ids, size_t count) {
  if (!count) return;
  if (size_ + count > capacity_) allocate(size_ + count);
  std::memcpy(tokens_.get() + size_, ids, count * sizeof(int32_t));
  size_ += count;
  link(std::max<size_t>(size_ - count, 1), size_);
}

size_t Shared::size() const {
  size_t total = 0;
  for (const auto& tree : trees) total += tree->size();
  return total;
}

size_t Shared::bytes() const {
  size_t total = 0;
  for (const auto& tree : trees) total += tree->bytes();
  return total;
}

// Of a long text its end.
void Shared::add(std::vector<int32_t> text, size_t half) {
  if (half < 1) return;
  if (text.size() > half - 1) text.erase(text.begin(), text.end() - ptrdiff_t(half - 1));
  text.push_back(END);
  if (trees.empty() || trees.back()->size() + text.size() > half) {
    if (trees.size() > 1) trees.erase(trees.begin());
    trees.push_back(std::make_unique<Tree>(text.size()));
  }
  trees.back()->append(text.data(), text.size());
}

void SuffixLookup::open(int32_t slot, const std::string* salt, const int32_t* ids, size_t count) {
  Tree tree(count + count / 2);
  tree.append(ids, count);
  requests_.erase(slot);
  requests_.emplace(slot, Request{std::move(tree), count, salt != nullptr, salt ? *salt : ""});
}

void SuffixLookup::close(int32_t slot) {
  const auto found = requests_.find(slot);
  if (found == requests_.end()) return;
  const Request request = std::move(found->second);
  requests_.erase(found);
  const size_t size = request.tree.size();
  if (!request.shares || size <= request.opened) return;
  const size_t start = request.opened - std::min(request.opened, depth_);
  remember(request.salt, {request.tree.tokens() + start, request.tree.tokens() + size});
}

void SuffixLookup::accepted(int32_t slot, const int32_t* ids, size_t count) {
  requests_.at(slot).tree.append(ids, count);
}

int32_t SuffixLookup::propose(int32_t slot, int32_t most, int32_t* out) {
  const Request& request = requests_.at(slot);
  best_.ids.clear(), best_.expected = 0;
  if (request.tree.size() < 2 || most < 1) return 0;
  walk(request.tree, request, request.tree.size() - 1, most);
  std::swap(best_, walk_);
  if (request.shares) {
    const auto shared = salts_.find(request.salt);
    if (shared != salts_.end())
      for (const auto& tree : shared->second.trees) {
        walk(*tree, request, tree->size(), most);
        if (walk_.expected > best_.expected) std::swap(best_, walk_);
      }
  }
  std::copy(best_.ids.begin(), best_.ids.end(), out);
  return int32_t(best_.ids.size());
}

// Fills walk_ with at most `count` drafts behind the request's last tokens, as long as each is accepted
// with the least probability. before: places of the tree from here on are not looked at.
//
// A child that follows at c of the n places of a node whose string is L tokens long is accepted with
// probability c / (n + 1 / L).
void SuffixLookup::walk(const Tree& tree, const Request& request, size_t before, int32_t count) {
  walk_.ids.clear(), walk_.expected = 0;
  const size_t size = request.tree.size(), depth = std::min(depth_, size);
  const int32_t* last = request.tree.tokens() + size - 1;
  const int32_t* text = tree.tokens();
  int32_t places[PLACES];
  size_t found = 0, length = 0, seen = 0;
  for (int32_t at = tree.latest(last[-1], *last); at >= 0 && seen < PLACES; at = tree.before(at)) {
    if (size_t(at) >= before) continue;
    ++seen;
    if (text[at] != *last || text[at - 1] != last[-1]) continue;
    const size_t most = std::min(depth, size_t(at) + 1);
    size_t alike = 2;
    while (alike < most && text[at - ptrdiff_t(alike)] == last[-ptrdiff_t(alike)]) ++alike;
    if (alike > length) length = alike, found = 0;
    if (alike == length) places[found++] = at;
  }
  double likely = 1;
  for (int32_t next = 0; next < count && found; ++next) {
    int32_t children[PLACES], counts[PLACES];
    size_t kinds = 0, total = 0, best = 0;
    for (size_t i = 0; i < found; ++i) {
      const size_t at = size_t(places[i]) + 1 + size_t(next);
      const int32_t token = at < tree.size() ? text[at] : END;
      if (token == END) continue;
      const size_t kind = size_t(std::find(children, children + kinds, token) - children);
      if (kind == kinds) children[kinds] = token, counts[kinds++] = 0;
      ++counts[kind], ++total;
    }
    if (!total) break;
    // Ties go to the latest place, which comes first.
    for (size_t kind = 1; kind < kinds; ++kind)
      if (counts[kind] > counts[best]) best = kind;
    likely *= counts[best] / (double(total) + 1.0 / double(length + size_t(next)));
    if (likely < least_) break;
    walk_.ids.push_back(children[best]);
    walk_.expected += likely;
    size_t kept = 0;
    for (size_t i = 0; i < found; ++i) {
      const size_t at = size_t(places[i]) + 1 + size_t(next);
      if (at < tree.size() && text[at] == children[best]) places[kept++] = places[i];
    }
    found = kept;
  }
}

// The salt goes whose latest text is the oldest.
void SuffixLookup::remember(const std::string& salt, std::vector<int32_t> text) {
  if (capacity_ < 2) return;
  Shared& shared = salts_[salt];
  shared.newest = ++now_;
  shared.add(std::move(text), capacity_ / 2);
  while (remembered() > capacity_ || salts_.size() > MOST_SALTS) {
    const auto oldest = std::min_element(salts_.begin(), salts_.end(), [](const auto& a, const auto& b) {
      return a.second.newest < b.second.newest;
    });
    salts_.erase(oldest);
  }
}

// Counted anew, so that a text for which memory did not suffice leaves no wrong sum behind.
size_t SuffixLookup::remembered() const {
  size_t total = 0;
  for (const auto& [salt, shared] : salts_) total += shared.size();
  return total;
}

size_t SuffixLookup::bytes() const {
  size_t total = 0;
  for (const auto& [slot, request] : requests_) total += request.tree.bytes();
  for (const auto& [salt, shared] : salts_) total += shared.bytes();
  return total;
}

}  // namespace native
