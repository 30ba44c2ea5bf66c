// int8 codes of one token's attention, read as they lie, in whole numbers: queries relative to the
// largest channel of their head, weights to the largest of their tile.
#pragma once

#include "fixed_logits.h"
#include "fixed_values.h"
#include "fixed_weights.h"
#include "query.h"

#if defined(__AVX512VNNI__)

namespace pa {
namespace {

class FixedStream {
 public:
  using Element = Int8;

  FixedStream(const Work& work, const Segment& segment, int64_t rows, float* memory)
      : shape_(*work.shape), logits_(memory) {
    const int64_t all = padded_size(rows);
    const int64_t padded = padded_head_size(shape_);
    units_ = {logits_ + rows * kTileKeys, logits_ + rows * kTileKeys + all};
    float* rest = units_.low + all;
    int32_t* starts = reinterpret_cast<int32_t*>(rest + all);
    int8_t* digits = reinterpret_cast<int8_t*>(starts + 2 * all);
    queries_ = {digits, rest, starts, starts + all, shape_.head_size};
    float* floats = reinterpret_cast<float*>(digits + rows * queries_.stride());
    load_queries(work, segment, floats);
    for (int64_t row = 0; row < rows; row += kLanes) {
      has_digits_ = has_digits_ && load_fixed(floats + row * padded, padded,
                                              smaller(rows - row, kLanes), most_query(shape_),
                                              queries_.from(row));
    }
  }

  static int64_t floats(const CallShape& shape, int64_t rows) {
    const int64_t digits = in_chunks(shape.head_size) / 2;
    return rows * (kTileKeys + digits + padded_head_size(shape)) + 5 * padded_size(rows);
  }

  // Whether all queries have digits; otherwise nothing here is to be used.
  bool has_digits() const { return has_digits_; }

  float* logits(int64_t row) const { return logits_ + row * kTileKeys; }
  const void* near() const { return queries_.digits; }
  int keys_together() const { return kGroupKeys; }

  Kept weigh(const Tile& tile, int64_t row, int64_t count, const Accumulated& target) const {
    return weigh_fixed_rows(tile, logit_scale(shape_), count, wanted_keys(tile), logits(row),
                            target, {units_.high + row, units_.low + row});
  }

  // Logits of a group's keys of one KV head, the first of which is the tile's `key`th.
  void multiply_keys(const Int8* keys, int key, int64_t head, Ahead ahead) const {
    const int64_t row = head * group_size(shape_);
    group_fixed_logits(queries_.from(row), group_size(shape_), Rows<Int8>{keys, stride()}, ahead,
                       logits(row) + key);
  }

  // sums += weights . values of `count` keys, the first of which is the tile's `key`th. Keys go in
  // pairs: the neighbour of one that is wanted has weight 0, and a code is never NaN.
  void add_values(const Int8* values, int key, int count, int64_t head, Ahead ahead,
                  float* sums) const {
    const int64_t padded = padded_v_head_size(shape_);
    const int64_t row = head * group_size(shape_);
    const int odd = key % 2;
    const Rows<Int8> rows{values - odd * stride(), stride()};
    const int64_t pairs = (count + odd + 1) / 2;
    const Sums out{sums + row * padded, padded};
    const int16_t* words = reinterpret_cast<const int16_t*>(logits(row)) + key - odd;
    add_fixed({words, units_.high + row}, rows, pairs, shape_.v_head_size, ahead, out,
              group_size(shape_));
    if (!has_low_digits(row)) return;
    add_fixed({words + kTileKeys, units_.low + row}, rows, pairs, shape_.v_head_size,
              Ahead::near(near()), out, group_size(shape_));
  }

 private:
  int64_t stride() const { return shape_.kv_num_heads * shape_.head_size; }

  // Whether low digits count for one of the rows of a KV head.
  bool has_low_digits(int64_t row) const {
    bool any = false;
    for (int64_t i = 0; i < group_size(shape_); ++i) any = any || units_.low[row + i] != 0.0F;
    return any;
  }

  const CallShape& shape_;
  float* logits_;     // [rows, kTileKeys], then [rows, 2, kTileKeys] digits of weights
  DigitUnits units_;  // [rows] each
  FixedQueries queries_;
  bool has_digits_ = true;
};

}  // namespace
}  // namespace pa

#endif
