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

}  // namespace
}  // namespace pa

#endif
