// Element types of tensors and their conversion to and from float.
#pragma once

#include <cstdint>
#include <cstring>

#include "params.h"

namespace pa {
namespace {

struct Bfloat16 {
  uint16_t bits;
};

struct Float16 {
  uint16_t bits;
};

struct Int8 {
  int8_t value;
};

// float8_e4m3fn: no infinity, 0x7F and 0xFF are NaN, the largest number is 448.
struct Float8 {
  uint8_t bits;
};

template <typename To, typename From>
inline To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

inline float to_float(float value) { return value; }

inline float to_float(Bfloat16 value) {
  return bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

inline float to_float(Float16 value) {
  const uint32_t size = value.bits & 0x7FFFU;
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000U) << 16;
  // Subnormal numbers are multiples of 2^-24; the others change their exponent's bias, 15 to 127.
  uint32_t bits = bit_cast<uint32_t>(static_cast<float>(size) * 0x1p-24F);
  if (size >= 0x7C00U) {
    bits = 0x7F800000U | (size << 13);
  } else if (size >= 0x400U) {
    bits = (size << 13) + (112U << 23);
  }
  return bit_cast<float>(bits | sign);
}

inline void store(float value, float* out) { *out = value; }

// Rounds half to even. A NaN keeps its sign and stays a NaN.
inline void store(float value, Bfloat16* out) {
  const uint32_t bits = bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40U;
  out->bits = static_cast<uint16_t>(value != value ? quiet : rounded);
}

// Rounds half to even; 65520 and more become infinite.
inline void store(float value, Float16* out) {
  const uint32_t bits = bit_cast<uint32_t>(value);
  const uint32_t size = bits & 0x7FFFFFFFU;
  uint32_t half;
  if (size > 0x7F800000U) {
    half = 0x7E00U | ((size >> 13) & 0x1FFU);
  } else if (size >= 0x477FF000U) {
    half = 0x7C00U;
  } else if (size >= 0x38800000U) {
    half = (size + 0xFFFU + ((size >> 13) & 1U) - (112U << 23)) >> 13;
  } else {
    // Adding 0.5 leaves the multiples of 2^-24, rounded, in the lowest bits.
    half = bit_cast<uint32_t>(bit_cast<float>(size) + 0.5F) - 0x3F000000U;
  }
  out->bits = static_cast<uint16_t>(half | ((bits >> 16) & 0x8000U));
}

// Calls f with a null pointer to the element type of a query, key, value or output.
template <typename F>
inline void with_activation(Dtype dtype, F f) {
  switch (dtype) {
    case Dtype::kBfloat16:
      return f(static_cast<Bfloat16*>(nullptr));
    case Dtype::kFloat16:
      return f(static_cast<Float16*>(nullptr));
    default:
      return f(static_cast<float*>(nullptr));
  }
}

// The same for the element type of a cache.
template <typename F>
inline void with_cache_element(Dtype dtype, F f) {
  switch (dtype) {
    case Dtype::kInt8:
      return f(static_cast<Int8*>(nullptr));
    case Dtype::kFloat8:
      return f(static_cast<Float8*>(nullptr));
    default:
      return with_activation(dtype, f);
  }
}

}  // namespace
}  // namespace pa
