// One tile of a row's keys: where it lies in the pool, and its rows as floats.
#pragma once

#include "kernels.h"
#include "shuffle.h"

namespace pa {
namespace {

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }

struct Tile {
  int64_t first = 0;  // position of the tile's first key, a multiple of kGroupKeys
  int begin = 0;      // wanted keys, counted from `first`; none beyond the last tile
  int end = 0;
  int64_t slot[kTileGroups] = {-1, -1, -1, -1};  // of each group's first key; -1 = read nothing
  static_assert(kTileGroups == 4, "every group begins as one with nothing to read");

  int groups() const { return (end + kGroupKeys - 1) / kGroupKeys; }
  // Wanted keys of one group, counted from `first`.
  int group_begin(int group) const {
    return begin > group * kGroupKeys ? begin : group * kGroupKeys;
  }
  int group_end(int group) const {
    return end < (group + 1) * kGroupKeys ? end : (group + 1) * kGroupKeys;
  }
};

// Finds the tile of so many keys at position `first`, of which those in `wanted` are to be read.
// Block ids outside the pool are unmapped (never dereferenced).
inline Tile locate_tile(const CallShape& shape, const int32_t* table, int64_t first,
                        KeyRange wanted, int64_t keys = kTileKeys) {
  Tile tile;
  tile.first = first;
  if (first >= wanted.end || wanted.begin >= wanted.end) return tile;
  tile.begin = static_cast<int>(greater(wanted.begin - first, 0));
  tile.end = static_cast<int>(smaller(wanted.end - first, keys));
  for (int group = 0; group < kTileGroups; ++group) {
    if (group * kGroupKeys >= tile.end || (group + 1) * kGroupKeys <= tile.begin) continue;
    const int64_t position = first + group * kGroupKeys;
    const int64_t block_id = table[position / shape.block_size];
    if (block_id < 0 || block_id >= shape.num_blocks) continue;
    tile.slot[group] = block_id * shape.block_size + position % shape.block_size;
  }
  return tile;
}

// Copies rows of `size` elements to rows of floats that are padded with zeros.
template <typename T>
inline void copy_rows(const T* from, int64_t stride, int64_t rows, int64_t size, int64_t padded,
                      float* to) {
  for (int64_t row = 0; row < rows; ++row) {
    int64_t c = 0;
    for (; c + kLanes <= size; c += kLanes) store(load(from + c), to + c);
    for (; c < padded; c += kLanes) store(load_some(from + c, size - c), to + c);
    from += stride;
    to += padded;
  }
}

// Writes a group's keys transposed: to[c * kTileKeys + key] for every channel c below `padded`.
template <typename T>
inline void transpose_group(const T* from, int64_t stride, int64_t size, int64_t padded,
                            float* to) {
  for (int key = 0; key < kGroupKeys; key += kLanes) {
    for (int64_t c = 0; c < padded; c += kLanes) {
      Vec square[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        square[i] = load_some(from + (key + i) * stride + c, size - c);
      }
      transpose(square);
      for (int i = 0; i < kLanes; ++i) store(square[i], to + (c + i) * kTileKeys + key);
    }
  }
}

inline bool all_finite(const float* values, int64_t count) {
  Vec spoiled = broadcast(0.0F);
  for (int64_t i = 0; i < count; i += kLanes) {
    const Vec value = load(values + i);
    spoiled += value - value;  // 0 for a finite value, NaN for any other
  }
  return sum_of_lanes(spoiled) == 0.0F;
}

}  // namespace
}  // namespace pa
