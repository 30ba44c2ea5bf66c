// Chooses the instruction-set unit of the state operators.
#pragma once

#include <string>

#include "params.h"

namespace pa {

// The unit of that name for an element type, the fastest one for an empty name, or null.
const StateKernels* find_state_kernels(const std::string& name, Dtype dtype);

}  // namespace pa
