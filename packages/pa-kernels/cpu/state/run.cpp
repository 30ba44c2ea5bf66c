#include "run.h"

#include <algorithm>
#include <atomic>
#include <vector>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "../workspace.h"
#include "places.h"

namespace pa {
namespace {

// A second thread is worth its waking from some 30 microseconds of work on; what a microsecond does
// is counted in multiplications.
constexpr double kOperationsPerThread = 400'000.0;

// Sequences of a task together have about so many tokens: one load of the weights serves them.
constexpr int64_t kTaskTokens = 128;

struct StateWorkspace {
  Places places;
  std::vector<StateTask> tasks;
  FloatBuffer scratch;
};

StateWorkspace& own_workspace() {
  thread_local StateWorkspace workspace;
  return workspace;
}

// Every part (block of channels, head) of consecutive sequences.
void make_tasks(const StateBatch& batch, int64_t parts, int64_t tokens_together,
                std::vector<StateTask>& tasks) {
  tasks.clear();
  int64_t begin = 0;
  while (begin < batch.batch_size) {
    int64_t end = begin;
    int64_t tokens = 0;
    do {
      tokens += batch.cumulative[end + 1] - batch.cumulative[end] + 1;
      ++end;
    } while (end < batch.batch_size && tokens < tokens_together);
    for (int64_t part = 0; part < parts; ++part) tasks.push_back({begin, end, part});
    begin = end;
  }
}

int useful_threads(double operations, std::size_t tasks, int allowed) {
  const double useful = std::min(operations / kOperationsPerThread, static_cast<double>(tasks));
  return std::max(1, static_cast<int>(std::min(useful, static_cast<double>(allowed))));
}

// Calls work(task, scratch) for every task, whoever is free taking the next one.
template <typename Run>
void run_tasks(StateWorkspace& workspace, int threads, int64_t floats, Run work) {
  const std::vector<StateTask>& tasks = workspace.tasks;
  const int64_t own_floats = (floats + 15) / 16 * 16;
  float* scratch = workspace.scratch.reserve(threads * own_floats);
#if defined(_OPENMP)
  if (threads > 1) {
    std::atomic<std::size_t> next{0};
#pragma omp parallel num_threads(threads)
    {
      float* own = scratch + omp_get_thread_num() * own_floats;
      for (std::size_t i = next++; i < tasks.size(); i = next++) work(tasks[i], own);
    }
    return;
  }
#endif
  for (const StateTask& task : tasks) work(task, scratch);
}

}  // namespace

bool run_causal_conv(const StateKernels& kernels, const ConvCall& call, int64_t row_bytes,
                     int threads) {
  StateWorkspace& workspace = own_workspace();
  if (!workspace.places.resolve(call.batch, row_bytes)) return false;
  ConvCall placed = call;
  placed.places = workspace.places.view();
  const int64_t blocks = (call.channels + kConvChannels - 1) / kConvChannels;
  make_tasks(call.batch, blocks, kTaskTokens, workspace.tasks);
  const double tokens = static_cast<double>(call.batch.num_tokens + call.batch.batch_size);
  const double operations = tokens * static_cast<double>(call.channels * (call.taps + 4));
  run_tasks(workspace, useful_threads(operations, workspace.tasks.size(), threads),
            kernels.conv_scratch_floats(call), [&](const StateTask& task, float* scratch) {
              kernels.convolve(placed, task, scratch);
            });
  return true;
}

bool run_gated_delta(const StateKernels& kernels, const DeltaCall& call, int threads) {
  StateWorkspace& workspace = own_workspace();
  const int64_t head_floats = call.key_size * call.value_size;
  const int64_t row_bytes = call.heads * head_floats * static_cast<int64_t>(sizeof(float));
  if (!workspace.places.resolve(call.batch, row_bytes)) return false;
  DeltaCall placed = call;
  placed.places = workspace.places.view();
  make_tasks(call.batch, call.heads, 1, workspace.tasks);
  const double tokens = static_cast<double>(call.batch.num_tokens + call.batch.batch_size);
  const double operations = 3.0 * tokens * static_cast<double>(call.heads * head_floats);
  run_tasks(workspace, useful_threads(operations, workspace.tasks.size(), threads),
            kernels.delta_scratch_floats(call), [&](const StateTask& task, float* scratch) {
              kernels.apply_delta(placed, task, scratch);
            });
  workspace.scratch.release_if_large();
  return true;
}

}  // namespace pa
