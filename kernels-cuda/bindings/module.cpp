// The module _cuda: one plain structure a kernel, and its launcher. Addresses cross as integers.
#include <pybind11/pybind11.h>

#include "store_kv/store_kv.h"

namespace py = pybind11;

namespace {

using pa::cuda::ElementType;
using pa::cuda::SlotSource;
using pa::cuda::Status;
using pa::cuda::StoreKvParams;

template <typename Pointer>
auto address(Pointer StoreKvParams::* member) {
  return [member](StoreKvParams& params, uintptr_t value) {
    params.*member = reinterpret_cast<Pointer>(value);
  };
}

// (code, cudaError_t)
py::tuple as_tuple(const Status& status) {
  return py::make_tuple(static_cast<int>(status.code), status.cuda_error);
}

}  // namespace

PYBIND11_MODULE(_cuda, module) {
  py::enum_<ElementType>(module, "ElementType")
      .value("FLOAT16", ElementType::kFloat16)
      .value("BFLOAT16", ElementType::kBfloat16);
  py::enum_<SlotSource>(module, "SlotSource")
      .value("GIVEN", SlotSource::kGiven)
      .value("BLOCK_TABLE", SlotSource::kBlockTable);
  py::class_<StoreKvParams>(module, "StoreKvParams")
      .def(py::init<>())
      .def_property("key", nullptr, address(&StoreKvParams::key))
      .def_property("value", nullptr, address(&StoreKvParams::value))
      .def_property("key_cache", nullptr, address(&StoreKvParams::key_cache))
      .def_property("value_cache", nullptr, address(&StoreKvParams::value_cache))
      .def_property("slots", nullptr, address(&StoreKvParams::slots))
      .def_property("cumulative", nullptr, address(&StoreKvParams::cumulative))
      .def_property("past", nullptr, address(&StoreKvParams::past))
      .def_property("block_table", nullptr, address(&StoreKvParams::block_table))
      .def_property("stream", nullptr, address(&StoreKvParams::stream))
      .def_readwrite("num_tokens", &StoreKvParams::num_tokens)
      .def_readwrite("row_elements", &StoreKvParams::row_elements)
      .def_readwrite("key_stride", &StoreKvParams::key_stride)
      .def_readwrite("value_stride", &StoreKvParams::value_stride)
      .def_readwrite("num_blocks", &StoreKvParams::num_blocks)
      .def_readwrite("block_size", &StoreKvParams::block_size)
      .def_readwrite("batch_size", &StoreKvParams::batch_size)
      .def_readwrite("table_columns", &StoreKvParams::table_columns)
      .def_readwrite("table_stride", &StoreKvParams::table_stride)
      .def_readwrite("element_type", &StoreKvParams::element_type)
      .def_readwrite("slot_source", &StoreKvParams::slot_source);
  module.def("store_kv",
             [](const StoreKvParams& params) { return as_tuple(pa::cuda::store_kv(params)); });
  module.def("store_kv_vector_bytes", &pa::cuda::store_kv_vector_bytes);
}
