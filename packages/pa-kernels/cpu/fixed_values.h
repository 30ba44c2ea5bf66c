// Weighted sums of int8 values for one token's query heads, from whole numbers.
#pragma once

#include "chunk.h"
#include "values.h"

#if defined(__AVX512VNNI__)

namespace pa {
namespace {

// Digits of weights, a row 2 * kTileKeys long, and what a unit of each row is worth.
struct FixedWeights {
  const int16_t* data;
  const float* units;

  FixedWeights from(int64_t head) const { return {data + head * 2 * kTileKeys, units + head}; }
};

inline __m512i words(__m256i codes) { return _mm512_cvtepi8_epi16(codes); }

// The same channel of two rows as two words of a lane. Words are interleaved within each quarter of
// a vector: lane 4 q + i of vector v has channel 32 (v / 2) + 8 q + 4 (v % 2) + i.
template <bool whole>
__attribute__((always_inline)) inline RowPairs woven_words(const Int8* even, const Int8* odd,
                                                           ChunkSize<whole> size) {
  RowPairs pairs;
  PA_UNROLL for (int half = 0; half < 2; ++half) {
    const __m512i a = words(size.load_half(even, half)), b = words(size.load_half(odd, half));
    pairs.vectors[2 * half] = _mm512_unpacklo_epi16(a, b);
    pairs.vectors[2 * half + 1] = _mm512_unpackhi_epi16(a, b);
  }
  return pairs;
}

// sum += a . b, two words of both a lane. GCC copies the sums of the intrinsic back and forth.
__attribute__((always_inline)) inline void add_words(IntVec& sum, __m512i a, __m512i b) {
  __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
}

// row += unit * sums of two woven vectors, in the order of their channels.
template <bool whole>
__attribute__((always_inline)) inline void add_woven(IntVec a, IntVec b, Vec unit, int64_t first,
                                                     ChunkSize<whole> size, float* row) {
  const __m512i order_lower = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i order_upper = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  const auto add = [&](__m512i order, int64_t c) __attribute__((always_inline)) {
    const __m512i x = bit_cast<__m512i>(a), y = bit_cast<__m512i>(b);
    const __m512i some = _mm512_permutex2var_epi64(x, order, y);
    const Vec sum = bit_cast<Vec>(_mm512_cvtepi32_ps(some));
    size.store_floats(size.load_floats(row, c) + unit * sum, c, row);
  };
  add(order_lower, first);
  add(order_upper, first + kLanes);
}

// Every index below is a constant, so that the sums live in registers (see add_block).
template <int R, bool whole, std::size_t... sum>
__attribute__((always_inline)) inline void add_fixed_chunk(FixedWeights weights, Rows<Int8> values,
                                                           int64_t pairs, ChunkSize<whole> size,
                                                           Ahead ahead, Sums sums,
                                                           std::index_sequence<sum...>) {
  constexpr int kVectors = kChunk / kLanes;
  IntVec total[R * kVectors] = {(void(sum), IntVec{})...};
  for (int64_t pair = 0; pair < pairs; ++pair) {
    ahead.take<2 * kChunk>();
    const Int8* row = values.data + 2 * pair * values.stride;
    const RowPairs rows = woven_words(row, row + values.stride, size);
    const auto weight = [&](std::size_t r) {
      int32_t both;
      std::memcpy(&both, weights.data + r * 2 * kTileKeys + pair * 2, sizeof both);
      return _mm512_set1_epi32(both);
    };
    (add_words(total[sum], rows.vectors[sum % kVectors], weight(sum / kVectors)), ...);
  }
  ((sum % 2 == 0 ? add_woven(total[sum], total[sum | 1], broadcast(weights.units[sum / kVectors]),
                             sum % kVectors * kLanes, size,
                             sums.data + sum / kVectors * sums.stride)
                 : void()),
   ...);
}

// sums [G, columns] += weights [G, 2 pairs] values.
inline void add_fixed(FixedWeights weights, Rows<Int8> values, int64_t pairs, int64_t columns,
                      Ahead ahead, Sums sums, int64_t group_heads) {
  for_heads_together(group_heads, [&](auto together, int64_t head) {
    constexpr int kHeads = decltype(together)::kQueries;
    const Sums out{sums.data + head * sums.stride, sums.stride};
    Ahead fetched = head == 0 ? ahead : Ahead::near(out.data);
    const auto step = [&](int64_t c, auto size) {
      add_fixed_chunk<kHeads>(weights.from(head), Rows<Int8>{values.data + c, values.stride}, pairs,
                              size, fetched, {out.data + c, out.stride},
                              std::make_index_sequence<kHeads * kChunk / kLanes>{});
      fetched = fetched.after(pairs * 2 * kChunk);
    };
    for_chunks(columns, step);
  });
}

}  // namespace
}  // namespace pa

#endif
