// A query as whole numbers of 16 bits, for products with codes of int8.
#pragma once

#include <cmath>

#include "chunk.h"
#include "shuffle.h"
#include "softmax.h"

#if defined(__AVX512VNNI__)

namespace pa {
namespace {

// query = unit * (256 * high + low), digit by digit; digits [rows, 2, in_chunks(size)], high first,
// zeros behind the last channel. Keys are multiplied as unsigned numbers, that is 128 too large:
// sums of products start at what that adds.
struct FixedQueries {
  int8_t* digits;
  float* unit;          // [rows]
  int32_t* high_start;  // [rows]
  int32_t* low_start;   // [rows]
  int64_t size;

  int64_t stride() const { return 2 * in_chunks(size); }
  FixedQueries from(int64_t row) const {
    return {digits + row * stride(), unit + row, high_start + row, low_start + row, size};
  }
};

// The largest whole number whose two digits both lie within -128 to 127.
constexpr float kLargestFixed = 127.0F * 256.0F + 127.0F;

// Queries up to this size have digits. A channel is off by half a unit at most, and a logit by some
// sqrt(D) times as much with the largest codes; what is not below about 2^-7, in powers of two,
// could show in the output. So it would where one channel is far above the others and meets codes
// of 0.
inline float most_query(const CallShape& shape) {
  return 4.0F / (std::sqrt(static_cast<float>(shape.head_size)) * logit_scale(shape).logit);
}

inline Vec size_of(Vec value) { return bit_cast<Vec>(bit_cast<WordVec>(value) & 0x7FFFFFFFU); }

// Lanes among which the largest size of an element is. NaN counts as the largest: as bits, sizes
// are in order.
inline Vec largest_sizes(const float* query, int64_t padded) {
  __m512i largest = _mm512_setzero_si512();
  for (int64_t c = 0; c < padded; c += kLanes) {
    largest = _mm512_max_epi32(largest, bit_cast<__m512i>(size_of(load(query + c))));
  }
  return bit_cast<Vec>(largest);
}

struct DigitSums {
  Vec high;
  Vec low;
};

inline DigitSums write_digits(const float* query, int64_t size, float per_unit, int8_t* high,
                              int8_t* low) {
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i high_sum = _mm512_setzero_si512(), low_sum = high_sum;
  const auto step = [&](int64_t c, auto chunk) {
    const auto whole = [&](int v) {
      const Vec scaled = chunk.load_floats(query + c, v * kLanes) * broadcast(per_unit);
      return _mm512_cvtps_epi32(bit_cast<__m512>(scaled));
    };
    const __m512i a = _mm512_packs_epi32(whole(0), whole(1));
    const __m512i b = _mm512_packs_epi32(whole(2), whole(3));
    const auto top = [](__m512i words) {
      return _mm512_srai_epi16(_mm512_add_epi16(words, _mm512_set1_epi16(128)), 8);
    };
    const auto rest = [](__m512i words, __m512i tops) {
      return _mm512_sub_epi16(words, _mm512_slli_epi16(tops, 8));
    };
    const __m512i top_a = top(a), top_b = top(b);
    const __m512i tops =
        _mm512_permutexvar_epi32(four_apart(), _mm512_packs_epi16(top_a, top_b));
    const __m512i rests = _mm512_permutexvar_epi32(
        four_apart(), _mm512_packs_epi16(rest(a, top_a), rest(b, top_b)));
    _mm512_storeu_si512(high + c, tops);
    _mm512_storeu_si512(low + c, rests);
    high_sum = _mm512_dpbusd_epi32(high_sum, ones, tops);
    low_sum = _mm512_dpbusd_epi32(low_sum, ones, rests);
  };
  for_chunks(size, step);
  return {bit_cast<Vec>(_mm512_cvtepi32_ps(high_sum)), bit_cast<Vec>(_mm512_cvtepi32_ps(low_sum))};
}

inline void store_starts(const Vec (&sums)[kLanes], int64_t count, int32_t* to) {
  const Vec start = sum_each(sums) * broadcast(-128.0F);
  _mm512_mask_storeu_epi32(to, first_lanes(count), _mm512_cvtps_epi32(bit_cast<__m512>(start)));
}

// Digits of up to kLanes queries, rows of `padded` floats; false if one of them is larger than
// `most` or NaN, and has none.
inline bool load_fixed(const float* queries, int64_t padded, int64_t count, float most,
                       const FixedQueries& to) {
  Vec lanes[kLanes] = {};
  for (int64_t row = 0; row < count; ++row) {
    lanes[row] = largest_sizes(queries + row * padded, padded);
  }
  const Vec largest = bit_cast<Vec>(fold_each(lanes, [](Vec a, Vec b) {
    return bit_cast<Vec>(_mm512_max_epi32(bit_cast<__m512i>(a), bit_cast<__m512i>(b)));
  }));
  const IntVec usable = largest <= broadcast(most);
  if (_mm512_movepi32_mask(bit_cast<__m512i>(usable)) != 0xFFFF) return false;
  float per_unit[kLanes];
  // Infinite for 0, whose digits then are anything: its unit is 0.
  store(broadcast(kLargestFixed) / largest, per_unit);
  Vec low[kLanes] = {};
  for (int64_t row = 0; row < count; ++row) {
    int8_t* digits = to.digits + row * to.stride();
    const DigitSums sums = write_digits(queries + row * padded, to.size, per_unit[row], digits,
                                        digits + to.stride() / 2);
    lanes[row] = sums.high;
    low[row] = sums.low;
  }
  store_some(largest * broadcast(1.0F / kLargestFixed), count, to.unit);
  store_starts(lanes, count, to.high_start);
  store_starts(low, count, to.low_start);
  return true;
}

}  // namespace
}  // namespace pa

#endif
