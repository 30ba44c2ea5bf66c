#include "plan.h"

#include <algorithm>

namespace pa {
namespace {

// Rows of one tile of queries: enough that reading a tile of keys is small beside the products,
// few enough that queries, logits and sums of a 64-wide head stay in a 128 KiB part of the L2.
constexpr int64_t kQueryRows = 128;

// A split reads about a quarter of a megabyte, 10 microseconds, or what 128 keys have: long beside
// the joining of its partial result, short enough that two threads share a context of a few hundred
// tokens. Long contexts are cut coarser: a machine's memory feeds only so many threads.
constexpr int64_t kSplitBytes = 256 * 1024;
constexpr int64_t kMinSplitKeys = 128;
constexpr int64_t kMaxSplitKeys = 1024;
constexpr int64_t kEnoughSplits = 16;

// Segments with more rows than this are compute bound and come in numbers; they are not split.
constexpr int64_t kMaxSplitRows = 32;

KeyRange segment_keys(const CallShape& shape, const CallBuffers& buffers, const Segment& segment) {
  KeyRange all = visible_keys(shape, buffers, segment.row, segment.token_begin);
  for (int64_t token = segment.token_begin + 1; token < segment.token_end; ++token) {
    const KeyRange one = visible_keys(shape, buffers, segment.row, token);
    all.begin = std::min(all.begin, one.begin);
    all.end = std::max(all.end, one.end);
  }
  all.end = std::max(all.end, all.begin);
  return all;
}

int64_t num_splits(const CallShape& shape, const Segment& segment, int64_t rows) {
  if (rows > kMaxSplitRows && segment.tokens() > 1) return 1;
  const int64_t heads = segment.kv_head_end - segment.kv_head_begin;
  const int64_t key_bytes = 2 * heads * shape.head_size * element_size(shape.cache_dtype);
  const int64_t all = segment.keys.end - segment.keys.begin;
  const int64_t keys = std::max(std::clamp(kSplitBytes / key_bytes, kMinSplitKeys, kMaxSplitKeys),
                                all / kEnoughSplits);
  return std::max<int64_t>(1, (all + keys - 1) / keys);
}

void add_segment(const CallShape& shape, const CallBuffers& buffers, Segment segment, Plan& plan) {
  const int64_t rows = (segment.kv_head_end - segment.kv_head_begin) * segment.tokens() *
                       group_size(shape);
  segment.keys = segment_keys(shape, buffers, segment);
  segment.splits = num_splits(shape, segment, rows);
  if (segment.splits > 1) {
    segment.partial_row = plan.partial_rows;
    plan.partial_rows += rows * segment.splits;
  }
  plan.max_segment_rows = std::max(plan.max_segment_rows, rows);
  plan.operations += static_cast<double>(rows * shape.head_size) *
                     static_cast<double>(segment.keys.end - segment.keys.begin);
  segment.first_task = static_cast<int64_t>(plan.tasks.size());
  for (int64_t split = 0; split < segment.splits; ++split) {
    plan.tasks.push_back({static_cast<int64_t>(plan.segments.size()), split});
  }
  plan.segments.push_back(segment);
}

// A tile of queries is a segment for each KV head, the longest contexts first. One token is a
// single segment, because a block holds its KV heads side by side, unless they serve so many query
// heads that reading is the least of the work.
void add_row(const CallShape& shape, const CallBuffers& buffers, int64_t row, Plan& plan) {
  const int64_t begin = buffers.cumulative[row];
  const int64_t end = buffers.cumulative[row + 1];
  const int64_t step = std::max<int64_t>(1, kQueryRows / group_size(shape));
  const int64_t count = (end - begin + step - 1) / step;
  Segment segment;
  segment.row = row;
  for (int64_t index = count - 1; index >= 0; --index) {
    segment.token_begin = begin + index * step;
    segment.token_end = std::min(end, segment.token_begin + step);
    const bool streams = segment.tokens() == 1 && streams_tokens(shape);
    const int64_t heads = streams ? shape.kv_num_heads : 1;
    for (int64_t kv_head = 0; kv_head < shape.kv_num_heads; kv_head += heads) {
      segment.kv_head_begin = kv_head;
      segment.kv_head_end = kv_head + heads;
      add_segment(shape, buffers, segment, plan);
    }
  }
}

}  // namespace

void Plan::clear() {
  segments.clear();
  tasks.clear();
  partial_rows = 0;
  max_segment_rows = 0;
  operations = 0.0;
}

void make_plan(const CallShape& shape, const CallBuffers& buffers, Plan& plan) {
  plan.clear();
  for (int64_t row = 0; row < shape.batch_size; ++row) {
    if (buffers.cumulative[row + 1] > buffers.cumulative[row]) {
      add_row(shape, buffers, row, plan);
    }
  }
}

}  // namespace pa
