#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace native {
namespace {

constexpr size_t kHuge = size_t(2) << 20;

size_t rounded(size_t bytes) {
  size_t unit = bytes >= kHuge ? kHuge : 4096;
  return (bytes + unit - 1) / unit * unit;
}

// Large pages need an address that is a multiple of their size: map more, give back what is over.
void* map_huge(size_t bytes) {
  char* all = static_cast<char*>(mmap(nullptr, bytes + kHuge, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (all == MAP_FAILED) throw std::bad_alloc();
  size_t before = (kHuge - reinterpret_cast<uintptr_t>(all) % kHuge) % kHuge;
  if (before) munmap(all, before);
  if (kHuge - before) munmap(all + before + bytes, kHuge - before);
#ifdef MADV_HUGEPAGE
  madvise(all + before, bytes, MADV_HUGEPAGE);
#endif
  return all + before;
}

}  // namespace

void* map_memory(size_t bytes) {
  size_t size = rounded(bytes);
  if (size >= kHuge) return map_huge(size);
  void* memory = std::aligned_alloc(64, size);
  if (!memory) throw std::bad_alloc();
  std::memset(memory, 0, size);
  return memory;
}

void unmap_memory(void* memory, size_t bytes) {
  size_t size = rounded(bytes);
  if (size >= kHuge)
    munmap(memory, size);
  else
    std::free(memory);
}

}  // namespace native
