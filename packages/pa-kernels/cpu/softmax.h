// Rows of logits to weights, one tile after the other, and accumulated rows to outputs.
#pragma once

#include <type_traits>

#include "tile.h"

namespace pa {
namespace {

constexpr float kLog2E = 1.44269504F;

// Logits are kept in powers of two. Queries are multiplied by `query` once; a product of query and
// key then is the logit itself, or the argument of the softcap's tanh, which `logit` scales.
struct LogitScale {
  float query;
  float logit;
  bool capped;
};

// A softcap beyond any logit caps nothing, and one so small that its factor passes kLargestFactor
// leaves no logits: at the ends of float's range the factors would overflow and 0 become NaN.
constexpr float kNoSoftcap = 1e15F;
constexpr float kLargestFactor = 1e18F;

inline LogitScale logit_scale(const CallShape& shape) {
  if (shape.softcap > 0.0F && shape.softcap < kNoSoftcap) {
    const float factor = shape.scale / shape.softcap;
    const float above = factor < -kLargestFactor ? -kLargestFactor : factor;
    return {above > kLargestFactor ? kLargestFactor : above, shape.softcap * kLog2E, true};
  }
  return {shape.scale * kLog2E, 1.0F, false};
}

// Masks one vector of logits: keys outside [begin, end) and unmapped ones become -inf.
inline Vec masked(Vec logits, const Tile& tile, int key, int begin, int end) {
  if (tile.slot[key / kGroupKeys] < 0) return broadcast(-kInfinity);
  if (key >= begin && key + kLanes <= end) return logits;
  const IntVec index = lane_indices() + key;
  const IntVec visible = (index >= begin) & (index < end);
  return visible ? logits : broadcast(-kInfinity);
}

inline void scale_row(float factor, int64_t padded, float* row) {
  if (factor == 1.0F) return;
  for (int64_t c = 0; c < padded; c += kLanes) store(load(row + c) * broadcast(factor), row + c);
}

inline void clear_rows(int64_t rows, int64_t padded, const Accumulated& target) {
  for (int64_t i = 0; i < rows * padded; i += kLanes) store(broadcast(0.0F), target.sums + i);
  for (int64_t row = 0; row < rows; ++row) {
    target.highest[row] = -kInfinity;
    target.total[row] = 0.0F;
  }
}

inline int64_t segment_rows(const CallShape& shape, const Segment& segment) {
  return (segment.kv_head_end - segment.kv_head_begin) * segment.tokens() * group_size(shape);
}

// The packed token and query head of an accumulated row.
struct RowPlace {
  int64_t token;
  int64_t head;
};

inline RowPlace row_place(const CallShape& shape, const Segment& segment, int64_t row) {
  const int64_t group = group_size(shape);
  const int64_t kv_head = segment.kv_head_begin + row / (group * segment.tokens());
  const int64_t token = segment.token_begin + row / group % segment.tokens();
  return {token, kv_head * group + row % group};
}

// What remains to multiply: 1 / total, with the head's sink in the denominator (8.4). A row that
// saw nothing gives 0.
template <typename T>
inline float final_factor(const CallBuffers& buffers, int64_t head, float highest, float total) {
  if (total == 0.0F) return 0.0F;
  if (buffers.head_sink == nullptr) return 1.0F / total;
  const float given = to_float(static_cast<const T*>(buffers.head_sink)[head]);
  float sink = given * kLog2E;
  if (sink == kInfinity && given < kInfinity) sink = given;  // above any logit as well
  const float reference = sink > highest ? sink : highest;
  const float keep = exp2(highest - reference);
  return keep / (total * keep + exp2(sink - reference));
}

// sum(p * (v s)) = sum(p * v) s, because a stored 0 is 0 (8.5).
template <typename T>
inline void write_row(const Work& work, const RowPlace& place, const float* sums, float factor) {
  const CallShape& shape = *work.shape;
  const int64_t size = shape.v_head_size;
  const float* channel = nullptr;
  if (shape.value_scaling == Scaling::kPerTensor) factor *= *work.buffers->value_scale;
  if (shape.value_scaling == Scaling::kPerChannel) {
    channel = work.buffers->value_scale + place.head / group_size(shape) * shape.head_size;
  }
  T* out = static_cast<T*>(work.buffers->output) + place.token * shape.output_stride +
           place.head * size;
  for (int64_t c = 0; c < size; c += kLanes) {
    Vec value = load(sums + c) * broadcast(factor);
    if (channel != nullptr) value *= load_some(channel + c, size - c);
    store_some(value, size - c, out + c);
  }
}

inline void write_rows(const Work& work, const Segment& segment, int64_t rows,
                       const Accumulated& source) {
  const CallShape& shape = *work.shape;
  const int64_t padded = padded_v_head_size(shape);
  with_activation(shape.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    for (int64_t row = 0; row < rows; ++row) {
      const RowPlace place = row_place(shape, segment, row);
      const float factor = final_factor<T>(*work.buffers, place.head, source.highest[row],
                                           source.total[row]);
      write_row<T>(work, place, source.sums + row * padded, factor);
    }
  });
}

}  // namespace
}  // namespace pa
