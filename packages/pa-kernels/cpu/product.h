// Small matrix products with the result in registers.
#pragma once

#include "convert.h"

namespace pa {
namespace {

#if defined(__AVX512F__)
constexpr int kRowsInRegisters = 6;  // 6 x 4 results, 4 columns and a broadcast of 32 registers
constexpr int kVectorsInRegisters = 4;
#else
constexpr int kRowsInRegisters = 6;  // 6 x 2 results, 2 columns and a broadcast of 16 registers
constexpr int kVectorsInRegisters = 2;
#endif

// A row-major matrix; the stride counts elements. Products compute in float.
template <typename T>
struct Rows {
  const T* data;
  int64_t stride;
};

using Matrix = Rows<float>;

struct Result {
  float* data;  // [rows, columns]
  int64_t stride;
  bool adds;  // add to what is there instead of overwriting it
};

// How the depth is summed. Apart: a few partial sums, so that enough additions are under way at a
// time (four cycles of latency on two units want eight sums) also for few rows. In order: one sum,
// whose rounding depends on the row and the depth alone, not on how many rows go together.
enum class Order { kInOrder, kApart };

constexpr int chains(Order order, int rows, int vectors) {
  if (order == Order::kInOrder) return 1;
  const int sums = rows * vectors;
  return sums >= 8 ? 1 : (sums >= 4 ? 2 : 4);
}

// R rows of a times V vectors of columns of b, over the common depth.
template <Order order, int R, int V, typename T>
inline void product_block(Matrix a, Rows<T> b, Result c, int64_t depth) {
  constexpr int kChains = chains(order, R, V);
  Vec sums[kChains][R][V];
  for (int chain = 0; chain < kChains; ++chain) {
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < V; ++v) {
        const bool starts = c.adds && chain == 0;
        sums[chain][r][v] = starts ? load(c.data + r * c.stride + v * kLanes) : broadcast(0.0F);
      }
    }
  }
  const auto step = [&](int64_t k, Vec (&into)[R][V]) {
    Vec columns[V];
    for (int v = 0; v < V; ++v) {
      columns[v] = load(b.data + k * b.stride + v * kLanes);
      if (R > 1) keep_in_register(columns[v]);
    }
    for (int r = 0; r < R; ++r) {
      const Vec factor = broadcast(a.data[r * a.stride + k]);
      for (int v = 0; v < V; ++v) into[r][v] += factor * columns[v];
    }
  };
  int64_t k = 0;
  for (; k + kChains <= depth; k += kChains) {
    for (int chain = 0; chain < kChains; ++chain) step(k + chain, sums[chain]);
  }
  for (; k < depth; ++k) step(k, sums[0]);
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) {
      Vec sum = sums[0][r][v];
      for (int chain = 1; chain < kChains; ++chain) sum += sums[chain][r][v];
      store(sum, c.data + r * c.stride + v * kLanes);
    }
  }
}

// R rows times every column of b.
template <Order order, int R, typename T>
inline void product_rows(Matrix a, Rows<T> b, Result c, int64_t depth, int64_t columns) {
  int64_t done = 0;
  while (columns - done >= kVectorsInRegisters * kLanes) {
    product_block<order, R, kVectorsInRegisters>(a, b, c, depth);
    b.data += kVectorsInRegisters * kLanes;
    c.data += kVectorsInRegisters * kLanes;
    done += kVectorsInRegisters * kLanes;
  }
  while (done < columns) {
    product_block<order, R, 1>(a, b, c, depth);
    b.data += kLanes;
    c.data += kLanes;
    done += kLanes;
  }
}

// c [rows, columns] = a [rows, depth] b [depth, columns]; columns is a multiple of kLanes.
template <Order order = Order::kInOrder, typename T>
inline void product(Matrix a, Rows<T> b, Result c, int64_t rows, int64_t depth,
                    int64_t columns) {
  int64_t row = 0;
  for (; rows - row >= kRowsInRegisters; row += kRowsInRegisters) {
    product_rows<order, kRowsInRegisters>({a.data + row * a.stride, a.stride}, b,
                                   {c.data + row * c.stride, c.stride, c.adds}, depth, columns);
  }
  a.data += row * a.stride;
  c.data += row * c.stride;
  switch (rows - row) {
    case 5: return product_rows<order, 5>(a, b, c, depth, columns);
    case 4: return product_rows<order, 4>(a, b, c, depth, columns);
    case 3: return product_rows<order, 3>(a, b, c, depth, columns);
    case 2: return product_rows<order, 2>(a, b, c, depth, columns);
    case 1: return product_rows<order, 1>(a, b, c, depth, columns);
    default: return;
  }
}

}  // namespace
}  // namespace pa
