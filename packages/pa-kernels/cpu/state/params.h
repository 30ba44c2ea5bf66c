// Calls of the state operators as plain data. Pointers name host memory that outlives the call.
#pragma once

#include <cstdint>

#include "../params.h"

namespace pa {

// The packed sequences of a call, and where their states are.
struct StateBatch {
  int64_t batch_size = 0;
  int64_t num_tokens = 0;
  int64_t num_rows = 0;                 // rows that read and write have
  const int32_t* cumulative = nullptr;  // [B+1]
  const char* read = nullptr;           // null = every sequence starts from zeros
  char* write = nullptr;
  const int32_t* read_rows = nullptr;   // [B], null = row b; -1 = starts from zeros
  const int32_t* write_rows = nullptr;  // [B], null = row b; -1 = its state is not kept
};

// The states themselves, one pointer for each sequence.
struct StatePlaces {
  const char* const* source = nullptr;  // [B], null = zeros
  char* const* target = nullptr;        // [B], null = not kept
};

struct ConvCall {
  StateBatch batch;
  StatePlaces places;
  int64_t channels = 0;
  int64_t taps = 0;
  int64_t input_stride = 0;
  bool is_silu = false;
  const void* input = nullptr;   // [T, C]
  const void* weight = nullptr;  // [C, K]
  const void* bias = nullptr;    // [C]
  void* output = nullptr;        // [T, C]
};

struct DeltaCall {
  StateBatch batch;
  StatePlaces places;  // [Hv, Dv, Dk] float
  int64_t key_heads = 0;
  int64_t heads = 0;
  int64_t key_size = 0;
  int64_t value_size = 0;
  int64_t query_stride = 0;
  int64_t key_stride = 0;
  int64_t value_stride = 0;
  float scale = 1.0F;
  float epsilon = -1.0F;           // of the L2 norm; negative = no norm
  const void* query = nullptr;     // [T, Hk, Dk]
  const void* key = nullptr;       // [T, Hk, Dk]
  const void* value = nullptr;     // [T, Hv, Dv]
  const float* decay = nullptr;    // [T, Hv]
  const float* beta = nullptr;     // [T, Hv]
  const float* a_log = nullptr;    // [Hv], null = decay is the logarithm itself
  const float* dt_bias = nullptr;  // [Hv]
  void* output = nullptr;          // [T, Hv, Dv]
};

// Consecutive sequences, and one block of channels or one head of them.
struct StateTask {
  int64_t row_begin = 0;
  int64_t row_end = 0;
  int64_t part = 0;
};

// Channels of a task of the convolution.
constexpr int64_t kConvChannels = 64;

// Tokens that the delta rule takes together (pa_kernels.DELTA_CHUNK_TOKENS).
constexpr int64_t kChunkTokens = 64;

struct StateKernels {
  const char* name;
  void (*convolve)(const ConvCall&, const StateTask&, float* scratch);
  int64_t (*conv_scratch_floats)(const ConvCall&);
  void (*apply_delta)(const DeltaCall&, const StateTask&, float* scratch);
  int64_t (*delta_scratch_floats)(const DeltaCall&);
};

}  // namespace pa
