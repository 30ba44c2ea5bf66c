// The gated delta rule of one token on one head's state as it lies in memory, [Dv, Dk].
#pragma once

#include "block.h"
#include "params.h"

namespace pa {
namespace {

// What one token brings to one head.
struct DeltaToken {
  const float* query;  // [padded Dk], normalised and scaled; zeros in the padding
  const float* key;    // [padded Dk]
  const float* value;  // [padded Dv]
  float factor;
  float beta;
};

inline float dot(const float* a, const float* b, int64_t padded) {
  Vec sum = broadcast(0.0F);
  for (int64_t c = 0; c < padded; c += kLanes) sum += load(a + c) * load(b + c);
  return sum_of_lanes(sum);
}

// Reads each number of the state once: S q follows from the old state, since
// (f S + d k^T) q = f (S q) + d (k . q). `to` may be `from`. output: [padded Dv].
inline void apply_token(const DeltaToken& token, const float* from, float* to, int64_t value_size,
                        int64_t key_size, float* output) {
  const Vec factor = broadcast(token.factor);
  const float key_query = dot(token.key, token.query, padded_to_vectors(key_size));
  const int64_t whole = key_size / kLanes * kLanes;
  for (int64_t v = 0; v < value_size; v += kLanes) {
    const int64_t rows = least(kLanes, value_size - v);
    Vec with_key[kLanes] = {};
    Vec with_query[kLanes] = {};
    for (int64_t i = 0; i < rows; ++i) {
      const float* row = from + (v + i) * key_size;
      Vec key_sum = broadcast(0.0F);
      Vec query_sum = broadcast(0.0F);
      for (int64_t c = 0; c < whole; c += kLanes) {
        const Vec state = load(row + c);
        key_sum += state * load(token.key + c);
        query_sum += state * load(token.query + c);
      }
      if (whole < key_size) {
        const Vec state = load_first(row + whole, key_size - whole);
        key_sum += state * load(token.key + whole);
        query_sum += state * load(token.query + whole);
      }
      with_key[i] = key_sum;
      with_query[i] = query_sum;
    }
    const Vec error = load(token.value + v) - factor * sum_each(with_key);
    const Vec change = broadcast(token.beta) * error;
    store(factor * sum_each(with_query) + change * broadcast(key_query), output + v);
    for (int64_t i = 0; i < rows; ++i) {
      const float* row = from + (v + i) * key_size;
      float* out = to + (v + i) * key_size;
      const Vec own = broadcast(change[i]);
      for (int64_t c = 0; c < whole; c += kLanes) {
        store(factor * load(row + c) + own * load(token.key + c), out + c);
      }
      if (whole < key_size) {
        const int64_t count = key_size - whole;
        const Vec state = load_first(row + whole, count);
        store_first(factor * state + own * load(token.key + whole), count, out + whole);
      }
    }
  }
}

}  // namespace
}  // namespace pa
