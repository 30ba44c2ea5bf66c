// Attention of several tokens of a row: tiles of queries against tiles of keys, as small matrix
// products. The tokens' heads that share a KV head are rows of one tile.
#pragma once

#include "product.h"
#include "query.h"

namespace pa {
namespace {

// Buffers of a segment's rows and of one tile.
struct PrefillScratch {
  float* queries;  // [rows, padded]
  float* logits;   // [rows, kTileKeys]
  float* keys;     // [padded, kTileKeys]
  float* values;   // [kTileKeys, padded v]

  PrefillScratch(float* memory, int64_t rows, int64_t padded)
      : queries(memory),
        logits(queries + rows * padded),
        keys(logits + rows * kTileKeys),
        values(keys + padded * kTileKeys) {}
};

// Floats that hold the tokens' key ranges, rounded up to keep what follows aligned.
inline int64_t range_floats(int64_t tokens) {
  return (tokens * static_cast<int64_t>(sizeof(KeyRange) / sizeof(float)) + 15) / 16 * 16;
}

inline int64_t tokens_scratch_floats(const CallShape& shape, int64_t rows) {
  const int64_t widths = padded_head_size(shape) + padded_v_head_size(shape);
  return range_floats(rows) + rows * (padded_head_size(shape) + kTileKeys) + kTileKeys * widths;
}

// Reads the tile's keys and values of one KV head; what is unmapped or not wanted becomes 0.
template <typename C>
void load_tile(const Work& work, const Tile& tile, int64_t kv_head, const PrefillScratch& scratch) {
  const CallShape& shape = *work.shape;
  const int64_t padded = padded_head_size(shape);
  const int64_t padded_v = padded_v_head_size(shape);
  const int64_t stride = shape.kv_num_heads * shape.head_size;
  for (int group = 0; group < tile.groups(); ++group) {
    float* keys = scratch.keys + group * kGroupKeys;
    float* values = scratch.values + group * kGroupKeys * padded_v;
    if (tile.slot[group] < 0 || tile.group_end(group) - tile.group_begin(group) < kGroupKeys) {
      for (int64_t i = 0; i < kGroupKeys * padded_v; i += kLanes) {
        store(broadcast(0.0F), values + i);
      }
    }
    if (tile.slot[group] < 0) {
      for (int64_t c = 0; c < padded; ++c) {
        for (int i = 0; i < kGroupKeys; i += kLanes) {
          store(broadcast(0.0F), keys + c * kTileKeys + i);
        }
      }
      continue;
    }
    const int64_t offset = (tile.slot[group] * shape.kv_num_heads + kv_head) * shape.head_size;
    transpose_group(static_cast<const C*>(work.buffers->key_cache) + offset, stride,
                    shape.head_size, padded, keys);
    const int skipped = tile.group_begin(group) - group * kGroupKeys;
    copy_rows(static_cast<const C*>(work.buffers->value_cache) + offset + skipped * stride, stride,
              tile.group_end(group) - tile.group_begin(group), shape.v_head_size, padded_v,
              values + skipped * padded_v);
  }
}

// Tokens [begin, end) of a segment, counted from its first, that see a key of the tile.
struct ActiveTokens {
  int64_t begin;
  int64_t end;
  bool masked;  // one of them does not see all of the tile's wanted keys
};

inline ActiveTokens active_tokens(const KeyRange* visible, int64_t tokens, const Tile& tile) {
  const int64_t first = tile.first + tile.begin;
  const int64_t last = tile.first + tile.end;
  ActiveTokens active{tokens, 0, false};
  for (int64_t i = 0; i < tokens; ++i) {
    if (visible[i].end <= first || visible[i].begin >= last) continue;
    active.begin = smaller(active.begin, i);
    active.end = i + 1;
  }
  for (int64_t i = active.begin; i < active.end; ++i) {
    active.masked = active.masked || visible[i].begin > first || visible[i].end < last;
  }
  return active;
}

// sums += weights . values for rows whose weights are 0 outside what they see. A value that is not
// finite must not meet such a 0, so those tiles take each row over its own keys.
inline void add_values(const Tile& tile, const ActiveTokens& active, const KeyRange* visible,
                       int64_t group_heads, int64_t padded, const PrefillScratch& scratch,
                       float* sums) {
  const int64_t row = active.begin * group_heads;
  const Matrix values{scratch.values, padded};
  if (!active.masked || all_finite(scratch.values, tile.groups() * kGroupKeys * padded)) {
    product({scratch.logits + row * kTileKeys, kTileKeys}, values,
            {sums + row * padded, padded, true}, (active.end - active.begin) * group_heads,
            tile.end, padded);
    return;
  }
  for (int64_t i = active.begin; i < active.end; ++i) {
    const int64_t begin = greater(visible[i].begin - tile.first, 0);
    const int64_t end = smaller(visible[i].end - tile.first, tile.end);
    if (begin >= end) continue;
    product({scratch.logits + i * group_heads * kTileKeys + begin, kTileKeys},
            Matrix{scratch.values + begin * padded, padded},
            {sums + i * group_heads * padded, padded, true},
            group_heads, end - begin, padded);
  }
}

// Accumulates a segment of one KV head over a range of its keys. scratch: PrefillScratch, then the
// tokens' key ranges.
template <typename C>
void attend_tokens(const Work& work, const Segment& segment, KeyRange keys,
                   const Accumulated& target, float* memory) {
  const CallShape& shape = *work.shape;
  const int64_t group_heads = group_size(shape);
  const int64_t padded = padded_head_size(shape);
  const int64_t padded_v = padded_v_head_size(shape);
  const int64_t tokens = segment.tokens();
  const int64_t rows = tokens * group_heads;
  const int32_t* table = work.buffers->block_table + segment.row * shape.table_stride;
  const LogitScale scale = logit_scale(shape);
  KeyRange* visible = reinterpret_cast<KeyRange*>(memory);
  const PrefillScratch scratch(memory + range_floats(tokens), rows, padded);
  for (int64_t i = 0; i < tokens; ++i) {
    visible[i] = visible_keys(shape, *work.buffers, segment.row, segment.token_begin + i);
  }
  load_queries(work, segment, rows, scratch.queries);
  for (int64_t first = keys.begin / kTileKeys * kTileKeys; first < keys.end; first += kTileKeys) {
    const Tile tile = locate_tile(shape, table, first, keys);
    const ActiveTokens active = active_tokens(visible, tokens, tile);
    if (active.begin >= active.end) continue;
    load_tile<C>(work, tile, segment.kv_head_begin, scratch);
    const int64_t row = active.begin * group_heads;
    product({scratch.queries + row * padded, padded}, Matrix{scratch.keys, kTileKeys},
            {scratch.logits + row * kTileKeys, kTileKeys, false},
            (active.end - active.begin) * group_heads, padded, tile.groups() * kGroupKeys);
    for (int64_t r = row; r < active.end * group_heads; ++r) {
      const KeyRange seen = visible[r / group_heads];
      const float keep = weigh_tile(
          tile, scale, static_cast<int>(greater(seen.begin - first, tile.begin)),
          static_cast<int>(greater(smaller(seen.end - first, tile.end), 0)),
          scratch.logits + r * kTileKeys, target.highest + r, target.total + r);
      scale_row(keep, padded_v, target.sums + r * padded_v);
    }
    add_values(tile, active, visible, group_heads, padded_v, scratch, target.sums);
  }
}

}  // namespace
}  // namespace pa
