// Elements of a cache as decoding streams them.
#pragma once

#include <type_traits>

#include "convert.h"

namespace pa {
namespace {

// Streams of a cache are loaded in the unit in which that is least work: a value is the unit times
// load_stored, unless has_hole finds it. The unit goes into queries and sums.
template <typename C>
constexpr float stored_unit() {
  return 1.0F;
}

template <typename C>
inline Vec load_stored(const C* from) {
  return load(from);
}

template <typename C>
inline bool has_hole(const C* /*from*/, int64_t /*stride*/, int64_t /*rows*/, int64_t /*size*/) {
  return false;
}

// Whether a row can be an operand as it lies, again for every use of it (forget_memory).
template <typename C>
constexpr bool kReadsAsItLies = std::is_same_v<C, float>;

#if defined(__AVX512F__)
template <>
constexpr float stored_unit<Float8>() {
  return 256.0F;
}

template <>
inline Vec load_stored(const Float8* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  const __m256i half = _mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(bytes), 7),
                                        _mm256_set1_epi16(static_cast<int16_t>(0xBFFF)));
  return bit_cast<Vec>(_mm512_cvtph_ps(half));
}

// Whether one of the rows, whose size is a multiple of kLanes, has a NaN.
template <>
inline bool has_hole(const Float8* from, int64_t stride, int64_t rows, int64_t size) {
  __m512i largest = _mm512_setzero_si512();
  for (int64_t row = 0; row < rows; ++row, from += stride) {
    for (int64_t c = 0; c < size; c += 64) {
      const __mmask64 inside = size - c >= 64 ? ~0ULL : (1ULL << (size - c)) - 1;
      const __m512i bytes = _mm512_maskz_loadu_epi8(inside, from + c);
      // Doubled, the sign is gone and NaN, 0xFE, is the largest.
      largest = _mm512_max_epu8(largest, _mm512_add_epi8(bytes, bytes));
    }
  }
  return _mm512_cmpeq_epi8_mask(largest, _mm512_set1_epi8(static_cast<char>(0xFE))) != 0;
}
#endif

}  // namespace
}  // namespace pa
