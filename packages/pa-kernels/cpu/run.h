// One whole call: checks, prologue, attention.
#pragma once

#include "kernels.h"

namespace pa {

// Runs a call on at most `threads` threads. Nothing has been written unless the status is kOk.
Outcome run_call(const Kernels& kernels, const CallShape& shape, const CallBuffers& buffers,
                 int threads);

}  // namespace pa
