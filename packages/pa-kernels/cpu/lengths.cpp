#include "lengths.h"

namespace pa {
namespace {

Outcome refuse(Status status, int64_t index, int64_t found, int64_t limit) {
  return Outcome{status, index, found, limit};
}

Outcome check_row(const CallShape& shape, const CallBuffers& buffers, int64_t row) {
  const int64_t begin = buffers.cumulative[row];
  const int64_t end = buffers.cumulative[row + 1];
  if (end < begin) return refuse(Status::kBoundariesDecrease, row, end, begin);
  const int64_t past = buffers.past[row];
  if (past < 0) return refuse(Status::kPastNegative, row, past, 0);
  const int64_t capacity = shape.table_columns * shape.block_size;
  const int64_t total = past + (end - begin);
  if (total > capacity) return refuse(Status::kPastBeyondTable, row, total, capacity);
  if (end > begin && shape.rotary_dim > 0 && buffers.positions == nullptr &&
      total > shape.rotary_rows) {
    return refuse(Status::kPositionBeyondRotaryTable, row, total - 1, shape.rotary_rows);
  }
  return {};
}

Outcome check_positions(const CallShape& shape, const CallBuffers& buffers) {
  for (int64_t token = 0; token < shape.num_tokens; ++token) {
    const int64_t position = buffers.positions[token];
    if (position < 0) return refuse(Status::kPositionNegative, token, position, 0);
    if (shape.rotary_dim > 0 && position >= shape.rotary_rows) {
      return refuse(Status::kPositionBeyondRotaryTable, token, position, shape.rotary_rows);
    }
  }
  return {};
}

bool all_positive(Scaling scaling, const CallShape& shape, const float* scale) {
  int64_t count = shape.kv_num_heads * shape.head_size;
  if (scaling == Scaling::kNone) count = 0;
  if (scaling == Scaling::kPerTensor) count = 1;
  bool positive = true;
  for (int64_t i = 0; i < count; ++i) positive &= scale[i] > 0.0F && scale[i] < __builtin_inff();
  return positive;
}

}  // namespace

Outcome check_scales(const CallShape& shape, const CallBuffers& buffers) {
  const bool keys = all_positive(shape.key_scaling, shape, buffers.key_scale);
  const bool values = all_positive(shape.value_scaling, shape, buffers.value_scale);
  return keys && values ? Outcome{} : refuse(Status::kScaleNotPositive, keys ? 1 : 0, 0, 0);
}

Outcome check_lengths(const CallShape& shape, const CallBuffers& buffers) {
  const int64_t first = buffers.cumulative[0];
  if (first != 0) return refuse(Status::kFirstBoundaryNotZero, 0, first, 0);
  for (int64_t row = 0; row < shape.batch_size; ++row) {
    const Outcome outcome = check_row(shape, buffers, row);
    if (outcome.status != Status::kOk) return outcome;
  }
  const int64_t last = buffers.cumulative[shape.batch_size];
  if (last != shape.num_tokens) {
    return refuse(Status::kLastBoundaryNotTokens, shape.batch_size, last, shape.num_tokens);
  }
  return buffers.positions == nullptr ? Outcome{} : check_positions(shape, buffers);
}

}  // namespace pa
