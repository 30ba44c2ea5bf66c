// Queries of a segment as rows of floats, multiplied by the scales of softmax and key cache.
#pragma once

#include <type_traits>

#include "product.h"
#include "softmax.h"

namespace pa {
namespace {

// What a query is multiplied by: q . (k s) = (q s) . k, because a stored 0 is 0 (8.5).
struct QueryFactor {
  float whole;
  const float* channel;  // [K, D], null when every channel has the same

  static QueryFactor of(const Work& work) {
    const CallShape& shape = *work.shape;
    const float* scale = work.buffers->key_scale;
    const float factor = logit_scale(shape).query;
    if (shape.key_scaling == Scaling::kNone) return {factor, nullptr};
    if (shape.key_scaling == Scaling::kPerTensor) return {factor * *scale, nullptr};
    return {factor, scale};
  }
};

template <typename T>
inline void scale_query(const T* from, int64_t size, const QueryFactor& factor, int64_t kv_head,
                        float* to) {
  const Vec whole = broadcast(factor.whole);
  const float* channel = factor.channel == nullptr ? nullptr : factor.channel + kv_head * size;
  for (int64_t c = 0; c < padded_size(size); c += kLanes) {
    Vec value = load_some(from + c, size - c) * whole;
    if (channel != nullptr) value *= load_some(channel + c, size - c);
    store(value, to + c);
  }
}

// to: [rows, padded], in the order of the segment's accumulated rows.
template <typename T>
inline void load_queries(const Work& work, const Segment& segment, const QueryFactor& factor,
                         Rows<T> queries, float* to) {
  const CallShape& shape = *work.shape;
  const int64_t rows = segment_rows(shape, segment);
  for (int64_t row = 0; row < rows; ++row) {
    const RowPlace place = row_place(shape, segment, row);
    const T* query = queries.data + place.token * queries.stride + place.head * shape.head_size;
    scale_query(query, shape.head_size, factor, place.head / group_size(shape),
                to + row * padded_head_size(shape));
  }
}

inline void load_queries(const Work& work, const Segment& segment, float* to) {
  const CallShape& shape = *work.shape;
  const QueryFactor factor = QueryFactor::of(work);
  if (work.rotated != nullptr) {
    const Matrix rotated{work.rotated, shape.num_heads * shape.head_size};
    load_queries(work, segment, factor, rotated, to);
    return;
  }
  with_activation(shape.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    load_queries(work, segment, factor,
                 Rows<T>{static_cast<const T*>(work.buffers->query), shape.query_stride}, to);
  });
}

}  // namespace
}  // namespace pa
