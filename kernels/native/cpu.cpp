// Which instruction sets this machine has.
#include <cstring>

#include "isa.h"

#ifdef NATIVE_X86
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace native {
namespace {

#ifdef NATIVE_X86
struct Leaf {
  unsigned a = 0, b = 0, c = 0, d = 0;
  Leaf(unsigned leaf, unsigned sub) { __get_cpuid_count(leaf, sub, &a, &b, &c, &d); }
};

bool has(unsigned word, int bit) { return word >> bit & 1; }

// Whether the system keeps these registers over a switch of threads.
bool saves(unsigned mask) {
  if (!has(Leaf(1, 0).c, 27)) return false;
  unsigned low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & mask) == mask;
}

bool runs_avx2() {
  Leaf one(1, 0), seven(7, 0);
  return saves(0x6) && has(seven.b, 5) && has(one.c, 12) && has(one.c, 29);
}

bool runs_avxvnni() { return runs_avx2() && has(Leaf(7, 1).a, 4); }

bool runs_avx512() {
  Leaf seven(7, 0);
  bool base = has(seven.b, 16) && has(seven.b, 17) && has(seven.b, 30) && has(seven.b, 31);
  return runs_avx2() && saves(0xe6) && base && has(seven.c, 11) && has(Leaf(7, 1).a, 5);
}

// Linux keeps these registers only for a process that has asked for them. It refuses where a signal stack
// is too small to save them on.
bool runs_amx() {
  constexpr int kRequest = 0x1023, kTileData = 18;
  Leaf seven(7, 0);
  bool base = has(seven.d, 22) && has(seven.d, 24) && has(seven.d, 25);
  return runs_avx512() && base && saves(0x60000) && !syscall(SYS_arch_prctl, kRequest, kTileData);
}
#endif

bool runs_anywhere() { return true; }

struct Candidate {
  const Isa* isa;
  bool (*runs)();
};

// Best first. The compiler may know fewer than the processor.
const Candidate kCandidates[] = {
#ifdef NATIVE_ISA_AMX
    {&kAmx, runs_amx},
#endif
#ifdef NATIVE_ISA_AVX512
    {&kAvx512, runs_avx512},
#endif
#ifdef NATIVE_ISA_AVXVNNI
    {&kAvxVnni, runs_avxvnni},
#endif
#ifdef NATIVE_ISA_AVX2
    {&kAvx2, runs_avx2},
#endif
    {&kPortable, runs_anywhere},
};

}  // namespace

bool is_built(const char* name) {
  for (const Candidate& candidate : kCandidates)
    if (!std::strcmp(name, candidate.isa->name)) return true;
  return false;
}

const Isa* find_isa(const char* name) {
  for (const Candidate& candidate : kCandidates)
    if ((!*name || !std::strcmp(name, candidate.isa->name)) && candidate.runs())
      return candidate.isa;
  return nullptr;
}

}  // namespace native
