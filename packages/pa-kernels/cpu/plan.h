// How a call's attention is cut into tasks. The cut depends on each row's own lengths and nothing
// else: neither the number of threads nor a row's neighbours change a result.
#pragma once

#include <vector>

#include "kernels.h"

namespace pa {

struct Plan {
  std::vector<Segment> segments;
  std::vector<Task> tasks;
  int64_t partial_rows = 0;      // accumulated rows of all segments with several splits
  int64_t max_segment_rows = 0;  // accumulated rows of the largest segment
  double operations = 0.0;       // multiplications of queries with keys, roughly

  void clear();
};

// Cuts a call whose lengths were checked. `plan` is filled anew.
void make_plan(const CallShape& shape, const CallBuffers& buffers, Plan& plan);

}  // namespace pa
