// Logits of one token's query heads against codes, from pairs of bfloat16 numbers.
#pragma once

#include "logits.h"
#include "pair_chunk.h"

#if defined(__AVX512BF16__)

namespace pa {
namespace {

// Queries of one KV head, [G, in_chunks(size)] each, zeros behind the last channel.
struct PairQueries {
  const Bfloat16* high;
  const Bfloat16* low;  // what high leaves, or null
  int64_t size;
};

// Adds the products of Q queries with a chunk of one key to every P-th sum.
template <int Q, int P>
__attribute__((always_inline)) inline void add_key(const Bfloat16* queries, int64_t stride,
                                                   const ChannelPairs& key, Vec* sums) {
  PA_UNROLL for (int q = 0; q < Q; ++q) {
    PA_UNROLL for (int v = 0; v < 2; ++v) {
      const __m512i query = _mm512_loadu_si512(queries + q * stride + 32 * v);
      sums[q * P] = add_pairs(sums[q * P], query, key.vectors[v]);
    }
  }
}

// Q queries from `head` on times P keys: lane q * P + key of the result is query q . key.
template <int Q, int P, typename C>
__attribute__((always_inline)) inline Vec some_pair_logits(const PairQueries& queries, int64_t head,
                                                           Rows<C> keys, Ahead ahead) {
  const int64_t stride = in_chunks(queries.size);
  Vec sums[kLanes] = {};
  const auto step = [&](int64_t c, auto size) __attribute__((always_inline)) {
    const int64_t skipped = head * stride + c;
    ahead.take<P * kChunk>();
    PA_UNROLL for (int p = 0; p < P; ++p) {
      const ChannelPairs key = channel_pairs(keys.data + p * keys.stride + c, size);
      add_key<Q, P>(queries.high + skipped, stride, key, sums + p);
      if (queries.low != nullptr) add_key<Q, P>(queries.low + skipped, stride, key, sums + p);
    }
  };
  int64_t c = 0;
  for (; c + kChunk <= queries.size; c += kChunk) step(c, ChunkSize<true>{kChunk});
  if (c < queries.size) step(c, ChunkSize<false>{queries.size - c});
  return sum_each(sums);
}

// Logits of one pass for the query heads of one KV head; logits: [G, kTileKeys].
template <typename C>
inline void pass_pair_logits(const PairQueries& queries, int64_t group_heads, Rows<C> keys,
                             Ahead ahead, float* logits) {
  for_heads_together(group_heads, [&](auto together, int64_t head) {
    constexpr int kQueries = decltype(together)::kQueries;
    constexpr int kKeys = decltype(together)::kKeys;
    const Ahead own = head == 0 ? ahead : Ahead::near(queries.high);
    store_logits<kQueries, kKeys>(some_pair_logits<kQueries, kKeys>(queries, head, keys, own),
                                  logits + head * kTileKeys);
  });
}

}  // namespace
}  // namespace pa

#endif
