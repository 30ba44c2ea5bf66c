// Walks every instantiation table. A Python extension may be linked with undefined symbols and
// fails at import; this program is linked with the same library and fails at build time.
#include <cstdio>

#include "store_kv/table.h"

int main() {
  std::size_t rows = 0;
  for (std::size_t i = 0; i < pa::cuda::kStoreKvRows; ++i) {
    if (pa::cuda::kStoreKvTable[i].launch == nullptr) return 1;
    ++rows;
  }
  std::printf("%zu instantiations\n", rows);
  return rows == 0 ? 1 : 0;
}
