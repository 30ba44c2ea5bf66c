// One task of a call's attention: a segment, or one of its splits, from queries to output.
#pragma once

#include <algorithm>

#include "decode.h"
#include "prefill.h"

namespace pa {
namespace {

// Floats of scratch that a segment of so many rows needs at most.
inline int64_t scratch_floats(const CallShape& shape, int64_t rows) {
  const int64_t own = rows * (padded_v_head_size(shape) + 2) + 16;
  return own + std::max(stream_floats(shape, rows), tokens_scratch_floats(shape, rows));
}

inline Accumulated carve(float* memory, int64_t rows, int64_t padded) {
  return {memory, memory + rows * padded, memory + rows * padded + rows};
}

inline Accumulated partial_of(const Work& work, const Segment& segment, int64_t rows,
                              int64_t split) {
  const int64_t row = segment.partial_row + split * rows;
  return {work.partials.sums + row * padded_v_head_size(*work.shape), work.partials.highest + row,
          work.partials.total + row};
}

template <typename C>
void attend(const Work& work, Part part, Part next, float* scratch) {
  const CallShape& shape = *work.shape;
  const Segment& segment = *part.segment;
  const int64_t padded = padded_v_head_size(shape);
  const int64_t rows = segment_rows(shape, segment);
  const bool whole = segment.splits == 1;
  const Accumulated target =
      whole ? carve(scratch, rows, padded) : partial_of(work, segment, rows, part.split);
  float* rest = scratch + (whole ? (rows * (padded + 2) + 15) / 16 * 16 : 0);
  clear_rows(rows, padded, target);
  if (segment.tokens() == 1 && streams_tokens(shape)) {
    attend_token<C>(work, part, next, target, rest);
  } else {
    attend_tokens<C>(work, segment, split_range(segment, part.split), target, rest);
  }
  if (whole) write_rows(work, segment, rows, target);
}

// Splits are joined in their order, so the result does not depend on who computed them when.
inline void merge(const Work& work, const Segment& segment, float* scratch) {
  const int64_t padded = padded_v_head_size(*work.shape);
  const int64_t rows = segment_rows(*work.shape, segment);
  const Accumulated joined = carve(scratch, rows, padded);
  clear_rows(rows, padded, joined);
  for (int64_t row = 0; row < rows; ++row) {
    float peak = -kInfinity;
    for (int64_t split = 0; split < segment.splits; ++split) {
      const float highest = partial_of(work, segment, rows, split).highest[row];
      peak = highest > peak ? highest : peak;
    }
    const float reference = peak == -kInfinity ? 0.0F : peak;
    for (int64_t split = 0; split < segment.splits; ++split) {
      const Accumulated part = partial_of(work, segment, rows, split);
      // A part whose logits were all NaN has no highest one, but its total must not be lost.
      const float factor = part.total[row] == part.total[row]
                               ? exp2(part.highest[row] - reference)
                               : part.total[row];
      float* sums = joined.sums + row * padded;
      for (int64_t c = 0; c < padded; c += kLanes) {
        store(load(sums + c) + load(part.sums + row * padded + c) * broadcast(factor), sums + c);
      }
      joined.total[row] += part.total[row] * factor;
    }
    joined.highest[row] = peak;
  }
  write_rows(work, segment, rows, joined);
}

}  // namespace
}  // namespace pa
