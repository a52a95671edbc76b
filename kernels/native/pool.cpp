#include "pool.h"

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <map>
#include <stdexcept>
#include <string>

namespace native {
namespace {

inline void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whose turn it is. Who holds the gate is next: it waits there for the turn, and the others for the gate.
std::mutex gate, turn;

int checked(int threads) {
  if (threads >= 1 && threads <= Pool::kMostThreads) return threads;
  throw std::invalid_argument("threads: expected 1 to " + std::to_string(Pool::kMostThreads) + ", got " +
                              std::to_string(threads));
}

}  // namespace

std::shared_ptr<Pool> Pool::shared(int threads) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<Pool>> pools;
  std::lock_guard<std::mutex> hold(mutex);
  std::shared_ptr<Pool> found = pools[threads].lock();
  if (!found) pools[threads] = found = std::make_shared<Pool>(threads);
  return found;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Pool::Pool(int threads) : threads_(checked(threads)), members_(new Member[threads]) {
  end_.threads = threads;
  try {
    for (int i = 1; i < threads_; ++i) {
      others_.emplace_back([this, i] { serve(i); });
      pthread_setname_np(others_.back().native_handle(), "optimist-native");
    }
  } catch (...) {
    stop();  // those that the system has given
    throw;
  }
}

void Pool::stop() {
  {
    std::lock_guard<std::mutex> hold(mutex_);
    stop_ = true;
    round_.fetch_add(1);
  }
  wake_.notify_all();
  for (std::thread& thread : others_) thread.join();
  others_.clear();
}

void Pool::run(std::shared_ptr<Job> job, bool timed, int threads) {
  if (threads_ == 1) {
    Computing here(*neighbours_, 1);
    Walk alone;
    alone.timed = timed;
    return job->work(alone);
  }
  gate.lock();
  std::lock_guard<std::mutex> mine(turn);
  gate.unlock();
  Computing here(*neighbours_, threads_);  // all that it wants: others leave it room for them
  lead(job, timed, threads ? threads : threads_);
}

void Pool::lead(const std::shared_ptr<Job>& job, bool timed, int threads) {
  Walk walk = end_;
  walk.threads = threads;
  walk.waited = 0;
  walk.timed = timed;
  if (threads == 1) {
    job->work(walk);
    return;
  }
  {
    std::lock_guard<std::mutex> hold(job_mutex_);
    job_ = job;
    begin_ = walk;
    begin_.timed = false;
  }
  round_.fetch_add(1);
  if (sleepers_.load()) {
    std::lock_guard<std::mutex> hold(mutex_);
    wake_.notify_all();
  }
  job->work(walk);
  end_ = walk;
  std::lock_guard<std::mutex> hold(job_mutex_);
  job_.reset();
}

void Pool::serve(int index) {
  for (uint64_t seen = 0;;) {
    for (int spins = 0; round_.load(std::memory_order_acquire) == seen;) {
      pause_cpu();
      if (++spins < kIdlePauses) continue;
      std::unique_lock<std::mutex> hold(mutex_);
      sleepers_.fetch_add(1);
      wake_.wait(hold, [&] { return round_.load() != seen; });
      sleepers_.fetch_sub(1);
    }
    seen = round_.load();
    std::shared_ptr<Job> job;
    Walk walk;
    {
      std::lock_guard<std::mutex> hold(job_mutex_);
      job = job_;
      walk = begin_;
    }
    if (stop_) return;
    if (!job || index >= walk.threads) continue;
    walk.thread = index;
    job->work(walk);
  }
}

// Those who take no part have done parts of earlier jobs.
bool Pool::over(const Walk& walk) const {
  uint64_t done = 0;
  for (int i = 0; i < threads_; ++i) done += members_[i].done.load(std::memory_order_acquire);
  return done >= walk.goal;
}

void Pool::count_part(const Walk& walk) {
  std::atomic<uint64_t>& done = members_[walk.thread].done;
  done.store(done.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

// A part of another thread's share.
int Pool::take_over(const Walk& walk, int count, bool patient) {
  for (int i = 1; i < walk.threads; ++i) {
    int part = take(walk, (walk.thread + i) % walk.threads, count, patient);
    if (part != kNone) return part;
  }
  return kNone;
}

// From the front of one's own share or of one whose thread has not come to this phase, from the end of
// another's. The last one is left to a thread that is there: it has it in its cache already.
int Pool::take(const Walk& walk, int member, int count, bool patient) {
  std::atomic<uint64_t>& range = members_[member].range;
  bool own = member == walk.thread;
  bool here = !own && members_[member].phase.load(std::memory_order_relaxed) == walk.phase;
  for (uint64_t seen = range.load(std::memory_order_acquire);;) {
    uint64_t phase = seen >> (2 * kBits);
    if (phase > walk.phase) return kNone;
    bool begun = phase == walk.phase;
    int low = begun ? (int)(seen >> kBits & kMostParts) : share(count, member, walk.threads);
    int high = begun ? (int)(seen & kMostParts) : share(count, member + 1, walk.threads);
    if (low == high || (here && patient && high - low < 2)) return kNone;
    int part = here ? --high : low++;
    uint64_t left = (walk.phase << kBits | low) << kBits | high;
    if (range.compare_exchange_weak(seen, left, std::memory_order_acq_rel)) return part;
  }
}

void Pool::rest(int spins) {
  if (spins > kRestless) pause_cpu();
  if (spins > kPauses) sched_yield();
}

}  // namespace native
