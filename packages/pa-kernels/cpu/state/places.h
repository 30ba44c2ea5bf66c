// Where the states of a call's sequences are read and written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "params.h"

namespace pa {

// Kept between calls by the calling thread.
class Places {
 public:
  // False when a length or a row number addresses nothing, or a row is written twice. Otherwise
  // every state may be read at its source until its own target is written: a state whose place
  // another sequence writes has been copied.
  bool resolve(const StateBatch& batch, int64_t row_bytes);

  StatePlaces view() const { return {source_.data(), target_.data()}; }

 private:
  struct Writer {
    int64_t call = 0;
    int64_t row = 0;
  };

  bool find_writers(const StateBatch& batch);
  void copy_endangered(const StateBatch& batch, int64_t row_bytes);

  std::vector<const char*> source_;
  std::vector<char*> target_;
  std::vector<char> copies_;
  std::vector<Writer> writers_;  // of each row of the pool; valid where `call` is this one's number
  std::vector<int64_t> copied_;  // sequences whose source another one writes
  int64_t calls_ = 0;
};

}  // namespace pa
