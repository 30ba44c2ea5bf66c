#include "dispatch.h"

#include "../dispatch.h"

namespace pa {

#define PA_UNIT(isa)                                                      \
  extern const StateKernels state_kernels_##isa##_float32,                \
      state_kernels_##isa##_bfloat16, state_kernels_##isa##_float16;
#include "units.inc"
#undef PA_UNIT

namespace {

const StateKernels* const kUnits[][3] = {
#define PA_UNIT(isa)                                                    \
  {&state_kernels_##isa##_float32, &state_kernels_##isa##_bfloat16,     \
   &state_kernels_##isa##_float16},
#include "units.inc"
#undef PA_UNIT
};

}  // namespace

const StateKernels* find_state_kernels(const std::string& name, Dtype dtype) {
  for (const std::string& available : available_units()) {
    if (!name.empty() && name != available) continue;
    for (const auto& unit : kUnits) {
      if (available != unit[0]->name) continue;
      if (dtype == Dtype::kFloat32) return unit[0];
      if (dtype == Dtype::kBfloat16) return unit[1];
      if (dtype == Dtype::kFloat16) return unit[2];
    }
    return nullptr;
  }
  return nullptr;
}

}  // namespace pa
