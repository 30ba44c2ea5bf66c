// The gated delta rule of one head over its sequences: chunks, then what is too short for one.
#pragma once

#include "chunk.h"
#include "step.h"

namespace pa {
namespace {

// Up to so many tokens go one by one: a chunk transposes the state twice, which costs as much.
constexpr int64_t kStepTokens = 4;

inline int64_t chunk_floats(const DeltaCall& call) {
  const int64_t keys = padded_to_vectors(call.key_size);
  const int64_t values = padded_to_vectors(call.value_size);
  return keys * values + kChunkTokens * (3 * keys + 3 * values + 2 * kChunkTokens + 3);
}

inline int64_t delta_scratch_floats(const DeltaCall& call) {
  // A state that nobody keeps, [Dv, Dk], after the buffers of a chunk.
  return chunk_floats(call) + padded_to_vectors(call.key_size * call.value_size);
}

template <typename T>
struct DeltaHead {
  const DeltaCall& call;
  int64_t head;
  Chunk chunk;
  float* spare = nullptr;    // [kChunkTokens, padded Dv]
  float* dropped = nullptr;  // [Dv, Dk]

  int64_t state_floats() const { return call.key_size * call.value_size; }
  int64_t key_head() const { return head / (call.heads / call.key_heads); }

  void assign(float* scratch) {
    const int64_t keys = padded_to_vectors(call.key_size);
    const int64_t values = padded_to_vectors(call.value_size);
    chunk.key_size = call.key_size;
    chunk.key_stride = keys;
    chunk.value_stride = values;
    const auto take = [&](int64_t count) {
      float* begin = scratch;
      scratch += count;
      return begin;
    };
    chunk.state = take(keys * values);
    chunk.queries = take(kChunkTokens * keys);
    chunk.keys = take(kChunkTokens * keys);
    chunk.columns = take(kChunkTokens * keys);
    chunk.values = take(kChunkTokens * values);
    chunk.output = take(kChunkTokens * values);
    spare = take(kChunkTokens * values);
    chunk.system = take(kChunkTokens * kChunkTokens);
    chunk.scores = take(kChunkTokens * kChunkTokens);
    chunk.factor = take(kChunkTokens);
    chunk.beta = take(kChunkTokens);
    chunk.decay = take(kChunkTokens);
    dropped = scratch;
  }

  // Factor of the state before a token.
  float factor_of(int64_t token) const {
    float decay = call.decay[token * call.heads + head];
    if (call.a_log != nullptr) {
      const float x = decay + call.dt_bias[head];
      // As torch's softplus: beyond 20 it is x itself.
      const float softplus = x > 20.0F ? x : __builtin_log1pf(__builtin_expf(x));
      decay = -__builtin_expf(call.a_log[head]) * softplus;
    }
    return __builtin_expf(decay);
  }

  // Divides by the length where asked for, then multiplies.
  void normalize(float factor, float* row) const {
    const int64_t padded = chunk.key_stride;
    if (call.epsilon >= 0.0F) {
      factor /= __builtin_sqrtf(dot(row, row, padded) + call.epsilon);
    }
    scale_into(factor, padded, row);
  }

  void load_tokens(int64_t begin, int64_t end) {
    const T* query = static_cast<const T*>(call.query) + key_head() * call.key_size;
    const T* key = static_cast<const T*>(call.key) + key_head() * call.key_size;
    const T* value = static_cast<const T*>(call.value) + head * call.value_size;
    chunk.tokens = end - begin;
    for (int64_t i = 0; i < chunk.tokens; ++i) {
      const int64_t token = begin + i;
      float* queries = chunk.queries + i * chunk.key_stride;
      float* keys = chunk.keys + i * chunk.key_stride;
      widen(query + token * call.query_stride, call.key_size, chunk.key_stride, queries);
      widen(key + token * call.key_stride, call.key_size, chunk.key_stride, keys);
      normalize(call.scale, queries);
      if (call.epsilon >= 0.0F) normalize(1.0F, keys);
      widen(value + token * call.value_stride, call.value_size, chunk.value_stride,
            chunk.values + i * chunk.value_stride);
      chunk.factor[i] = factor_of(token);
      chunk.beta[i] = call.beta[token * call.heads + head];
    }
  }

  void store_output(int64_t begin) const {
    for (int64_t i = 0; i < chunk.tokens; ++i) {
      T* to = static_cast<T*>(call.output) +
              ((begin + i) * call.heads + head) * call.value_size;
      narrow(chunk.output + i * chunk.value_stride, call.value_size, to);
    }
  }

  // Chunks of tokens [begin, end), from one state in memory to another; null = zeros.
  void run_chunks(int64_t begin, int64_t end, const float* from, float* to) {
    if (from == nullptr) {
      std::memset(chunk.state, 0,
                  static_cast<std::size_t>(call.key_size * chunk.value_stride) * sizeof(float));
    } else {
      load_state(from);
    }
    for (int64_t t = begin; t < end; t += kChunkTokens) {
      load_tokens(t, least(t + kChunkTokens, end));
      if (is_growing()) {
        store_state(to);
        step_tokens(to, to);
        load_state(to);
      } else {
        apply_chunk(chunk, spare);
      }
      store_output(t);
    }
    store_state(to);
  }

  void load_state(const float* from) {
    transpose_rows(from, call.key_size, call.value_size, call.key_size, chunk.state,
                   chunk.value_stride);
  }

  void store_state(float* to) const {
    transpose_back(chunk.state, chunk.value_stride, call.value_size, call.key_size, to);
  }

  // A chunk subtracts what the state at its begin still contributes, times all factors since. With
  // a factor above 1 that outgrows what is left after the subtraction, or overflows.
  bool is_growing() const {
    for (int64_t i = 0; i < chunk.tokens; ++i) {
      if (chunk.factor[i] > 1.0F) return true;
    }
    return false;
  }

  // The loaded tokens one by one, on a state as it lies in memory.
  void step_tokens(const float* from, float* to) {
    for (int64_t i = 0; i < chunk.tokens; ++i) {
      const DeltaToken token{chunk.queries + i * chunk.key_stride,
                             chunk.keys + i * chunk.key_stride,
                             chunk.values + i * chunk.value_stride, chunk.factor[i], chunk.beta[i]};
      apply_token(token, from, to, call.value_size, call.key_size,
                  chunk.output + i * chunk.value_stride);
      from = to;
    }
  }

  void run(int64_t row) {
    const int64_t begin = call.batch.cumulative[row];
    const int64_t end = call.batch.cumulative[row + 1];
    const int64_t offset = head * state_floats();
    const char* source = call.places.source[row];
    char* target = call.places.target[row];
    const float* from =
        source == nullptr ? nullptr : reinterpret_cast<const float*>(source) + offset;
    float* to = target == nullptr ? dropped : reinterpret_cast<float*>(target) + offset;
    const int64_t left = (end - begin) % kChunkTokens;
    const int64_t stepped = left <= kStepTokens ? end - left : end;
    if (begin < stepped) {
      run_chunks(begin, stepped, from, to);
      from = to;
    }
    if (from == nullptr) {
      std::memset(to, 0, static_cast<std::size_t>(state_floats()) * sizeof(float));
      from = to;
    }
    if (stepped < end) {
      load_tokens(stepped, end);
      step_tokens(from, to);
      return store_output(stepped);
    }
    if (from != to) {
      std::memcpy(to, from, static_cast<std::size_t>(state_floats()) * sizeof(float));
    }
  }
};

template <typename T>
void apply_delta(const DeltaCall& call, const StateTask& task, float* scratch) {
  DeltaHead<T> head{call, task.part, {}};
  head.assign(scratch);
  for (int64_t row = task.row_begin; row < task.row_end; ++row) head.run(row);
}

}  // namespace
}  // namespace pa
