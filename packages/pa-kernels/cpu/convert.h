// Vectors from and to memory of every element type.
#pragma once
#include "simd.h"

namespace pa {
namespace {

inline Vec load(const float* from) { return *reinterpret_cast<const LooseVec*>(from); }

// The compiler splits the generic conversions in two where one instruction widens all lanes.
inline Vec load(const Bfloat16* from) {
#if defined(__AVX512F__)
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return bit_cast<Vec>(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
#elif defined(__AVX2__)
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return bit_cast<Vec>(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
#else
  HalfVec half;
  std::memcpy(&half, from, sizeof half);
  return bit_cast<Vec>(__builtin_convertvector(half, WordVec) << 16);
#endif
}

inline Vec load(const Float16* from) {
#if defined(__AVX512F__)
  return bit_cast<Vec>(
      _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
#elif defined(__AVX2__)
  return bit_cast<Vec>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#else
  HalfVec half;
  std::memcpy(&half, from, sizeof half);
  const WordVec word = __builtin_convertvector(half, WordVec);
  const IntVec size = bit_cast<IntVec>(word & 0x7FFFU);
  const IntVec normal = (size << 13) + (112 << 23);
  const Vec subnormal = __builtin_convertvector(size, Vec) * broadcast(0x1p-24F);
  IntVec bits = size < 0x400 ? bit_cast<IntVec>(subnormal) : normal;
  bits = size >= 0x7C00 ? ((size << 13) | 0x7F800000) : bits;
  return bit_cast<Vec>(bit_cast<WordVec>(bits) | ((word & 0x8000U) << 16));
#endif
}

inline Vec load(const Int8* from) {
#if defined(__AVX512F__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return bit_cast<Vec>(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)));
#elif defined(__AVX2__)
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  return bit_cast<Vec>(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)));
#else
  ByteVec bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  return __builtin_convertvector(__builtin_convertvector(bytes, IntVec), Vec);
#endif
}

// Four exponent and three mantissa bits are, moved up by 7, those of a float16 whose value is 2^-8
// of the number; the conversion is exact for subnormal numbers too. NaN has to be put in.
inline Vec load(const Float8* from) {
#if defined(__AVX512F__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  const __m256i half = _mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(bytes), 7),
                                        _mm256_set1_epi16(static_cast<int16_t>(0xBFFF)));
  const __mmask16 is_nan = _mm_cmpeq_epi8_mask(_mm_or_si128(bytes, _mm_set1_epi8(-128)),
                                               _mm_set1_epi8(-1));
  const __m512 value = _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256.0F));
  return bit_cast<Vec>(
      _mm512_mask_mov_ps(value, is_nan, _mm512_set1_ps(__builtin_nanf(""))));
#elif defined(__AVX2__)
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  const __m128i half = _mm_and_si128(_mm_slli_epi16(_mm_cvtepi8_epi16(bytes), 7),
                                     _mm_set1_epi16(static_cast<int16_t>(0xBFFF)));
  const __m128i is_nan =
      _mm_cmpeq_epi8(_mm_or_si128(bytes, _mm_set1_epi8(-128)), _mm_set1_epi8(-1));
  const __m256 value = _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256.0F));
  return bit_cast<Vec>(_mm256_or_ps(value, _mm256_castsi256_ps(_mm256_cvtepi8_epi32(is_nan))));
#else
  ByteVec bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  const IntVec word = __builtin_convertvector(bytes, IntVec);
  const IntVec size = word & 0x7F;
  const Vec subnormal = __builtin_convertvector(size, Vec) * broadcast(0x1p-9F);
  IntVec bits = size < 8 ? bit_cast<IntVec>(subnormal) : (size << 20) + (120 << 23);
  bits = size == 0x7F ? (IntVec{} + 0x7FC00000) : bits;
  return bit_cast<Vec>(bit_cast<WordVec>(bits) | (bit_cast<WordVec>(word) & 0x80000000U));
#endif
}

inline void store(Vec value, float* to) { *reinterpret_cast<LooseVec*>(to) = value; }

inline void store(Vec value, Bfloat16* to) {
  const WordVec bits = bit_cast<WordVec>(value);
  const WordVec rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const WordVec quiet = (bits >> 16) | 0x40U;
  const HalfVec half = __builtin_convertvector(value != value ? quiet : rounded, HalfVec);
  std::memcpy(to, &half, sizeof half);
}

inline void store(Vec value, Float16* to) {
#if defined(__AVX512F__)
  const __m256i half = _mm512_cvtps_ph(bit_cast<__m512>(value), _MM_FROUND_TO_NEAREST_INT);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), half);
#elif defined(__AVX2__)
  const __m128i half = _mm256_cvtps_ph(bit_cast<__m256>(value), _MM_FROUND_TO_NEAREST_INT);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), half);
#else
  for (int i = 0; i < kLanes; ++i) store(value[i], to + i);
#endif
}

// Within limits, rounded half to even; NaN has no int8 and becomes 0 (8.5).
inline void store(Vec value, Int8* to) {
  const Vec lowest = broadcast(-128.0F);
  const Vec highest = broadcast(127.0F);
  const Vec magic = broadcast(12582912.0F);  // 1.5 * 2^23: adding it rounds to an integer
  Vec inside = value == value ? value : broadcast(0.0F);
  inside = inside < lowest ? lowest : inside;
  inside = inside > highest ? highest : inside;
  const IntVec rounded = bit_cast<IntVec>(inside + magic) - bit_cast<IntVec>(magic);
  const ByteVec bytes = __builtin_convertvector(rounded, ByteVec);
  std::memcpy(to, &bytes, sizeof bytes);
}

// Within +-448, rounded half to even (8.5).
inline void store(Vec value, Float8* to) {
  const WordVec bits = bit_cast<WordVec>(value);
  const Vec size = bit_cast<Vec>(bits & 0x7FFFFFFFU);
  const Vec inside = size > broadcast(448.0F) ? broadcast(448.0F) : size;
  const WordVec word = bit_cast<WordVec>(inside);
  const WordVec normal = ((word + 0x7FFFFU + ((word >> 20) & 1U)) >> 20) - (120U << 3);
  // Below 2^-6 the numbers are multiples of 2^-9: adding 2^14 rounds to one in the lowest bits.
  const Vec shift = broadcast(16384.0F);
  const WordVec subnormal = bit_cast<WordVec>(inside + shift) - bit_cast<WordVec>(shift);
  WordVec code = inside < broadcast(0x1p-6F) ? subnormal : normal;
  code = value == value ? code : (WordVec{} + 0x7FU);
  const ByteVec bytes = __builtin_convertvector(code | ((bits >> 24) & 0x80U), ByteVec);
  std::memcpy(to, &bytes, sizeof bytes);
}

#if defined(__AVX512F__)
// The first `count` of so many lanes, none for a negative count.
inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count > 0 ? (1U << count) - 1U : 0U);
}

template <typename V, typename T>
inline V bits_of(const T (&lanes)[kLanes]) {
  V vector;
  std::memcpy(&vector, lanes, sizeof vector);
  return vector;
}
#endif

// Loads kLanes elements of which only the first `count` exist; the others are 0.
template <typename T>
inline Vec load_some(const T* from, int64_t count) {
  if (count >= kLanes) return load(from);
  T lanes[kLanes] = {};
#if defined(__AVX512F__)
  const __mmask16 first = first_lanes(count);
  if constexpr (sizeof(T) == 4) {
    const __m512 some = _mm512_maskz_loadu_ps(first, from);
    std::memcpy(lanes, &some, sizeof some);
  } else if constexpr (sizeof(T) == 2) {
    const __m256i some = _mm256_maskz_loadu_epi16(first, from);
    std::memcpy(lanes, &some, sizeof some);
  } else {
    const __m128i some = _mm_maskz_loadu_epi8(first, from);
    std::memcpy(lanes, &some, sizeof some);
  }
#else
  if (count > 0) std::memcpy(lanes, from, static_cast<std::size_t>(count) * sizeof(T));
#endif
  return load(lanes);
}

// Stores the first `count` lanes.
template <typename T>
inline void store_some(Vec value, int64_t count, T* to) {
  if (count >= kLanes) return store(value, to);
  T lanes[kLanes];
  store(value, lanes);
#if defined(__AVX512F__)
  const __mmask16 first = first_lanes(count);
  if constexpr (sizeof(T) == 4) {
    _mm512_mask_storeu_ps(to, first, bits_of<__m512>(lanes));
  } else if constexpr (sizeof(T) == 2) {
    _mm256_mask_storeu_epi16(to, first, bits_of<__m256i>(lanes));
  } else {
    _mm_mask_storeu_epi8(to, first, bits_of<__m128i>(lanes));
  }
#else
  if (count > 0) std::memcpy(to, lanes, static_cast<std::size_t>(count) * sizeof(T));
#endif
}

}  // namespace
}  // namespace pa
