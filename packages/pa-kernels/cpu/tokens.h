// The tokens of a segment of one KV head, and which of them see a tile of keys.
#pragma once

#include "tile.h"

namespace pa {
namespace {

// Floats that hold the tokens' key ranges, rounded up to keep what follows aligned.
inline int64_t range_floats(int64_t tokens) {
  return (tokens * static_cast<int64_t>(sizeof(KeyRange) / sizeof(float)) + 15) / 16 * 16;
}

// Tokens [begin, end) of a segment, counted from its first, that see a key of the tile.
struct ActiveTokens {
  int64_t begin;
  int64_t end;
  bool masked;  // one of them does not see all of the tile's wanted keys
};

inline ActiveTokens active_tokens(const KeyRange* visible, int64_t tokens, const Tile& tile) {
  const int64_t first = tile.first + tile.begin;
  const int64_t last = tile.first + tile.end;
  ActiveTokens active{tokens, 0, false};
  for (int64_t i = 0; i < tokens; ++i) {
    if (visible[i].end <= first || visible[i].begin >= last) continue;
    active.begin = smaller(active.begin, i);
    active.end = i + 1;
  }
  for (int64_t i = active.begin; i < active.end; ++i) {
    active.masked = active.masked || visible[i].begin > first || visible[i].end < last;
  }
  return active;
}

// The keys of a tile that one row sees, counted from the tile's first.
struct Seen {
  int begin;
  int end;
};

inline Seen seen_keys(const KeyRange& visible, const Tile& tile) {
  return {static_cast<int>(greater(visible.begin - tile.first, tile.begin)),
          static_cast<int>(greater(smaller(visible.end - tile.first, tile.end), 0))};
}

}  // namespace
}  // namespace pa
