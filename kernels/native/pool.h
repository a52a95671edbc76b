// A few threads that run the same function together and meet at barriers.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace native {

class Pool {
 public:
  // threads: the caller's included.
  explicit Pool(int threads);
  ~Pool();
  Pool(const Pool&) = delete;

  int threads() const { return threads_; }

  // Call work(context, i, n) in the first n threads, i = 0 in the caller's own, and wait for all.
  void run(void (*work)(void*, int, int), void* context, int n);

  // Wait until all n threads of the run are here. What they wrote before is seen after it.
  void barrier(int n);

 private:
  void serve(int index);

  // Pauses before a thread that waits for others of its run lets the system run somebody else, and
  // before one without work goes to sleep.
  static constexpr int kPauses = 4000;
  static constexpr int kIdlePauses = 20000;

  int threads_;
  std::vector<std::thread> others_;
  void (*work_)(void*, int, int) = nullptr;
  void* context_ = nullptr;
  int running_ = 1;
  bool stop_ = false;

  alignas(64) std::atomic<uint64_t> round_{0};
  alignas(64) std::atomic<int> done_{0};
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> passed_{0};
  alignas(64) std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
};

}  // namespace native
