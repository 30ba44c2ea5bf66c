// Logits of one token's query heads against int8 keys, from whole numbers.
#pragma once

#include "fixed_query.h"
#include "key_columns.h"
#include "pace.h"

#if defined(__AVX512VNNI__)

namespace pa {
namespace {

// sum += keys . digits, four of both a lane. The digits are an operand in memory, which compilers
// do not make of a broadcast one by themselves.
__attribute__((always_inline)) inline void add_bytes(IntVec& sum, __m512i keys,
                                                     const int8_t* four) {
  typedef int32_t Four __attribute__((aligned(1), may_alias));
  __asm__("vpdpbusd %2%{1to16%}, %1, %0"
          : "+v"(sum)
          : "v"(keys), "m"(*reinterpret_cast<const Four*>(four)));
}

// Logits of the first Q queries with a group's keys; logits: rows of kTileKeys.
template <int Q>
inline void some_fixed_logits(const FixedQueries& queries, Rows<Int8> keys, Ahead ahead,
                              float* logits) {
  IntVec high[Q], low[Q];
  PA_UNROLL for (int q = 0; q < Q; ++q) {
    high[q] = IntVec{} + queries.high_start[q];
    low[q] = IntVec{} + queries.low_start[q];
  }
  const int64_t stride = queries.stride();
  const auto step = [&](int64_t c, auto size) __attribute__((always_inline)) {
    ahead.take<kGroupKeys * kChunk>();
    const KeyColumns columns = key_columns(keys.data + c, keys.stride, size);
    PA_UNROLL for (int j = 0; j < kChunk / 4; ++j) {
      const __m512i key =
          _mm512_xor_si512(columns.vectors[j], _mm512_set1_epi8(static_cast<char>(0x80)));
      const int8_t* digits = queries.digits + c + 4 * j;
      PA_UNROLL for (int q = 0; q < Q; ++q) {
        add_bytes(high[q], key, digits + q * stride);
        add_bytes(low[q], key, digits + q * stride + stride / 2);
      }
    }
  };
  for_chunks(queries.size, step);
  PA_UNROLL for (int q = 0; q < Q; ++q) {
    const Vec upper = __builtin_convertvector(high[q], Vec);
    const Vec lower = __builtin_convertvector(low[q], Vec);
    store((upper * broadcast(256.0F) + lower) * broadcast(queries.unit[q]),
          logits + q * kTileKeys);
  }
}

inline void group_fixed_logits(const FixedQueries& queries, int64_t group_heads, Rows<Int8> keys,
                               Ahead ahead, float* logits) {
  for_heads_together(group_heads, [&](auto together, int64_t head) {
    const Ahead own = head == 0 ? ahead : Ahead::near(queries.digits);
    some_fixed_logits<decltype(together)::kQueries>(queries.from(head), keys, own,
                                                    logits + head * kTileKeys);
  });
}

}  // namespace
}  // namespace pa

#endif
