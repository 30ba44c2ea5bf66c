// Weighted sums of a few values for one token's query heads.
#pragma once

#include "pace.h"
#include "product.h"

namespace pa {
namespace {

struct Sums {
  float* data;  // [R, columns]
  int64_t stride;
};

// Every index below is a constant, so that the sums live in registers: GCC keeps an array that
// loops index in memory, and copies it in and out.
template <int R, int V, typename T, std::size_t... sum, std::size_t... v>
__attribute__((always_inline)) inline void add_block(Matrix weights, Rows<T> values, int64_t keys,
                                                     Ahead ahead, Sums sums,
                                                     std::index_sequence<sum...>,
                                                     std::index_sequence<v...>) {
  Vec total[R * V] = {load(sums.data + sum / V * sums.stride + sum % V * kLanes)...};
  for (int64_t key = 0; key < keys; ++key) {
    ahead.take<V * kLanes * sizeof(T)>();
    const T* row = values.data + key * values.stride;
    const auto weight = [&](std::size_t r) {
      return broadcast(weights.data[r * weights.stride + key]);
    };
    if constexpr (kReadsAsItLies<T>) {
      ((sum % V == 0 ? forget_memory() : void(),
        total[sum] += weight(sum / V) * load(row + sum % V * kLanes)),
       ...);
    } else {
      const Vec value[V] = {load(row + v * kLanes)...};
      ((total[sum] += weight(sum / V) * value[sum % V]), ...);
    }
  }
  (store(total[sum], sums.data + sum / V * sums.stride + sum % V * kLanes), ...);
}

template <int R, int V, typename T>
inline void add_columns(Matrix weights, Rows<T> values, int64_t keys, Ahead ahead, Sums sums,
                        int64_t columns) {
  int64_t c = 0;
  for (; c + V * kLanes <= columns; c += V * kLanes) {
    add_block<R, V>(weights, Rows<T>{values.data + c, values.stride}, keys, ahead,
                    Sums{sums.data + c, sums.stride}, std::make_index_sequence<R * V>{},
                    std::make_index_sequence<V>{});
    ahead = ahead.after(keys * V * kLanes * static_cast<int64_t>(sizeof(T)));
  }
  for (; c < columns; c += kLanes) {
    add_block<R, 1>(weights, Rows<T>{values.data + c, values.stride}, keys, ahead,
                    Sums{sums.data + c, sums.stride}, std::make_index_sequence<R>{},
                    std::make_index_sequence<1>{});
    ahead = ahead.after(keys * kLanes * static_cast<int64_t>(sizeof(T)));
  }
}

// sums [G, columns] += weights [G, keys] values [keys, columns]; columns is a multiple of kLanes.
template <typename T>
inline void add_weighted(Matrix weights, Rows<T> values, int64_t keys, Ahead ahead,
                         Sums sums, int64_t group_heads, int64_t columns) {
  constexpr int kVectors = kLanes == 16 ? 4 : 2;  // of 32 or 16 registers
  for_heads_together(group_heads, [&](auto together, int64_t head) {
    constexpr int kHeads = decltype(together)::kQueries;
    const Matrix some{weights.data + head * weights.stride, weights.stride};
    const Sums out{sums.data + head * sums.stride, sums.stride};
    add_columns<kHeads, kHeads == 1 ? 2 * kVectors : kVectors>(
        some, values, keys, head == 0 ? ahead : Ahead::near(out.data), out, columns);
  });
}

}  // namespace
}  // namespace pa
