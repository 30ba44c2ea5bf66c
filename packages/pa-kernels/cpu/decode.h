// Attention of one token: the cache is read once and in the order in which it lies, a few slots
// with all their heads at a time. Head after head, with all slots of a block for each, would be
// shorter; but slots are a power of two apart, and the first-level cache has no room for so many.
#pragma once

#include "values.h"

namespace pa {
namespace {

// Buffers of a segment of one token.
struct TokenScratch {
  float* queries;  // [H, padded]
  float* logits;   // [H, kTileKeys]
  float* copy;     // [kGroupKeys, padded] rows that are no whole vectors where they lie
};

inline int64_t token_scratch_floats(const CallShape& shape, int64_t rows) {
  return (rows + kGroupKeys) * padded_head_size(shape) + rows * kTileKeys;
}

// One tile of the row's keys, for all KV heads of the segment.
template <typename C>
struct TokenTile {
  static constexpr int64_t kValuesTogether = 16;  // slots of one pass over the values

  const Work& work;
  const Segment& segment;
  const Tile& tile;
  const Tile& next;  // tile after this one, to be fetched meanwhile
  const TokenScratch& scratch;

  const CallShape& shape() const { return *work.shape; }

  int64_t group_bytes() const {
    return kGroupKeys * shape().kv_num_heads * shape().head_size * static_cast<int64_t>(sizeof(C));
  }

  void walk_next_pages() const {
    for (const int64_t slot : next.slot) {
      if (slot < 0) continue;
      const int64_t offset = slot / kGroupKeys * group_bytes();
      for (const void* cache : {static_cast<const void*>(work.buffers->key_cache),
                                static_cast<const void*>(work.buffers->value_cache)}) {
        walk_pages(static_cast<const char*>(cache) + offset, group_bytes());
      }
    }
  }

  // From a group to the same one of the next tile.
  Ahead ahead_of(int group) const {
    if (next.slot[group] < 0) return {};
    return {(next.slot[group] - tile.slot[group]) / kGroupKeys * group_bytes()};
  }

  // Calls use(rows) for rows of one KV head, copied where they are no whole vectors or have holes.
  template <typename Use>
  void with_rows(const void* cache, int64_t slot, int64_t kv_head, int64_t count, int64_t size,
                 Ahead ahead, Use use) const {
    const int64_t stride = shape().kv_num_heads * shape().head_size;
    const C* first = static_cast<const C*>(cache) + slot * stride + kv_head * shape().head_size;
    const int64_t padded = padded_size(size);
    if (size == padded && !has_hole(first, stride, count, size)) {
      return use(Rows<C>{first, stride}, ahead);
    }
    copy_rows(first, stride, count, size, padded, scratch.copy);
    for (int64_t row = 0; row < count; ++row) {
      scale_row(1.0F / stored_unit<C>(), padded, scratch.copy + row * padded);
    }
    use(Matrix{scratch.copy, padded}, Ahead{});
  }

  // A group that is not mapped is masked by weigh_tile, whatever stands there.
  void compute_logits() const {
    const int64_t group_heads = group_size(shape());
    const int64_t padded = padded_head_size(shape());
    const int step = pass_keys(group_heads);
    const int64_t heads = segment.kv_head_end - segment.kv_head_begin;
    for (int group = 0; group < tile.groups(); ++group) {
      if (tile.slot[group] < 0) continue;
      const Ahead ahead = ahead_of(group);
      for (int key = 0; key < kGroupKeys; key += step) {
        for (int64_t head = 0; head < heads; ++head) {
          const int64_t row = head * group_heads;
          float* out = scratch.logits + row * kTileKeys + group * kGroupKeys + key;
          with_rows(work.buffers->key_cache, tile.slot[group] + key, segment.kv_head_begin + head,
                    step, shape().head_size, ahead, [&](auto keys, Ahead next) {
                      pass_logits(scratch.queries + row * padded, group_heads, keys, padded, next,
                                  out);
                    });
        }
      }
    }
  }

  // Turns the logits of one KV head's queries into weights.
  void weigh(int64_t head, const LogitScale& scale, const Accumulated& target) const {
    const int64_t padded = padded_v_head_size(shape());
    const int64_t end = (head + 1) * group_size(shape());
    for (int64_t row = end - group_size(shape()); row < end; ++row) {
      const float keep =
          weigh_tile(tile, scale, tile.begin, tile.end, scratch.logits + row * kTileKeys,
                     target.highest + row, target.total + row);
      scale_row(keep, padded, target.sums + row * padded);
    }
  }

  // Only wanted values are read: another slot of the block may hold NaN, and 0 * NaN is NaN.
  void add_values(int group, int64_t key, int64_t head, float* sums) const {
    const int64_t padded = padded_v_head_size(shape());
    const int64_t count = smaller(kValuesTogether, tile.group_end(group) - key);
    const int64_t row = head * group_size(shape());
    const Matrix weights{scratch.logits + row * kTileKeys + key, kTileKeys};
    with_rows(work.buffers->value_cache, tile.slot[group] + key - group * kGroupKeys,
              segment.kv_head_begin + head, count, shape().v_head_size, ahead_of(group),
              [&](auto values, Ahead ahead) {
                add_weighted(weights, values, count, ahead, {sums + row * padded, padded},
                             group_size(shape()), padded);
              });
  }

  // Weights are found between the sums and not all at once, so that memory never has to wait.
  void add_to(const Accumulated& target) const {
    walk_next_pages();
    compute_logits();
    const LogitScale scale = logit_scale(shape());
    const int64_t heads = segment.kv_head_end - segment.kv_head_begin;
    bool has_weights = false;
    for (int group = 0; group < tile.groups(); ++group) {
      if (tile.slot[group] < 0) continue;
      for (int64_t key = tile.group_begin(group); key < tile.group_end(group);
           key += kValuesTogether) {
        for (int64_t head = 0; head < heads; ++head) {
          if (!has_weights) weigh(head, scale, target);
          add_values(group, key, head, target.sums);
        }
        has_weights = true;
      }
    }
  }
};

// Keys of a tile: few enough that the next tile, fetched meanwhile, is still near when its turn
// comes, and enough that finding the largest logit is little work.
template <typename C>
inline int64_t tile_keys(const CallShape& shape) {
  constexpr int64_t kTileBytes = 32 * 1024;
  const int64_t key_bytes =
      shape.kv_num_heads * shape.head_size * static_cast<int64_t>(sizeof(C));
  int64_t keys = kTileKeys;
  while (keys > kGroupKeys && keys * key_bytes > kTileBytes) keys /= 2;
  return keys;
}

// Tiles of a part's keys, one after the other; none ends at 0.
template <typename C>
struct TileWalk {
  const Work& work;
  Part part;

  Tile at(int64_t first) const {
    const CallShape& shape = *work.shape;
    const int32_t* table = work.buffers->block_table + part.segment->row * shape.table_stride;
    return locate_tile(shape, table, first, split_range(*part.segment, part.split),
                       tile_keys<C>(shape));
  }

  Tile first() const {
    if (part.segment == nullptr || part.segment->tokens() > 1) return {};
    const int64_t step = tile_keys<C>(*work.shape);
    return at(split_range(*part.segment, part.split).begin / step * step);
  }

  Tile after(const Tile& tile) const { return at(tile.first + tile_keys<C>(*work.shape)); }
};

// Accumulates a part of one token.
template <typename C>
void attend_token(const Work& work, Part part, Part upcoming, const Accumulated& target,
                  float* memory) {
  const CallShape& shape = *work.shape;
  const int64_t rows = segment_rows(shape, *part.segment);
  float* logits = memory + rows * padded_head_size(shape);
  const TokenScratch scratch{memory, logits, logits + rows * kTileKeys};
  load_queries(work, *part.segment, stored_unit<C>(), scratch.queries);
  const TileWalk<C> walk{work, part};
  Tile next = walk.first();
  while (next.end > 0) {
    const Tile tile = next;
    next = walk.after(tile);
    const Tile fetched = next.end > 0 ? next : TileWalk<C>{work, upcoming}.first();
    TokenTile<C>{work, *part.segment, tile, fetched, scratch}.add_to(target);
  }
  scale_row(stored_unit<C>(), rows * padded_v_head_size(shape), target.sums);
}

}  // namespace
}  // namespace pa
