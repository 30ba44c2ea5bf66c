// Logits of one token's query heads against float8 keys, from pairs of bfloat16 numbers.
#pragma once

#include "float8_pairs.h"
#include "key_columns.h"
#include "pace.h"

#if defined(__AVX512BF16__)

namespace pa {
namespace {

// Queries of one KV head, [G, in_chunks(size)], zeros behind the last channel. Bfloat16: as given.
// float: changed ones, of each four channels the first and the third before the others.
template <typename T>
struct PairQueries {
  const T* data;
  int64_t size;

  PairQueries from(int64_t head) const { return {data + head * in_chunks(size), size}; }
};

// Two sums a key: of its even pairs of channels and of its odd ones. Lanes 4 q to 4 q + 3 are keys
// 4 q and 4 q + 1 of `first`, 4 q + 2 and 4 q + 3 of `second`.
struct KeySums {
  Vec first;
  Vec second;
};

// Of each four lanes the third before the second: what add_column takes of changed queries.
inline Vec third_before_second(Vec value) {
  constexpr int kOrder = 0xD8;
  return bit_cast<Vec>(_mm512_permute_ps(bit_cast<__m512>(value), kOrder));
}

inline __m512i broadcast_half(const void* two) {
  int64_t both;
  std::memcpy(&both, two, sizeof both);
  return _mm512_set1_epi64(both);
}

// sums += queries . keys over four channels, an even and an odd pair of them.
template <int Q>
__attribute__((always_inline)) inline void add_column(const Bfloat16* queries, int64_t stride,
                                                      const WordPairs& keys, KeySums* sums) {
  PA_UNROLL for (int q = 0; q < Q; ++q) {
    const __m512i query = broadcast_half(queries + q * stride);
    sums[q].first = add_pairs(sums[q].first, query, keys.lower);
    sums[q].second = add_pairs(sums[q].second, query, keys.upper);
  }
}

// The same in float, a product at a time: cheaper than pairs with both parts of a query.
template <int Q>
__attribute__((always_inline)) inline void add_column(const float* queries, int64_t stride,
                                                      const WordPairs& keys, KeySums* sums) {
  const auto low = [](__m512i pairs) { return bit_cast<Vec>(bit_cast<WordVec>(pairs) << 16); };
  const auto high = [](__m512i pairs) {
    return bit_cast<Vec>(bit_cast<WordVec>(pairs) & 0xFFFF0000U);
  };
  const Vec first_low = low(keys.lower), first_high = high(keys.lower);
  const Vec second_low = low(keys.upper), second_high = high(keys.upper);
  PA_UNROLL for (int q = 0; q < Q; ++q) {
    const Vec even = bit_cast<Vec>(broadcast_half(queries + q * stride));
    const Vec odd = bit_cast<Vec>(broadcast_half(queries + q * stride + 2));
    sums[q].first += even * first_low;
    sums[q].second += even * second_low;
    sums[q].first += odd * first_high;
    sums[q].second += odd * second_high;
  }
}

inline Vec sum_of_halves(const KeySums& sums) {
  constexpr int kEven = 0x88, kOdd = 0xDD;
  const __m512 a = bit_cast<__m512>(sums.first), b = bit_cast<__m512>(sums.second);
  return bit_cast<Vec>(_mm512_shuffle_ps(a, b, kEven)) +
         bit_cast<Vec>(_mm512_shuffle_ps(a, b, kOdd));
}

// Logits of the first Q queries with a group's keys; logits: rows of kTileKeys.
template <int Q, typename T>
inline void some_pair_logits(const PairQueries<T>& queries, Rows<Float8> keys, Ahead ahead,
                             float* logits) {
  const int64_t stride = in_chunks(queries.size);
  KeySums sums[Q] = {};
  const auto step = [&](int64_t c, auto size) __attribute__((always_inline)) {
    ahead.take<kGroupKeys * kChunk>();
    const KeyColumns columns = key_columns(keys.data + c, keys.stride, size);
    PA_UNROLL for (int j = 0; j < kChunk / 4; ++j) {
      const WordPairs key = interleave(widen(columns.vectors[j]));
      add_column<Q>(queries.data + c + 4 * j, stride, key, sums);
    }
  };
  for_chunks(queries.size, step);
  PA_UNROLL for (int q = 0; q < Q; ++q) store(sum_of_halves(sums[q]), logits + q * kTileKeys);
}

template <typename T>
inline void group_pair_logits(const PairQueries<T>& queries, int64_t group_heads,
                              Rows<Float8> keys, Ahead ahead, float* logits) {
  for_heads_together(group_heads, [&](auto together, int64_t head) {
    const Ahead own = head == 0 ? ahead : Ahead::near(queries.data);
    some_pair_logits<decltype(together)::kQueries>(queries.from(head), keys, own,
                                                   logits + head * kTileKeys);
  });
}

}  // namespace
}  // namespace pa

#endif
