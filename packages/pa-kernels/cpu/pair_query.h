// A query for products with pairs of bfloat16 numbers: what was given, or what the prologue and
// scales of channels have made of it, in float or in two parts of bfloat16.
#pragma once

#include "softmax.h"

#if defined(__AVX512BF16__)

namespace pa {
namespace {

// Whether queries are no longer the bfloat16 numbers that were given.
inline bool changes_queries(const Work& work) {
  return work.rotated != nullptr || work.shape->key_scaling == Scaling::kPerChannel;
}

inline const Bfloat16* given_query(const Work& work, const RowPlace& place) {
  return static_cast<const Bfloat16*>(work.buffers->query) +
         place.token * work.shape->query_stride + place.head * work.shape->head_size;
}

inline void copy_given_query(const Work& work, const RowPlace& place, Bfloat16* to) {
  const std::size_t size = static_cast<std::size_t>(work.shape->head_size);
  std::memcpy(to, given_query(work, place), size * sizeof(Bfloat16));
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

template <typename T, typename Keep>
inline void for_vectors(const T* query, const float* channel_scale, int64_t size, Keep keep) {
  for (int64_t c = 0; c < size; c += kLanes) {
    Vec value = load_some(query + c, size - c);
    if (channel_scale != nullptr) value *= load_some(channel_scale + c, size - c);
    keep(value, c);
  }
}

// Calls keep(vector, channel) for a query after norm, rotation and scales of channels. What scales
// all keys alike is left to the logits.
template <typename Keep>
inline void for_changed_query(const Work& work, const RowPlace& place, Keep keep) {
  const CallShape& shape = *work.shape;
  const int64_t size = shape.head_size;
  const float* channel_scale = nullptr;
  if (shape.key_scaling == Scaling::kPerChannel) {
    channel_scale = work.buffers->key_scale + place.head / group_size(shape) * size;
  }
  if (work.rotated != nullptr) {
    const int64_t from = (place.token * shape.num_heads + place.head) * size;
    return for_vectors(work.rotated + from, channel_scale, size, keep);
  }
  for_vectors(given_query(work, place), channel_scale, size, keep);
}

// In two parts where the query was changed; low is not written otherwise.
inline void load_query_pairs(const Work& work, const RowPlace& place, Bfloat16* high,
                             Bfloat16* low) {
  const int64_t size = work.shape->head_size;
  if (!changes_queries(work)) return copy_given_query(work, place, high);
  for_changed_query(work, place,
                    [&](Vec value, int64_t c) { split(value, size - c, high + c, low + c); });
}

}  // namespace
}  // namespace pa

#endif
