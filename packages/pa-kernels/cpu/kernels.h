// What crosses between the driver of a call and the instruction-set units that compute it.
#pragma once

#include "params.h"

namespace pa {

// Keys are visited in tiles of kTileKeys, and found in groups of kGroupKeys: the smallest block
// size, so that no group is spread over two blocks.
constexpr int kTileKeys = 64;
constexpr int kGroupKeys = 16;
constexpr int kTileGroups = kTileKeys / kGroupKeys;

struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Tokens of one row with some of its KV heads. Its accumulated rows are numbered
// ((kv_head - kv_head_begin) * tokens + token) * G + i, where G query heads share a KV head.
struct Segment {
  int64_t row = 0;
  int64_t token_begin = 0;  // packed index
  int64_t token_end = 0;
  int64_t kv_head_begin = 0;
  int64_t kv_head_end = 0;
  KeyRange keys;             // every key that one of the tokens may see
  int64_t splits = 1;        // parts of `keys` that are accumulated apart
  int64_t partial_row = -1;  // first accumulated row of the first part, when splits > 1
  int64_t first_task = 0;    // of the plan's, one for each part

  int64_t tokens() const { return token_end - token_begin; }
};

struct Task {
  int64_t segment = 0;
  int64_t split = 0;
};

// Accumulated rows: before the division by the total, relative to 2^highest.
struct Accumulated {
  float* sums = nullptr;     // [rows, padded v head size]
  float* highest = nullptr;  // [rows] largest logit, in powers of two
  float* total = nullptr;    // [rows]
};

// What every task of a call reads.
struct Work {
  const CallShape* shape = nullptr;
  const CallBuffers* buffers = nullptr;
  const float* rotated = nullptr;  // [T, H*D] queries after norm and rotation, null = unchanged
  Accumulated partials;
};

// One split of a segment; no segment = nothing.
struct Part {
  const Segment* segment = nullptr;
  int64_t split = 0;
};

// Accumulates one part, and writes the output when it is its segment's only one. `next` is what the
// same thread does afterwards, whose first keys are fetched meanwhile.
using Attend = void (*)(const Work&, Part part, Part next, float* scratch);

struct Kernels {
  const char* name;
  // Stores keys and values of tokens [begin, end), and their queries where rotated is given.
  void (*prologue)(const CallShape&, const CallBuffers&, float* rotated, float* scratch,
                   int64_t begin, int64_t end);
  Attend attend[kNumDtypes];  // by element type of the caches
  // Joins the splits of a segment and writes the output.
  void (*merge)(const Work&, const Segment&, float* scratch);
  int64_t (*scratch_floats)(const CallShape&, int64_t rows);
  // to[i] = f(from[i]); for tests of their accuracy.
  void (*map_exp2)(const float* from, float* to, int64_t count);
  void (*map_tanh)(const float* from, float* to, int64_t count);
  // Through an element type and back; for tests of the conversions.
  void (*map_round)(Dtype dtype, const float* from, float* to, int64_t count);
};

// Rows of scratch and partials are padded to the widest vector.
static inline int64_t padded_size(int64_t size) { return (size + 15) / 16 * 16; }
static inline int64_t padded_head_size(const CallShape& shape) {
  return padded_size(shape.head_size);
}
static inline int64_t padded_v_head_size(const CallShape& shape) {
  return padded_size(shape.v_head_size);
}

// Floats of scratch that the prologue needs: cosines, sines and one head.
static inline int64_t prologue_floats(const CallShape& shape) {
  return 3 * padded_head_size(shape) + 32;
}

// Query heads that share a KV head (G).
static inline int64_t group_size(const CallShape& shape) {
  return shape.num_heads / shape.kv_num_heads;
}

// Up to so many query heads a KV head, a single token's attention reads the cache as it lies; with
// more it is bound by arithmetic, and takes the tiled products of several tokens.
constexpr int64_t kMaxStreamedHeads = 8;
static inline bool streams_tokens(const CallShape& shape) {
  return group_size(shape) <= kMaxStreamedHeads;
}

// Keys of one split: a whole number of tiles, except for the last.
static inline KeyRange split_range(const Segment& segment, int64_t split) {
  if (segment.splits == 1) return segment.keys;
  const int64_t first = segment.keys.begin / kTileKeys;
  const int64_t tiles = (segment.keys.end + kTileKeys - 1) / kTileKeys - first;
  KeyRange range;
  range.begin = (first + tiles * split / segment.splits) * kTileKeys;
  range.end = (first + tiles * (split + 1) / segment.splits) * kTileKeys;
  if (range.begin < segment.keys.begin) range.begin = segment.keys.begin;
  if (range.end > segment.keys.end) range.end = segment.keys.end;
  return range;
}

// Keys that a token may see: the window, the token's own position, the row's end. Empty ones lie
// inside the row too.
static inline KeyRange visible_keys(const CallShape& shape, const CallBuffers& buffers,
                                    int64_t row, int64_t token) {
  const int64_t past = buffers.past[row];
  const int64_t first = buffers.cumulative[row];
  const int64_t position =
      buffers.positions != nullptr ? buffers.positions[token] : past + (token - first);
  KeyRange range{0, past + (buffers.cumulative[row + 1] - first)};
  if (position + 1 < range.end) range.end = position + 1;
  if (shape.window_tokens > 0 && position + 1 > shape.window_tokens) {
    range.begin = position + 1 - shape.window_tokens;
  }
  // A position given by the caller may have left every key of its row behind.
  if (range.begin > range.end) range.begin = range.end;
  return range;
}

}  // namespace pa
