// Other processes that compute on the same cores, as two engines on one machine do. Each says so by a lock
// on the root of /proc, which is one file for all who know each other by number: nothing is written, nobody
// waits, and the system takes the lock back from a process that dies.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>

namespace native {

// How many of its threads one of several engines takes, so that all together are about as many as there are
// cores: of the cores a part for each thread that wants one.
class Portion {
 public:
  // others: threads of other processes that compute now. at: seconds, of a clock that goes on.
  int of(int threads, double others, double at);

 private:
  double believed_ = 0, last_ = 0;
};

// What processes tell each other.
class Neighbours {
 public:
  explicit Neighbours(const char* place);
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;

  // Those of this process, for as long as somebody holds them.
  static std::shared_ptr<Neighbours> shared();

  // Whether the system lets processes tell each other.
  bool tells() const { return file_ >= 0; }
  // So many threads more, or fewer, compute in this process.
  void computes(int more);
  // Threads that compute in other processes. Of one that may use other cores too, a part.
  double others() const;
  // How many of its threads an engine takes now.
  int part_of(int threads);

 private:
  int held() const;
  bool lock(short type, off_t from, off_t to) const;

  int file_;
  std::mutex mutex_;
  int threads_ = 0;
  Portion portion_;
};

// While it lives, this process computes with so many threads more.
class Computing {
 public:
  Computing(Neighbours& told, int threads) : told_(told), threads_(threads) { told_.computes(threads_); }
  ~Computing() { told_.computes(-threads_); }
  Computing(const Computing&) = delete;

 private:
  Neighbours& told_;
  int threads_;
};

}  // namespace native
