// A few threads that walk through the same phases together. A phase is cut into parts, and it is over
// when all of them are done, whoever did them: a thread that the system has taken off its core is not
// waited for. Others do what is left of its share, and even the part it is in the middle of, once
// more; whoever comes second throws away what it has. So a busy neighbour costs the time it takes and
// no more, and a thread that sleeps is of no concern until it is awake.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "neighbours.h"

namespace native {

// Where a thread is. phase: how many it has begun. goal: parts that are done when it is over. Both
// count on through the life of a pool.
struct Walk {
  int thread = 0, threads = 1;
  uint64_t phase = 0, goal = 0;
  bool timed = false;
  double waited = 0;  // seconds without a part to do, while timed
};

// What the threads of a pool do. It lives until the last of them has left it, which may be long after
// it was done: between two phases, nothing may be read but what belongs to the job or never changes.
class Job {
 public:
  virtual ~Job() = default;
  virtual void work(Walk& walk) = 0;
};

inline int share(int64_t all, int part, int parts) { return (int)(all * part / parts); }

double now();  // seconds

class Pool {
 public:
  // threads: the caller's included, at most kMostThreads. Throws std::invalid_argument for others.
  explicit Pool(int threads);
  ~Pool() { stop(); }
  Pool(const Pool&) = delete;

  // The pool of so many threads that everyone in this process shares, for as long as somebody holds it.
  static std::shared_ptr<Pool> shared(int threads);

  int threads() const { return threads_; }
  // How many of them a job should take now, so that the cores suffice for other processes, too.
  int part() const { return neighbours_->part_of(threads_); }

  // Work in the caller's thread, and in the others as they come. Returns when the last phase is over.
  // Callers of all pools of several threads take turns, in the order in which they came: two at once would
  // ask for more cores than there are. threads: that take part, 0 all of them.
  void run(std::shared_ptr<Job> job, bool timed = false, int threads = 0);
  // End the other threads. Nothing runs afterwards.
  void stop();

  // A phase of so many parts, at most kMostParts, each done once by act(part). What all of them wrote
  // is seen after it.
  template <typename Act>
  void parts(Walk& walk, int count, const Act& act) {
    phase(walk, count, [](int) { return size_t(0); }, [](int) {}, act, false);
  }
  // A phase whose parts may be computed twice: compute(part) writes where no other thread reads or
  // writes, commit(part) brings it home, once. bytes(part): of memory that it reads.
  template <typename Bytes, typename Compute, typename Commit>
  void parts(Walk& walk, int count, const Bytes& bytes, const Compute& compute, const Commit& commit) {
    phase(walk, count, bytes, compute, commit, true);
  }
  // Into how many parts to cut `all` small things: not more than `each` for every thread.
  int pieces(int64_t all, int each = 2) const {
    int most = each * threads_ < kMostParts ? each * threads_ : kMostParts;
    return (int)(all < most ? all : most);
  }

  // Numbers of parts have so many bits where threads take them from each other; a thread has one or more.
  static constexpr int kMostParts = 1023, kMostThreads = 512;

 private:
  static constexpr int kBits = 10;  // of a number of parts
  static constexpr int kNone = -1;
  enum State : uint64_t { kComputing = 1, kCommitting = 2, kTaken = 3 };

  // Written by its thread, and by those that help it.
  struct alignas(128) Member {
    std::atomic<uint64_t> range{0};  // phase, first part and end of those that nobody has begun
    std::atomic<uint64_t> held{0};   // phase, part and state of the one in work
    std::atomic<uint64_t> phase{0};  // in which it came last
    // Others look at it all the time while they wait: far from what its thread writes all the time.
    alignas(128) std::atomic<uint64_t> done{0};  // parts
  };

  template <typename Bytes, typename Compute, typename Commit>
  void phase(Walk& walk, int count, const Bytes& bytes, const Compute& compute, const Commit& commit,
             bool twice);
  template <typename Compute, typename Commit>
  void carry(const Walk& walk, int part, bool twice, const Compute& compute, const Commit& commit);
  template <typename Bytes, typename Compute, typename Commit>
  bool redo(const Walk& walk, int looks, const Bytes& bytes, const Compute& compute,
            const Commit& commit);
  bool over(const Walk& walk) const;
  int take_over(const Walk& walk, int count, bool patient);
  int take(const Walk& walk, int member, int count, bool patient);
  void count_part(const Walk& walk);
  void serve(int index);
  void lead(const std::shared_ptr<Job>& job, bool timed, int threads);
  static void rest(int spins);

  // Looks at whether it is over before a thread helps one that does not get on, before it lets the
  // system run somebody else, and before one without work goes to sleep. But for the first ones there
  // is a pause between them, which takes 20 to 100 ns.
  static constexpr int kPatience = 64;
  static constexpr int kRestless = 32;
  static constexpr int kPauses = 600;
  static constexpr int kIdlePauses = 2000;
  static constexpr int kLookAround = 16;  // of them one is at what others have left
  static constexpr size_t kBytesALook = 512;  // that a slow thread reads between two

  int threads_;
  std::shared_ptr<Neighbours> neighbours_ = Neighbours::shared();
  std::vector<std::thread> others_;
  std::unique_ptr<Member[]> members_;
  Walk end_;  // of the last run
  bool stop_ = false;

  std::mutex job_mutex_;
  std::shared_ptr<Job> job_;
  Walk begin_;  // of the job

  alignas(128) std::atomic<uint64_t> round_{0};
  alignas(128) std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
};

template <typename Bytes, typename Compute, typename Commit>
void Pool::phase(Walk& walk, int count, const Bytes& bytes, const Compute& compute,
                 const Commit& commit, bool twice) {
  ++walk.phase;
  walk.goal += count;
  if (walk.threads == 1) {
    for (int part = 0; part < count; ++part) {
      compute(part);
      commit(part);
    }
    return;
  }
  members_[walk.thread].phase.store(walk.phase, std::memory_order_relaxed);
  double since = 0;
  for (int part; (part = take(walk, walk.thread, count, false)) != kNone;)
    carry(walk, part, twice, compute, commit);
  for (int spins = 0; !over(walk); rest(++spins)) {
    if (!spins && walk.timed && since == 0) since = now();
    if (spins % kLookAround != kLookAround - 1) continue;
    int part = take_over(walk, count, spins < kPatience);
    if (part != kNone)
      carry(walk, part, twice, compute, commit);
    else if (!twice || spins < kPatience || !redo(walk, spins - kPatience, bytes, compute, commit))
      continue;
    spins = 0;
  }
  if (since != 0) walk.waited += now() - since;
}

template <typename Compute, typename Commit>
void Pool::carry(const Walk& walk, int part, bool twice, const Compute& compute,
                 const Commit& commit) {
  if (twice) {
    std::atomic<uint64_t>& held = members_[walk.thread].held;
    uint64_t mine = (walk.phase << kBits | part) << 2;
    uint64_t expected = mine | kComputing;
    held.store(expected, std::memory_order_release);
    compute(part);
    if (!held.compare_exchange_strong(expected, mine | kCommitting, std::memory_order_acq_rel)) return;
  }
  commit(part);
  count_part(walk);
}

// A part that another thread has begun, once more, if it takes longer than so many looks. False: there
// is none, or it was finished meanwhile.
template <typename Bytes, typename Compute, typename Commit>
bool Pool::redo(const Walk& walk, int looks, const Bytes& bytes, const Compute& compute,
                const Commit& commit) {
  for (int i = 1; i < walk.threads; ++i) {
    std::atomic<uint64_t>& held = members_[(walk.thread + i) % walk.threads].held;
    uint64_t seen = held.load(std::memory_order_acquire);
    if (seen >> (kBits + 2) != walk.phase || (seen & 3) != kComputing) continue;
    int part = (int)(seen >> 2 & kMostParts);
    if ((size_t)looks < bytes(part) / kBytesALook) continue;
    compute(part);
    if (!held.compare_exchange_strong(seen, seen | kTaken, std::memory_order_acq_rel)) continue;
    commit(part);
    count_part(walk);
    return true;
  }
  return false;
}

}  // namespace native
