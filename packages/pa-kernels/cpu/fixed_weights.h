// A tile's weights as whole numbers, for products with codes of int8.
#pragma once

#include "weigh.h"

#if defined(__AVX512VNNI__)

namespace pa {
namespace {

// What the largest weight of a row's tile has. Relative to the row's largest, the weights of
// another tile could all be rounded to nothing.
constexpr float kLargestWeight = 32767.0F;

// weight = high + low / kLowDigit
constexpr float kLowDigit = 32768.0F;

struct WholeWeight {
  Vec exact;
  IntVec high;
  IntVec low;
};

// kLargestWeight times 2^x for x <= 0. The polynomial's relative error is 3e-6.
inline WholeWeight whole_weight(Vec x) {
  constexpr float kMost = kLargestWeight;
  const auto nearest = [](Vec value) {
    return bit_cast<IntVec>(_mm512_cvtps_epi32(bit_cast<__m512>(value)));
  };
  const Vec inside = larger(x, broadcast(-64.0F));  // below it nothing is left of a digit
  const IntVec power = nearest(inside);
  const Vec rest = inside - __builtin_convertvector(power, Vec);
  const Vec square = rest * rest;
  const Vec first = broadcast(0.69312419F * kMost) * rest + broadcast(kMost);
  const Vec third = broadcast(0.05590643F * kMost) * rest + broadcast(0.24024099F * kMost);
  const Vec scaled = (broadcast(0.00958285F * kMost) * square + third) * square + first;
  const Vec weight = bit_cast<Vec>(bit_cast<IntVec>(scaled) + (power << 23));
  const IntVec high = nearest(weight);
  const Vec left = weight - __builtin_convertvector(high, Vec);
  return {weight, high, nearest(left * broadcast(kLowDigit))};
}

inline void store_words(IntVec value, int16_t* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtepi32_epi16(bit_cast<__m512i>(value)));
}

// Lanes that sum to a row's weights, to their low digits, and to those that are small.
struct WeightSums {
  Vec high;
  Vec low;
  Vec small;
};

// Writes high digits in the place of a row's logits, low ones behind kTileKeys of them.
inline WeightSums weigh_fixed_row(int keys, float reference, float* logits) {
  Vec below[kTileGroups];
  for (int key = 0; key < keys; key += kLanes) {
    below[key / kLanes] = load(logits + key) - broadcast(reference);
  }
  int16_t* words = reinterpret_cast<int16_t*>(logits);
  IntVec high = {}, low = {};
  Vec small = broadcast(0.0F);
  for (int key = 0; key < keys; key += kLanes) {
    const WholeWeight weight = whole_weight(below[key / kLanes]);
    store_words(weight.high, words + key);
    store_words(weight.low, words + kTileKeys + key);
    high += weight.high;
    low += weight.low;
    small += weight.exact < broadcast(kLargestWeight / 4) ? weight.exact : broadcast(0.0F);
  }
  return {__builtin_convertvector(high, Vec), __builtin_convertvector(low, Vec), small};
}

// What a unit of some rows' digits is worth.
struct DigitUnits {
  float* high;
  float* low;  // 0 where low digits are not used
};

inline bool any_lane(IntVec is_so) { return _mm512_movepi32_mask(bit_cast<__m512i>(is_so)) != 0; }

// 1 for rows whose low digits count, 0 for the others: a few keys have nearly all the weight of the
// tile. What rounding leaves of the others is a poor likeness then, and they may be what makes the
// output, because values are often near 0 where a weight is very large.
inline Vec low_digits_count(Vec total, const Vec (&small)[kLanes]) {
  const Vec none = broadcast(0.0F);
  const IntVec has_few = total < broadcast(4 * kLargestWeight);
  if (!any_lane(has_few)) return none;
  const Vec others = sum_each(small);
  const IntVec counts = has_few & (others < broadcast(kLargestWeight / 4)) & (others > none);
  return counts ? broadcast(1.0F) : none;
}

// Turns up to kLanes rows of logits of one tile into digits, and adds the weights to the totals.
template <typename F>
inline Kept weigh_fixed_rows(const Tile& tile, const LogitScale& scale, int64_t count, F seen,
                             float* logits, const Accumulated& target, const DigitUnits& units) {
  const Vec found = mask_rows<float>(tile, scale, count, seen, logits);
  const Vec after = larger(found, load_some(target.highest, count));
  float references[kLanes];
  store(or_zero(found), references);
  Vec high[kLanes] = {}, low[kLanes] = {}, small[kLanes] = {};
  for (int64_t row = 0; row < count; ++row) {
    const WeightSums sums = weigh_fixed_row(tile.groups() * kGroupKeys, references[row],
                                            logits + row * kTileKeys);
    high[row] = sums.high;
    low[row] = sums.low;
    small[row] = sums.small;
  }
  const Vec unit = exp2(found - or_zero(after)) * broadcast(1.0F / kLargestWeight);
  Vec total = sum_each(high);
  const Vec low_digit = low_digits_count(total, small) * broadcast(1.0F / kLowDigit);
  if (any_lane(low_digit > broadcast(0.0F))) total += sum_each(low) * low_digit;
  store_some(unit, count, units.high);
  store_some(unit * low_digit, count, units.low);
  return keep_totals(after, total * unit, count, target);
}

}  // namespace
}  // namespace pa

#endif
