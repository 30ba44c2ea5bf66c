// What a launcher reports. Nothing below the bindings throws.
#pragma once

#include <cstdint>

namespace pa::cuda {

enum class StatusCode : int32_t {
  kOk = 0,
  kNoInstantiation = 1,  // no compiled kernel for the element type
  kLaunchFailed = 2,     // cuda_error says why
};

struct Status {
  StatusCode code = StatusCode::kOk;
  int32_t cuda_error = 0;  // cudaError_t
};

}  // namespace pa::cuda
