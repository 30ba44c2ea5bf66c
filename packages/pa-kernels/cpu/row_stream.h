// Keys and values of one token's attention, read as they lie and widened to float.
#pragma once

#include "logits.h"
#include "query.h"
#include "values.h"
#include "weigh.h"

namespace pa {
namespace {

template <typename C>
class RowStream {
 public:
  using Element = C;
  using Weight = float;

  RowStream(const Work& work, const Segment& segment, int64_t rows, float* memory)
      : shape_(*work.shape),
        queries_(memory),
        logits_(queries_ + rows * padded_head_size(shape_)),
        copy_(logits_ + rows * kTileKeys) {
    load_queries(work, segment, queries_);
  }

  static int64_t floats(const CallShape& shape, int64_t rows) {
    const int64_t widest = padded_size(greater(shape.head_size, shape.v_head_size));
    return (rows + kGroupKeys) * widest + rows * kTileKeys;
  }

  float* logits(int64_t row) const { return logits_ + row * kTileKeys; }
  // Memory that is near anyhow, to be asked for where nothing else is wanted.
  const void* near() const { return queries_; }
  int keys_together() const { return pass_keys(group_size(shape_)); }

  Kept weigh(const Tile& tile, int64_t row, int64_t count, const Accumulated& target) const {
    return weigh_rows<Weight>(tile, logit_scale(shape_), count, wanted_keys(tile), logits(row),
                              target);
  }

  // Logits of keys_together() keys of one KV head, the first of which is the tile's `key`th.
  void multiply_keys(const C* keys, int key, int64_t head, Ahead ahead) const {
    const int64_t padded = padded_head_size(shape_);
    const int64_t row = head * group_size(shape_);
    with_rows(keys, keys_together(), shape_.head_size, ahead, [&](auto rows, Ahead fetched) {
      pass_logits(queries_ + row * padded, group_size(shape_), rows, padded, fetched,
                  logits(row) + key);
    });
  }

  // sums += weights . values of `count` keys, the first of which is the tile's `key`th.
  void add_values(const C* values, int key, int count, int64_t head, Ahead ahead,
                  float* sums) const {
    const int64_t padded = padded_v_head_size(shape_);
    const int64_t row = head * group_size(shape_);
    const Matrix weights{logits(row) + key, kTileKeys};
    with_rows(values, count, shape_.v_head_size, ahead, [&](auto rows, Ahead fetched) {
      add_weighted(weights, rows, count, fetched, {sums + row * padded, padded},
                   group_size(shape_), padded);
    });
  }

 private:
  // Calls use(rows) for rows of one KV head, copied where they are no whole vectors.
  template <typename Use>
  void with_rows(const C* first, int64_t count, int64_t size, Ahead ahead, Use use) const {
    const int64_t stride = shape_.kv_num_heads * shape_.head_size;
    const int64_t padded = padded_size(size);
    if (size == padded) return use(Rows<C>{first, stride}, ahead);
    copy_rows(first, stride, count, size, padded, copy_);
    use(Matrix{copy_, padded}, Ahead::near(near()));
  }

  const CallShape& shape_;
  float* queries_;  // [rows, padded]
  float* logits_;   // [rows, kTileKeys]
  float* copy_;     // [kGroupKeys, padded] rows that are no whole vectors where they lie
};

}  // namespace
}  // namespace pa
