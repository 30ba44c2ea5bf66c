// Codes of float8 as pairs of bfloat16 numbers, which hold them exactly.
#pragma once

#include "chunk.h"
#include "pairs.h"

#if defined(__AVX512BF16__)

namespace pa {
namespace {

// The bytes of a float8's size as a bfloat16.
struct Float8Bytes {
  uint8_t low[128] = {};
  uint8_t high[128] = {};

  constexpr Float8Bytes() {
    for (int code = 1; code < 128; ++code) {
      int exponent = (code >> 3) + 120;
      int mantissa = (code & 7) << 4;
      if (code < 8) {  // a multiple of 2^-9
        exponent = 121;
        for (; (mantissa & 0x80) == 0; mantissa <<= 1) --exponent;
      }
      const int bits = code == 0x7F ? 0x7FC0 : (exponent << 7) | (mantissa & 0x7F);
      low[code] = static_cast<uint8_t>(bits & 0xFF);
      high[code] = static_cast<uint8_t>(bits >> 8);
    }
  }
};

alignas(64) constexpr Float8Bytes kFloat8Bytes;

struct WordHalves {
  __m512i low;
  __m512i high;
};

// The lookup passes over the sign, the highest bit of a code.
inline WordHalves widen(__m512i codes) {
  const auto bytes = [&](const uint8_t* table) {
    return _mm512_permutex2var_epi8(_mm512_load_si512(table), codes,
                                    _mm512_load_si512(table + 64));
  };
  constexpr int kOrBoth = 0xF8;  // a | (b & c)
  return {bytes(kFloat8Bytes.low),
          _mm512_ternarylogic_epi32(bytes(kFloat8Bytes.high), codes,
                                    _mm512_set1_epi8(static_cast<char>(0x80)), kOrBoth)};
}

// Words of two vectors of their halves, interleaved within each quarter of a vector.
struct WordPairs {
  __m512i lower;
  __m512i upper;
};

inline WordPairs interleave(const WordHalves& words) {
  return {_mm512_unpacklo_epi8(words.low, words.high),
          _mm512_unpackhi_epi8(words.low, words.high)};
}

template <bool whole>
inline RowPairs row_pairs(const Float8* even, const Float8* odd, ChunkSize<whole> size) {
  const auto words = [&](const Float8* row) {
    return interleave(widen(_mm512_permutexvar_epi32(four_apart(), size.load_codes(row))));
  };
  const WordPairs a = words(even), b = words(odd);
  return {{_mm512_unpacklo_epi16(a.lower, b.lower), _mm512_unpackhi_epi16(a.lower, b.lower),
           _mm512_unpacklo_epi16(a.upper, b.upper), _mm512_unpackhi_epi16(a.upper, b.upper)}};
}

}  // namespace
}  // namespace pa

#endif
