#pragma once

#include <algorithm>
#include <cmath>

#include "element.h"
#include "kernels.h"

namespace pa {
namespace {

template <typename T>
void attend(const Work& work, const Task& task, float* scratch) {
  const CallShape& shape = *work.shape;
  const CallBuffers& buffers = *work.buffers;
  const int64_t D = shape.head_size, group = shape.num_heads / shape.kv_num_heads;
  const int32_t* table = buffers.block_table + task.row * shape.table_stride;
  const int64_t past = buffers.past[task.row], first = buffers.cumulative[task.row];
  const int64_t limit = past + buffers.cumulative[task.row + 1] - first;
  for (int64_t token = task.token_begin; token < task.token_end; ++token) {
    const int64_t position =
        buffers.positions ? buffers.positions[token] : past + (token - first);
    const int64_t end = std::min(position + 1, limit);
    const int64_t begin =
        shape.window_tokens > 0 ? std::max<int64_t>(0, position + 1 - shape.window_tokens) : 0;
    for (int64_t head = 0; head < shape.num_heads; ++head) {
      const T* q = static_cast<const T*>(work.query) + token * work.query_stride + head * D;
      float m = -INFINITY, l = 0.0F;
      for (int64_t c = 0; c < D; ++c) scratch[c] = 0.0F;
      if (buffers.head_sink) {
        m = to_float(static_cast<const T*>(buffers.head_sink)[head]);
        l = 1.0F;
      }
      for (int64_t key = begin; key < end; ++key) {
        const int64_t block = table[key / shape.block_size];
        if (block < 0 || block >= shape.num_blocks) continue;
        const int64_t offset =
            ((block * shape.block_size + key % shape.block_size) * shape.kv_num_heads +
             head / group) * D;
        const T* k = static_cast<const T*>(buffers.key_cache) + offset;
        const T* v = static_cast<const T*>(buffers.value_cache) + offset;
        float s = 0.0F;
        for (int64_t c = 0; c < D; ++c) s += to_float(q[c]) * to_float(k[c]);
        s *= shape.scale;
        if (shape.softcap > 0.0F) s = shape.softcap * std::tanh(s / shape.softcap);
        const float next = s > m || s != s ? s : m;
        const float keep = m == next ? 1.0F : std::exp(m - next);
        const float p = std::exp(s - next);
        m = next;
        l = l * keep + p;
        for (int64_t c = 0; c < D; ++c) scratch[c] = scratch[c] * keep + p * to_float(v[c]);
      }
      T* out = static_cast<T*>(buffers.output) + token * shape.output_stride + head * D;
      for (int64_t c = 0; c < D; ++c) store(l > 0.0F || l != l ? scratch[c] / l : 0.0F, out + c);
    }
  }
}

}  // namespace
}  // namespace pa
