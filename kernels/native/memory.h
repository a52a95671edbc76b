// Zeroed memory that is mapped when it is touched, in large pages where the system has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace native {

void* map_memory(size_t bytes);
void unmap_memory(void* memory, size_t bytes);

template <typename T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t count) { allocate(count); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() { release(); }

  // Zeroes, at the beginning of a cache line. Throws std::bad_alloc.
  void allocate(size_t count) {
    release();
    if (!count) return;
    bytes_ = count * sizeof(T) + kSlack;
    data_ = static_cast<T*>(map_memory(bytes_));
  }
  // Another's memory, which outlives this buffer and is only read.
  void borrow(T* data, size_t bytes) {
    release();
    data_ = data;
    bytes_ = bytes;
    owned_ = false;
  }
  void release() {
    if (data_ && owned_) unmap_memory(data_, bytes_);
    data_ = nullptr;
    bytes_ = 0;
    owned_ = true;
  }

  T* get() { return data_; }
  const T* get() const { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  explicit operator bool() const { return data_ != nullptr; }
  size_t bytes() const { return bytes_; }

 private:
  // Prefetches and whole vectors may reach a little beyond the end.
  static constexpr size_t kSlack = 4096;

  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(owned_, other.owned_);
  }

  T* data_ = nullptr;
  size_t bytes_ = 0;
  bool owned_ = true;
};

}  // namespace native
