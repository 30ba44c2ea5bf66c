// Attention of one token: each key and value is read once, for all the heads that share it.
#pragma once

#include "product.h"
#include "query.h"

namespace pa {
namespace {

// logits[key] = query . key for the keys of one group; rows: kGroupKeys keys.
inline void group_logits(const float* query, const float* rows, int64_t stride, int64_t padded,
                         float* logits) {
  for (int key = 0; key < kGroupKeys; key += kLanes) {
    Vec sums[kLanes];
    for (int i = 0; i < kLanes; ++i) sums[i] = broadcast(0.0F);
    const float* first = rows + key * stride;
    for (int64_t c = 0; c < padded; c += kLanes) {
      const Vec channels = load(query + c);
      for (int i = 0; i < kLanes; ++i) sums[i] += channels * load(first + i * stride + c);
    }
    store(sum_each(sums), logits + key);
  }
}

// Rows of floats with their stride; a view into the cache where that holds such rows already.
template <typename T>
inline Matrix rows_as_floats(const T* from, int64_t stride, int64_t rows, const CallShape& shape,
                             float* copy) {
  if constexpr (sizeof(T) == sizeof(float)) {
    if (shape.head_size == padded_head_size(shape)) return {from, stride};
  }
  const int64_t padded = padded_head_size(shape);
  copy_rows(from, stride, rows, shape.head_size, padded, copy);
  return {copy, padded};
}

// Serves the heads of one KV head over one tile.
template <typename T>
struct TokenTile {
  const Work& work;
  const Tile& tile;
  const Tile& next;  // tile after this one, to be fetched meanwhile
  int64_t kv_head;
  float* logits;  // [G, kTileKeys]
  float* copy;    // [kTileKeys, padded]

  const T* cache_row(const void* cache, int64_t slot) const {
    const CallShape& shape = *work.shape;
    return static_cast<const T*>(cache) +
           (slot * shape.kv_num_heads + kv_head) * shape.head_size;
  }

  // Fetches a part of the next tile: the parts of all heads and groups, in the order in which they
  // are served, are one run through memory, which the processor's own prefetching follows.
  __attribute__((always_inline)) void fetch_next(const void* cache, int group) const {
    const CallShape& shape = *work.shape;
    const int64_t part = kv_head * kTileGroups + group;
    const int64_t slot = next.slot[part / shape.kv_num_heads];
    if (slot < 0) return;
    const int64_t elements = kGroupKeys * shape.head_size;
    const T* from = static_cast<const T*>(cache) + slot * shape.kv_num_heads * shape.head_size +
                    part % shape.kv_num_heads * elements;
    fetch(from, elements * static_cast<int64_t>(sizeof(T)));
  }

  void add(const float* queries, const Accumulated& target) const {
    const CallShape& shape = *work.shape;
    const int64_t group_heads = shape.num_heads / shape.kv_num_heads;
    const int64_t padded = padded_head_size(shape);
    compute_logits(queries);
    const LogitScale scale = logit_scale(shape);
    for (int64_t i = 0; i < group_heads; ++i) {
      const float keep = weigh_tile(tile, scale, tile.begin, tile.end, logits + i * kTileKeys,
                                    target.highest + i, target.total + i);
      scale_row(keep, padded, target.sums + i * padded);
    }
    add_values(target);
  }

  void compute_logits(const float* queries) const {
    const CallShape& shape = *work.shape;
    const int64_t group_heads = shape.num_heads / shape.kv_num_heads;
    const int64_t padded = padded_head_size(shape);
    const int64_t stride = shape.kv_num_heads * shape.head_size;
    for (int group = 0; group < kTileGroups; ++group) {
      fetch_next(work.buffers->key_cache, group);
      if (tile.slot[group] < 0) continue;  // masked by weigh_tile, whatever stands there
      const Matrix keys = rows_as_floats(cache_row(work.buffers->key_cache, tile.slot[group]),
                                         stride, kGroupKeys, shape, copy);
      for (int64_t i = 0; i < group_heads; ++i) {
        group_logits(queries + i * padded, keys.data, keys.stride, padded,
                     logits + i * kTileKeys + group * kGroupKeys);
      }
    }
  }

  // Only wanted keys are read: another slot of the block may hold NaN, and 0 * NaN is NaN.
  void add_values(const Accumulated& target) const {
    const CallShape& shape = *work.shape;
    const int64_t padded = padded_head_size(shape);
    const int64_t stride = shape.kv_num_heads * shape.head_size;
    for (int group = 0; group < kTileGroups; ++group) {
      fetch_next(work.buffers->value_cache, group);
      if (tile.slot[group] < 0) continue;
      const int begin = tile.group_begin(group);
      const int64_t keys = tile.group_end(group) - begin;
      const int64_t slot = tile.slot[group] + (begin - group * kGroupKeys);
      const Matrix values =
          rows_as_floats(cache_row(work.buffers->value_cache, slot), stride, keys, shape, copy);
      product({logits + begin, kTileKeys}, values, {target.sums, padded, true},
              shape.num_heads / shape.kv_num_heads, keys, padded);
    }
  }
};

// Accumulates a segment of one token over a range of its keys. scratch: queries [heads, padded],
// logits [G, kTileKeys], copied rows [kTileKeys, padded].
template <typename T>
void attend_token(const Work& work, const Segment& segment, KeyRange keys,
                  const Accumulated& target, float* scratch) {
  const CallShape& shape = *work.shape;
  const int64_t group_heads = shape.num_heads / shape.kv_num_heads;
  const int64_t padded = padded_head_size(shape);
  const int64_t rows = (segment.kv_head_end - segment.kv_head_begin) * group_heads;
  const int32_t* table = work.buffers->block_table + segment.row * shape.table_stride;
  float* queries = scratch;
  float* logits = queries + rows * padded;
  float* copy = logits + group_heads * kTileKeys;
  load_queries<T>(work, segment, rows, queries);
  Tile next = locate_tile(shape, table, keys.begin / kTileKeys * kTileKeys, keys);
  while (next.end > 0) {
    const Tile tile = next;
    next = locate_tile(shape, table, tile.first + kTileKeys, keys);
    for (int64_t kv_head = segment.kv_head_begin; kv_head < segment.kv_head_end; ++kv_head) {
      const int64_t row = (kv_head - segment.kv_head_begin) * group_heads;
      TokenTile<T>{work, tile, next, kv_head, logits, copy}.add(
          queries + row * padded,
          {target.sums + row * padded, target.highest + row, target.total + row});
    }
  }
}

}  // namespace
}  // namespace pa
