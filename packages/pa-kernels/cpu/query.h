// Queries of a segment as rows of floats, multiplied by the softmax scale.
#pragma once

#include "softmax.h"

namespace pa {
namespace {

template <typename T>
inline void scale_query(const T* from, int64_t size, int64_t padded, Vec factor, float* to) {
  for (int64_t c = 0; c < padded; c += kLanes) {
    store(load_some(from + c, size - c) * factor, to + c);
  }
}

// to: [rows, padded], in the order of the segment's accumulated rows.
template <typename T>
inline void load_queries(const Work& work, const Segment& segment, int64_t rows, float* to) {
  const CallShape& shape = *work.shape;
  const int64_t padded = padded_head_size(shape);
  const Vec factor = broadcast(logit_scale(shape).query);
  for (int64_t row = 0; row < rows; ++row) {
    const RowPlace place = row_place(shape, segment, row);
    const int64_t offset = place.head * shape.head_size;
    float* target = to + row * padded;
    if (work.rotated != nullptr) {
      const int64_t first = place.token * shape.num_heads * shape.head_size + offset;
      scale_query(work.rotated + first, shape.head_size, padded, factor, target);
    } else {
      const T* query = static_cast<const T*>(work.buffers->query);
      scale_query(query + place.token * shape.query_stride + offset, shape.head_size, padded,
                  factor, target);
    }
  }
}

}  // namespace
}  // namespace pa
