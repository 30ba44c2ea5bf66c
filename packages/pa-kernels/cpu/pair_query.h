// A query as bfloat16 numbers for products of pairs: what was given, or two parts of what the
// prologue and scales of channels have made of it.
#pragma once

#include "softmax.h"

#if defined(__AVX512BF16__)

namespace pa {
namespace {

// Whether queries are no longer the bfloat16 numbers that were given.
inline bool changes_queries(const Work& work) {
  return work.rotated != nullptr || work.shape->key_scaling == Scaling::kPerChannel;
}

// value = high + low with 16 bits of precision. Both have the same sign and low is 0 for nothing
// but 0, so that an infinite key gives one infinity by both.
inline void split(Vec value, int64_t count, Bfloat16* high, Bfloat16* low) {
  const WordVec bits = bit_cast<WordVec>(value);
  const Vec top = bit_cast<Vec>(bits & 0xFFFF0000U);
  const Vec rest = value - top;
  const Vec smallest = bit_cast<Vec>((bits & 0x80000000U) | 0x00800000U);
  const Vec zero = broadcast(0.0F);
  store_some(top, count, high);
  store_some((rest < zero) | (rest > zero) | (value == zero) ? rest : smallest, count, low);
}

template <typename T>
inline void split_query(const T* query, const float* channel_scale, int64_t size, Bfloat16* high,
                        Bfloat16* low) {
  for (int64_t c = 0; c < size; c += kLanes) {
    Vec value = load_some(query + c, size - c);
    if (channel_scale != nullptr) value *= load_some(channel_scale + c, size - c);
    split(value, size - c, high + c, low + c);
  }
}

// low is written where the query was changed. What scales all keys alike is left to the logits.
inline void load_query_pairs(const Work& work, const RowPlace& place, Bfloat16* high,
                             Bfloat16* low) {
  const CallShape& shape = *work.shape;
  const int64_t size = shape.head_size;
  const float* channel_scale = nullptr;
  if (shape.key_scaling == Scaling::kPerChannel) {
    channel_scale = work.buffers->key_scale + place.head / group_size(shape) * size;
  }
  if (work.rotated != nullptr) {
    const int64_t from = (place.token * shape.num_heads + place.head) * size;
    return split_query(work.rotated + from, channel_scale, size, high, low);
  }
  const Bfloat16* given = static_cast<const Bfloat16*>(work.buffers->query) +
                          place.token * shape.query_stride + place.head * size;
  if (channel_scale != nullptr) return split_query(given, channel_scale, size, high, low);
  std::memcpy(high, given, static_cast<std::size_t>(size) * sizeof(Bfloat16));
}

}  // namespace
}  // namespace pa

#endif
