// Weighted sums of a few values for one token's query heads.
#pragma once

#include "logits.h"

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
    ((v * kLanes * sizeof(T) % Ahead::kLineBytes == 0
          ? ahead.fetch(values.data + key * values.stride + v * kLanes)
          : void()),
     ...);
    const Vec value[V] = {load_stored(values.data + key * values.stride + v * kLanes)...};
    ((total[sum] += broadcast(weights.data[sum / V * weights.stride + key]) * value[sum % V]),
     ...);
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
  }
  for (; c < columns; c += kLanes) {
    add_block<R, 1>(weights, Rows<T>{values.data + c, values.stride}, keys, ahead,
                    Sums{sums.data + c, sums.stride}, std::make_index_sequence<R>{},
                    std::make_index_sequence<1>{});
  }
}

// sums [G, columns] += weights [G, keys] values [keys, columns]; columns is a multiple of kLanes.
template <typename T>
inline void add_weighted(Matrix weights, Rows<T> values, int64_t keys, Ahead ahead,
                         Sums sums, int64_t group_heads, int64_t columns) {
  constexpr int kVectors = kLanes == 16 ? 4 : 2;  // of 32 or 16 registers
  if (group_heads == 1) {
    return add_columns<1, 2 * kVectors>(weights, values, keys, ahead, sums, columns);
  }
  const int64_t parts = (group_heads + kQueriesTogether - 1) / kQueriesTogether;
  int64_t head = 0;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t next = group_heads * (part + 1) / parts;
    const Matrix some{weights.data + head * weights.stride, weights.stride};
    const Sums out{sums.data + head * sums.stride, sums.stride};
    switch (next - head) {
      case 2:
        add_columns<2, kVectors>(some, values, keys, ahead, out, columns);
        break;
      case 3:
        add_columns<3, kVectors>(some, values, keys, ahead, out, columns);
        break;
      default:
        add_columns<4, kVectors>(some, values, keys, ahead, out, columns);
    }
    head = next;
    ahead.distance = 0;
  }
}

}  // namespace
}  // namespace pa
