// Attention of one token: the cache is read once and nearly in the order in which it lies, a few
// slots with all their heads at a time. Head after head, with all slots of a block for each, would
// be shorter; but slots are a power of two apart, and the first-level cache has no room for many.
#pragma once

#include "fixed_stream.h"
#include "pair_stream.h"
#include "row_stream.h"

namespace pa {
namespace {

// One tile of the row's keys, for all KV heads of the segment.
template <typename Stream>
struct TokenTile {
  using C = typename Stream::Element;

  const Work& work;
  const Pace& pace;
  const Tile& tile;
  const Tile& next;
  const Stream& stream;
  const Accumulated& target;

  const CallShape& shape() const { return *work.shape; }

  const char* start(const void* cache, const Tile& of, int group) const {
    return static_cast<const char*>(cache) + of.slot[group] * pace.slot_bytes;
  }

  // Where a key of this tile has the given KV head.
  const C* place(const void* cache, int key, int64_t head) const {
    return reinterpret_cast<const C*>(start(cache, tile, key / kGroupKeys)) +
           (key % kGroupKeys * shape().kv_num_heads + head) * shape().head_size;
  }

  // Where every request had to walk through the page tables, the first ones of a page came late.
  void walk_next_pages() const {
    for (int group = 0; group < next.groups(); ++group) {
      if (next.slot[group] < 0) continue;
      walk_pages(start(work.buffers->key_cache, next, group), kGroupKeys * pace.slot_bytes);
      walk_pages(start(work.buffers->value_cache, next, group), kGroupKeys * pace.slot_bytes);
    }
  }

  // What is asked for while slots are read of which the first is `read` slots behind the tile's
  // first: as much of what is read later. Values follow keys, then the next tile.
  Ahead ahead_of(int read) const {
    const int slots = tile.groups() * kGroupKeys;
    const int place = read + pace.ahead;
    const bool beyond = place >= 2 * slots;
    const bool values = place >= slots && !beyond;
    const int slot = place - (beyond ? 2 : (values ? 1 : 0)) * slots;
    const Tile& of = beyond ? next : tile;
    if (slot >= kTileKeys || of.slot[slot / kGroupKeys] < 0) return Ahead::near(stream.near());
    const void* cache = values ? work.buffers->value_cache : work.buffers->key_cache;
    return Ahead::near(start(cache, of, slot / kGroupKeys) + slot % kGroupKeys * pace.slot_bytes);
  }

  // Bytes that `count` slots have of one KV head.
  int64_t head_bytes(int count) const { return count * pace.slot_bytes / shape().kv_num_heads; }

  // A group that is not mapped is masked later, whatever stands there.
  void compute_logits() const {
    const int step = stream.keys_together();
    for (int key = 0; key < tile.groups() * kGroupKeys; key += step) {
      if (tile.slot[key / kGroupKeys] < 0) continue;
      const Ahead ahead = ahead_of(key);
      for (int64_t head = 0; head < shape().kv_num_heads; ++head) {
        stream.multiply_keys(place(work.buffers->key_cache, key, head), key, head,
                             ahead.after(head * head_bytes(step)));
      }
    }
  }

  // Turns the logits of `count` rows, kLanes at most, into weights.
  void weigh(int64_t row, int64_t count) const {
    const int64_t padded = padded_v_head_size(shape());
    float* sums = target.sums + row * padded;
    const Kept kept =
        stream.weigh(tile, row, count, {sums, target.highest + row, target.total + row});
    for (int64_t i = 0; i < count; ++i) scale_row(kept.factor[i], padded, sums + i * padded);
  }

  // Weighs the rows of a few KV heads, those from `head` on: about as many as one vector holds.
  void weigh_heads(int64_t head) const {
    const int64_t together = greater(kLanes / group_size(shape()), 1);
    if (head % together != 0) return;
    const int64_t end = smaller((head + together) * group_size(shape()), shape().num_heads);
    for (int64_t row = head * group_size(shape()); row < end; row += kLanes) {
      weigh(row, smaller(kLanes, end - row));
    }
  }

  // Only wanted values take part: another slot of the block may hold NaN, and 0 * NaN is NaN.
  // Weights are found between the sums and not all at once, so that memory never has to wait.
  void add() const {
    walk_next_pages();
    compute_logits();
    const int slots = tile.groups() * kGroupKeys;
    bool has_weights = false;
    for (int first = 0; first < slots; first += pace.pass) {
      if (tile.slot[first / kGroupKeys] < 0) continue;
      const int begin = first > tile.begin ? first : tile.begin;
      const int end = first + pace.pass < tile.end ? first + pace.pass : tile.end;
      if (begin >= end) continue;
      const Ahead ahead = ahead_of(slots + begin);
      for (int64_t head = 0; head < shape().kv_num_heads; ++head) {
        if (!has_weights) weigh_heads(head);
        stream.add_values(place(work.buffers->value_cache, begin, head), begin, end - begin, head,
                          ahead.after(head * head_bytes(end - begin)), target.sums);
      }
      has_weights = true;
    }
  }
};

// Tiles of a part's keys, one after the other; none ends at 0.
struct TileWalk {
  const Work& work;
  const Pace& pace;
  Part part;

  Tile at(int64_t first) const {
    const CallShape& shape = *work.shape;
    const int32_t* table = work.buffers->block_table + part.segment->row * shape.table_stride;
    return locate_tile(shape, table, first, split_range(*part.segment, part.split),
                       pace.tile);
  }

  Tile first() const {
    if (part.segment == nullptr || part.segment->tokens() > 1) return {};
    return at(split_range(*part.segment, part.split).begin / pace.tile * pace.tile);
  }

  Tile after(const Tile& tile) const { return at(tile.first + pace.tile); }
};

// Accumulates a part of one token, whose segment has all KV heads.
template <typename Stream>
void attend_stream(const Work& work, Part part, Part upcoming, const Accumulated& target,
                   const Stream& stream) {
  const Pace pace = Pace::of(*work.shape, sizeof(typename Stream::Element), stream.keys_together());
  const TileWalk walk{work, pace, part};
  Tile next = walk.first();
  while (next.end > 0) {
    const Tile tile = next;
    next = walk.after(tile);
    const Tile fetched = next.end > 0 ? next : TileWalk{work, pace, upcoming}.first();
    TokenTile<Stream>{work, pace, tile, fetched, stream, target}.add();
  }
}

template <typename C>
void attend_token(const Work& work, Part part, Part upcoming, const Accumulated& target,
                  float* memory) {
  const int64_t rows = segment_rows(*work.shape, *part.segment);
#if defined(__AVX512BF16__)
  if (work.shape->dtype == Dtype::kBfloat16) {
    if constexpr (std::is_same_v<C, Int8>) {
      const FixedStream stream(work, *part.segment, rows, memory);
      if (stream.has_digits()) return attend_stream(work, part, upcoming, target, stream);
    }
    if constexpr (std::is_same_v<C, Float8>) {
      return attend_stream(work, part, upcoming, target,
                           PairStream(work, *part.segment, rows, memory));
    }
  }
#endif
  attend_stream(work, part, upcoming, target, RowStream<C>(work, *part.segment, rows, memory));
}

// Floats of scratch that any stream of this unit needs.
inline int64_t stream_floats(const CallShape& shape, int64_t rows) {
  int64_t most = RowStream<float>::floats(shape, rows);
#if defined(__AVX512BF16__)
  most = greater(most, greater(PairStream::floats(shape, rows), FixedStream::floats(shape, rows)));
#endif
  return most;
}

}  // namespace
}  // namespace pa
