// Attention of several tokens of a row: tiles of queries against tiles of keys, as small matrix
// products. The tokens' heads that share a KV head are rows of one tile.
#pragma once

#include "float_tiles.h"
#include "pair_tiles.h"
#include "weigh.h"

namespace pa {
namespace {

template <typename C>
struct TilesOf {
  using Type = FloatTiles<C>;
};

#if defined(__AVX512BF16__)
template <>
struct TilesOf<Bfloat16> {
  using Type = PairTiles;
};
#endif

// Floats of the tokens' key ranges, then of the tiles: queries, logits, keys and values.
inline int64_t tokens_scratch_floats(const CallShape& shape, int64_t rows) {
  const int64_t widths = padded_head_size(shape) + padded_v_head_size(shape);
  return range_floats(rows) + rows * (padded_head_size(shape) + kTileKeys) + kTileKeys * widths;
}

// Several tokens of one KV head on their way through a row's keys.
template <typename Tiles>
struct TokensOfSegment {
  const Tiles& tiles;
  const KeyRange* visible;  // of each token
  int64_t group_heads;
  int64_t padded_v;
  LogitScale scale;

  // Turns the active rows' logits into weights, and scales what they accumulated before.
  void weigh(const Tile& tile, const ActiveTokens& active, const Accumulated& target) const {
    const int64_t end = active.end * group_heads;
    for (int64_t row = active.begin * group_heads; row < end; row += kLanes) {
      const int64_t count = smaller(kLanes, end - row);
      const auto seen = [&](int64_t r) {
        return seen_keys(visible[(row + r) / group_heads], tile);
      };
      float* sums = target.sums + row * padded_v;
      const Kept kept = weigh_rows<typename Tiles::Weight>(
          tile, scale, count, seen, tiles.logits(row),
          {sums, target.highest + row, target.total + row});
      for (int64_t r = 0; r < count; ++r) scale_row(kept.factor[r], padded_v, sums + r * padded_v);
    }
  }

  // sums += weights . values for rows whose weights are 0 outside what they see. A value that is
  // not finite must not meet such a 0, so those tiles take each row over its own keys.
  void add_values(const Tile& tile, const ActiveTokens& active, float* sums) const {
    if (!active.masked || tiles.has_finite_values(tile)) {
      const int64_t row = active.begin * group_heads;
      return tiles.add_values(tile, row, (active.end - active.begin) * group_heads,
                              sums + row * padded_v);
    }
    tiles.separate_values(tile);
    for (int64_t i = active.begin; i < active.end; ++i) {
      const Seen seen = seen_keys(visible[i], tile);
      if (seen.begin >= seen.end) continue;
      tiles.add_seen_values(seen, i * group_heads, group_heads, sums + i * group_heads * padded_v);
    }
  }
};

// Accumulates a segment of one KV head over a range of its keys.
template <typename C>
void attend_tokens(const Work& work, const Segment& segment, KeyRange keys,
                   const Accumulated& target, float* memory) {
  using Tiles = typename TilesOf<C>::Type;
  const CallShape& shape = *work.shape;
  const int64_t group_heads = group_size(shape);
  const int64_t tokens = segment.tokens();
  const int32_t* table = work.buffers->block_table + segment.row * shape.table_stride;
  KeyRange* visible = reinterpret_cast<KeyRange*>(memory);
  for (int64_t i = 0; i < tokens; ++i) {
    visible[i] = visible_keys(shape, *work.buffers, segment.row, segment.token_begin + i);
  }
  const Tiles tiles(work, segment, tokens * group_heads, memory + range_floats(tokens));
  const TokensOfSegment<Tiles> own{tiles, visible, group_heads, padded_v_head_size(shape),
                                   logit_scale(shape)};
  for (int64_t first = keys.begin / kTileKeys * kTileKeys; first < keys.end; first += kTileKeys) {
    const Tile tile = locate_tile(shape, table, first, keys);
    const ActiveTokens active = active_tokens(visible, tokens, tile);
    if (active.begin >= active.end) continue;
    tiles.load(tile);
    tiles.multiply_keys(tile, active.begin * group_heads,
                        (active.end - active.begin) * group_heads);
    own.weigh(tile, active, target);
    own.add_values(tile, active, target.sums);
  }
}

}  // namespace
}  // namespace pa
