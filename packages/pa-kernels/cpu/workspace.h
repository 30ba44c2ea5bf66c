// Memory that a calling thread keeps between its calls.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "plan.h"

namespace pa {

// Uninitialised floats, aligned to a cache line; grows, and gives large memory back.
class FloatBuffer {
 public:
  // At least `count` floats, of which nothing is kept from the last call.
  float* reserve(int64_t count) {
    if (count > capacity_) {
      memory_.reset();
      capacity_ = 0;
      memory_.reset(static_cast<float*>(::operator new(
          static_cast<std::size_t>(count) * sizeof(float), std::align_val_t{kAlignment})));
      capacity_ = count;
    }
    return memory_.get();
  }

  void release_if_large() {
    if (capacity_ <= kKeptFloats) return;
    memory_.reset();
    capacity_ = 0;
  }

 private:
  static constexpr std::size_t kAlignment = 64;
  static constexpr int64_t kKeptFloats = 4 * 1024 * 1024;  // 16 MiB

  struct Free {
    void operator()(float* memory) const {
      ::operator delete(memory, std::align_val_t{kAlignment});
    }
  };

  std::unique_ptr<float, Free> memory_;
  int64_t capacity_ = 0;
};

// Unfinished splits of every segment; whoever finishes a segment's last split joins them all.
class SplitCounters {
 public:
  std::atomic<int64_t>* reserve(const Plan& plan) {
    if (plan.partial_rows == 0) return nullptr;
    if (plan.segments.size() > capacity_) {
      counters_ = std::make_unique<std::atomic<int64_t>[]>(plan.segments.size());
      capacity_ = plan.segments.size();
    }
    for (std::size_t i = 0; i < plan.segments.size(); ++i) counters_[i] = plan.segments[i].splits;
    return counters_.get();
  }

 private:
  std::unique_ptr<std::atomic<int64_t>[]> counters_;
  std::size_t capacity_ = 0;
};

struct Workspace {
  Plan plan;
  FloatBuffer rotated;
  FloatBuffer partials;
  FloatBuffer scratch;
  SplitCounters unfinished;
};

}  // namespace pa
