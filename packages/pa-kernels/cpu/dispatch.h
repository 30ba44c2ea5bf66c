// Chooses the instruction-set unit that serves a call on this machine.
#pragma once

#include <string>
#include <vector>

#include "kernels.h"

namespace pa {

// Names of the compiled units that this machine can run, fastest first.
std::vector<std::string> available_units();

// The unit of that name, the fastest one for an empty name, or null.
const Kernels* find_kernels(const std::string& name);

}  // namespace pa
