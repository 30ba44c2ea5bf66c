// Logits of one token's query heads against float8 keys, from pairs of bfloat16 numbers.
#pragma once

#include "float8_pairs.h"
#include "key_columns.h"
#include "pace.h"

#if defined(__AVX512BF16__)

namespace pa {
namespace {

// Queries of one KV head, [G, in_chunks(size)] each, zeros behind the last channel.
struct PairQueries {
  const Bfloat16* high;
  const Bfloat16* low;  // what high leaves, or null
  int64_t size;

  PairQueries from(int64_t head) const {
    const int64_t skipped = head * in_chunks(size);
    return {high + skipped, low == nullptr ? nullptr : low + skipped, size};
  }
};

// Two sums a key: of its even pairs of channels and of its odd ones. Lanes 4 q to 4 q + 3 are keys
// 4 q and 4 q + 1 of `first`, 4 q + 2 and 4 q + 3 of `second`.
struct KeySums {
  Vec first;
  Vec second;
};

// sums += queries . keys over four channels, an even and an odd pair of them.
template <int Q>
__attribute__((always_inline)) inline void add_column(const Bfloat16* queries, int64_t stride,
                                                      const WordPairs& keys, KeySums* sums) {
  PA_UNROLL for (int q = 0; q < Q; ++q) {
    int64_t both;
    std::memcpy(&both, queries + q * stride, sizeof both);
    const __m512i query = _mm512_set1_epi64(both);
    sums[q].first = add_pairs(sums[q].first, query, keys.lower);
    sums[q].second = add_pairs(sums[q].second, query, keys.upper);
  }
}

inline Vec sum_of_halves(const KeySums& sums) {
  constexpr int kEven = 0x88, kOdd = 0xDD;
  const __m512 a = bit_cast<__m512>(sums.first), b = bit_cast<__m512>(sums.second);
  return bit_cast<Vec>(_mm512_shuffle_ps(a, b, kEven)) +
         bit_cast<Vec>(_mm512_shuffle_ps(a, b, kOdd));
}

// Logits of the first Q queries with a group's keys; logits: rows of kTileKeys.
template <int Q>
inline void some_pair_logits(const PairQueries& queries, Rows<Float8> keys, Ahead ahead,
                             float* logits) {
  const int64_t stride = in_chunks(queries.size);
  KeySums sums[Q] = {};
  const auto step = [&](int64_t c, auto size) __attribute__((always_inline)) {
    ahead.take<kGroupKeys * kChunk>();
    const KeyColumns columns = key_columns(keys.data + c, keys.stride, size);
    PA_UNROLL for (int j = 0; j < kChunk / 4; ++j) {
      const WordPairs key = interleave(widen(columns.vectors[j]));
      add_column<Q>(queries.high + c + 4 * j, stride, key, sums);
      if (queries.low != nullptr) add_column<Q>(queries.low + c + 4 * j, stride, key, sums);
    }
  };
  int64_t c = 0;
  for (; c + kChunk <= queries.size; c += kChunk) step(c, ChunkSize<true>{kChunk});
  if (c < queries.size) step(c, ChunkSize<false>{queries.size - c});
  PA_UNROLL for (int q = 0; q < Q; ++q) store(sum_of_halves(sums[q]), logits + q * kTileKeys);
}

inline void group_pair_logits(const PairQueries& queries, int64_t group_heads, Rows<Float8> keys,
                              Ahead ahead, float* logits) {
  for_heads_together(group_heads, [&](auto together, int64_t head) {
    const Ahead own = head == 0 ? ahead : Ahead::near(queries.high);
    some_pair_logits<decltype(together)::kQueries>(queries.from(head), keys, own,
                                                   logits + head * kTileKeys);
  });
}

}  // namespace
}  // namespace pa

#endif
