// Prologue of a call: normalise and rotate queries and keys, store keys and values in their slots.
// Included by each instruction-set unit; everything here has internal linkage.
#pragma once

#include <cstring>
#include <type_traits>

#include "rotate.h"

namespace pa {
namespace {

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

// Heads of one token on their way: with what they are normalised, rotated and divided.
template <typename T>
struct Heads {
  const T* source;
  const T* weight;       // [D] of the norm, or null
  int64_t count;
  bool rotates;
  Scaling scaling;
  const float* scale;  // [1] or [K, D]

  bool changes() const { return weight != nullptr || rotates || scaling != Scaling::kNone; }
};

// Converts heads from one row to another, changed where the call asks for it.
template <typename T, typename Target>
void convert_heads(const CallShape& shape, const TokenAngles& angles, const Heads<T>& heads,
                   Target* target) {
  const int64_t size = shape.head_size;
  if constexpr (std::is_same_v<T, Target>) {
    if (!heads.changes()) {
      std::memcpy(target, heads.source, static_cast<std::size_t>(heads.count * size) * sizeof(T));
      return;
    }
  }
  for (int64_t head = 0; head < heads.count; ++head) {
    load_head(heads.source + head * size, heads.weight, shape, angles.row);
    if (heads.rotates) rotate_head(shape, angles);
    Target* out = target + head * size;
    for (int64_t c = 0; c < size; c += kLanes) {
      Vec value = load(angles.row + c);
      // In the order of the contract: norm, rotation, quantization (8.1).
      if (heads.scaling == Scaling::kPerTensor) value /= broadcast(*heads.scale);
      if (heads.scaling == Scaling::kPerChannel) {
        value /= load_some(heads.scale + head * size + c, size - c);
      }
      store_some(value, size - c, out + c);
    }
  }
}

// Stores the key and the value of one token in its slot.
template <typename T>
void store_token(const CallShape& shape, const CallBuffers& buffers, const TokenAngles& angles,
                 int64_t token, int64_t slot) {
  const int64_t place = slot * shape.kv_num_heads * shape.head_size;
  const Heads<T> keys{static_cast<const T*>(buffers.key) + token * shape.key_stride,
                      static_cast<const T*>(buffers.key_norm),
                      shape.kv_num_heads,
                      shape.rotary_dim > 0,
                      shape.key_scaling,
                      buffers.key_scale};
  const Heads<T> values{static_cast<const T*>(buffers.value) + token * shape.value_stride,
                        nullptr,
                        shape.kv_num_heads,
                        false,
                        shape.value_scaling,
                        buffers.value_scale};
  const auto store_both = [&](auto* type) {
    using C = std::remove_pointer_t<decltype(type)>;
    convert_heads(shape, angles, keys, static_cast<C*>(buffers.key_cache) + place);
    if (buffers.value == nullptr) return;
    convert_heads(shape, angles, values, static_cast<C*>(buffers.value_cache) + place);
  };
  if (shape.cache_dtype == Dtype::kInt8) return store_both(static_cast<Int8*>(nullptr));
  if (shape.cache_dtype == Dtype::kFloat8) return store_both(static_cast<Float8*>(nullptr));
  store_both(static_cast<T*>(nullptr));
}

// Serves tokens [begin, end) of the packed input. rotated: [T, H*D] queries after normalisation
// and rotation, unrounded, or null when the call changes no query. scratch: prologue_floats.
template <typename T>
void serve_tokens(const CallShape& shape, const CallBuffers& buffers, float* rotated,
                  float* scratch, int64_t begin, int64_t end) {
  const TokenAngles angles(shape, scratch);
  int64_t row = 0;
  for (int64_t token = begin; token < end; ++token) {
    while (buffers.cumulative[row + 1] <= token) ++row;
    const int64_t index = buffers.past[row] + (token - buffers.cumulative[row]);
    const int64_t position = buffers.positions != nullptr ? buffers.positions[token] : index;
    if (shape.rotary_dim > 0) {
      angles.load_tables(shape, static_cast<const T*>(buffers.cos) + position * shape.cos_stride,
                         static_cast<const T*>(buffers.sin) + position * shape.sin_stride);
    }
    if (rotated != nullptr) {
      const Heads<T> queries{static_cast<const T*>(buffers.query) + token * shape.query_stride,
                             static_cast<const T*>(buffers.query_norm),
                             shape.num_heads,
                             shape.rotary_dim > 0,
                             Scaling::kNone,
                             nullptr};
      convert_heads(shape, angles, queries, rotated + token * shape.num_heads * shape.head_size);
    }
    const int64_t slot = slot_of(shape, buffers, row, token, index);
    if (slot >= 0) store_token<T>(shape, buffers, angles, token, slot);
  }
}

void run_prologue(const CallShape& shape, const CallBuffers& buffers, float* rotated,
                  float* scratch, int64_t begin, int64_t end) {
  with_activation(shape.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    serve_tokens<T>(shape, buffers, rotated, scratch, begin, end);
  });
}

}  // namespace
}  // namespace pa
