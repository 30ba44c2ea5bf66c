// The module _cpu: plain structures and one call. Pointers cross as integers.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>

#include "dispatch.h"
#include "run.h"
#include "state/bind.h"

namespace py = pybind11;

namespace {

constexpr size_t kNumBuffers = 18;
using Pointers = std::array<uintptr_t, kNumBuffers>;

template <typename Pointee>
Pointee* pointer(uintptr_t address) {
  return reinterpret_cast<Pointee*>(address);
}

// The order of CallBuffers' members, which is the order of the tuple that Python passes.
pa::CallBuffers to_buffers(const Pointers& p) {
  pa::CallBuffers buffers;
  buffers.query = pointer<const void>(p[0]);
  buffers.key = pointer<const void>(p[1]);
  buffers.value = pointer<const void>(p[2]);
  buffers.key_cache = pointer<void>(p[3]);
  buffers.value_cache = pointer<void>(p[4]);
  buffers.cumulative = pointer<const int32_t>(p[5]);
  buffers.past = pointer<const int32_t>(p[6]);
  buffers.block_table = pointer<const int32_t>(p[7]);
  buffers.cos = pointer<const void>(p[8]);
  buffers.sin = pointer<const void>(p[9]);
  buffers.slots = pointer<const int32_t>(p[10]);
  buffers.head_sink = pointer<const void>(p[11]);
  buffers.query_norm = pointer<const void>(p[12]);
  buffers.key_norm = pointer<const void>(p[13]);
  buffers.positions = pointer<const int32_t>(p[14]);
  buffers.key_scale = pointer<const float>(p[15]);
  buffers.value_scale = pointer<const float>(p[16]);
  buffers.output = pointer<void>(p[17]);
  return buffers;
}

// A shape bound to the unit that serves it.
class PreparedCall {
 public:
  PreparedCall(const pa::CallShape& shape, const std::string& unit)
      : shape_(shape), kernels_(pa::find_kernels(unit)) {
    if (kernels_ == nullptr) throw py::value_error("no such instruction-set unit here: " + unit);
  }

  // Returns None, or (status, index, found, limit) of the refused call.
  py::object run(const Pointers& pointers, int threads) const {
    pa::Outcome outcome;
    {
      const py::gil_scoped_release release;
      outcome = pa::run_call(*kernels_, shape_, to_buffers(pointers), threads);
    }
    if (outcome.status == pa::Status::kOk) return py::none();
    return py::make_tuple(static_cast<int>(outcome.status), outcome.index, outcome.found,
                          outcome.limit);
  }

  const char* unit() const { return kernels_->name; }

 private:
  pa::CallShape shape_;
  const pa::Kernels* kernels_;
};

const pa::Kernels& unit_named(const std::string& name) {
  const pa::Kernels* kernels = pa::find_kernels(name);
  if (kernels == nullptr) throw py::value_error("no such instruction-set unit here: " + name);
  return *kernels;
}

}  // namespace

PYBIND11_MODULE(_cpu, module) {
  using pa::CallShape;
  py::enum_<pa::Dtype>(module, "Dtype")
      .value("FLOAT32", pa::Dtype::kFloat32)
      .value("BFLOAT16", pa::Dtype::kBfloat16)
      .value("FLOAT16", pa::Dtype::kFloat16)
      .value("INT8", pa::Dtype::kInt8)
      .value("FLOAT8E4M3FN", pa::Dtype::kFloat8);
  py::enum_<pa::Scaling>(module, "Scaling")
      .value("NONE", pa::Scaling::kNone)
      .value("PER_TENSOR", pa::Scaling::kPerTensor)
      .value("PER_CHANNEL", pa::Scaling::kPerChannel);
  py::class_<CallShape>(module, "CallShape")
      .def(py::init<>())
      .def_readwrite("num_tokens", &CallShape::num_tokens)
      .def_readwrite("batch_size", &CallShape::batch_size)
      .def_readwrite("num_heads", &CallShape::num_heads)
      .def_readwrite("kv_num_heads", &CallShape::kv_num_heads)
      .def_readwrite("head_size", &CallShape::head_size)
      .def_readwrite("v_head_size", &CallShape::v_head_size)
      .def_readwrite("num_blocks", &CallShape::num_blocks)
      .def_readwrite("block_size", &CallShape::block_size)
      .def_readwrite("table_columns", &CallShape::table_columns)
      .def_readwrite("query_stride", &CallShape::query_stride)
      .def_readwrite("key_stride", &CallShape::key_stride)
      .def_readwrite("value_stride", &CallShape::value_stride)
      .def_readwrite("output_stride", &CallShape::output_stride)
      .def_readwrite("table_stride", &CallShape::table_stride)
      .def_readwrite("rotary_rows", &CallShape::rotary_rows)
      .def_readwrite("rotary_dim", &CallShape::rotary_dim)
      .def_readwrite("rotary_offset", &CallShape::rotary_offset)
      .def_readwrite("cos_stride", &CallShape::cos_stride)
      .def_readwrite("sin_stride", &CallShape::sin_stride)
      .def_readwrite("window_tokens", &CallShape::window_tokens)
      .def_readwrite("rotary_interleaved", &CallShape::rotary_interleaved)
      .def_readwrite("dtype", &CallShape::dtype)
      .def_readwrite("cache_dtype", &CallShape::cache_dtype)
      .def_readwrite("key_scaling", &CallShape::key_scaling)
      .def_readwrite("value_scaling", &CallShape::value_scaling)
      .def_readwrite("scale", &CallShape::scale)
      .def_readwrite("softcap", &CallShape::softcap)
      .def_readwrite("norm_epsilon", &CallShape::norm_epsilon);
  py::class_<PreparedCall>(module, "PreparedCall")
      .def(py::init<const CallShape&, const std::string&>(), py::arg("shape"),
           py::arg("unit") = "")
      .def("run", &PreparedCall::run)
      .def_property_readonly("unit", &PreparedCall::unit);
  module.def("available_units", &pa::available_units);
  module.def("map_exp2", [](const std::string& unit, uintptr_t from, uintptr_t to, int64_t count) {
    unit_named(unit).map_exp2(pointer<const float>(from), pointer<float>(to), count);
  });
  module.def("map_tanh", [](const std::string& unit, uintptr_t from, uintptr_t to, int64_t count) {
    unit_named(unit).map_tanh(pointer<const float>(from), pointer<float>(to), count);
  });
  module.def("map_round", [](const std::string& unit, pa::Dtype dtype, uintptr_t from, uintptr_t to,
                             int64_t count) {
    unit_named(unit).map_round(dtype, pointer<const float>(from), pointer<float>(to), count);
  });
  pa::bind_state(module);
}
