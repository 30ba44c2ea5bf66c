#include "store_kv/store_kv.h"

#include "store_kv/table.h"

namespace pa::cuda {
namespace {

constexpr int64_t kElementBytes = 2;  // both element types

bool is_aligned(const StoreKvParams& params, int64_t bytes) {
  const auto fits = [bytes](const void* pointer) {
    return reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(bytes) == 0;
  };
  return fits(params.key) && fits(params.value) && fits(params.key_cache) &&
         fits(params.value_cache) && params.row_elements * kElementBytes % bytes == 0 &&
         params.key_stride * kElementBytes % bytes == 0 &&
         params.value_stride * kElementBytes % bytes == 0;
}

const StoreKvRow* find_row(const StoreKvParams& params) {
  for (std::size_t i = 0; i < kStoreKvRows; ++i) {
    const StoreKvRow& row = kStoreKvTable[i];
    if (row.element_type == params.element_type && row.slot_source == params.slot_source &&
        is_aligned(params, row.vector_bytes)) {
      return &row;
    }
  }
  return nullptr;
}

}  // namespace

Status store_kv(const StoreKvParams& params) {
  const StoreKvRow* row = find_row(params);
  if (row == nullptr) return {StatusCode::kNoInstantiation, 0};
  return row->launch(params);
}

int store_kv_vector_bytes(const StoreKvParams& params) {
  const StoreKvRow* row = find_row(params);
  return row == nullptr ? 0 : row->vector_bytes;
}

}  // namespace pa::cuda
