// Logits of one token's query heads against a few keys.
#pragma once

#include "product.h"
#include "query.h"

namespace pa {
namespace {

// Query heads whose logits are found together, and slots of one pass: their sums are one vector.
constexpr int kQueriesTogether = 4;
inline int pass_keys(int64_t group_heads) {
  return kLanes / (group_heads >= kQueriesTogether - 1 ? kQueriesTogether : group_heads);
}

// Q queries times P keys, Q * P <= kLanes: lane q * P + key of the result is query q . key. Each
// key is loaded once for all queries.
template <int Q, int P, typename T, std::size_t... sum>
__attribute__((always_inline)) inline Vec some_logits(const float* queries, Rows<T> keys,
                                                      int64_t padded, Ahead ahead,
                                                      std::index_sequence<sum...>) {
  constexpr int kSums = Q * P;
  constexpr int64_t kLine = Ahead::kLineBytes / sizeof(T);
  Vec sums[kLanes] = {};
  const auto step = [&](int64_t c) __attribute__((always_inline)) {
    Vec key[P];
    for (int p = 0; p < P; ++p) key[p] = load_stored(keys.data + p * keys.stride + c);
    ((sum < kSums ? void(sums[sum] += load(queries + sum / P % Q * padded + c) * key[sum % P])
                  : void()),
     ...);
  };
  int64_t c = 0;
  for (; c + kLine <= padded; c += kLine) {
    for (int p = 0; p < P; ++p) ahead.fetch(keys.data + p * keys.stride + c);
    for (int64_t i = 0; i < kLine; i += kLanes) step(c + i);
  }
  for (; c < padded; c += kLanes) step(c);
  return sum_each(sums);
}

template <int Q, int P, typename T>
inline void add_logits(const float* queries, Rows<T> keys, int64_t padded, Ahead ahead,
                       float* logits) {
  float both[kLanes];
  store(some_logits<Q, P>(queries, keys, padded, ahead, std::make_index_sequence<kLanes>{}), both);
  for (int q = 0; q < Q; ++q) {
    std::memcpy(logits + q * kTileKeys, both + q * P, P * sizeof(float));
  }
}

// Logits of one pass for the query heads of one KV head; logits: [G, kTileKeys].
template <typename T>
inline void pass_logits(const float* queries, int64_t group_heads, Rows<T> keys, int64_t padded,
                        Ahead ahead, float* logits) {
  constexpr int kFew = kLanes / kQueriesTogether;
  if (group_heads == 1) return add_logits<1, kLanes>(queries, keys, padded, ahead, logits);
  if (group_heads == 2) return add_logits<2, kLanes / 2>(queries, keys, padded, ahead, logits);
  const int64_t parts = (group_heads + kQueriesTogether - 1) / kQueriesTogether;
  int64_t head = 0;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t next = group_heads * (part + 1) / parts;
    const float* some = queries + head * padded;
    float* out = logits + head * kTileKeys;
    switch (next - head) {
      case 2:
        add_logits<2, kFew>(some, keys, padded, ahead, out);
        break;
      case 3:
        add_logits<3, kFew>(some, keys, padded, ahead, out);
        break;
      default:
        add_logits<4, kFew>(some, keys, padded, ahead, out);
    }
    head = next;
    ahead.distance = 0;
  }
}

}  // namespace
}  // namespace pa
