// Small matrix products with the result in registers.
#pragma once

#include <type_traits>

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

// The compiler keeps arrays in registers only if the loops over them are gone before it looks.
#define PA_UNROLL _Pragma("GCC unroll 16")

// A row-major matrix; the stride counts elements. Products compute in float.
template <typename T>
struct Rows {
  const T* data;
  int64_t stride;
};

using Matrix = Rows<float>;

// What a product is made of: an element of `a` for every lane, and the sum with its product by a
// vector of columns of `b`.
inline Vec splat(const float* element) { return broadcast(*element); }

template <typename A>
inline Vec add_product(Vec sum, Vec factor, Vec columns) {
  static_assert(std::is_same_v<A, float>, "pairs have a product of their own");
  return sum + factor * columns;
}

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
template <Order order, int R, int V, typename A, typename T>
inline void product_block(Rows<A> a, Rows<T> b, Result c, int64_t depth) {
  constexpr int kChains = chains(order, R, V);
  Vec sums[kChains][R][V];
  PA_UNROLL for (int chain = 0; chain < kChains; ++chain) {
    PA_UNROLL for (int r = 0; r < R; ++r) {
      PA_UNROLL for (int v = 0; v < V; ++v) {
        const bool starts = c.adds && chain == 0;
        sums[chain][r][v] = starts ? load(c.data + r * c.stride + v * kLanes) : broadcast(0.0F);
      }
    }
  }
  const auto step = [&](int64_t k, Vec (&into)[R][V]) {
    Vec columns[V];
    PA_UNROLL for (int v = 0; v < V; ++v) {
      Vec column = load(b.data + k * b.stride + v * kLanes);
      if (R > 1) keep_in_register(column);
      columns[v] = column;
    }
    PA_UNROLL for (int r = 0; r < R; ++r) {
      const Vec factor = splat(a.data + r * a.stride + k);
      PA_UNROLL for (int v = 0; v < V; ++v) {
        into[r][v] = add_product<A>(into[r][v], factor, columns[v]);
      }
    }
  };
  int64_t k = 0;
  for (; k + kChains <= depth; k += kChains) {
    PA_UNROLL for (int chain = 0; chain < kChains; ++chain) step(k + chain, sums[chain]);
  }
  for (; k < depth; ++k) step(k, sums[0]);
  PA_UNROLL for (int r = 0; r < R; ++r) {
    PA_UNROLL for (int v = 0; v < V; ++v) {
      Vec sum = sums[0][r][v];
      PA_UNROLL for (int chain = 1; chain < kChains; ++chain) sum += sums[chain][r][v];
      store(sum, c.data + r * c.stride + v * kLanes);
    }
  }
}

// All rows times V vectors of columns of b, which stay in the first-level cache meanwhile.
template <Order order, int V, typename A, typename T>
inline void product_columns(Rows<A> a, Rows<T> b, Result c, int64_t rows, int64_t depth) {
  constexpr int kTogether = kRowsInRegisters;
  for (; rows >= kTogether; rows -= kTogether) {
    product_block<order, kTogether, V>(a, b, c, depth);
    a.data += kTogether * a.stride;
    c.data += kTogether * c.stride;
  }
  switch (rows) {
    case 5: return product_block<order, 5, V>(a, b, c, depth);
    case 4: return product_block<order, 4, V>(a, b, c, depth);
    case 3: return product_block<order, 3, V>(a, b, c, depth);
    case 2: return product_block<order, 2, V>(a, b, c, depth);
    case 1: return product_block<order, 1, V>(a, b, c, depth);
    default: return;
  }
}

// c [rows, columns] = a [rows, depth] b [depth, columns]; columns is a multiple of kLanes.
template <Order order = Order::kInOrder, typename A = float, typename T>
inline void product(Rows<A> a, Rows<T> b, Result c, int64_t rows, int64_t depth, int64_t columns) {
  constexpr int64_t kTogether = kVectorsInRegisters * kLanes;
  for (; columns >= kTogether; columns -= kTogether) {
    product_columns<order, kVectorsInRegisters>(a, b, c, rows, depth);
    b.data += kTogether;
    c.data += kTogether;
  }
  for (; columns > 0; columns -= kLanes) {
    product_columns<order, 1>(a, b, c, rows, depth);
    b.data += kLanes;
    c.data += kLanes;
  }
}

}  // namespace
}  // namespace pa
