// Small matrix products with the result in registers.
#pragma once

#include "simd.h"

namespace pa {
namespace {

#if defined(__AVX512F__)
constexpr int kRowsInRegisters = 6;  // 6 x 4 results, 4 columns and a broadcast of 32 registers
constexpr int kVectorsInRegisters = 4;
#else
constexpr int kRowsInRegisters = 6;  // 6 x 2 results, 2 columns and a broadcast of 16 registers
constexpr int kVectorsInRegisters = 2;
#endif

// A row-major matrix: strides in floats.
struct Matrix {
  const float* data;
  int64_t stride;
};

struct Result {
  float* data;  // [rows, columns]
  int64_t stride;
  bool adds;  // add to what is there instead of overwriting it
};

// R rows of a times V vectors of columns of b, over the common depth.
template <int R, int V>
inline void product_block(Matrix a, Matrix b, Result c, int64_t depth) {
  Vec sums[R][V];
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) {
      sums[r][v] = c.adds ? load(c.data + r * c.stride + v * kLanes) : broadcast(0.0F);
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    Vec columns[V];
    for (int v = 0; v < V; ++v) columns[v] = load(b.data + k * b.stride + v * kLanes);
    for (int r = 0; r < R; ++r) {
      const Vec factor = broadcast(a.data[r * a.stride + k]);
      for (int v = 0; v < V; ++v) sums[r][v] += factor * columns[v];
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) store(sums[r][v], c.data + r * c.stride + v * kLanes);
  }
}

// R rows times every column of b.
template <int R>
inline void product_rows(Matrix a, Matrix b, Result c, int64_t depth, int64_t columns) {
  int64_t done = 0;
  while (columns - done >= kVectorsInRegisters * kLanes) {
    product_block<R, kVectorsInRegisters>(a, b, c, depth);
    b.data += kVectorsInRegisters * kLanes;
    c.data += kVectorsInRegisters * kLanes;
    done += kVectorsInRegisters * kLanes;
  }
  while (done < columns) {
    product_block<R, 1>(a, b, c, depth);
    b.data += kLanes;
    c.data += kLanes;
    done += kLanes;
  }
}

// c [rows, columns] = a [rows, depth] b [depth, columns]; columns is a multiple of kLanes.
inline void product(Matrix a, Matrix b, Result c, int64_t rows, int64_t depth, int64_t columns) {
  int64_t row = 0;
  for (; rows - row >= kRowsInRegisters; row += kRowsInRegisters) {
    product_rows<kRowsInRegisters>({a.data + row * a.stride, a.stride}, b,
                                   {c.data + row * c.stride, c.stride, c.adds}, depth, columns);
  }
  a.data += row * a.stride;
  c.data += row * c.stride;
  switch (rows - row) {
    case 5: return product_rows<5>(a, b, c, depth, columns);
    case 4: return product_rows<4>(a, b, c, depth, columns);
    case 3: return product_rows<3>(a, b, c, depth, columns);
    case 2: return product_rows<2>(a, b, c, depth, columns);
    case 1: return product_rows<1>(a, b, c, depth, columns);
    default: return;
  }
}

}  // namespace
}  // namespace pa
