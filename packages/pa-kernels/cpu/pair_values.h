// Weighted sums of float8 values for one token's query heads, from pairs of bfloat16 numbers.
#pragma once

#include "float8_pairs.h"
#include "values.h"

#if defined(__AVX512BF16__)

namespace pa {
namespace {

// Pairs of neighbouring rows.
struct PairedRows {
  const Float8* even;
  const Float8* odd;
  int64_t stride;  // from pair to pair, in elements
  int64_t count;   // of pairs
};

// sums [R, columns] += weights [R, pairs] values, over the columns of one chunk.
template <int R, bool whole>
inline void add_pair_chunk(const Bfloat16* weights, const PairedRows& values,
                           ChunkSize<whole> size, Ahead ahead, Sums sums) {
  constexpr int kVectors = kChunk / kLanes;
  Vec total[R][kVectors];
  PA_UNROLL for (int r = 0; r < R; ++r) {
    PA_UNROLL for (int v = 0; v < kVectors; ++v) {
      total[r][v] = size.load_floats(sums.data + r * sums.stride, v * kLanes);
    }
  }
  for (int64_t pair = 0; pair < values.count; ++pair) {
    ahead.take<2 * kChunk>();
    const RowPairs rows = row_pairs(values.even + pair * values.stride,
                                    values.odd + pair * values.stride, size);
    PA_UNROLL for (int r = 0; r < R; ++r) {
      int32_t both;
      std::memcpy(&both, weights + r * 2 * kTileKeys + pair * 2, sizeof both);
      const __m512i weight = _mm512_set1_epi32(both);
      PA_UNROLL for (int v = 0; v < kVectors; ++v) {
        total[r][v] = add_pairs(total[r][v], weight, rows.vectors[v]);
      }
    }
  }
  PA_UNROLL for (int r = 0; r < R; ++r) {
    PA_UNROLL for (int v = 0; v < kVectors; ++v) {
      size.store_floats(total[r][v], v * kLanes, sums.data + r * sums.stride);
    }
  }
}

// sums [G, columns] += weights [G, pairs] values; a row of weights is 2 * kTileKeys long.
inline void add_weighted_pairs(const Bfloat16* weights, PairedRows values, int64_t columns,
                               Ahead ahead, Sums sums, int64_t group_heads) {
  for_heads_together(group_heads, [&](auto together, int64_t head) {
    constexpr int kHeads = decltype(together)::kQueries;
    const Bfloat16* some = weights + head * 2 * kTileKeys;
    const Sums out{sums.data + head * sums.stride, sums.stride};
    Ahead fetched = head == 0 ? ahead : Ahead::near(out.data);
    const auto step = [&](int64_t c, auto size) {
      const PairedRows part{values.even + c, values.odd + c, values.stride, values.count};
      add_pair_chunk<kHeads>(some, part, size, fetched, {out.data + c, out.stride});
      fetched = fetched.after(values.count * 2 * kChunk);
    };
    for_chunks(columns, step);
  });
}

}  // namespace
}  // namespace pa

#endif
