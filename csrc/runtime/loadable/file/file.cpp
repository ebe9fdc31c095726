// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/loadable/file/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "runtime/device/error.h"
#include "runtime/loadable/file/validate.h"

namespace atalla::runtime::loadable {
namespace {

[[noreturn]] void throw_system(const std::string& path, const char* what, int code) {
  throw Error(ATALLA_ERR_SYSTEM,
              "cannot " + std::string(what) + " '" + path + "': " + std::generic_category().message(code));
}

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw_system(path, "open", errno);
  struct stat info{};
  int failed = ::fstat(fd, &info) != 0 ? errno : S_ISDIR(info.st_mode) ? EISDIR : !S_ISREG(info.st_mode) ? EINVAL : 0;
  bytes_ = failed == 0 ? static_cast<size_t>(info.st_size) : 0;
  if (failed == 0 && bytes_ > 0) {
    void* data = ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) failed = errno;
    else data_ = static_cast<const std::byte*>(data);
  }
  ::close(fd);
  if (failed != 0) throw_system(path, "read", failed);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), bytes_);
}

void MappedFile::forget(std::span<const std::byte> part) const noexcept {
  constexpr uintptr_t kPage = 4096;
  uintptr_t begin = (reinterpret_cast<uintptr_t>(part.data()) + kPage - 1) / kPage * kPage;
  uintptr_t end = (reinterpret_cast<uintptr_t>(part.data()) + part.size()) / kPage * kPage;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

File::File(std::string name, std::span<const std::byte> bytes, BulkCheck bulk) : name_(std::move(name)) {
  Problems problems;
  validate(bytes, view_, problems, bulk);
  if (!problems.empty()) throw Error(ATALLA_ERR_FORMAT, name_ + ": " + problems.text());
  size_t total = view_.strings.size();
  view_.for_each_table([&](SectionKind, auto& table) { total += table.bytes(); });
  records_.resize(total);
  size_t at = 0;
  auto keep = [&](const std::byte* data, size_t size) {
    std::byte* copy = records_.data() + at;
    if (size > 0) std::memcpy(copy, data, size);
    at += size;
    return copy;
  };
  view_.strings = {keep(view_.strings.data(), view_.strings.size()), view_.strings.size()};
  view_.for_each_table([&](SectionKind, auto& table) { table.rebase(keep(table.data(), table.bytes())); });
}

void File::check_bulk(SectionKind kind, uint32_t crc) {
  Problems problems;
  for (uint32_t i = 0; i < view_.sections.size(); ++i)
    if (view_.sections[i].kind == kind) check_crc(i, view_.sections[i], crc, problems);
  if (!problems.empty()) throw Error(ATALLA_ERR_FORMAT, name_ + ": " + problems.text());
}

std::unique_ptr<File> File::open(const std::string& path, BulkCheck bulk) {
  auto mapping = std::make_unique<MappedFile>(path);
  std::unique_ptr<File> file(new File(path, mapping->bytes(), bulk));
  if (bulk == BulkCheck::kNow) {
    mapping->forget(file->view_.weights);
    mapping->forget(file->view_.constants);
  }
  file->unchecked_ = bulk == BulkCheck::kLater;
  file->mapping_ = std::move(mapping);
  return file;
}

std::unique_ptr<File> File::from_memory(std::span<const std::byte> bytes) {
  std::unique_ptr<File> file(new File("loadable in memory", bytes, BulkCheck::kNow));
  file->weights_.assign(file->view_.weights.begin(), file->view_.weights.end());
  file->view_.weights = file->weights_;
  file->constants_.assign(file->view_.constants.begin(), file->view_.constants.end());
  file->view_.constants = file->constants_;
  return file;
}

void File::release() noexcept {
  view_.weights = view_.constants = {};
  mapping_.reset();
  weights_ = constants_ = {};
}

}  // namespace atalla::runtime::loadable
