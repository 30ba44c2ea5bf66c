// Weights of many rows: their largest logits and their sums come from one tree of exchanges, where
// a row alone would wait for each lane of its own.
#pragma once

#include "fixed_weights.h"
#include "softmax.h"
#include "tokens.h"

namespace pa {
namespace {

// Weights are float, in place, or words in the first half of the row. Bfloat16: queries are not
// scaled then, because a scaled one would be rounded.
template <typename W>
constexpr bool kScalesLogits = std::is_same_v<W, Bfloat16>;

// int16_t: whole numbers of which the tile's largest weight has kLargestWeight. Relative to the
// row's largest, the weights of another tile could all be rounded to nothing.
template <typename W>
constexpr bool kIsFixed = std::is_same_v<W, int16_t>;

// Factors that rows have once a tile is weighed.
struct TileFactors {
  float keep[kLanes];  // of what was accumulated before
  float unit[kLanes];  // of the tile's weights, where they are whole numbers
};

inline bool is_mapped(const Tile& tile) {
  bool all = true;
  for (int group = 0; group < tile.groups(); ++group) all = all && tile.slot[group] >= 0;
  return all;
}

// Scales and masks a row's logits; returns lanes among which the largest is.
template <typename W>
inline Vec mask_row(const Tile& tile, const LogitScale& scale, bool is_whole, Seen seen,
                    float* logits) {
  const int keys = tile.groups() * kGroupKeys;
  Vec peak = broadcast(-kInfinity);
  if (is_whole && !scale.capped && !kScalesLogits<W>) {
    for (int key = 0; key < keys; key += kLanes) peak = larger(load(logits + key), peak);
    return peak;
  }
  for (int key = 0; key < keys; key += kLanes) {
    Vec value = load(logits + key);
    if (kScalesLogits<W>) value *= broadcast(scale.query);
    if (scale.capped) value = tanh(value) * broadcast(scale.logit);
    if (!is_whole) value = masked(value, tile, key, seen.begin, seen.end);
    store(value, logits + key);
    peak = larger(value, peak);
  }
  return peak;
}

inline Vec store_weight(Vec weight, float* to) {
  store(weight, to);
  return weight;
}

inline Vec or_zero(Vec highest) {
  // Where nothing was seen any finite reference gives exp2(-inf) = 0.
  return highest == broadcast(-kInfinity) ? broadcast(0.0F) : highest;
}

// Turns a row's masked logits into weights; returns lanes that sum to their total. A weight is
// written where its logit, or one before it, was: 16 bits never reach what is still to be read.
template <typename W>
inline Vec weigh_row(int keys, float reference, float* logits) {
  W* weights = reinterpret_cast<W*>(logits);
  const auto below = [&](int key) { return load(logits + key) - broadcast(reference); };
  if constexpr (kIsFixed<W>) {
    IntVec sum = {};
    for (int key = 0; key < keys; key += kLanes) {
      sum += store_weight(whole_weight(below(key)), weights + key);
    }
    return __builtin_convertvector(sum, Vec);
  } else {
    Vec sum = broadcast(0.0F);
    for (int key = 0; key < keys; key += kLanes) {
      sum += store_weight(exp2(below(key)), weights + key);
    }
    return sum;
  }
}

// Turns up to kLanes rows of logits of one tile into weights relative to 2^highest, in place, and
// adds them to the totals. seen(row): the row's keys. A NaN logit makes its weight and total NaN.
template <typename W, typename F>
inline TileFactors weigh_rows(const Tile& tile, const LogitScale& scale, int64_t count, F seen,
                              float* logits, const Accumulated& target) {
  const int keys = tile.groups() * kGroupKeys;
  const bool mapped = is_mapped(tile);
  Vec lanes[kLanes] = {};
  for (int64_t row = 0; row < count; ++row) {
    const Seen own = seen(row);
    const bool is_whole = mapped && own.begin <= 0 && own.end >= keys;
    lanes[row] = mask_row<W>(tile, scale, is_whole, own, logits + row * kTileKeys);
  }
  const Vec before = load_some(target.highest, count);
  const Vec found = largest_each(lanes);
  const Vec after = larger(found, before);
  float references[kLanes];
  store(or_zero(kIsFixed<W> ? found : after), references);
  for (int64_t row = 0; row < count; ++row) {
    lanes[row] = weigh_row<W>(keys, references[row], logits + row * kTileKeys);
  }
  const Vec factor = before == after ? broadcast(1.0F) : exp2(before - or_zero(after));
  Vec unit = broadcast(1.0F);
  if constexpr (kIsFixed<W>) {
    unit = exp2(found - or_zero(after)) * broadcast(1.0F / kLargestWeight);
  }
  store_some(after, count, target.highest);
  store_some(load_some(target.total, count) * factor + sum_each(lanes) * unit, count, target.total);
  TileFactors factors;
  store(factor, factors.keep);
  store(unit, factors.unit);
  return factors;
}

}  // namespace
}  // namespace pa
