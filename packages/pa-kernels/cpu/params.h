// What one call of the operator is, as plain data: no tensor library below this line.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pa {

enum class Dtype : int32_t { kFloat32 = 0, kBfloat16 = 1, kFloat16 = 2, kInt8 = 3, kFloat8 = 4 };
constexpr int kNumDtypes = 5;

static inline int64_t element_size(Dtype dtype) {
  return dtype == Dtype::kFloat32 ? 4 : (dtype == Dtype::kInt8 || dtype == Dtype::kFloat8 ? 1 : 2);
}

// How a cache is scaled: by one number, or by one for each channel of each KV head (8.5).
enum class Scaling : int32_t { kNone = 0, kPerTensor = 1, kPerChannel = 2 };

// Constant for a prepared call. Strides are in elements, between consecutive rows.
struct CallShape {
  int64_t num_tokens = 0;     // T
  int64_t batch_size = 0;     // B
  int64_t num_heads = 0;      // H
  int64_t kv_num_heads = 0;   // K
  int64_t head_size = 0;      // D
  int64_t v_head_size = 0;    // Dv
  int64_t num_blocks = 0;     // N
  int64_t block_size = 0;     // S, a power of two
  int64_t table_columns = 0;  // M
  int64_t query_stride = 0;
  int64_t key_stride = 0;
  int64_t value_stride = 0;
  int64_t output_stride = 0;
  int64_t table_stride = 0;
  int64_t rotary_rows = 0;  // rows of the cos and sin tables
  int64_t rotary_dim = 0;   // 0 = no rotation
  int64_t rotary_offset = 0;
  int64_t cos_stride = 0;
  int64_t sin_stride = 0;
  int64_t window_tokens = -1;  // -1 = no window
  int32_t rotary_interleaved = 0;
  Dtype dtype = Dtype::kFloat32;        // of query, key, value and output
  Dtype cache_dtype = Dtype::kFloat32;  // the same, or quantized
  Scaling key_scaling = Scaling::kNone;
  Scaling value_scaling = Scaling::kNone;  // in LATENT: that of the keys
  float scale = 1.0F;
  float softcap = 0.0F;  // 0 = off
  float norm_epsilon = 1e-6F;
};

// The buffers of one call; a null pointer is an absent input.
struct CallBuffers {
  const void* query = nullptr;         // [T, H*D]
  const void* key = nullptr;           // [T, K*D]
  const void* value = nullptr;         // [T, K*D], null in LATENT: nothing to store
  void* key_cache = nullptr;           // [N, S, K, D]
  void* value_cache = nullptr;         // [N, S, K, D], in LATENT the key cache
  const int32_t* cumulative = nullptr;  // [B+1]
  const int32_t* past = nullptr;        // [B]
  const int32_t* block_table = nullptr;  // [B, M]
  const void* cos = nullptr;           // [positions, rotary_dim/2]
  const void* sin = nullptr;           // [positions, rotary_dim/2]
  const int32_t* slots = nullptr;       // [T], -1 = do not store
  const void* head_sink = nullptr;     // [H]
  const void* query_norm = nullptr;    // [D]
  const void* key_norm = nullptr;      // [D]
  const int32_t* positions = nullptr;   // [T]
  const float* key_scale = nullptr;    // [1] or [K, D]
  const float* value_scale = nullptr;  // [1] or [K, D], in LATENT the key scale
  void* output = nullptr;              // [T, H*Dv]
};

// Why a call was refused before anything was written (V65, V66, V105, the rotary table's length).
enum class Status : int32_t {
  kOk = 0,
  kFirstBoundaryNotZero,
  kLastBoundaryNotTokens,
  kBoundariesDecrease,
  kPastNegative,
  kPastBeyondTable,
  kPositionNegative,
  kPositionBeyondRotaryTable,
  kScaleNotPositive,
};

struct Outcome {
  Status status = Status::kOk;
  int64_t index = 0;  // row or token that broke the rule
  int64_t found = 0;
  int64_t limit = 0;
};

}  // namespace pa
