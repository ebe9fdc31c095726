// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/loadable/file/crc32c.h"
#include "runtime/loadable/file/validate.h"
#include "runtime/loadable/file/view.h"

namespace atalla::runtime::loadable {

// Read-only mapping of a whole file. Throws Error (ATALLA_ERR_SYSTEM) with the path and the system's reason.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const noexcept { return {data_, bytes_}; }
  // The pages of these bytes need not stay in memory; reading them again fetches them.
  void forget(std::span<const std::byte> part) const noexcept;

 private:
  const std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// A validated loadable. All sections but the weights are copied, so that a file which is changed or cut after this
// constructor cannot hurt; the weights are read once, by load.
class File {
 public:
  // Throws Error: ATALLA_ERR_SYSTEM, or ATALLA_ERR_FORMAT with all problems.
  static std::unique_ptr<File> open(const std::string& path, WeightsCheck weights = WeightsCheck::kNow);
  static std::unique_ptr<File> from_memory(std::span<const std::byte> bytes);

  const View& view() const noexcept { return view_; }
  const std::string& name() const noexcept { return name_; }
  uint64_t weight_bytes() const noexcept { return weight_bytes_; }
  // Calls f(offset, bytes) for one piece of the weights after the other. What has been seen leaves memory, so that a
  // copy of the weights does not need their size twice. Throws Error (ATALLA_ERR_FORMAT) after the last piece if their
  // checksum was left for later and is not that of these bytes: then what was copied must not be used.
  template <class F>
  void read_weights(F&& f) {
    uint32_t crc = 0;
    for (size_t at = 0; at < view_.weights.size(); at += kPiece) {
      std::span<const std::byte> piece = view_.weights.subspan(at, std::min(kPiece, view_.weights.size() - at));
      if (unchecked_) crc = crc32c(crc, piece.data(), piece.size());  // the copy finds them in the cache
      f(at, piece);
      if (mapping_) mapping_->forget(piece);
    }
    if (unchecked_) check_weights(crc);
  }
  // Unmaps the weights. view().weights is empty from then on.
  void release_weights() noexcept;

 private:
  static constexpr size_t kPiece = size_t{1} << 19;
  File(std::string name, std::span<const std::byte> bytes, WeightsCheck weights);
  void check_weights(uint32_t crc);

  std::string name_;
  std::unique_ptr<MappedFile> mapping_;
  std::vector<std::byte> weights_;  // when the program came from memory
  std::vector<std::byte> records_;
  View view_;
  uint64_t weight_bytes_ = 0;
  bool unchecked_ = false;  // the weights' checksum has not been compared yet
};

}  // namespace atalla::runtime::loadable
