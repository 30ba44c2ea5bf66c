// Element types by code, as they cross from Python.
#pragma once

#include <cstdint>

namespace pa::cuda {

enum class ElementType : int32_t { kFloat16 = 0, kBfloat16 = 1 };

}  // namespace pa::cuda
