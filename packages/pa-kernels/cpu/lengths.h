// Host-side checks of a call's lengths, made before anything is written.
#pragma once

#include "params.h"

namespace pa {

// Checks the boundaries, past lengths and positions of every row (V65, V66): O(B), and O(T) only
// where the caller gives positions.
Outcome check_lengths(const CallShape& shape, const CallBuffers& buffers);

}  // namespace pa
