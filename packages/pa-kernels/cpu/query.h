// Queries of a segment as rows of floats, multiplied by the softmax scale.
#pragma once

#include "softmax.h"

namespace pa {
namespace {

// to: [rows, padded], in the order of the segment's accumulated rows.
template <typename T>
inline void load_queries(const Work& work, const Segment& segment, int64_t rows, float* to) {
  const CallShape& shape = *work.shape;
  const int64_t padded = padded_head_size(shape);
  const Vec factor = broadcast(logit_scale(shape).query);
  for (int64_t row = 0; row < rows; ++row) {
    const RowPlace place = row_place(shape, segment, row);
    const int64_t offset = place.head * shape.head_size;
    const float* rotated =
        work.rotated + place.token * shape.num_heads * shape.head_size + offset;
    const T* query = static_cast<const T*>(work.buffers->query) +
                     place.token * shape.query_stride + offset;
    for (int64_t c = 0; c < padded; c += kLanes) {
      const int64_t left = shape.head_size - c;
      const Vec value =
          work.rotated != nullptr ? load_some(rotated + c, left) : load_some(query + c, left);
      store(value * factor, to + row * padded + c);
    }
  }
}

}  // namespace
}  // namespace pa
