// The causal convolution of each channel. Taps are added in their order, oldest first, to the bias:
// the bits of a token depend on its K inputs alone, not on the division of a sequence into calls.
#pragma once

#include <type_traits>

#include "block.h"
#include "params.h"

namespace pa {
namespace {

constexpr int64_t kConvTokens = 32;  // with 64 channels, inputs and outputs stay in the L1

inline int64_t conv_scratch_floats(const ConvCall& call) {
  return kConvChannels * (call.taps + 1 + (call.taps - 1) + kConvTokens);
}

// x / (1 + exp(-x)), from exp(-|x|), which can not overflow.
inline Vec silu(Vec x) {
  const Vec zero = broadcast(0.0F);
  const Vec one = broadcast(1.0F);
  const Vec e = exp2((x < zero ? x : -x) * broadcast(1.44269504F));
  return x * ((x < zero ? e : one) / (one + e));
}

// One block of channels.
template <typename T>
struct ConvBlock {
  const ConvCall& call;
  int64_t first;   // channel
  int64_t width;   // channels
  float* weights;  // [K, kConvChannels]
  float* bias;     // [kConvChannels]
  float* history;  // [K-1 + kConvTokens, kConvChannels]: inputs before the tile's, then the tile's

  int64_t before() const { return call.taps - 1; }

  void load_weights() const {
    const T* from = static_cast<const T*>(call.weight) + first * call.taps;
    spread(from, call.taps, weights);
    const T* given = static_cast<const T*>(call.bias);
    for (int64_t c = 0; c < kConvChannels; ++c) {
      bias[c] = given != nullptr && c < width ? to_float(given[first + c]) : 0.0F;
    }
  }

  // Calls with a number of columns that is known to the compiler, which then uses vectors, or 0.
  template <typename Use>
  static void with_columns(int64_t columns, Use use) {
    switch (columns) {
      case 2: return use(std::integral_constant<int, 2>{});
      case 3: return use(std::integral_constant<int, 3>{});
      case 4: return use(std::integral_constant<int, 4>{});
      default: return use(std::integral_constant<int, 0>{});
    }
  }

  // to[j][c] = from[c][j]
  void spread(const T* from, int64_t given, float* to) const {
    with_columns(given, [&](auto known) { spread_columns<known.value>(from, given, to); });
  }

  template <int kKnown>
  void spread_columns(const T* __restrict from, int64_t given, float* __restrict to) const {
    const int64_t columns = kKnown > 0 ? kKnown : given;
    for (int64_t c = 0; c < width; ++c) {
      for (int64_t j = 0; j < columns; ++j) {
        to[j * kConvChannels + c] = to_float(from[c * columns + j]);
      }
    }
    for (int64_t c = width; c < kConvChannels; ++c) {
      for (int64_t j = 0; j < columns; ++j) to[j * kConvChannels + c] = 0.0F;
    }
  }

  // to[c][j] = history[j][c]
  template <int kKnown>
  void gather_columns(const float* __restrict from, T* __restrict to) const {
    const int64_t columns = kKnown > 0 ? kKnown : before();
    for (int64_t c = 0; c < width; ++c) {
      for (int64_t j = 0; j < columns; ++j) {
        store(from[j * kConvChannels + c], to + c * columns + j);
      }
    }
  }

  void load_state(const char* source) const {
    if (source == nullptr) {
      std::memset(history, 0, static_cast<std::size_t>(before() * kConvChannels) * sizeof(float));
      return;
    }
    spread(reinterpret_cast<const T*>(source) + first * before(), before(), history);
  }

  void keep_state(char* target) const {
    T* to = reinterpret_cast<T*>(target) + first * before();
    with_columns(before(), [&](auto known) { gather_columns<known.value>(history, to); });
  }

  // Output of so many tokens, whose inputs follow the history's first K-1 rows.
  template <int kKnownTaps>
  void convolve(int64_t tokens, T* output) const {
    const int64_t taps = kKnownTaps > 0 ? kKnownTaps : call.taps;
    for (int64_t c = 0; c < width; c += kLanes) {
      for (int64_t t = 0; t < tokens; ++t) {
        Vec sum = load(bias + c);
        const float* input = history + t * kConvChannels + c;
        for (int64_t j = 0; j < taps; ++j) {
          sum += load(weights + j * kConvChannels + c) * load(input + j * kConvChannels);
        }
        if (call.is_silu) sum = silu(sum);
        store_first(sum, width - c, output + t * call.channels + c);
      }
    }
  }

  void run_tokens(int64_t begin, int64_t end) const {
    for (int64_t t = begin; t < end; t += kConvTokens) {
      const int64_t tokens = least(kConvTokens, end - t);
      const T* input = static_cast<const T*>(call.input) + t * call.input_stride + first;
      for (int64_t i = 0; i < tokens; ++i) {
        widen(input + i * call.input_stride, width, kConvChannels,
              history + (before() + i) * kConvChannels);
      }
      T* output = static_cast<T*>(call.output) + t * call.channels + first;
      switch (call.taps) {
        case 3: convolve<3>(tokens, output); break;
        case 4: convolve<4>(tokens, output); break;
        default: convolve<0>(tokens, output);
      }
      std::memmove(history, history + tokens * kConvChannels,
                   static_cast<std::size_t>(before() * kConvChannels) * sizeof(float));
    }
  }
};

template <typename T>
void convolve(const ConvCall& call, const StateTask& task, float* scratch) {
  const int64_t first = task.part * kConvChannels;
  float* bias = scratch + call.taps * kConvChannels;
  const ConvBlock<T> block{call,    first, least(kConvChannels, call.channels - first),
                           scratch, bias,  bias + kConvChannels};
  block.load_weights();
  for (int64_t row = task.row_begin; row < task.row_end; ++row) {
    block.load_state(call.places.source[row]);
    block.run_tokens(call.batch.cumulative[row], call.batch.cumulative[row + 1]);
    if (call.places.target[row] != nullptr) block.keep_state(call.places.target[row]);
  }
}

}  // namespace
}  // namespace pa
