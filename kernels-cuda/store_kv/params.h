// One launch of store_kv, as plain data. Strides are in elements.
#pragma once

#include <cstdint>

#include "element_type.h"

namespace pa::cuda {

// Where a token's slot comes from.
enum class SlotSource : int32_t { kGiven = 0, kBlockTable = 1 };

struct StoreKvParams {
  const void* key = nullptr;              // [T, K*D], row stride key_stride
  const void* value = nullptr;            // [T, K*D], row stride value_stride
  void* key_cache = nullptr;              // [N, S, K*D]
  void* value_cache = nullptr;            // [N, S, K*D]
  const int32_t* slots = nullptr;         // [T], kGiven; outside [0, N*S) = not stored
  const int32_t* cumulative = nullptr;    // [B+1], kBlockTable
  const int32_t* past = nullptr;          // [B], kBlockTable
  const int32_t* block_table = nullptr;   // [B, M], kBlockTable; outside [0, N) = unmapped
  int64_t num_tokens = 0;                 // T
  int64_t row_elements = 0;               // K*D, a multiple of 8
  int64_t key_stride = 0;
  int64_t value_stride = 0;
  int64_t num_blocks = 0;                 // N
  int64_t block_size = 0;                 // S, a power of two
  int64_t batch_size = 0;                 // B
  int64_t table_columns = 0;              // M
  int64_t table_stride = 0;
  ElementType element_type = ElementType::kFloat16;
  SlotSource slot_source = SlotSource::kGiven;
  void* stream = nullptr;                 // cudaStream_t
};

}  // namespace pa::cuda
