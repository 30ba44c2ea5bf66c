// Whole calls of the state operators: checks, places of the states, tasks on a team of threads.
#pragma once

#include "params.h"

namespace pa {

// Both run on at most `threads` threads. False: lengths or row numbers address nothing, or a row of
// the pool is written twice; nothing has been written then.
bool run_causal_conv(const StateKernels& kernels, const ConvCall& call, int64_t row_bytes,
                     int threads);
bool run_gated_delta(const StateKernels& kernels, const DeltaCall& call, int threads);

}  // namespace pa
