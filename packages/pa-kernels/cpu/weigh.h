// Weights of many rows: their largest logits and their sums come from one tree of exchanges, where
// a row alone would wait for each lane of its own.
#pragma once

#include "softmax.h"
#include "tokens.h"

namespace pa {
namespace {

// float: in place. Bfloat16: in the first half of the row, as the words of pairs; queries are not
// scaled then, because a scaled one would be rounded.
template <typename W>
constexpr bool kScalesLogits = std::is_same_v<W, Bfloat16>;

// Factors by which what some rows accumulated before must be multiplied.
struct Kept {
  float factor[kLanes];
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

// The same of up to kLanes rows, seen(row) being the keys of one; returns the largest of each.
template <typename W, typename F>
inline Vec mask_rows(const Tile& tile, const LogitScale& scale, int64_t count, F seen,
                     float* logits) {
  const int keys = tile.groups() * kGroupKeys;
  const bool mapped = is_mapped(tile);
  Vec lanes[kLanes] = {};
  for (int64_t row = 0; row < count; ++row) {
    const Seen own = seen(row);
    const bool is_whole = mapped && own.begin <= 0 && own.end >= keys;
    lanes[row] = mask_row<W>(tile, scale, is_whole, own, logits + row * kTileKeys);
  }
  return largest_each(lanes);
}

// What all rows of one token see of a tile.
inline auto wanted_keys(const Tile& tile) {
  return [seen = Seen{tile.begin, tile.end}](int64_t) { return seen; };
}

// Where nothing was seen any finite reference gives exp2(-inf) = 0.
inline Vec or_zero(Vec highest) {
  return highest == broadcast(-kInfinity) ? broadcast(0.0F) : highest;
}

// Adds the sums of a tile's weights to the totals of rows whose largest logit now is `after`.
inline Kept keep_totals(Vec after, Vec sums, int64_t count, const Accumulated& target) {
  const Vec before = load_some(target.highest, count);
  const Vec factor = before == after ? broadcast(1.0F) : exp2(before - or_zero(after));
  store_some(after, count, target.highest);
  store_some(load_some(target.total, count) * factor + sums, count, target.total);
  Kept kept;
  store(factor, kept.factor);
  return kept;
}

inline Vec store_weight(Vec weight, float* to) {
  store(weight, to);
  return weight;
}

// Turns a row's masked logits into weights; returns lanes that sum to their total. A weight is
// written where its logit, or one before it, was: 16 bits never reach what is still to be read.
template <typename W>
inline Vec weigh_row(int keys, float reference, float* logits) {
  W* weights = reinterpret_cast<W*>(logits);
  Vec sum = broadcast(0.0F);
  for (int key = 0; key < keys; key += kLanes) {
    sum += store_weight(exp2(load(logits + key) - broadcast(reference)), weights + key);
  }
  return sum;
}

// Turns up to kLanes rows of logits of one tile into weights relative to 2^highest, in place, and
// adds them to the totals. A NaN logit makes its weight and the total NaN.
template <typename W, typename F>
inline Kept weigh_rows(const Tile& tile, const LogitScale& scale, int64_t count, F seen,
                       float* logits, const Accumulated& target) {
  const Vec found = mask_rows<W>(tile, scale, count, seen, logits);
  const Vec after = larger(found, load_some(target.highest, count));
  float references[kLanes];
  store(or_zero(after), references);
  Vec lanes[kLanes] = {};
  for (int64_t row = 0; row < count; ++row) {
    lanes[row] = weigh_row<W>(tile.groups() * kGroupKeys, references[row],
                              logits + row * kTileKeys);
  }
  return keep_totals(after, sum_each(lanes), count, target);
}

}  // namespace
}  // namespace pa
