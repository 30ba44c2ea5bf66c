// Logits of one token's query heads against a few keys.
#pragma once

#include "pace.h"
#include "product.h"

namespace pa {
namespace {

// Q queries times P keys, Q * P <= kLanes: lane q * P + key of the result is query q . key. Each
// key is loaded once for all queries.
template <int Q, int P, typename T>
__attribute__((always_inline)) inline Vec some_logits(const float* queries, Rows<T> keys,
                                                      int64_t padded, Ahead ahead) {
  constexpr int64_t kLine = Ahead::kLineBytes / static_cast<int64_t>(sizeof(T));
  Vec sums[kLanes] = {};
  const auto step = [&](int64_t c) __attribute__((always_inline)) {
    PA_UNROLL for (int p = 0; p < P; ++p) {
      if (kReadsAsItLies<T>) forget_memory();
      const Vec key = load(keys.data + p * keys.stride + c);
      PA_UNROLL for (int q = 0; q < Q; ++q) {
        sums[q * P + p] += load(queries + q * padded + c) * key;
      }
    }
  };
  int64_t c = 0;
  for (; c + kLine <= padded; c += kLine) {
    ahead.take<P * Ahead::kLineBytes>();
    PA_UNROLL for (int64_t i = 0; i < kLine; i += kLanes) step(c + i);
  }
  for (; c < padded; c += kLanes) {
    ahead.take<P * kLanes * sizeof(T)>();
    step(c);
  }
  return sum_each(sums);
}

// Lane q * P + key is the logit of query q and that key; logits: rows of kTileKeys.
template <int Q, int P>
inline void store_logits(Vec both, float* logits) {
  float lanes[kLanes];
  store(both, lanes);
  for (int q = 0; q < Q; ++q) {
    std::memcpy(logits + q * kTileKeys, lanes + q * P, P * sizeof(float));
  }
}

// Logits of one pass for the query heads of one KV head; logits: [G, kTileKeys].
template <typename T>
inline void pass_logits(const float* queries, int64_t group_heads, Rows<T> keys, int64_t padded,
                        Ahead ahead, float* logits) {
  for_heads_together(group_heads, [&](auto together, int64_t head) {
    constexpr int kQueries = decltype(together)::kQueries;
    constexpr int kKeys = decltype(together)::kKeys;
    const float* some = queries + head * padded;
    store_logits<kQueries, kKeys>(
        some_logits<kQueries, kKeys>(some, keys, padded, head == 0 ? ahead : Ahead::near(some)),
        logits + head * kTileKeys);
  });
}

}  // namespace
}  // namespace pa
