// Transposition and many sums at once, by exchanging blocks of lanes between two vectors.
#pragma once

#include <utility>

#include "simd.h"

namespace pa {
namespace {

// Lane i of the exchange of blocks of h lanes: even blocks of a, each followed by the block of b
// with the same place; odd = true takes the odd blocks instead. Lanes of b count from kLanes.
constexpr int exchange_lane(int i, int h, bool odd) {
  const int block = i / h;
  const int source = (block & ~1) + (odd ? 1 : 0);
  return source * h + i % h + ((block & 1) != 0 ? kLanes : 0);
}

template <int h, bool odd, std::size_t... i>
inline Vec exchange(Vec a, Vec b, std::index_sequence<i...>) {
#if defined(__clang__) || __GNUC__ >= 12
  return __builtin_shufflevector(a, b, exchange_lane(i, h, odd)...);
#else
  return __builtin_shuffle(a, b, IntVec{exchange_lane(i, h, odd)...});
#endif
}

template <int h, bool odd>
inline Vec exchange(Vec a, Vec b) {
  return exchange<h, odd>(a, b, std::make_index_sequence<kLanes>{});
}

// Transposes a square of kLanes vectors in place.
template <int h = kLanes / 2>
inline void transpose(Vec* rows) {
  for (int i = 0; i < kLanes; ++i) {
    if ((i & h) != 0) continue;
    const Vec even = exchange<h, false>(rows[i], rows[i + h]);
    const Vec odd = exchange<h, true>(rows[i], rows[i + h]);
    rows[i] = even;
    rows[i + h] = odd;
  }
  if constexpr (h > 1) transpose<h / 2>(rows);
}

// Lane i of the result is the sum of the lanes of rows[i]; rows is overwritten.
template <int h = kLanes / 2>
inline Vec sum_each(Vec* rows) {
  for (int i = 0; i < h; ++i) {
    rows[i] = exchange<h, false>(rows[i], rows[i + h]) + exchange<h, true>(rows[i], rows[i + h]);
  }
  if constexpr (h > 1) {
    return sum_each<h / 2>(rows);
  } else {
    return rows[0];
  }
}

}  // namespace
}  // namespace pa
