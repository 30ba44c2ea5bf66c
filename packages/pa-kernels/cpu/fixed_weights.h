// Weights as whole numbers of 15 bits, for products with codes of int8.
#pragma once

#include "convert.h"

namespace pa {
namespace {

// What the largest weight of a tile has.
constexpr float kLargestWeight = 32767.0F;

#if defined(__AVX512F__)
// kLargestWeight times 2^x for x <= 0, rounded half to even. The polynomial's relative error is
// 3e-6, where half a unit is 1.5e-5 of the largest weight.
inline IntVec whole_weight(Vec x) {
  constexpr float kMost = kLargestWeight;
  const Vec inside = larger(x, broadcast(-32.0F));  // below it nothing is left of a unit
  const IntVec power = bit_cast<IntVec>(_mm512_cvtps_epi32(bit_cast<__m512>(inside)));
  const Vec rest = inside - __builtin_convertvector(power, Vec);
  const Vec square = rest * rest;
  const Vec low = broadcast(0.69312419F * kMost) * rest + broadcast(kMost);
  const Vec middle = broadcast(0.05590643F * kMost) * rest + broadcast(0.24024099F * kMost);
  const Vec high = broadcast(0.00958285F * kMost) * square + middle;
  const IntVec scaled = bit_cast<IntVec>(high * square + low) + (power << 23);
  return bit_cast<IntVec>(_mm512_cvtps_epi32(bit_cast<__m512>(scaled)));
}

inline IntVec store_weight(IntVec weight, int16_t* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtepi32_epi16(bit_cast<__m512i>(weight)));
  return weight;
}

#endif

}  // namespace
}  // namespace pa
