// In which steps a cache is read, and what of it is asked for ahead of them.
#pragma once

#include "tile.h"

namespace pa {
namespace {

// How a call's cache is read: all in slots, each with all KV heads.
struct Pace {
  int64_t slot_bytes;
  int tile;   // slots of a tile: enough that finding the largest logit is little work
  int ahead;  // how far ahead of the reading memory is asked for its lines
  int pass;   // slots of one pass over the values

  static Pace of(const CallShape& shape, std::size_t element_size) {
    constexpr int64_t kTileBytes = 64 * 1024;
    // On its way for longer than memory takes to answer, and still near when its turn comes.
    constexpr int64_t kAheadBytes = 16 * 1024;
    const int64_t bytes =
        shape.kv_num_heads * shape.head_size * static_cast<int64_t>(element_size);
    const auto slots = [&](int64_t least, int64_t limit) {
      int64_t count = kTileKeys;
      while (count > least && count * bytes > limit) count /= 2;
      return static_cast<int>(count);
    };
    const int ahead = slots(4, kAheadBytes);
    return {bytes, slots(kGroupKeys, kTileBytes), ahead, ahead < kGroupKeys ? ahead : kGroupKeys};
  }
};

// What will be read later. It is asked for line by line in the order of its addresses,
// whatever the order of the reading that goes on meanwhile: the processor follows an order that it
// knows, and runs ahead by itself. More requests at a time than it can hold would stop it.
struct Ahead {
  const char* at;

  static constexpr int64_t kLineBytes = 64;

  // Where nothing is wanted: memory that is at hand.
  static Ahead near(const void* memory) { return {static_cast<const char*>(memory)}; }

  Ahead after(int64_t bytes) const { return {at + bytes}; }

  // Asks for the next lines.
  __attribute__((always_inline)) void fetch(int64_t lines) const {
    for (int64_t i = 0; i < lines; ++i) __builtin_prefetch(at + i * kLineBytes, 0, 3);
  }
};

// Reads a byte of each page of a run of memory, so that its place is known from then on. The walks
// through the page tables run side by side.
inline void walk_pages(const void* from, int64_t bytes) {
  constexpr int64_t kPageBytes = 4096;
  const volatile char* first = static_cast<const volatile char*>(from);
  for (int64_t i = 0; i < bytes; i += kPageBytes) (void)first[i];
}

}  // namespace
}  // namespace pa
