// The compiled instantiations of store_kv, generated together with the units that hold them.
#pragma once

#include <cstddef>

#include "store_kv/params.h"
#include "status.h"

namespace pa::cuda {

struct StoreKvRow {
  ElementType element_type;
  int vector_bytes;
  SlotSource slot_source;
  Status (*launch)(const StoreKvParams&);
};

// Widest vectors first. External linkage, so that link_check meets every row.
extern const StoreKvRow kStoreKvTable[];
extern const std::size_t kStoreKvRows;

}  // namespace pa::cuda
