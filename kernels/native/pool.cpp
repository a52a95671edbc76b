#include "pool.h"

#include <sched.h>

namespace native {
namespace {

inline void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Pool::Pool(int threads) : threads_(threads) {
  for (int i = 1; i < threads_; ++i) others_.emplace_back([this, i] { serve(i); });
}

Pool::~Pool() {
  {
    std::lock_guard<std::mutex> hold(mutex_);
    stop_ = true;
    round_.fetch_add(1);
  }
  wake_.notify_all();
  for (std::thread& thread : others_) thread.join();
}

void Pool::run(void (*work)(void*, int, int), void* context, int n) {
  work_ = work;
  context_ = context;
  running_ = n;
  done_.store(0, std::memory_order_relaxed);
  if (n > 1) {
    round_.fetch_add(1);
    if (sleepers_.load()) {
      std::lock_guard<std::mutex> hold(mutex_);
      wake_.notify_all();
    }
  }
  work(context, 0, n);
  if (n == 1) return;
  // Every thread answers, those without a part too: the next round may not begin before they know.
  for (int spins = 0; done_.load(std::memory_order_acquire) < threads_ - 1;) {
    pause_cpu();
    if (++spins > kPauses) sched_yield();
  }
}

void Pool::barrier(int n) {
  if (n == 1) return;
  uint32_t before = passed_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == n - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    passed_.store(before + 1, std::memory_order_release);
    return;
  }
  for (int spins = 0; passed_.load(std::memory_order_acquire) == before;) {
    pause_cpu();
    if (++spins > kPauses) sched_yield();
  }
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
    ++seen;
    if (stop_) return;
    if (index < running_) work_(context_, index, running_);
    done_.fetch_add(1, std::memory_order_release);
  }
}

}  // namespace native
