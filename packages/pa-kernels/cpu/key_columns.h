// Codes of sixteen keys turned on their side: a lane is a key, so that their logits need no sums
// across lanes.
#pragma once

#include "chunk.h"
#include "kernels.h"
#include "product.h"

#if defined(__AVX512BW__)

namespace pa {
namespace {

static_assert(kGroupKeys == kLanes, "a group's keys are the lanes of one vector");

// Channels 4 j to 4 j + 3 of a chunk are vectors[j], a 32-bit lane for each key.
struct KeyColumns {
  __m512i vectors[kChunk / 4];
};

// Of four vectors a, b, c and d the quarters with the same number, in this order.
inline void exchange_quarters(__m512i a, __m512i b, __m512i c, __m512i d, __m512i* to) {
  constexpr int kLower = 0x44, kUpper = 0xEE, kEven = 0x88, kOdd = 0xDD;
  const __m512i ab_lower = _mm512_shuffle_i32x4(a, b, kLower);
  const __m512i ab_upper = _mm512_shuffle_i32x4(a, b, kUpper);
  const __m512i cd_lower = _mm512_shuffle_i32x4(c, d, kLower);
  const __m512i cd_upper = _mm512_shuffle_i32x4(c, d, kUpper);
  to[0] = _mm512_shuffle_i32x4(ab_lower, cd_lower, kEven);
  to[4] = _mm512_shuffle_i32x4(ab_lower, cd_lower, kOdd);
  to[8] = _mm512_shuffle_i32x4(ab_upper, cd_upper, kEven);
  to[12] = _mm512_shuffle_i32x4(ab_upper, cd_upper, kOdd);
}

// Turns the codes of kGroupKeys rows, `stride` bytes apart.
template <typename C, bool whole>
__attribute__((always_inline)) inline KeyColumns key_columns(const C* first, int64_t stride,
                                                             ChunkSize<whole> size) {
  __m512i part[4][4];  // [keys 4 k to 4 k + 3][lane of each quarter]
  PA_UNROLL for (int k = 0; k < 4; ++k) {
    const C* row = first + 4 * k * stride;
    const __m512i a = size.load_codes(row), b = size.load_codes(row + stride);
    const __m512i c = size.load_codes(row + 2 * stride), d = size.load_codes(row + 3 * stride);
    const __m512i ab_low = _mm512_unpacklo_epi32(a, b), ab_high = _mm512_unpackhi_epi32(a, b);
    const __m512i cd_low = _mm512_unpacklo_epi32(c, d), cd_high = _mm512_unpackhi_epi32(c, d);
    part[k][0] = _mm512_unpacklo_epi64(ab_low, cd_low);
    part[k][1] = _mm512_unpackhi_epi64(ab_low, cd_low);
    part[k][2] = _mm512_unpacklo_epi64(ab_high, cd_high);
    part[k][3] = _mm512_unpackhi_epi64(ab_high, cd_high);
  }
  KeyColumns columns;
  PA_UNROLL for (int i = 0; i < 4; ++i) {
    exchange_quarters(part[0][i], part[1][i], part[2][i], part[3][i], columns.vectors + i);
  }
  return columns;
}

}  // namespace
}  // namespace pa

#endif
