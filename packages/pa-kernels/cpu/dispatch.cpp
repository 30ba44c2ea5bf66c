#include "dispatch.h"

namespace pa {

#define PA_UNIT(isa) extern const Kernels kernels_##isa##_float32, kernels_##isa##_bfloat16;
#include "units.inc"
#undef PA_UNIT

namespace {

struct Unit {
  const char* name;
  const Kernels* float32;
  const Kernels* bfloat16;
};

const Unit kUnits[] = {
#define PA_UNIT(isa) {#isa, &kernels_##isa##_float32, &kernels_##isa##_bfloat16},
#include "units.inc"
#undef PA_UNIT
};

bool runs_here(const std::string& name) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (name == "avx2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (name == "avx512") {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  }
#endif
  return name == "generic";
}

}  // namespace

std::vector<std::string> available_units() {
  std::vector<std::string> names;
  for (const Unit& unit : kUnits) {
    if (runs_here(unit.name)) names.emplace_back(unit.name);
  }
  return names;
}

const Kernels* find_kernels(const std::string& name, Dtype dtype) {
  for (const Unit& unit : kUnits) {
    if (!runs_here(unit.name) || (!name.empty() && name != unit.name)) continue;
    return dtype == Dtype::kFloat32 ? unit.float32 : unit.bfloat16;
  }
  return nullptr;
}

}  // namespace pa
