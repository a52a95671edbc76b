// How fast this machine reads memory and multiplies: what no step can beat.
#include <time.h>

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

double processor_seconds() {
  struct timespec had;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &had);
  return (double)had.tv_sec + 1e-9 * (double)had.tv_nsec;
}

// A pass over memory, of which every thread of a pool reads a part.
struct Pass : Job {
  Pass(const Isa& set, Pool& pool, Buffer<uint8_t>& memory, size_t bytes)
      : set(set), pool(pool), memory(memory), bytes(bytes) {}

  void work(Walk& walk) override {
    int parts = pool.pieces(Pool::kMostParts, 16);
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

// Multiplications of every thread at once, each in its own lines.
struct Spin : Job {
  Spin(const Isa& set, Pool& pool, Format format, uint64_t rounds)
      : set(set), pool(pool), format(format), rounds(rounds), parts(pool.pieces(Pool::kMostParts, kSpins)),
        lines(256 * (size_t)pool.threads()) {}

  void work(Walk& walk) override {
    pool.parts(walk, parts, [&](int) {
      uint64_t each = set.multiply_add(format, rounds, lines.get() + 256 * walk.thread);
      __atomic_store_n(&products, each, __ATOMIC_RELAXED);
    });
  }

  static constexpr int kSpins = 8;  // parts of a thread: one that is held up leaves the others more

  const Isa& set;
  Pool& pool;
  Format format;
  uint64_t rounds, products = 0;  // of a round
  int parts;
  Buffer<uint8_t> lines;
};

}  // namespace
}  // namespace native

using namespace native;

// Seconds of each pass over so many bytes, which the threads share, and seconds of processors that this
// process had meanwhile; pages are mapped before the first.
// 1 where memory or threads do not suffice.
NATIVE_API int32_t native_probe_read(const char* isa, int32_t threads, uint64_t bytes, int32_t passes,
                                     double* seconds, double* processors) {
  try {
    Buffer<uint8_t> memory((size_t)bytes);
    for (size_t i = 0; i < bytes; i += 4096) memory[i] = (uint8_t)i;
    Pool pool(threads);
    const Isa& set = *find_isa(isa);
    pool.run(std::make_shared<Pass>(set, pool, memory, (size_t)bytes));
    for (int i = 0; i < passes; ++i) {
      auto begun = Clock::now();
      double had = processor_seconds();
      pool.run(std::make_shared<Pass>(set, pool, memory, (size_t)bytes));
      seconds[i] = std::chrono::duration<double>(Clock::now() - begun).count();
      processors[i] = processor_seconds() - had;
    }
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}

// Products a second that threads make and add together out of registers, as a linear of this format
// does. 0 where threads do not suffice.
NATIVE_API double native_probe_multiply(const char* isa, int32_t threads, Format format,
                                        uint64_t rounds) {
  try {
    Pool pool(threads);
    auto spin = std::make_shared<Spin>(*find_isa(isa), pool, format, rounds);
    pool.run(spin);
    auto begun = Clock::now();
    pool.run(spin);
    double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    return (double)(spin->products * rounds * (uint64_t)spin->parts) / seconds;
  } catch (const std::exception&) {
    return 0;
  }
}
