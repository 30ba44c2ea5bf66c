// Loads, stores and copies of rows that are no whole number of vectors.
#pragma once

#include "../product.h"
#include "../shuffle.h"

namespace pa {
namespace {

inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t padded_to_vectors(int64_t count) { return (count + 15) / 16 * 16; }

// Loads kLanes elements of which only the first `count` exist; the others are 0.
template <typename T>
inline Vec load_first(const T* from, int64_t count) {
  if (count >= kLanes) return load(from);
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = to_float(from[i]);
  return load(lanes);
}

template <typename T>
inline void store_first(Vec value, int64_t count, T* to) {
  if (count >= kLanes) return store(value, to);
  for (int64_t i = 0; i < count; ++i) store(value[i], to + i);
}

// to[0, padded) = from[0, count), then zeros.
template <typename T>
inline void widen(const T* from, int64_t count, int64_t padded, float* to) {
  for (int64_t c = 0; c < padded; c += kLanes) {
    const int64_t left = count - c;
    store(left > 0 ? load_first(from + c, left) : broadcast(0.0F), to + c);
  }
}

template <typename T>
inline void narrow(const float* from, int64_t count, T* to) {
  for (int64_t c = 0; c < count; c += kLanes) store_first(load(from + c), count - c, to + c);
}

// to[column][row] = from[row][column]. Whole squares of vectors; the stride of `to` has room for
// the padding of the rows, and rows of `from` that do not exist count as zeros.
template <typename T>
inline void transpose_rows(const T* from, int64_t from_stride, int64_t rows, int64_t columns,
                           float* to, int64_t to_stride) {
  for (int64_t row = 0; row < rows; row += kLanes) {
    for (int64_t column = 0; column < columns; column += kLanes) {
      Vec square[kLanes];
      for (int64_t i = 0; i < kLanes; ++i) {
        square[i] = row + i < rows
                        ? load_first(from + (row + i) * from_stride + column, columns - column)
                        : broadcast(0.0F);
      }
      transpose(square);
      for (int64_t i = 0; i < least(kLanes, columns - column); ++i) {
        store(square[i], to + (column + i) * to_stride + row);
      }
    }
  }
}

// to[row][column] = from[column][row] for exactly so many rows and columns of `to`.
inline void transpose_back(const float* from, int64_t from_stride, int64_t rows, int64_t columns,
                           float* to) {
  for (int64_t row = 0; row < rows; row += kLanes) {
    for (int64_t column = 0; column < columns; column += kLanes) {
      Vec square[kLanes];
      for (int64_t i = 0; i < kLanes; ++i) {
        square[i] = column + i < columns ? load(from + (column + i) * from_stride + row)
                                         : broadcast(0.0F);
      }
      transpose(square);
      for (int64_t i = 0; i < least(kLanes, rows - row); ++i) {
        store_first(square[i], columns - column, to + (row + i) * columns + column);
      }
    }
  }
}

}  // namespace
}  // namespace pa
