// Sizes and launches one instantiation of the store_kv kernel.
#pragma once

#include <cuda_runtime.h>

#include "store_kv/kernel.cuh"
#include "status.h"

namespace pa::cuda {

// Threads of a token: the power of two that covers its vectors, from a warp up to a whole block.
inline unsigned threads_of_token(int64_t vectors) {
  unsigned threads = 32;
  while (threads < vectors && threads < kThreadsPerBlock) threads *= 2;
  return threads;
}

template <typename Element, typename Vector, SlotSource kSource>
Status launch_store_kv(const StoreKvParams& params) {
  if (params.num_tokens == 0) return {};
  const int64_t vectors = params.row_elements * static_cast<int64_t>(sizeof(Element)) /
                          static_cast<int64_t>(sizeof(Vector));
  const unsigned threads = threads_of_token(vectors);
  const unsigned tokens = kThreadsPerBlock / threads;
  const auto blocks = static_cast<unsigned>((params.num_tokens + tokens - 1) / tokens);
  store_kv_kernel<Element, Vector, kSource>
      <<<blocks, dim3(threads, tokens), 0, static_cast<cudaStream_t>(params.stream)>>>(params);
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return {StatusCode::kLaunchFailed, static_cast<int32_t>(error)};
}

}  // namespace pa::cuda
