// A tile of queries against tiles of keys and values, widened to float.
#pragma once

#include "product.h"
#include "query.h"
#include "tokens.h"

namespace pa {
namespace {

inline void clear_floats(int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kLanes) store(broadcast(0.0F), to + i);
}

inline int64_t offset_in_cache(const CallShape& shape, int64_t slot, int64_t kv_head) {
  return (slot * shape.kv_num_heads + kv_head) * shape.head_size;
}

// to: [kTileKeys, padded v], the tile's values of one KV head; what is not wanted becomes 0.
template <typename C>
void load_values(const Work& work, const Tile& tile, int64_t kv_head, float* to) {
  const CallShape& shape = *work.shape;
  const int64_t padded = padded_v_head_size(shape);
  const int64_t stride = shape.kv_num_heads * shape.head_size;
  const C* cache = static_cast<const C*>(work.buffers->value_cache);
  for (int group = 0; group < tile.groups(); ++group, to += kGroupKeys * padded) {
    const int count = tile.group_end(group) - tile.group_begin(group);
    if (tile.slot[group] < 0 || count < kGroupKeys) clear_floats(kGroupKeys * padded, to);
    if (tile.slot[group] < 0) continue;
    const int skipped = tile.group_begin(group) - group * kGroupKeys;
    copy_rows(cache + offset_in_cache(shape, tile.slot[group] + skipped, kv_head), stride, count,
              shape.v_head_size, padded, to + skipped * padded);
  }
}

// to: [padded size, kTileKeys], the tile's keys of one KV head; what is not mapped becomes 0.
// T: what a cache of C elements is read as, so many elements at a time.
template <typename C, typename T = C>
void load_keys(const Work& work, const Tile& tile, int64_t kv_head, float* to) {
  constexpr int64_t kElements = sizeof(T) / sizeof(C);
  const CallShape& shape = *work.shape;
  const int64_t size = shape.head_size / kElements;
  const int64_t stride = shape.kv_num_heads * size;
  const C* cache = static_cast<const C*>(work.buffers->key_cache);
  for (int group = 0; group < tile.groups(); ++group, to += kGroupKeys) {
    if (tile.slot[group] < 0) {
      for (int64_t c = 0; c < size; ++c) clear_floats(kGroupKeys, to + c * kTileKeys);
      continue;
    }
    const C* from = cache + offset_in_cache(shape, tile.slot[group], kv_head);
    transpose_group(reinterpret_cast<const T*>(from), stride, size, padded_size(size), to);
  }
}

// logits [rows, kTileKeys] = (or, where it adds, +=) queries . keys, as many channels at a time as
// leave the keys in the first-level cache for all rows.
template <typename A>
inline void multiply_in_parts(Rows<A> queries, const void* keys, bool adds, float* logits,
                              int64_t rows, int64_t depth, int64_t columns) {
  constexpr int64_t kPart = 128;  // 32 KiB of keys
  const A* part = static_cast<const A*>(keys);
  for (int64_t c = 0; c < depth; c += kPart) {
    product(Rows<A>{queries.data + c, queries.stride}, Rows<A>{part + c * kTileKeys, kTileKeys},
            {logits, kTileKeys, adds || c > 0}, rows, smaller(kPart, depth - c), columns);
  }
}

// Buffers of a segment's rows and of one tile.
template <typename C>
class FloatTiles {
 public:
  using Weight = float;

  FloatTiles(const Work& work, const Segment& segment, int64_t rows, float* memory)
      : work_(work),
        kv_head_(segment.kv_head_begin),
        padded_(padded_head_size(*work.shape)),
        padded_v_(padded_v_head_size(*work.shape)),
        queries_(memory),
        logits_(queries_ + rows * padded_),
        keys_(logits_ + rows * kTileKeys),
        values_(keys_ + padded_ * kTileKeys) {
    load_queries(work, segment, queries_);
  }

  float* logits(int64_t row) const { return logits_ + row * kTileKeys; }

  void load(const Tile& tile) const {
    load_keys<C>(work_, tile, kv_head_, keys_);
    load_values<C>(work_, tile, kv_head_, values_);
  }

  // Logits of `rows` rows from `row` on.
  void multiply_keys(const Tile& tile, int64_t row, int64_t rows) const {
    multiply_in_parts(Rows<float>{queries_ + row * padded_, padded_}, keys_, false, logits(row),
                      rows, work_.shape->head_size, tile.groups() * kGroupKeys);
  }

  // sums [rows, padded v] += weights . values over keys [0, tile.end).
  void add_values(const Tile& tile, int64_t row, int64_t rows, float* sums) const {
    add_seen_values({0, tile.end}, row, rows, sums);
  }

  bool has_finite_values(const Tile& tile) const {
    return all_finite(values_, tile.groups() * kGroupKeys * padded_v_);
  }

  // From here on until the next tile, rows take their own keys.
  void separate_values(const Tile&) const {}

  void add_seen_values(Seen seen, int64_t row, int64_t rows, float* sums) const {
    product({logits(row) + seen.begin, kTileKeys},
            Matrix{values_ + seen.begin * padded_v_, padded_v_}, {sums, padded_v_, true}, rows,
            seen.end - seen.begin, padded_v_);
  }

 private:
  const Work& work_;
  int64_t kv_head_;
  int64_t padded_;
  int64_t padded_v_;
  float* queries_;  // [rows, padded]
  float* logits_;   // [rows, kTileKeys]
  float* keys_;     // [padded, kTileKeys]
  float* values_;   // [kTileKeys, padded v]
};

}  // namespace
}  // namespace pa
