#include "store_kv/table.h"

namespace pa::cuda {

#define PA_STORE_KV(name, element_type, vector_bytes, slot_source) \
  Status store_kv_##name(const StoreKvParams& params);
#include "store_kv_table.inc"
#undef PA_STORE_KV

const StoreKvRow kStoreKvTable[] = {
#define PA_STORE_KV(name, element_type, vector_bytes, slot_source) \
  {ElementType::element_type, vector_bytes, SlotSource::slot_source, &store_kv_##name},
#include "store_kv_table.inc"
#undef PA_STORE_KV
};

const std::size_t kStoreKvRows = sizeof(kStoreKvTable) / sizeof(kStoreKvTable[0]);

}  // namespace pa::cuda
