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

// A validated loadable. All sections but WEIGHTS and CONSTANTS are copied, so that a file which is changed or cut after
// this constructor cannot hurt; those two are read once, by load.
class File {
 public:
  // Throws Error: ATALLA_ERR_SYSTEM, or ATALLA_ERR_FORMAT with all problems.
  static std::unique_ptr<File> open(const std::string& path, BulkCheck bulk = BulkCheck::kNow);
  static std::unique_ptr<File> from_memory(std::span<const std::byte> bytes);

  const View& view() const noexcept { return view_; }
  const std::string& name() const noexcept { return name_; }
  // Calls f(offset, bytes) for one piece of WEIGHTS or CONSTANTS after the other. What has been seen leaves memory, so
  // that a copy does not need its size twice. Throws Error (ATALLA_ERR_FORMAT) after the last piece if the checksum was
  // left for later and is not that of these bytes: then what was copied must not be used.
  template <class F>
  void read(SectionKind kind, F&& f) {
    const std::span<const std::byte> all = kind == SectionKind::kWeights ? view_.weights : view_.constants;
    uint32_t crc = 0;
    for (size_t at = 0; at < all.size(); at += kPiece) {
      std::span<const std::byte> piece = all.subspan(at, std::min(kPiece, all.size() - at));
      if (unchecked_) crc = crc32c(crc, piece.data(), piece.size());  // the copy finds them in the cache
      f(at, piece);
      if (mapping_) mapping_->forget(piece);
    }
    if (unchecked_) check_bulk(kind, crc);
  }
  // Unmaps both. view().weights and view().constants are empty from then on.
  void release() noexcept;

 private:
  static constexpr size_t kPiece = size_t{1} << 19;
  File(std::string name, std::span<const std::byte> bytes, BulkCheck bulk);
  void check_bulk(SectionKind kind, uint32_t crc);

  std::string name_;
  std::unique_ptr<MappedFile> mapping_;
  std::vector<std::byte> weights_, constants_;  // when the program came from memory
  std::vector<std::byte> records_;
  View view_;
  bool unchecked_ = false;  // the checksums of WEIGHTS and CONSTANTS are left for their reader
};

}  // namespace atalla::runtime::loadable
