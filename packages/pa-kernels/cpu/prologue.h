// Prologue of a call: normalise and rotate queries and keys, store keys and values in their slots.
// Included by each instruction-set unit; everything here has internal linkage.
#pragma once

#include <cmath>
#include <cstring>

#include "element.h"
#include "params.h"

namespace pa {
namespace {

// Fills row[0, D) with the float values of one head, normalised when a weight is given (8.3).
template <typename T>
void load_head(const T* head, const T* weight, const CallShape& shape, float* row) {
  const int64_t size = shape.head_size;
  for (int64_t c = 0; c < size; ++c) row[c] = to_float(head[c]);
  if (weight == nullptr) return;
  float sum = 0.0F;
  for (int64_t c = 0; c < size; ++c) sum += row[c] * row[c];
  const float factor = 1.0F / std::sqrt(sum / static_cast<float>(size) + shape.norm_epsilon);
  for (int64_t c = 0; c < size; ++c) row[c] = row[c] * factor * to_float(weight[c]);
}

// Rotates channels [rotary_offset, rotary_offset + rotary_dim) by the angles of one position.
void rotate_head(const CallShape& shape, const float* cos, const float* sin, float* row) {
  const int64_t half = shape.rotary_dim / 2;
  float* first = row + shape.rotary_offset;
  if (shape.rotary_interleaved != 0) {
    for (int64_t i = 0; i < half; ++i) {
      const float a = first[2 * i];
      const float b = first[2 * i + 1];
      first[2 * i] = a * cos[i] - b * sin[i];
      first[2 * i + 1] = b * cos[i] + a * sin[i];
    }
    return;
  }
  float* second = first + half;
  for (int64_t i = 0; i < half; ++i) {
    const float a = first[i];
    const float b = second[i];
    first[i] = a * cos[i] - b * sin[i];
    second[i] = b * cos[i] + a * sin[i];
  }
}

// The slot of a token, or -1 when its key and value must not be stored.
inline int64_t slot_of(const CallShape& shape, const CallBuffers& buffers, int64_t row,
                       int64_t token, int64_t sequence_index) {
  if (buffers.slots != nullptr) {
    const int64_t slot = buffers.slots[token];
    return slot >= 0 && slot < shape.num_blocks * shape.block_size ? slot : -1;
  }
  const int32_t* table = buffers.block_table + row * shape.table_stride;
  const int64_t block_id = table[sequence_index / shape.block_size];
  if (block_id < 0 || block_id >= shape.num_blocks) return -1;
  return block_id * shape.block_size + sequence_index % shape.block_size;
}

// Angles and scratch of the token in hand.
struct TokenAngles {
  float* cos;  // [rotary_dim/2]
  float* sin;  // [rotary_dim/2]
  float* row;  // [D]
};

// Copies heads from one row to another, normalised and rotated where the call asks for it.
template <typename T, typename Target>
void convert_heads(const CallShape& shape, const TokenAngles& angles, const T* source,
                   const T* weight, int64_t heads, Target* target) {
  const int64_t size = shape.head_size;
  if (weight == nullptr && shape.rotary_dim == 0) {
    std::memcpy(target, source, static_cast<std::size_t>(heads * size) * sizeof(Target));
    return;
  }
  for (int64_t head = 0; head < heads; ++head) {
    load_head(source + head * size, weight, shape, angles.row);
    if (shape.rotary_dim > 0) rotate_head(shape, angles.cos, angles.sin, angles.row);
    Target* out = target + head * size;
    for (int64_t c = 0; c < size; ++c) store(angles.row[c], out + c);
  }
}

// Serves tokens [begin, end) of the packed input. rotated: [T, H*D] queries after normalisation
// and rotation, unrounded, or null when the call changes no query. scratch: 2*D floats.
template <typename T>
void run_prologue(const CallShape& shape, const CallBuffers& buffers, float* rotated,
                  float* scratch, int64_t begin, int64_t end) {
  const int64_t size = shape.head_size;
  const int64_t half = shape.rotary_dim / 2;
  const TokenAngles angles{scratch, scratch + half, scratch + 2 * half};
  int64_t row = 0;
  for (int64_t token = begin; token < end; ++token) {
    while (buffers.cumulative[row + 1] <= token) ++row;
    const int64_t index = buffers.past[row] + (token - buffers.cumulative[row]);
    const int64_t position = buffers.positions != nullptr ? buffers.positions[token] : index;
    if (half > 0) {
      const T* cos = static_cast<const T*>(buffers.cos) + position * shape.cos_stride;
      const T* sin = static_cast<const T*>(buffers.sin) + position * shape.sin_stride;
      for (int64_t i = 0; i < half; ++i) angles.cos[i] = to_float(cos[i]);
      for (int64_t i = 0; i < half; ++i) angles.sin[i] = to_float(sin[i]);
    }
    if (rotated != nullptr) {
      const T* query = static_cast<const T*>(buffers.query) + token * shape.query_stride;
      convert_heads(shape, angles, query, static_cast<const T*>(buffers.query_norm),
                    shape.num_heads, rotated + token * shape.num_heads * size);
    }
    const int64_t slot = slot_of(shape, buffers, row, token, index);
    if (slot < 0) continue;
    const int64_t width = shape.kv_num_heads * size;
    convert_heads(shape, angles, static_cast<const T*>(buffers.key) + token * shape.key_stride,
                  static_cast<const T*>(buffers.key_norm), shape.kv_num_heads,
                  static_cast<T*>(buffers.key_cache) + slot * width);
    std::memcpy(static_cast<T*>(buffers.value_cache) + slot * width,
                static_cast<const T*>(buffers.value) + token * shape.value_stride,
                static_cast<std::size_t>(width) * sizeof(T));
  }
}

}  // namespace
}  // namespace pa
