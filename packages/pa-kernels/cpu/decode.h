// Attention of one token: each key and value is read once, for all the heads that share it.
#pragma once

#include "product.h"
#include "query.h"

namespace pa {
namespace {

// logits[i][key] = query i . key, for the first kLanes / Q keys and Q queries. Together they are
// kLanes sums, which one reduction finishes; each key is loaded once for the Q queries.
template <int Q, typename T, std::size_t... sum>
inline Vec some_logits(const float* queries, Rows<T> keys, int64_t padded,
                       std::index_sequence<sum...>) {
  constexpr int kKeys = kLanes / Q;
  Vec sums[kLanes] = {
      (load(queries + sum / kKeys * padded) * load(keys.data + sum % kKeys * keys.stride))...};
  for (int64_t c = kLanes; c < padded; c += kLanes) {
    ((sums[sum] += load(queries + sum / kKeys * padded + c) *
                   load(keys.data + sum % kKeys * keys.stride + c)),
     ...);
  }
  return sum_each(sums);
}

// Logits of one group's keys for every query head; logits: [heads, kTileKeys].
template <typename T>
inline void group_logits(const float* queries, int64_t heads, Rows<T> keys, int64_t padded,
                         float* logits, Ahead ahead) {
  constexpr int kPairKeys = kLanes / 2;
  const int64_t share = ahead.share(heads / 2 * (kGroupKeys / kPairKeys) +
                                    heads % 2 * (kGroupKeys / kLanes));
  int64_t head = 0;
  for (; head + 2 <= heads; head += 2) {
    for (int key = 0; key < kGroupKeys; key += kPairKeys) {
      float both[kLanes];
      ahead.fetch(share);
      const Rows<T> some{keys.data + key * keys.stride, keys.stride};
      store(some_logits<2>(queries + head * padded, some, padded,
                           std::make_index_sequence<kLanes>{}),
            both);
      std::memcpy(logits + head * kTileKeys + key, both, sizeof both / 2);
      std::memcpy(logits + (head + 1) * kTileKeys + key, both + kPairKeys, sizeof both / 2);
    }
  }
  for (; head < heads; ++head) {
    for (int key = 0; key < kGroupKeys; key += kLanes) {
      ahead.fetch(share);
      const Rows<T> some{keys.data + key * keys.stride, keys.stride};
      store(some_logits<1>(queries + head * padded, some, padded,
                           std::make_index_sequence<kLanes>{}),
            logits + head * kTileKeys + key);
    }
  }
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

  // A part of the next tile, one for each head and group of this one. The parts are one run through
  // memory, in the order in which they are asked for.
  Ahead part_of_next(const void* cache, int group) const {
    const CallShape& shape = *work.shape;
    const int64_t part = kv_head * tile.groups() + group;
    const int64_t slot = next.slot[part / shape.kv_num_heads];
    if (slot < 0) return {nullptr, 0};
    const int64_t elements = kGroupKeys * shape.head_size;
    const T* first = static_cast<const T*>(cache) + slot * shape.kv_num_heads * shape.head_size +
                     part % shape.kv_num_heads * elements;
    return {reinterpret_cast<const char*>(first), elements * static_cast<int64_t>(sizeof(T))};
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

  // Whether rows are whole vectors, and so can be read where they lie; others are copied to `copy`.
  bool is_whole() const { return work.shape->head_size == padded_head_size(*work.shape); }

  int64_t stride() const { return work.shape->kv_num_heads * work.shape->head_size; }

  void compute_logits(const float* queries) const {
    const CallShape& shape = *work.shape;
    const int64_t group_heads = shape.num_heads / shape.kv_num_heads;
    const int64_t padded = padded_head_size(shape);
    for (int group = 0; group < tile.groups(); ++group) {
      const Ahead ahead = part_of_next(work.buffers->key_cache, group);
      if (tile.slot[group] < 0) continue;  // masked by weigh_tile, whatever stands there
      const T* keys = cache_row(work.buffers->key_cache, tile.slot[group]);
      float* out = logits + group * kGroupKeys;
      if (is_whole()) {
        group_logits(queries, group_heads, Rows<T>{keys, stride()}, padded, out, ahead);
      } else {
        copy_rows(keys, stride(), kGroupKeys, shape.head_size, padded, copy);
        group_logits(queries, group_heads, Matrix{copy, padded}, padded, out, ahead);
      }
    }
  }

  // Only wanted keys are read: another slot of the block may hold NaN, and 0 * NaN is NaN.
  void add_values(const Accumulated& target) const {
    const CallShape& shape = *work.shape;
    const int64_t padded = padded_head_size(shape);
    for (int group = 0; group < tile.groups(); ++group) {
      const Ahead ahead = part_of_next(work.buffers->value_cache, group);
      if (tile.slot[group] < 0) continue;
      const int begin = tile.group_begin(group);
      const int64_t keys = tile.group_end(group) - begin;
      const T* values = cache_row(work.buffers->value_cache,
                                  tile.slot[group] + (begin - group * kGroupKeys));
      if (is_whole()) {
        add_rows(Rows<T>{values, stride()}, begin, keys, target.sums, ahead);
      } else {
        copy_rows(values, stride(), keys, shape.head_size, padded, copy);
        add_rows(Matrix{copy, padded}, begin, keys, target.sums, ahead);
      }
    }
  }

  template <typename Element>
  void add_rows(Rows<Element> values, int begin, int64_t keys, float* sums, Ahead ahead) const {
    constexpr int64_t kStep = 8;  // keys between two shares of what is fetched
    const int64_t padded = padded_head_size(*work.shape);
    const int64_t share = ahead.share(kGroupKeys / kStep);
    for (int64_t key = 0; key < keys; key += kStep) {
      ahead.fetch(share);
      const Matrix weights{logits + begin + key, kTileKeys};
      const Rows<Element> some{values.data + key * values.stride, values.stride};
      product<Order::kApart>(weights, some, {sums, padded, true},
                             work.shape->num_heads / work.shape->kv_num_heads,
                             smaller(kStep, keys - key), padded);
    }
  }
};

// Keys of a tile: few enough that the next tile, fetched meanwhile, is still near when its turn
// comes. 32 KiB was the best of 16 to 128 KiB, at 0.75 to 8 KiB a key.
template <typename T>
inline int64_t tile_keys(const CallShape& shape) {
  constexpr int64_t kTileBytes = 32 * 1024;
  const int64_t key_bytes =
      2 * shape.kv_num_heads * shape.head_size * static_cast<int64_t>(sizeof(T));
  int64_t keys = kTileKeys;
  while (keys > kGroupKeys && keys * key_bytes > kTileBytes) keys /= 2;
  return keys;
}

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
  const int64_t step = tile_keys<T>(shape);
  Tile next = locate_tile(shape, table, keys.begin / step * step, keys, step);
  while (next.end > 0) {
    const Tile tile = next;
    next = locate_tile(shape, table, tile.first + step, keys, step);
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
