// Host-side checks of a call's lengths and scales, made before anything is written.
#pragma once

#include "params.h"

namespace pa {

// Checks the boundaries, past lengths and positions of every row (V65, V66): O(B), and O(T) only
// where the caller gives positions.
Outcome check_lengths(const CallShape& shape, const CallBuffers& buffers);

// Checks that every scale is a positive number (V105): O(K D).
Outcome check_scales(const CallShape& shape, const CallBuffers& buffers);

}  // namespace pa
