// Vectors of floats as wide as the unit's instruction set, in compiler vector extensions.
// Included by each instruction-set unit; everything here has internal linkage, so that no inline
// function compiled for one instruction set can be linked into another.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "element.h"

namespace pa {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float Vec __attribute__((vector_size(kLanes * 4)));
typedef int32_t IntVec __attribute__((vector_size(kLanes * 4)));
typedef uint32_t WordVec __attribute__((vector_size(kLanes * 4)));
typedef uint16_t HalfVec __attribute__((vector_size(kLanes * 2)));
typedef int8_t ByteVec __attribute__((vector_size(kLanes)));
typedef float LooseVec __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));

constexpr float kInfinity = __builtin_inff();

inline Vec broadcast(float value) {
#if defined(__AVX512F__)
  return Vec{value, value, value, value, value, value, value, value,
             value, value, value, value, value, value, value, value};
#elif defined(__AVX2__)
  return Vec{value, value, value, value, value, value, value, value};
#else
  return Vec{value, value, value, value};
#endif
}

inline IntVec lane_indices() {
#if defined(__AVX512F__)
  return IntVec{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif defined(__AVX2__)
  return IntVec{0, 1, 2, 3, 4, 5, 6, 7};
#else
  return IntVec{0, 1, 2, 3};
#endif
}

// The larger operand of each lane; a NaN in `value` is passed over.
inline Vec larger(Vec value, Vec otherwise) {
#if defined(__AVX512F__)
  return bit_cast<Vec>(_mm512_max_ps(bit_cast<__m512>(value), bit_cast<__m512>(otherwise)));
#elif defined(__AVX2__)
  return bit_cast<Vec>(_mm256_max_ps(bit_cast<__m256>(value), bit_cast<__m256>(otherwise)));
#else
  return value > otherwise ? value : otherwise;
#endif
}

// 2^r for r in [-0.5, 0.5]: a polynomial of degree 6 fitted for the least largest relative error,
// which is 2e-9.
inline Vec exp2_of_rest(Vec r) {
  Vec p = broadcast(1.5353362e-04F);
  p = p * r + broadcast(1.3398874e-03F);
  p = p * r + broadcast(9.6184374e-03F);
  p = p * r + broadcast(5.5503325e-02F);
  p = p * r + broadcast(2.4022648e-01F);
  p = p * r + broadcast(6.9314720e-01F);
  return p * r + broadcast(1.0F);
}

// 2 to the power of x for x <= 0; 0 below -126, NaN for NaN. Relative error below 2e-7: that of the
// polynomial, then rounding.
inline Vec exp2(Vec x) {
  const Vec lowest = broadcast(-126.0F);
#if defined(__AVX512F__)
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  const __m512 given = bit_cast<__m512>(x);
  const Vec power = exp2_of_rest(bit_cast<Vec>(_mm512_reduce_ps(given, kNearest)));
  const __mmask16 counts = _mm512_cmp_ps_mask(given, bit_cast<__m512>(lowest), _CMP_NLT_UQ);
  return bit_cast<Vec>(_mm512_maskz_scalef_ps(counts, bit_cast<__m512>(power),
                                              _mm512_roundscale_ps(given, kNearest)));
#else
  const Vec magic = broadcast(12582912.0F);  // 1.5 * 2^23: adding it rounds to an integer
  const Vec inside = x < lowest ? lowest : x;
  const Vec shifted = inside + magic;
  const IntVec exponent = bit_cast<IntVec>(shifted) - bit_cast<IntVec>(magic);
  const Vec power = exp2_of_rest(inside - (shifted - magic)) *
                    bit_cast<Vec>((exponent + 127) << 23);
  return x < lowest ? broadcast(0.0F) : power;
#endif
}

// Keeps a loaded vector in its register: the compiler would rather load it again for every use.
inline void keep_in_register(Vec& value) {
#if defined(__x86_64__)
  __asm__("" : "+v"(value));
#else
  (void)value;
#endif
}

// Makes the compiler load again what it has loaded before: an operand in memory costs no
// instruction of its own, and the fewer there are, the further the processor looks ahead.
__attribute__((always_inline)) inline void forget_memory() { __asm__ volatile("" : : : "memory"); }

// Whether a row can be an operand as it lies, again for every use of it.
template <typename C>
constexpr bool kReadsAsItLies = std::is_same_v<C, float>;

inline float exp2(float x) { return exp2(broadcast(x))[0]; }

// Hyperbolic tangent, relative error below 3e-7. Small arguments take an odd polynomial, because
// 1 - e cancels there.
inline Vec tanh(Vec x) {
  const Vec zero = broadcast(0.0F);
  const Vec size = x < zero ? -x : x;
  const Vec e = exp2(size * broadcast(-2.8853901F));  // exp(-2 |x|)
  const Vec large = (broadcast(1.0F) - e) / (broadcast(1.0F) + e);
  const Vec s = x * x;
  Vec p = broadcast(-5.7049874e-03F);
  p = p * s + broadcast(2.0639088e-02F);
  p = p * s + broadcast(-5.3739715e-02F);
  p = p * s + broadcast(1.3331442e-01F);
  p = p * s + broadcast(-3.3333282e-01F);
  const Vec small = x + x * s * p;
  return size < broadcast(0.625F) ? small : (x < zero ? -large : large);
}

inline float tanh(float x) { return tanh(broadcast(x))[0]; }

}  // namespace
}  // namespace pa
