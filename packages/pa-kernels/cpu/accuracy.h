// The unit's functions over arrays, for tests of their accuracy.
#pragma once

#include <type_traits>

#include "convert.h"

namespace pa {
namespace {

void map_exp2(const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = exp2(from[i]);
}

void map_tanh(const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = tanh(from[i]);
}

// Through an element type and back, a vector at a time as kernels do.
void map_round(Dtype dtype, const float* from, float* to, int64_t count) {
  with_cache_element(dtype, [&](auto* type) {
    using C = std::remove_pointer_t<decltype(type)>;
    for (int64_t i = 0; i < count; i += kLanes) {
      C stored[kLanes];
      store(load_some(from + i, count - i), stored);
      store_some(load(stored), count - i, to + i);
    }
  });
}

}  // namespace
}  // namespace pa
