#include "dispatch.h"

namespace pa {

#define PA_UNIT(isa) extern const Kernels kernels_##isa;
#include "units.inc"
#undef PA_UNIT

namespace {

const Kernels* const kUnits[] = {
#define PA_UNIT(isa) &kernels_##isa,
#include "units.inc"
#undef PA_UNIT
};

#if defined(__x86_64__)
bool runs_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

bool runs_avx512() {
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif

bool runs_here(const std::string& name) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (name == "avx2") return runs_avx2();
  if (name == "avx512") return runs_avx512();
  if (name == "avx512_bf16") {
    return runs_avx512() && __builtin_cpu_supports("avx512bf16") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
  }
#endif
  return name == "generic";
}

}  // namespace

std::vector<std::string> available_units() {
  std::vector<std::string> names;
  for (const Kernels* unit : kUnits) {
    if (runs_here(unit->name)) names.emplace_back(unit->name);
  }
  return names;
}

const Kernels* find_kernels(const std::string& name) {
  for (const Kernels* unit : kUnits) {
    if (runs_here(unit->name) && (name.empty() || name == unit->name)) return unit;
  }
  return nullptr;
}

}  // namespace pa
