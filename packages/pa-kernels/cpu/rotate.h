// One head in float: normalised, and rotated by the angles of its token.
#pragma once

#include <cmath>

#include "kernels.h"
#include "shuffle.h"

namespace pa {
namespace {

// Fills row[0, padded) with the float values of one head and zeros, normalised when a weight is
// given (8.3).
template <typename T>
void load_head(const T* head, const T* weight, const CallShape& shape, float* row) {
  const int64_t size = shape.head_size;
  Vec squares = broadcast(0.0F);
  for (int64_t c = 0; c < size; c += kLanes) {
    const Vec value = load_some(head + c, size - c);
    squares += value * value;
    store(value, row + c);
  }
  if (weight == nullptr) return;
  const float mean = sum_of_lanes(squares) / static_cast<float>(size);
  const Vec factor = broadcast(1.0F / std::sqrt(mean + shape.norm_epsilon));
  for (int64_t c = 0; c < size; c += kLanes) {
    store(load(row + c) * factor * load_some(weight + c, size - c), row + c);
  }
}

// Angles of the token in hand, and a row for the head in hand.
struct TokenAngles {
  // [rotary_dim/2]; where pairs are interleaved [rotary_dim], one for each channel, and a channel's
  // sine has the sign with which the other channel of its pair is added.
  float* cos;
  float* sin;
  float* row;  // [padded]

  // Floats of scratch: pairs are spread in whole vectors.
  static int64_t angle_floats(const CallShape& shape) { return padded_head_size(shape) + 16; }

  TokenAngles(const CallShape& shape, float* scratch)
      : cos(scratch), sin(cos + angle_floats(shape)), row(sin + angle_floats(shape)) {}

  template <typename T>
  void load_tables(const CallShape& shape, const T* cos_row, const T* sin_row) const {
    const int64_t half = shape.rotary_dim / 2;
    for (int64_t i = 0; i < half; i += kLanes) {
      const Vec c = load_some(cos_row + i, half - i);
      const Vec s = load_some(sin_row + i, half - i);
      if (shape.rotary_interleaved == 0) {
        store(c, cos + i);
        store(s, sin + i);
        continue;
      }
      store(each_twice<false>(c), cos + 2 * i);
      store(each_twice<true>(c), cos + 2 * i + kLanes);
      store(each_twice<false>(s) * alternating_signs(), sin + 2 * i);
      store(each_twice<true>(s) * alternating_signs(), sin + 2 * i + kLanes);
    }
  }
};

// Rotates channels [rotary_offset, rotary_offset + rotary_dim) by the angles of one position.
inline void rotate_head(const CallShape& shape, const TokenAngles& angles) {
  const int64_t half = shape.rotary_dim / 2;
  float* first = angles.row + shape.rotary_offset;
  if (shape.rotary_interleaved != 0) {
    for (int64_t i = 0; i < 2 * half; i += kLanes) {
      const Vec pairs = load_some(first + i, 2 * half - i);
      const Vec turned = pairs * load(angles.cos + i) + swap_lanes<1>(pairs) * load(angles.sin + i);
      store_some(turned, 2 * half - i, first + i);
    }
    return;
  }
  float* second = first + half;
  for (int64_t i = 0; i < half; i += kLanes) {
    const Vec a = load_some(first + i, half - i);
    const Vec b = load_some(second + i, half - i);
    const Vec cos = load(angles.cos + i);
    const Vec sin = load(angles.sin + i);
    store_some(a * cos - b * sin, half - i, first + i);
    store_some(b * cos + a * sin, half - i, second + i);
  }
}

}  // namespace
}  // namespace pa
