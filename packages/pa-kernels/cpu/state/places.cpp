#include "places.h"

#include <cstring>

namespace pa {
namespace {

bool are_lengths(const StateBatch& batch) {
  if (batch.cumulative[0] != 0) return false;
  for (int64_t row = 0; row < batch.batch_size; ++row) {
    if (batch.cumulative[row + 1] < batch.cumulative[row]) return false;
  }
  return batch.cumulative[batch.batch_size] == batch.num_tokens;
}

bool are_rows(const int32_t* rows, const StateBatch& batch) {
  if (rows == nullptr) return true;
  for (int64_t row = 0; row < batch.batch_size; ++row) {
    if (rows[row] < -1 || rows[row] >= batch.num_rows) return false;
  }
  return true;
}

int64_t place(const int32_t* rows, int64_t row) { return rows == nullptr ? row : rows[row]; }

}  // namespace

bool Places::resolve(const StateBatch& batch, int64_t row_bytes) {
  if (!are_lengths(batch)) return false;
  if (!are_rows(batch.read_rows, batch) || !are_rows(batch.write_rows, batch)) return false;
  const std::size_t rows = static_cast<std::size_t>(batch.batch_size);
  source_.resize(rows);
  target_.resize(rows);
  if (!find_writers(batch)) return false;
  for (int64_t row = 0; row < batch.batch_size; ++row) {
    const int64_t to = place(batch.write_rows, row);
    target_[static_cast<std::size_t>(row)] = to < 0 ? nullptr : batch.write + to * row_bytes;
    const int64_t from = batch.read == nullptr ? -1 : place(batch.read_rows, row);
    source_[static_cast<std::size_t>(row)] = from < 0 ? nullptr : batch.read + from * row_bytes;
  }
  copy_endangered(batch, row_bytes);
  return true;
}

// Only a pool is read and written in the same rows.
bool Places::find_writers(const StateBatch& batch) {
  if (batch.write_rows == nullptr) return true;
  ++calls_;
  if (writers_.size() < static_cast<std::size_t>(batch.num_rows)) {
    writers_.resize(static_cast<std::size_t>(batch.num_rows));
  }
  for (int64_t row = 0; row < batch.batch_size; ++row) {
    if (batch.write_rows[row] < 0) continue;
    Writer& writer = writers_[static_cast<std::size_t>(batch.write_rows[row])];
    if (writer.call == calls_) return false;
    writer = {calls_, row};
  }
  return true;
}

void Places::copy_endangered(const StateBatch& batch, int64_t row_bytes) {
  copied_.clear();
  if (batch.write_rows == nullptr || batch.read == nullptr) return;
  for (int64_t row = 0; row < batch.batch_size; ++row) {
    const int64_t from = place(batch.read_rows, row);
    if (from < 0) continue;
    const Writer& writer = writers_[static_cast<std::size_t>(from)];
    if (writer.call == calls_ && writer.row != row) copied_.push_back(row);
  }
  copies_.resize(copied_.size() * static_cast<std::size_t>(row_bytes));
  char* copy = copies_.data();
  for (const int64_t row : copied_) {
    const char*& source = source_[static_cast<std::size_t>(row)];
    std::memcpy(copy, source, static_cast<std::size_t>(row_bytes));
    source = copy;
    copy += row_bytes;
  }
}

}  // namespace pa
