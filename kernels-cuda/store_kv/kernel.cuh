// Writes one step's keys and values into their slots of the pool.
//
// A block of threads serves a few tokens; the threads of a token walk over its row in vectors.
// Every access is one aligned vector, and a warp's accesses are contiguous. The slot is found once
// a token, by its first thread.
#pragma once

#include <cstdint>

#include "store_kv/params.h"

namespace pa::cuda {

constexpr int kThreadsPerBlock = 256;

// The row that a packed token belongs to, or -1 when it lies beyond the last boundary (a padded
// launch). Rows without tokens are skipped over.
__device__ inline int64_t row_of_token(const int32_t* cumulative, int64_t batch_size,
                                       int64_t token) {
  if (token >= cumulative[batch_size]) return -1;
  int64_t low = 0;
  int64_t high = batch_size;
  // cumulative[low] <= token < cumulative[high] holds throughout.
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (cumulative[middle] <= token) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// The slot of a token, or -1 when its key and value must not be stored. Lengths are device values
// that nobody has checked, so every index is bounded here.
template <SlotSource kSource>
__device__ inline int64_t slot_of_token(const StoreKvParams& params, int64_t token) {
  if constexpr (kSource == SlotSource::kGiven) {
    const int64_t slot = params.slots[token];
    return slot >= 0 && slot < params.num_blocks * params.block_size ? slot : -1;
  } else {
    const int64_t row = row_of_token(params.cumulative, params.batch_size, token);
    if (row < 0) return -1;
    const int64_t index = int64_t{params.past[row]} + (token - params.cumulative[row]);
    if (index < 0 || index >= params.table_columns * params.block_size) return -1;
    const int64_t block_id = params.block_table[row * params.table_stride +
                                                index / params.block_size];
    if (block_id < 0 || block_id >= params.num_blocks) return -1;
    return block_id * params.block_size + index % params.block_size;
  }
}

// blockDim = (threads of a token, tokens of a block). Vector: what one access moves.
template <typename Element, typename Vector, SlotSource kSource>
__global__ void __launch_bounds__(kThreadsPerBlock) store_kv_kernel(const StoreKvParams params) {
  static_assert(sizeof(Vector) % sizeof(Element) == 0, "a vector holds whole elements");
  constexpr int64_t kElements = sizeof(Vector) / sizeof(Element);
  __shared__ int64_t slots[kThreadsPerBlock];
  const int64_t token = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (threadIdx.x == 0) {
    slots[threadIdx.y] = token < params.num_tokens ? slot_of_token<kSource>(params, token) : -1;
  }
  __syncthreads();
  const int64_t slot = slots[threadIdx.y];
  if (slot < 0) return;
  const auto* key = reinterpret_cast<const Vector*>(static_cast<const Element*>(params.key) +
                                                    token * params.key_stride);
  const auto* value = reinterpret_cast<const Vector*>(static_cast<const Element*>(params.value) +
                                                      token * params.value_stride);
  auto* key_slot = reinterpret_cast<Vector*>(static_cast<Element*>(params.key_cache) +
                                             slot * params.row_elements);
  auto* value_slot = reinterpret_cast<Vector*>(static_cast<Element*>(params.value_cache) +
                                               slot * params.row_elements);
  const int64_t vectors = params.row_elements / kElements;
  for (int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
    // Both loads are under way before the first store. The rows are read once: evict them first.
    const Vector one_key = __ldcs(key + i);
    const Vector one_value = __ldcs(value + i);
    key_slot[i] = one_key;
    value_slot[i] = one_value;
  }
}

}  // namespace pa::cuda
