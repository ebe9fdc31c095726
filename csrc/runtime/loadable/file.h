// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "view.h"

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
  static std::unique_ptr<File> open(const std::string& path);
  static std::unique_ptr<File> from_memory(std::span<const std::byte> bytes);

  const View& view() const noexcept { return view_; }
  const std::string& name() const noexcept { return name_; }
  uint64_t weight_bytes() const noexcept { return weight_bytes_; }
  // Calls f(offset, bytes) for one piece of the weights after the other. What has been seen leaves memory, so that a
  // copy of the weights does not need their size twice.
  template <class F>
  void read_weights(F&& f) const {
    for (size_t at = 0; at < view_.weights.size(); at += kPiece) {
      std::span<const std::byte> piece = view_.weights.subspan(at, std::min(kPiece, view_.weights.size() - at));
      f(at, piece);
      if (mapping_) mapping_->forget(piece);
    }
  }
  // Unmaps the weights. view().weights is empty from then on.
  void release_weights() noexcept;

 private:
  static constexpr size_t kPiece = size_t{1} << 20;
  File(std::string name, std::span<const std::byte> bytes);

  std::string name_;
  std::unique_ptr<MappedFile> mapping_;
  std::vector<std::byte> weights_;  // when the program came from memory
  std::vector<std::byte> records_;
  View view_;
  uint64_t weight_bytes_ = 0;
};

}  // namespace atalla::runtime::loadable
