// The gated delta rule of several tokens at once. With d_ij the product of the factors after token
// j up to token i, and d_i that of all factors up to token i, the corrections u of a chunk solve a
// unit lower triangular system:
//   u_i = beta_i (v_i - d_i S k_i) - beta_i sum over j < i of d_ij (k_i . k_j) u_j
// (the WY form of products of Householder-like factors: Bischof and Van Loan 1987; Yang et al.
// 2024, "Parallelizing Linear Transformers with the Delta Rule over Sequence Length"; with gates:
// Yang et al. 2025, "Gated Delta Networks"). Products of factors instead of exponentials of
// differences of sums: they stay exact where sums are large, and a factor of 0 is no exception.
#pragma once

#include "block.h"
#include "params.h"

namespace pa {
namespace {

// One head's tokens of a chunk, as floats. Rows are padded to whole vectors.
struct Chunk {
  int64_t tokens = 0;
  int64_t key_size = 0;
  int64_t value_stride = 0;  // padded Dv
  int64_t key_stride = 0;    // padded Dk
  float* state = nullptr;    // [Dk, padded Dv]: the transpose of what lies in memory
  float* queries = nullptr;  // [kChunkTokens, padded Dk]
  float* keys = nullptr;     // [kChunkTokens, padded Dk]
  float* columns = nullptr;  // [padded Dk, kChunkTokens]: the keys' transpose
  float* values = nullptr;   // [kChunkTokens, padded Dv], then their corrections
  float* output = nullptr;   // [kChunkTokens, padded Dv]
  float* system = nullptr;   // [kChunkTokens, kChunkTokens]
  float* scores = nullptr;   // [kChunkTokens, kChunkTokens]
  float* factor = nullptr;   // [kChunkTokens]
  float* beta = nullptr;     // [kChunkTokens]
  float* decay = nullptr;    // [kChunkTokens], d_ij of the row in work, at the end of the last one
};

constexpr int64_t kSolvedTogether = 16;  // a vector of AVX-512, and rows enough for a product

inline void scale_into(float factor, int64_t padded, float* row) {
  const Vec by = broadcast(factor);
  for (int64_t c = 0; c < padded; c += kLanes) store(by * load(row + c), row + c);
}

inline void add_multiple(float factor, const float* from, int64_t padded, float* to) {
  const Vec by = broadcast(factor);
  for (int64_t c = 0; c < padded; c += kLanes) store(load(to + c) + by * load(from + c), to + c);
}

// rows . keys for every pair of a chunk that is needed: [tokens, kChunkTokens], the lower triangle.
inline void pair_products(const Chunk& chunk, const float* rows, float* to) {
  for (int64_t i = 0; i < chunk.tokens; i += kSolvedTogether) {
    const int64_t count = least(kSolvedTogether, chunk.tokens - i);
    product(Matrix{rows + i * chunk.key_stride, chunk.key_stride},
            Matrix{chunk.columns, kChunkTokens}, {to + i * kChunkTokens, kChunkTokens, false},
            count, chunk.key_size, i + kSolvedTogether);
  }
}

// Multiplies rows . keys by the factors between the tokens, and the rows S k and S q, which stand
// in `state_keys` and `output`, by those since the chunk began; v becomes its error. Returns the
// factor of the state.
inline float apply_factors(const Chunk& chunk, const float* state_keys) {
  float since_start = 1.0F;
  std::memset(chunk.decay, 0, kChunkTokens * sizeof(float));
  for (int64_t i = 0; i < chunk.tokens; ++i) {
    const float factor = chunk.factor[i];
    const float beta = chunk.beta[i];
    since_start *= factor;
    scale_into(factor, padded_to_vectors(i), chunk.decay);
    // Lanes from i on are not in use yet; one of them may have met 0 * infinity.
    chunk.decay[i] = 1.0F;
    float* scores = chunk.scores + i * kChunkTokens;
    float* system = chunk.system + i * kChunkTokens;
    const Vec negative = broadcast(-beta);
    for (int64_t j = 0; j <= i; j += kLanes) {
      const Vec decay = load(chunk.decay + j);
      store(decay * load(scores + j), scores + j);
      store(negative * (decay * load(system + j)), system + j);
    }
    scale_into(since_start, chunk.value_stride, chunk.output + i * chunk.value_stride);
    float* value = chunk.values + i * chunk.value_stride;
    const float* predicted = state_keys + i * chunk.value_stride;
    for (int64_t c = 0; c < chunk.value_stride; c += kLanes) {
      const Vec error = load(value + c) - broadcast(since_start) * load(predicted + c);
      store(broadcast(beta) * error, value + c);
    }
  }
  return since_start;
}

// to_i += sum over j below i (or up to i) of matrix_ij values_j. Whole blocks of the triangle are
// products; the block on the diagonal goes row by row, because what lies beyond a token must not
// reach it even times 0, and because corrections before a row must be final. `to` may be values.
inline void add_triangle(const Chunk& chunk, const float* matrix, bool with_own, float* to) {
  const int64_t stride = chunk.value_stride;
  for (int64_t first = 0; first < chunk.tokens; first += kSolvedTogether) {
    const int64_t end = least(first + kSolvedTogether, chunk.tokens);
    if (first > 0) {
      product(Matrix{matrix + first * kChunkTokens, kChunkTokens}, Matrix{chunk.values, stride},
              {to + first * stride, stride, true}, end - first, first, stride);
    }
    for (int64_t i = first; i < end; ++i) {
      const int64_t last = with_own ? i + 1 : i;
      for (int64_t j = first; j < last; ++j) {
        add_multiple(matrix[i * kChunkTokens + j], chunk.values + j * stride, stride,
                     to + i * stride);
      }
    }
  }
}

// Fills `output` and moves `state` to the end of the chunk. `spare`: [kChunkTokens, padded Dv].
inline void apply_chunk(const Chunk& chunk, float* spare) {
  const int64_t stride = chunk.value_stride;
  const Matrix state{chunk.state, stride};
  transpose_rows(chunk.keys, chunk.key_stride, chunk.tokens, chunk.key_size, chunk.columns,
                 kChunkTokens);
  pair_products(chunk, chunk.keys, chunk.system);
  pair_products(chunk, chunk.queries, chunk.scores);
  product(Matrix{chunk.keys, chunk.key_stride}, state, {spare, stride, false}, chunk.tokens,
          chunk.key_size, stride);
  product(Matrix{chunk.queries, chunk.key_stride}, state, {chunk.output, stride, false},
          chunk.tokens, chunk.key_size, stride);
  const float kept = apply_factors(chunk, spare);
  add_triangle(chunk, chunk.system, false, chunk.values);
  add_triangle(chunk, chunk.scores, true, chunk.output);
  for (int64_t c = 0; c < chunk.key_size; ++c) {
    float* column = chunk.columns + c * kChunkTokens;
    for (int64_t j = 0; j < padded_to_vectors(chunk.tokens); j += kLanes) {
      store(load(column + j) * load(chunk.decay + j), column + j);
    }
    scale_into(kept, stride, chunk.state + c * stride);
  }
  product(Matrix{chunk.columns, kChunkTokens}, Matrix{chunk.values, stride},
          {chunk.state, stride, true}, chunk.key_size, chunk.tokens, stride);
}

}  // namespace
}  // namespace pa
