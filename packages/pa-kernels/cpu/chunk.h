// Rows of codes, a chunk of channels at a time.
#pragma once

#include "convert.h"

#if defined(__AVX512BW__)

namespace pa {
namespace {

constexpr int64_t kChunk = 64;  // channels

inline int64_t in_chunks(int64_t size) { return (size + kChunk - 1) / kChunk * kChunk; }

// The first `count` channels of a chunk. Most chunks are whole, and known to be when compiled.
template <bool whole>
struct ChunkSize {
  int64_t count;

  template <typename C>
  __m512i load_codes(const C* row) const {
    if (whole) return _mm512_loadu_si512(row);
    return _mm512_maskz_loadu_epi8((1ULL << count) - 1, row);
  }

  // The lower or the upper half of them.
  template <typename C>
  __m256i load_half(const C* row, int half) const {
    if (whole) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + 32 * half));
    const uint64_t mask = ((1ULL << count) - 1) >> (32 * half);
    return _mm256_maskz_loadu_epi8(static_cast<__mmask32>(mask), row + 32 * half);
  }

  Vec load_floats(const float* row, int64_t first) const {
    return whole ? load(row + first) : load_some(row + first, count - first);
  }

  void store_floats(Vec value, int64_t first, float* row) const {
    whole ? store(value, row + first) : store_some(value, count - first, row + first);
  }
};

// Calls step(channel, ChunkSize) for whole chunks of so many channels, then for the rest.
template <typename F>
__attribute__((always_inline)) inline void for_chunks(int64_t size, F step) {
  int64_t c = 0;
  for (; c + kChunk <= size; c += kChunk) step(c, ChunkSize<true>{kChunk});
  if (c < size) step(c, ChunkSize<false>{size - c});
}

// Interleaving goes on within each quarter of a vector: lanes four apart become neighbours, or what
// lies side by side in the end is put into the same place of all quarters before.
inline __m512i four_apart() {
  return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}

// The same channel of two rows: lane i of vector v has channel 16 v + i of both.
struct RowPairs {
  __m512i vectors[4];
};

}  // namespace
}  // namespace pa

#endif
