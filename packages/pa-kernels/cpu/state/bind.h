#pragma once

#include <pybind11/pybind11.h>

namespace pa {

// Adds the state operators to the module.
void bind_state(pybind11::module_& module);

}  // namespace pa
