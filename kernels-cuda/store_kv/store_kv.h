// Writes one step's keys and values into their slots.
#pragma once

#include "store_kv/params.h"
#include "status.h"

namespace pa::cuda {

// Launches on params.stream and returns without waiting. Takes the widest vectors that the
// alignment of pointers and strides allows.
Status store_kv(const StoreKvParams& params);

// Bytes of the vectors that store_kv takes for such a launch, 0 when it has no instantiation.
int store_kv_vector_bytes(const StoreKvParams& params);

}  // namespace pa::cuda
