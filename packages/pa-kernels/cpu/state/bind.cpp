// The state operators in the module _cpu. Pointers cross as integers; 0 is an absent one.
#include "bind.h"

#include <pybind11/stl.h>

#include <array>

#include "dispatch.h"
#include "run.h"

namespace py = pybind11;

namespace pa {
namespace {

template <typename Pointee>
Pointee* pointer(uintptr_t address) {
  return reinterpret_cast<Pointee*>(address);
}

// Sizes: batch_size, num_tokens, num_rows. Addresses: lengths, read, write, read_rows, write_rows.
constexpr size_t kBatchSizes = 3;
constexpr size_t kBatchAddresses = 5;

template <size_t kSizes, size_t kAddresses>
StateBatch to_batch(const std::array<int64_t, kSizes>& sizes,
                    const std::array<uintptr_t, kAddresses>& addresses) {
  StateBatch batch;
  batch.batch_size = sizes[0];
  batch.num_tokens = sizes[1];
  batch.num_rows = sizes[2];
  batch.cumulative = pointer<const int32_t>(addresses[0]);
  batch.read = pointer<const char>(addresses[1]);
  batch.write = pointer<char>(addresses[2]);
  batch.read_rows = pointer<const int32_t>(addresses[3]);
  batch.write_rows = pointer<const int32_t>(addresses[4]);
  return batch;
}

// A bound instruction-set unit for one element type.
class StateUnit {
 public:
  StateUnit(Dtype dtype, const std::string& unit) : kernels_(find_state_kernels(unit, dtype)) {
    if (kernels_ == nullptr) throw py::value_error("no such instruction-set unit here: " + unit);
    element_bytes_ = dtype == Dtype::kFloat32 ? 4 : 2;
  }

  // Sizes go on with channels, taps, input stride, is_silu; addresses with input, weight, bias,
  // output.
  bool causal_conv(const std::array<int64_t, kBatchSizes + 4>& sizes,
                   const std::array<uintptr_t, kBatchAddresses + 4>& addresses, int threads) const {
    ConvCall call;
    call.batch = to_batch(sizes, addresses);
    call.channels = sizes[3];
    call.taps = sizes[4];
    call.input_stride = sizes[5];
    call.is_silu = sizes[6] != 0;
    call.input = pointer<const void>(addresses[5]);
    call.weight = pointer<const void>(addresses[6]);
    call.bias = pointer<const void>(addresses[7]);
    call.output = pointer<void>(addresses[8]);
    const int64_t row_bytes = call.channels * (call.taps - 1) * element_bytes_;
    const py::gil_scoped_release release;
    return run_causal_conv(*kernels_, call, row_bytes, threads);
  }

  // Sizes go on with key heads, heads, key size, value size and the strides of query, key and
  // value; addresses with query, key, value, decay, beta, a_log, dt_bias, output.
  bool gated_delta(const std::array<int64_t, kBatchSizes + 7>& sizes,
                   const std::array<uintptr_t, kBatchAddresses + 8>& addresses,
                   const std::array<float, 2>& scale_and_epsilon, int threads) const {
    DeltaCall call;
    call.batch = to_batch(sizes, addresses);
    call.key_heads = sizes[3];
    call.heads = sizes[4];
    call.key_size = sizes[5];
    call.value_size = sizes[6];
    call.query_stride = sizes[7];
    call.key_stride = sizes[8];
    call.value_stride = sizes[9];
    call.scale = scale_and_epsilon[0];
    call.epsilon = scale_and_epsilon[1];
    call.query = pointer<const void>(addresses[5]);
    call.key = pointer<const void>(addresses[6]);
    call.value = pointer<const void>(addresses[7]);
    call.decay = pointer<const float>(addresses[8]);
    call.beta = pointer<const float>(addresses[9]);
    call.a_log = pointer<const float>(addresses[10]);
    call.dt_bias = pointer<const float>(addresses[11]);
    call.output = pointer<void>(addresses[12]);
    const py::gil_scoped_release release;
    return run_gated_delta(*kernels_, call, threads);
  }

 private:
  const StateKernels* kernels_;
  int64_t element_bytes_ = 4;
};

}  // namespace

void bind_state(py::module_& module) {
  py::class_<StateUnit>(module, "StateUnit")
      .def(py::init<Dtype, const std::string&>(), py::arg("dtype"), py::arg("unit") = "")
      .def("causal_conv", &StateUnit::causal_conv)
      .def("gated_delta", &StateUnit::gated_delta);
  module.attr("DELTA_CHUNK_TOKENS") = kChunkTokens;
}

}  // namespace pa
