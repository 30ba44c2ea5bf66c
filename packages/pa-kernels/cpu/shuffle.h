// Transposition and many sums at once, by exchanging blocks of lanes between two vectors.
#pragma once

#include <utility>

#include "convert.h"

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

// Lanes in pairs at distance h, exchanged.
template <int h, std::size_t... i>
inline Vec swap_lanes(Vec a, std::index_sequence<i...>) {
#if defined(__clang__) || __GNUC__ >= 12
  return __builtin_shufflevector(a, a, (static_cast<int>(i) ^ h)...);
#else
  return __builtin_shuffle(a, IntVec{(static_cast<int>(i) ^ h)...});
#endif
}

template <int h>
inline Vec swap_lanes(Vec a) {
  return swap_lanes<h>(a, std::make_index_sequence<kLanes>{});
}

// Each lane of the lower or upper half twice, in pairs.
template <bool upper, std::size_t... i>
inline Vec each_twice(Vec a, std::index_sequence<i...>) {
  constexpr int kFirst = upper ? kLanes / 2 : 0;
#if defined(__clang__) || __GNUC__ >= 12
  return __builtin_shufflevector(a, a, (kFirst + static_cast<int>(i) / 2)...);
#else
  return __builtin_shuffle(a, IntVec{(kFirst + static_cast<int>(i) / 2)...});
#endif
}

template <bool upper>
inline Vec each_twice(Vec a) {
  return each_twice<upper>(a, std::make_index_sequence<kLanes>{});
}

// -1 in even lanes, 1 in odd ones.
inline Vec alternating_signs() {
  return __builtin_convertvector((lane_indices() & 1) * 2 - 1, Vec);
}

template <int h = kLanes / 2>
inline float sum_of_lanes(Vec value) {
  const Vec folded = value + swap_lanes<h>(value);
  if constexpr (h == 1) {
    return folded[0];
  } else {
    return sum_of_lanes<h / 2>(folded);
  }
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

// Lanes with and without h in their number: pairs of a are folded in the ones without, of b in the
// others. One shuffle of a single vector; two of two vectors would be the processor's bottleneck.
template <int h, typename F>
__attribute__((always_inline)) inline Vec fold_pairs(Vec a, Vec b, F fold) {
  const IntVec is_b = (lane_indices() & h) != 0;
  return fold(is_b ? b : a, swap_lanes<h>(is_b ? a : b, std::make_index_sequence<kLanes>{}));
}

// Lane i of the result is the lanes of rows[i] folded into one. Recursion instead of loops keeps
// the rows in registers, and so does its inlining.
template <int first = 0, int h = 1, typename F>
__attribute__((always_inline)) inline Vec fold_each(const Vec (&rows)[kLanes], F fold) {
  if constexpr (h == kLanes) {
    return rows[first];
  } else {
    const Vec a = fold_each<first, 2 * h>(rows, fold);
    const Vec b = fold_each<first + h, 2 * h>(rows, fold);
    return fold_pairs<h>(a, b, fold);
  }
}

__attribute__((always_inline)) inline Vec sum_each(const Vec (&rows)[kLanes]) {
  return fold_each(rows, [](Vec a, Vec b) { return a + b; });
}

__attribute__((always_inline)) inline Vec largest_each(const Vec (&rows)[kLanes]) {
  return fold_each(rows, [](Vec a, Vec b) { return larger(a, b); });
}

}  // namespace
}  // namespace pa
