// Logits of one token's query heads against codes, from pairs of bfloat16 numbers.
#pragma once

#include "logits.h"
#include "pair_chunk.h"

#if defined(__AVX512BF16__)

namespace pa {
namespace {

// Queries of one KV head, [G, in_chunks(size)], zeros behind the last channel.
struct PairQueries {
  const Bfloat16* data;
  int64_t size;

  const Bfloat16* at(int64_t head, int64_t c) const { return data + head * in_chunks(size) + c; }
};

// Q queries from `head` on times P keys: lane q * P + key of the result is query q . key.
template <int Q, int P, typename C>
__attribute__((always_inline)) inline Vec some_pair_logits(const PairQueries& queries, int64_t head,
                                                           Rows<C> keys, Ahead ahead) {
  Vec sums[kLanes] = {};
  const auto step = [&](int64_t c, auto size) __attribute__((always_inline)) {
    ahead.fetch(P);
    ahead = ahead.after(P * Ahead::kLineBytes);
    PA_UNROLL for (int p = 0; p < P; ++p) {
      const ChannelPairs key = channel_pairs(keys.data + p * keys.stride + c, size);
      PA_UNROLL for (int q = 0; q < Q; ++q) {
        PA_UNROLL for (int v = 0; v < 2; ++v) {
          const __m512i query = _mm512_loadu_si512(queries.at(head + q, c + 32 * v));
          sums[q * P + p] = add_pairs(sums[q * P + p], query, key.vectors[v]);
        }
      }
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
    const Ahead own = head == 0 ? ahead : Ahead::near(queries.data);
    store_logits<kQueries, kKeys>(some_pair_logits<kQueries, kKeys>(queries, head, keys, own),
                                  logits + head * kTileKeys);
  });
}

}  // namespace
}  // namespace pa

#endif
