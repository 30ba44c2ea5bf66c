// A tile of queries against tiles of bfloat16 keys and values as they are, two by two: for
// processors that multiply pairs of bfloat16 numbers and add both products to a float.
#pragma once

#include "float_tiles.h"
#include "pair_query.h"
#include "pairs.h"
#include "weigh.h"

#if defined(__AVX512BF16__)

namespace pa {
namespace {

// Neighbours of the depth of a product, the first one in the low bits.
struct Bfloat16Pair {
  uint32_t bits;
};

inline Vec load(const Bfloat16Pair* from) { return bit_cast<Vec>(_mm512_loadu_si512(from)); }

inline Vec splat(const Bfloat16Pair* pair) {
  float both;
  std::memcpy(&both, pair, sizeof both);
  return broadcast(both);
}

template <>
inline Vec add_product<Bfloat16Pair>(Vec sum, Vec factor, Vec columns) {
  return add_pairs(sum, bit_cast<__m512i>(factor), bit_cast<__m512i>(columns));
}

class PairTiles {
 public:
  using Weight = Bfloat16;

  PairTiles(const Work& work, const Segment& segment, int64_t rows, float* memory)
      : work_(work),
        kv_head_(segment.kv_head_begin),
        padded_(padded_head_size(*work.shape)),
        padded_v_(padded_v_head_size(*work.shape)),
        high_(reinterpret_cast<Bfloat16*>(memory)),
        low_(high_ + rows * padded_),
        logits_(memory + rows * padded_),
        keys_(logits_ + rows * kTileKeys),
        values_(keys_ + padded_ * kTileKeys) {
    for (int64_t row = 0; row < rows; ++row) {
      load_query_pairs(work, row_place(*work.shape, segment, row), high_ + row * padded_,
                       low_ + row * padded_);
    }
  }

  float* logits(int64_t row) const { return logits_ + row * kTileKeys; }

  void load(const Tile& tile) const {
    load_keys<Bfloat16, Bfloat16Pair>(work_, tile, kv_head_, keys_);
    for (int group = 0; group < tile.groups(); ++group) load_value_pairs(tile, group);
  }

  void multiply_keys(const Tile& tile, int64_t row, int64_t rows) const {
    multiply_keys(high_, tile, row, rows, false);
    if (changes_queries(work_)) multiply_keys(low_, tile, row, rows, true);
  }

  void add_values(const Tile& tile, int64_t row, int64_t rows, float* sums) const {
    product(pairs(logits(row), kTileKeys), pairs(values_, padded_v_), {sums, padded_v_, true}, rows,
            (tile.end + 1) / 2, padded_v_);
  }

  bool has_finite_values(const Tile& tile) const {
    Vec spoiled = broadcast(0.0F);
    const int64_t words = tile.groups() * kGroupKeys / 2 * padded_v_;
    for (int64_t i = 0; i < words; i += kLanes) {
      const WordVec both = bit_cast<WordVec>(pa::load(values_ + i));
      const Vec first = bit_cast<Vec>(both << 16);
      const Vec second = bit_cast<Vec>(both & 0xFFFF0000U);
      spoiled += (first - first) + (second - second);
    }
    return sum_of_lanes(spoiled) == 0.0F;
  }

  // Pairs bind keys together of which a row may see one alone.
  void separate_values(const Tile& tile) const {
    load_values<Bfloat16>(work_, tile, kv_head_, values_);
  }

  void add_seen_values(Seen seen, int64_t row, int64_t rows, float* sums) const {
    for (int64_t end = row + rows; row < end; ++row, sums += padded_v_) {
      float weights[kTileKeys];
      copy_rows(reinterpret_cast<const Bfloat16*>(logits(row)), kTileKeys, 1, kTileKeys, kTileKeys,
                weights);
      product({weights + seen.begin, kTileKeys},
              Matrix{values_ + seen.begin * padded_v_, padded_v_}, {sums, padded_v_, true}, 1,
              seen.end - seen.begin, padded_v_);
    }
  }

 private:
  // Matrices of pairs: strides count floats, which are as wide.
  static Rows<Bfloat16Pair> pairs(const void* data, int64_t stride) {
    return {static_cast<const Bfloat16Pair*>(data), stride};
  }

  void multiply_keys(const Bfloat16* queries, const Tile& tile, int64_t row, int64_t rows,
                     bool adds) const {
    multiply_in_parts(pairs(queries + row * padded_, padded_ / 2), keys_, adds, logits(row), rows,
                      work_.shape->head_size / 2, tile.groups() * kGroupKeys);
  }

  // Values of keys two by two; what is not wanted becomes 0.
  void load_value_pairs(const Tile& tile, int group) const {
    const CallShape& shape = *work_.shape;
    const int64_t size = shape.v_head_size;
    const Bfloat16* cache = static_cast<const Bfloat16*>(work_.buffers->value_cache);
    float* to = values_ + group * kGroupKeys / 2 * padded_v_;
    if (tile.slot[group] < 0) return clear_floats(kGroupKeys / 2 * padded_v_, to);
    const auto bits = [&](int key, int64_t c) {
      if (key < tile.group_begin(group) || key >= tile.group_end(group)) return WordVec{};
      const int64_t slot = tile.slot[group] + key % kGroupKeys;
      const Bfloat16* from = cache + offset_in_cache(shape, slot, kv_head_);
      return bit_cast<WordVec>(load_some(from + c, size - c));
    };
    for (int key = group * kGroupKeys; key < (group + 1) * kGroupKeys; key += 2) {
      for (int64_t c = 0; c < padded_v_; c += kLanes) {
        store(bit_cast<Vec>((bits(key, c) >> 16) | bits(key + 1, c)), to + c);
      }
      to += padded_v_;
    }
  }

  const Work& work_;
  int64_t kv_head_;
  int64_t padded_;
  int64_t padded_v_;
  Bfloat16* high_;  // [rows, padded]
  Bfloat16* low_;   // [rows, padded] what high leaves of a query, where the prologue changed it
  float* logits_;   // [rows, kTileKeys], then [rows, 2 * kTileKeys] weights of bfloat16
  float* keys_;     // [padded / 2, kTileKeys] pairs of channels
  float* values_;   // [kTileKeys / 2, padded v] pairs of keys
};

}  // namespace
}  // namespace pa

#endif
