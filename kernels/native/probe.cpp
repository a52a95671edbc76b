// How fast this machine reads memory: what no step can beat.
#include <chrono>
#include <new>

#include "abi.h"
#include "isa.h"
#include "memory.h"
#include "pool.h"

namespace native {
namespace {

using Clock = std::chrono::steady_clock;

// Memory that every thread of a pool reads a part of.
struct Read {
  const Isa& set;
  Pool& pool;
  Buffer<uint8_t> memory;
  size_t bytes;
  uint64_t seen = 0;

  static void part(void* context, int index, int threads) {
    Read& self = *static_cast<Read*>(context);
    size_t each = self.bytes / (size_t)threads / 4096 * 4096;
    self.memory[index * each] = 1;
    uint64_t sum = self.set.read(self.memory.get() + index * each, each);
    // Stored where the compiler cannot see that nobody looks.
    __atomic_fetch_xor(&self.seen, sum, __ATOMIC_RELAXED);
  }
};

}  // namespace
}  // namespace native

using namespace native;

// Seconds of each pass over so many bytes, which the threads share; pages are mapped before the first.
// 1 where memory or threads do not suffice.
NATIVE_API int32_t native_probe_read(const char* isa, int32_t threads, uint64_t bytes, int32_t passes,
                                     double* seconds) {
  try {
    Pool pool(threads);
    Read read = {*find_isa(isa), pool, Buffer<uint8_t>((size_t)bytes), (size_t)bytes};
    for (size_t i = 0; i < bytes; i += 4096) read.memory[i] = (uint8_t)i;
    pool.run(Read::part, &read, threads);
    for (int i = 0; i < passes; ++i) {
      auto begun = Clock::now();
      pool.run(Read::part, &read, threads);
      seconds[i] = std::chrono::duration<double>(Clock::now() - begun).count();
    }
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}
