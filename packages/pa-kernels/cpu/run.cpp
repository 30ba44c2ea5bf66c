#include "run.h"

#include <vector>

#include "lengths.h"

namespace pa {

Outcome run_call(const Kernels& kernels, const CallShape& shape, const CallBuffers& buffers,
                 int threads) {
  const Outcome outcome = check_lengths(shape, buffers);
  if (outcome.status != Status::kOk) return outcome;
  const int64_t element = shape.dtype == Dtype::kFloat32 ? 4 : 2;
  std::vector<char> rotated;
  std::vector<float> scratch(static_cast<std::size_t>(2 * shape.head_size));
  Work work{&shape, &buffers, buffers.query, shape.query_stride};
  if (shape.rotary_dim > 0 || buffers.query_norm != nullptr) {
    rotated.resize(
        static_cast<std::size_t>(shape.num_tokens * shape.num_heads * shape.head_size * element));
    work.query = rotated.data();
    work.query_stride = shape.num_heads * shape.head_size;
  }
  kernels.prologue(shape, buffers, rotated.empty() ? nullptr : rotated.data(), scratch.data(), 0,
                   shape.num_tokens);
  for (int64_t row = 0; row < shape.batch_size; ++row) {
    const Task task{row, buffers.cumulative[row], buffers.cumulative[row + 1]};
    kernels.attend(work, task, scratch.data());
  }
  (void)threads;
  return outcome;
}

}  // namespace pa
