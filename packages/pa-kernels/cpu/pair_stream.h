// float8 codes of one token's attention, read as they lie, as pairs of bfloat16 numbers. Weights
// are rounded to bfloat16; queries that are no bfloat16 numbers any more stay float.
#pragma once

#include "pair_logits.h"
#include "pair_query.h"
#include "pair_values.h"
#include "weigh.h"

#if defined(__AVX512BF16__)

namespace pa {
namespace {

class PairStream {
 public:
  using Element = Float8;
  using Weight = Bfloat16;

  PairStream(const Work& work, const Segment& segment, int64_t rows, float* memory)
      : shape_(*work.shape),
        scale_(logit_scale(shape_)),
        queries_(memory),
        is_changed_(changes_queries(work)),
        logits_(memory + rows * in_chunks(shape_.head_size)),
        nothing_(logits_ + rows * kTileKeys) {
    if (shape_.key_scaling == Scaling::kPerTensor) scale_.query *= *work.buffers->key_scale;
    const int64_t chunks = in_chunks(shape_.head_size);
    std::memset(queries_, 0, static_cast<std::size_t>(rows * chunks) * sizeof(float));
    std::memset(nothing_, 0, static_cast<std::size_t>(chunks) * sizeof(Float8));
    for (int64_t row = 0; row < rows; ++row) {
      const RowPlace place = row_place(shape_, segment, row);
      if (is_changed_) {
        float* to = queries_ + row * chunks;
        for_changed_query(work, place, [&](Vec value, int64_t c) {
          store(third_before_second(value), to + c);
        });
      } else {
        copy_given_query(work, place, given() + row * chunks);
      }
    }
  }

  static int64_t floats(const CallShape& shape, int64_t rows) {
    return (rows + 1) * in_chunks(shape.head_size) + rows * kTileKeys;
  }

  float* logits(int64_t row) const { return logits_ + row * kTileKeys; }
  const void* near() const { return queries_; }
  int keys_together() const { return kGroupKeys; }

  Kept weigh(const Tile& tile, int64_t row, int64_t count, const Accumulated& target) const {
    return weigh_rows<Weight>(tile, scale_, count, wanted_keys(tile), logits(row), target);
  }

  // Logits of a group's keys of one KV head, the first of which is the tile's `key`th.
  void multiply_keys(const Float8* keys, int key, int64_t head, Ahead ahead) const {
    const int64_t row = head * group_size(shape_);
    const auto multiply = [&](auto queries) {
      group_pair_logits(queries.from(row), group_size(shape_), Rows<Float8>{keys, stride()}, ahead,
                        logits(row) + key);
    };
    if (is_changed_) return multiply(PairQueries<float>{queries_, shape_.head_size});
    multiply(PairQueries<Bfloat16>{given(), shape_.head_size});
  }

  // sums += weights . values of `count` keys, the first of which is the tile's `key`th.
  void add_values(const Float8* values, int key, int count, int64_t head, Ahead ahead,
                  float* sums) const {
    add_pairs_of(key, {values, values + stride(), 2 * stride(), count / 2}, head, ahead, sums);
    if (count % 2 == 0) return;
    const Float8* last = values + (count - 1) * stride();
    const Float8* nothing = reinterpret_cast<const Float8*>(nothing_);
    add_pairs_of(key + count - 1, {last, nothing, 0, 1}, head, Ahead::near(near()), sums);
  }

 private:
  Bfloat16* given() const { return reinterpret_cast<Bfloat16*>(queries_); }
  int64_t stride() const { return shape_.kv_num_heads * shape_.head_size; }

  void add_pairs_of(int key, const PairedRows& values, int64_t head, Ahead ahead,
                    float* sums) const {
    const int64_t padded = padded_v_head_size(shape_);
    const int64_t row = head * group_size(shape_);
    const Bfloat16* weights = reinterpret_cast<const Bfloat16*>(logits(row)) + key;
    add_weighted_pairs(weights, values, shape_.v_head_size, ahead, {sums + row * padded, padded},
                       group_size(shape_));
  }

  const CallShape& shape_;
  LogitScale scale_;
  float* queries_;   // [rows, in_chunks(D)], or as many of Bfloat16 if they are as given
  bool is_changed_;  // whether they are no longer
  float* logits_;    // [rows, kTileKeys], then [rows, 2 * kTileKeys] weights of bfloat16
  float* nothing_;   // a row of zeros, in the place of one that is not wanted
};

}  // namespace
}  // namespace pa

#endif
