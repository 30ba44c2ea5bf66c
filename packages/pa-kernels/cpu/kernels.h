// The table of functions that each instruction-set unit provides.
#pragma once

#include "params.h"

namespace pa {

// One piece of a call's attention: tokens of one row against a range of its keys.
struct Task {
  int64_t row = 0;
  int64_t token_begin = 0;  // packed index
  int64_t token_end = 0;
};

// What every task of a call reads.
struct Work {
  const CallShape* shape = nullptr;
  const CallBuffers* buffers = nullptr;
  const void* query = nullptr;  // [T, H*D] after the prologue
  int64_t query_stride = 0;
};

struct Kernels {
  const char* name;
  // Stores keys and values of tokens [begin, end), and their queries when rotated is given.
  void (*prologue)(const CallShape&, const CallBuffers&, void* rotated, float* scratch,
                   int64_t begin, int64_t end);
  void (*attend)(const Work&, const Task&, float* scratch);
};

}  // namespace pa
