// int8 codes of one token's attention, read as they lie, in whole numbers: queries and weights have
// 16 bits, of the largest of their row and of their tile.
#pragma once

#include "fixed_logits.h"
#include "fixed_values.h"
#include "weigh.h"

#if defined(__AVX512VNNI__)

namespace pa {
namespace {

class FixedStream {
 public:
  using Element = Int8;
  using Weight = int16_t;

  FixedStream(const Work& work, const Segment& segment, int64_t rows, float* memory)
      : shape_(*work.shape), logits_(memory), units_(logits_ + rows * kTileKeys) {
    const int64_t all = padded_size(rows);
    const int64_t padded = padded_head_size(shape_);
    float* rest = units_ + all;
    int32_t* starts = reinterpret_cast<int32_t*>(rest + all);
    int8_t* digits = reinterpret_cast<int8_t*>(starts + 2 * all);
    queries_ = {digits, rest, starts, starts + all, shape_.head_size};
    float* floats = reinterpret_cast<float*>(digits + rows * queries_.stride());
    load_queries(work, segment, floats);
    for (int64_t row = 0; row < rows; row += kLanes) {
      is_exact_ = is_exact_ && load_fixed(floats + row * padded, padded,
                                          smaller(rows - row, kLanes), queries_.from(row));
    }
  }

  static int64_t floats(const CallShape& shape, int64_t rows) {
    const int64_t digits = in_chunks(shape.head_size) / 2;
    return rows * (kTileKeys + digits + padded_head_size(shape)) + 4 * padded_size(rows);
  }

  // Whether all queries have digits; otherwise nothing here is to be used.
  bool is_exact() const { return is_exact_; }

  LogitScale scale() const { return logit_scale(shape_); }
  float* logits(int64_t row) const { return logits_ + row * kTileKeys; }
  const void* near() const { return queries_.digits; }
  int keys_together() const { return kGroupKeys; }

  // Keeps what a unit of some rows' weights is worth.
  void keep_units(const TileFactors& factors, int64_t row, int64_t count) const {
    std::memcpy(units_ + row, factors.unit, static_cast<std::size_t>(count) * sizeof(float));
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
    const FixedWeights weights{reinterpret_cast<const int16_t*>(logits(row)) + key - odd,
                               units_ + row};
    add_fixed(weights, Rows<Int8>{values - odd * stride(), stride()}, (count + odd + 1) / 2,
              shape_.v_head_size, ahead, {sums + row * padded, padded}, group_size(shape_));
  }

 private:
  int64_t stride() const { return shape_.kv_num_heads * shape_.head_size; }

  const CallShape& shape_;
  float* logits_;        // [rows, kTileKeys], then [rows, 2 * kTileKeys] weights of 16 bits
  float* units_;         // [rows] what a unit of a row's weights is worth
  FixedQueries queries_;
  bool is_exact_ = true;
};

}  // namespace
}  // namespace pa

#endif
