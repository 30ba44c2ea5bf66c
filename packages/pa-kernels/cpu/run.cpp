#include "run.h"

#include <algorithm>
#include <atomic>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "lengths.h"
#include "workspace.h"

namespace pa {
namespace {

// A second thread is worth its waking (1 microsecond, 8 when it sleeps) from about twice as many
// operations on, some 30 microseconds of work.
constexpr double kOperationsPerThread = 150'000.0;
constexpr int64_t kPrologueElementsPerThread = 64 * 1024;

// A call on its way through the threads of one team.
class Call {
 public:
  Call(const Kernels& kernels, const CallShape& shape, const CallBuffers& buffers,
       Workspace& workspace)
      : kernels_(kernels),
        attend_(kernels.attend[static_cast<int>(shape.cache_dtype)]),
        shape_(shape),
        buffers_(buffers),
        plan_(workspace.plan) {
    work_.shape = &shape_;
    work_.buffers = &buffers_;
    if (shape.rotary_dim > 0 || buffers.query_norm != nullptr) {
      rotated_ = workspace.rotated.reserve(shape.num_tokens * shape.num_heads * shape.head_size);
      work_.rotated = rotated_;
    }
    const int64_t padded = padded_v_head_size(shape);
    float* partials = workspace.partials.reserve(plan_.partial_rows * (padded + 2));
    work_.partials = {partials, partials + plan_.partial_rows * padded,
                      partials + plan_.partial_rows * (padded + 1)};
    unfinished_ = workspace.unfinished.reserve(plan_);
  }

  int useful_threads(int allowed) const {
    const double useful = plan_.operations / kOperationsPerThread +
                          static_cast<double>(prologue_elements() / kPrologueElementsPerThread);
    return std::max(1, static_cast<int>(std::min(useful, static_cast<double>(allowed))));
  }

  // A short prologue is over before a second thread has woken.
  bool has_long_prologue() const { return prologue_elements() > kPrologueElementsPerThread; }

  int64_t scratch_floats() const {
    const int64_t attention = kernels_.scratch_floats(shape_, plan_.max_segment_rows);
    return (std::max(attention, prologue_floats(shape_)) + 15) / 16 * 16;
  }

  void store_tokens(int thread, int threads, float* scratch) const {
    const int64_t begin = shape_.num_tokens * thread / threads;
    const int64_t end = shape_.num_tokens * (thread + 1) / threads;
    kernels_.prologue(shape_, buffers_, rotated_, scratch, begin, end);
  }

  // Threads take whole segments, whose parts are then joined from memory that is near, and single
  // parts of the last ones, so that all end together.
  void attend(int threads, float* scratch) {
    const int64_t whole = std::max<int64_t>(0, num_segments() - 2 * threads);
    const int64_t claims = whole + num_tasks() - first_task(whole);
    for (int64_t claim = next_claim_++; claim < claims;) {
      // Taken early only while there is something left for everybody.
      const bool is_known = next_claim_ + threads <= claims;
      const int64_t next = is_known ? next_claim_++ : claims;
      const int64_t end = first_task_of(claim + 1, whole);
      for (int64_t task = first_task_of(claim, whole); task < end; ++task) {
        attend_part(part_of(task),
                    part_of(task + 1 < end ? task + 1 : first_task_of(next, whole)), scratch);
      }
      claim = is_known ? next : next_claim_++;
    }
  }

 private:
  int64_t num_tasks() const { return static_cast<int64_t>(plan_.tasks.size()); }
  int64_t num_segments() const { return static_cast<int64_t>(plan_.segments.size()); }

  int64_t first_task(int64_t segment) const {
    if (segment >= num_segments()) return num_tasks();
    return plan_.segments[static_cast<std::size_t>(segment)].first_task;
  }

  // Claims are `whole` segments, then tasks.
  int64_t first_task_of(int64_t claim, int64_t whole) const {
    return claim < whole ? first_task(claim) : first_task(whole) + claim - whole;
  }

  void attend_part(const Part& part, const Part& next, float* scratch) {
    attend_(work_, part, next, scratch);
    if (part.segment->splits == 1) return;
    // The decrement orders the parts: the last one sees what the others have written.
    std::atomic<int64_t>& unfinished = unfinished_[part.segment - plan_.segments.data()];
    if (--unfinished == 0) kernels_.merge(work_, *part.segment, scratch);
  }

  Part part_of(int64_t index) const {
    if (index >= num_tasks()) return {};
    const Task& task = plan_.tasks[static_cast<std::size_t>(index)];
    return {&plan_.segments[static_cast<std::size_t>(task.segment)], task.split};
  }

  int64_t prologue_elements() const {
    return shape_.num_tokens * (shape_.num_heads + 2 * shape_.kv_num_heads) * shape_.head_size;
  }

  const Kernels& kernels_;
  const Attend attend_;
  const CallShape& shape_;
  const CallBuffers& buffers_;
  const Plan& plan_;
  Work work_;
  float* rotated_ = nullptr;
  std::atomic<int64_t> next_claim_{0};
  std::atomic<int64_t>* unfinished_ = nullptr;
};

// Every store comes before attention: rows of a call may share blocks.
void run_team(Call& call, int threads, float* scratch, int64_t scratch_floats) {
#if defined(_OPENMP)
  if (threads > 1) {
    const bool alone = !call.has_long_prologue();
    if (alone) call.store_tokens(0, 1, scratch);
#pragma omp parallel num_threads(threads)
    {
      // The runtime may give fewer threads than were asked for.
      const int thread = omp_get_thread_num();
      float* own = scratch + thread * scratch_floats;
      if (!alone) {
        call.store_tokens(thread, omp_get_num_threads(), own);
#pragma omp barrier
      }
      call.attend(omp_get_num_threads(), own);
    }
    return;
  }
#else
  (void)threads;
  (void)scratch_floats;
#endif
  call.store_tokens(0, 1, scratch);
  call.attend(1, scratch);
}

}  // namespace

Outcome run_call(const Kernels& kernels, const CallShape& shape, const CallBuffers& buffers,
                 int threads) {
  Outcome outcome = check_lengths(shape, buffers);
  if (outcome.status == Status::kOk) outcome = check_scales(shape, buffers);
  if (outcome.status != Status::kOk || shape.num_tokens == 0) return outcome;
  thread_local Workspace workspace;
  make_plan(shape, buffers, workspace.plan);
  Call call(kernels, shape, buffers, workspace);
  const int team = call.useful_threads(threads);
  const int64_t scratch_floats = call.scratch_floats();
  float* scratch = workspace.scratch.reserve(team * scratch_floats);
  run_team(call, team, scratch, scratch_floats);
  workspace.rotated.release_if_large();
  workspace.partials.release_if_large();
  return outcome;
}

}  // namespace pa
