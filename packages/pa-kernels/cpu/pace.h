// In which steps one token reads a cache, and what of it is asked for ahead of them.
#pragma once

#include "tile.h"

namespace pa {
namespace {

// Query heads whose logits are found together, and slots of one pass: their sums are one vector.
constexpr int kQueriesTogether = 4;
inline int pass_keys(int64_t group_heads) {
  return kLanes / (group_heads >= kQueriesTogether - 1 ? kQueriesTogether : group_heads);
}

// So many query heads with pass_keys keys.
template <int Q, int P>
struct Together {
  static constexpr int kQueries = Q;
  static constexpr int kKeys = P;
};

// Calls f(together, head) for the query heads of one KV head, a few from `head` on at a time.
template <typename F>
inline void for_heads_together(int64_t group_heads, F f) {
  constexpr int kFew = kLanes / kQueriesTogether;
  if (group_heads == 1) return f(Together<1, kLanes>{}, 0);
  if (group_heads == 2) return f(Together<2, kLanes / 2>{}, 0);
  const int64_t parts = (group_heads + kQueriesTogether - 1) / kQueriesTogether;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t head = group_heads * part / parts;
    switch (group_heads * (part + 1) / parts - head) {
      case 2:
        f(Together<2, kFew>{}, head);
        break;
      case 3:
        f(Together<3, kFew>{}, head);
        break;
      default:
        f(Together<4, kFew>{}, head);
    }
  }
}

// How a call's cache is read: all in slots, each with all KV heads.
struct Pace {
  int64_t slot_bytes;
  int tile;   // slots of a tile: enough that finding the largest logit is little work
  int ahead;  // how far ahead memory is asked for lines; whole passes over the keys
  int pass;   // slots of one pass over the values

  static Pace of(const CallShape& shape, std::size_t element_size, int together) {
    constexpr int64_t kTileBytes = 64 * 1024;
    // On its way for longer than memory takes to answer, and still near when its turn comes.
    constexpr int64_t kAheadBytes = 16 * 1024;
    constexpr int64_t kFewSlots = 4;
    static_assert(kFewSlots % 2 == 0, "values go in pairs of keys, none in two passes");
    const int64_t bytes =
        shape.kv_num_heads * shape.head_size * static_cast<int64_t>(element_size);
    const auto slots = [&](int64_t least, int64_t limit) {
      int64_t count = kTileKeys;
      while (count > least && count * bytes > limit) count /= 2;
      return static_cast<int>(count);
    };
    const int pass = slots(kFewSlots, kAheadBytes);
    return {bytes, slots(kGroupKeys, kTileBytes), slots(together, kAheadBytes),
            pass < kGroupKeys ? pass : kGroupKeys};
  }
};

// What will be read later. It is asked for line by line in the order of its addresses, whatever the
// order of the reading that goes on meanwhile: with requests in that order, memory and arithmetic
// took their times one after the other. Loads alone have few lines under way, because products fill
// the room between them; more requests at a time than the processor can hold would stop it.
struct Ahead {
  const char* at;

  static constexpr int64_t kLineBytes = 64;

  // Where nothing is wanted: memory that is at hand.
  static Ahead near(const void* memory) { return {static_cast<const char*>(memory)}; }

  Ahead after(int64_t bytes) const { return {at + bytes}; }

  // Asks for the next so many bytes, and moves on. They are read once and may leave again.
  template <int64_t bytes>
  __attribute__((always_inline)) void take() {
    for (int64_t i = 0; i < bytes; i += kLineBytes) __builtin_prefetch(at + i, 0, 0);
    at += bytes;
  }
};

// Asks for a line of each page of a run of memory, so that its place is known from then on. The
// walks through the page tables run side by side, and nothing waits for them as for a load.
inline void walk_pages(const void* from, int64_t bytes) {
  constexpr int64_t kPageBytes = 4096;
  const char* first = static_cast<const char*>(from);
  for (int64_t i = 0; i < bytes; i += kPageBytes) __builtin_prefetch(first + i, 0, 3);
}

}  // namespace
}  // namespace pa
