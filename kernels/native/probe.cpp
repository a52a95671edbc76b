// How fast this machine reads memory: what no step can beat.
#include <chrono>
#include <exception>
#include <memory>

#include "abi.h"
#include "isa.h"
#include "memory.h"
#include "pool.h"

namespace native {
namespace {

using Clock = std::chrono::steady_clock;

// A pass over memory, of which every thread of a pool reads a part.
struct Pass : Job {
  Pass(const Isa& set, Pool& pool, Buffer<uint8_t>& memory, size_t bytes)
      : set(set), pool(pool), memory(memory), bytes(bytes) {}

  void work(Walk& walk) override {
    int parts = 16 * walk.threads;
    size_t each = bytes / (size_t)parts / 4096 * 4096;
    pool.parts(walk, parts, [&](int part) {
      memory[part * each] = 1;
      uint64_t sum = set.read(memory.get() + part * each, each);
      // Stored where the compiler cannot see that nobody looks.
      __atomic_fetch_xor(&seen, sum, __ATOMIC_RELAXED);
    });
  }

  const Isa& set;
  Pool& pool;
  Buffer<uint8_t>& memory;
  size_t bytes;
  uint64_t seen = 0;
};

}  // namespace
}  // namespace native

using namespace native;

// Seconds of each pass over so many bytes, which the threads share; pages are mapped before the first.
// 1 where memory or threads do not suffice.
NATIVE_API int32_t native_probe_read(const char* isa, int32_t threads, uint64_t bytes, int32_t passes,
                                     double* seconds) {
  try {
    Buffer<uint8_t> memory((size_t)bytes);
    for (size_t i = 0; i < bytes; i += 4096) memory[i] = (uint8_t)i;
    Pool pool(threads);
    const Isa& set = *find_isa(isa);
    pool.run(std::make_shared<Pass>(set, pool, memory, (size_t)bytes));
    for (int i = 0; i < passes; ++i) {
      auto begun = Clock::now();
      pool.run(std::make_shared<Pass>(set, pool, memory, (size_t)bytes));
      seconds[i] = std::chrono::duration<double>(Clock::now() - begun).count();
    }
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}
