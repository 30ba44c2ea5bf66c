// Rows of codes as pairs of bfloat16 numbers, a chunk of channels at a time. A code of eight bits
// has so few digits that bfloat16 holds it exactly.
#pragma once

#include "pairs.h"
#include "product.h"

#if defined(__AVX512BF16__)

namespace pa {
namespace {

constexpr int64_t kChunk = 64;  // channels

inline int64_t in_chunks(int64_t size) { return (size + kChunk - 1) / kChunk * kChunk; }

// Neighbouring channels of a row: lane i of vector v has channels 32 v + 2 i and 32 v + 2 i + 1.
struct ChannelPairs {
  __m512i vectors[2];
};

// The same channel of two rows: lane i of vector v has channel 16 v + i of both.
struct RowPairs {
  __m512i vectors[4];
};

// The first `count` channels of a chunk. Most chunks are whole, and known to be when compiled.
template <bool whole>
struct ChunkSize {
  int64_t count;

  __m512i load_codes(const Float8* row) const {
    if (whole) return _mm512_loadu_si512(row);
    return _mm512_maskz_loadu_epi8((1ULL << count) - 1, row);
  }

  template <typename C>
  Vec load_floats(const C* row, int64_t first) const {
    return whole ? load(row + first) : load_some(row + first, count - first);
  }

  void store_floats(Vec value, int64_t first, float* row) const {
    whole ? store(value, row + first) : store_some(value, count - first, row + first);
  }
};

template <bool whole>
inline ChannelPairs channel_pairs(const Int8* row, ChunkSize<whole> size) {
  ChannelPairs pairs;
  PA_UNROLL for (int v = 0; v < 2; ++v) {
    const Vec lower = size.load_floats(row, 32 * v);
    const Vec upper = size.load_floats(row, 32 * v + 16);
    pairs.vectors[v] = bit_cast<__m512i>(
        _mm512_cvtne2ps_pbh(bit_cast<__m512>(upper), bit_cast<__m512>(lower)));
  }
  return pairs;
}

template <bool whole>
inline RowPairs row_pairs(const Int8* even, const Int8* odd, ChunkSize<whole> size) {
  RowPairs pairs;
  PA_UNROLL for (int v = 0; v < 4; ++v) {
    // Small integers leave the lower half of a float empty.
    const WordVec low = bit_cast<WordVec>(size.load_floats(even, 16 * v)) >> 16;
    const WordVec high = bit_cast<WordVec>(size.load_floats(odd, 16 * v));
    pairs.vectors[v] = bit_cast<__m512i>(low | high);
  }
  return pairs;
}

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

// Bytes are interleaved within each quarter of a vector: what shall lie side by side at the end is
// put into the same place of all quarters first.
template <bool whole>
inline ChannelPairs channel_pairs(const Float8* row, ChunkSize<whole> size) {
  const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
  const WordHalves words = widen(_mm512_permutexvar_epi64(order, size.load_codes(row)));
  return {{_mm512_unpacklo_epi8(words.low, words.high),
           _mm512_unpackhi_epi8(words.low, words.high)}};
}

template <bool whole>
inline RowPairs row_pairs(const Float8* even, const Float8* odd, ChunkSize<whole> size) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const WordHalves a = widen(_mm512_permutexvar_epi32(order, size.load_codes(even)));
  const WordHalves b = widen(_mm512_permutexvar_epi32(order, size.load_codes(odd)));
  const __m512i a_lower = _mm512_unpacklo_epi8(a.low, a.high);
  const __m512i a_upper = _mm512_unpackhi_epi8(a.low, a.high);
  const __m512i b_lower = _mm512_unpacklo_epi8(b.low, b.high);
  const __m512i b_upper = _mm512_unpackhi_epi8(b.low, b.high);
  return {{_mm512_unpacklo_epi16(a_lower, b_lower), _mm512_unpackhi_epi16(a_lower, b_lower),
           _mm512_unpacklo_epi16(a_upper, b_upper), _mm512_unpackhi_epi16(a_upper, b_upper)}};
}

}  // namespace
}  // namespace pa

#endif
