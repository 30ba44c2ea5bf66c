// Pairs of bfloat16 numbers, for processors that multiply two pairs and add both products to a
// float.
#pragma once

#include "convert.h"

#if defined(__AVX512BF16__)

namespace pa {
namespace {

inline Vec add_pairs(Vec sum, __m512i a, __m512i b) {
  return bit_cast<Vec>(
      _mm512_dpbf16_ps(bit_cast<__m512>(sum), bit_cast<__m512bh>(a), bit_cast<__m512bh>(b)));
}

// Returns what was stored: a total is the sum of the weights that are used.
inline Vec store_weight(Vec weight, Bfloat16* to) {
  const __m256bh rounded = _mm512_cvtneps_pbh(bit_cast<__m512>(weight));
  std::memcpy(to, &rounded, sizeof rounded);
  return bit_cast<Vec>(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bit_cast<__m256i>(rounded)), 16));
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

}  // namespace
}  // namespace pa

#endif
