// Logits of one token's query heads against a few keys.
#pragma once

#include "pace.h"
#include "product.h"
#include "query.h"

namespace pa {
namespace {

// Whether a row can be an operand as it lies, again for every use of it (forget_memory).
template <typename C>
constexpr bool kReadsAsItLies = std::is_same_v<C, float>;

// Query heads whose logits are found together, and slots of one pass: their sums are one vector.
constexpr int kQueriesTogether = 4;
inline int pass_keys(int64_t group_heads) {
  return kLanes / (group_heads >= kQueriesTogether - 1 ? kQueriesTogether : group_heads);
}

// So many query heads with pass_keys keys.
template <int Q, int P>
struct Together {
  static constexpr int kQueries = Q;
  static constexpr int kKeys = P;
};

// Calls f(together, head) for the query heads of one KV head, a few from `head` on at a time.
template <typename F>
inline void for_heads_together(int64_t group_heads, F f) {
  constexpr int kFew = kLanes / kQueriesTogether;
  if (group_heads == 1) return f(Together<1, kLanes>{}, 0);
  if (group_heads == 2) return f(Together<2, kLanes / 2>{}, 0);
  const int64_t parts = (group_heads + kQueriesTogether - 1) / kQueriesTogether;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t head = group_heads * part / parts;
    switch (group_heads * (part + 1) / parts - head) {
      case 2:
        f(Together<2, kFew>{}, head);
        break;
      case 3:
        f(Together<3, kFew>{}, head);
        break;
      default:
        f(Together<4, kFew>{}, head);
    }
  }
}

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
    ahead.fetch(P);
    ahead = ahead.after(P * Ahead::kLineBytes);
    PA_UNROLL for (int64_t i = 0; i < kLine; i += kLanes) step(c + i);
  }
  for (; c < padded; c += kLanes) step(c);
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
