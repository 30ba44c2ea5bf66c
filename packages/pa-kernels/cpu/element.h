// Element types of tensors and their conversion to and from float.
#pragma once

#include <cstdint>
#include <cstring>

namespace pa {
namespace {

struct Bfloat16 {
  uint16_t bits;
};

inline float to_float(float value) { return value; }

inline float to_float(Bfloat16 value) {
  const uint32_t wide = static_cast<uint32_t>(value.bits) << 16;
  float result;
  std::memcpy(&result, &wide, sizeof result);
  return result;
}

inline void store(float value, float* out) { *out = value; }

// Rounds half to even. A NaN keeps its sign and stays a NaN.
inline void store(float value, Bfloat16* out) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40U;
  out->bits = static_cast<uint16_t>(value != value ? quiet : rounded);
}

}  // namespace
}  // namespace pa
