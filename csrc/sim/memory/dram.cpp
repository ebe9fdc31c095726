// SPDX-License-Identifier: BSD-3-Clause
#include "sim/memory/dram.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "sim/abi/error.h"

namespace atalla::sim {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 46;  // half of a 47-bit user address space, for the two views

uint64_t page_size() {
  static const auto size = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace

atalla_status Dram::open(uint64_t bytes, int32_t ordinal) {
  if (bytes == 0 || bytes > kMaxBytes) {
    return set_error(ATALLA_ERR_ARGUMENT, "DRAM capacity is %" PRIu64 " bytes; expected 1 to %" PRIu64, bytes,
                     kMaxBytes);
  }
  const uint64_t size = (bytes + page_size() - 1) & ~(page_size() - 1);
  char name[32];
  snprintf(name, sizeof name, "atalla-dram-%d", static_cast<int>(ordinal));
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) return set_error(ATALLA_ERR_SYSTEM, "memfd_create for device DRAM: %s", strerror(errno));
  if (ftruncate(fd, static_cast<off_t>(size)) != 0) {
    const int error = errno;
    close(fd);
    return set_error(ATALLA_ERR_SYSTEM, "sizing device DRAM to %" PRIu64 " bytes: %s", size, strerror(error));
  }
  if (const atalla_status status = map(fd, size)) {
    close(fd);
    return status;
  }
  fd_ = fd;
  return ATALLA_OK;
}

atalla_status Dram::attach(int fd, uint64_t bytes) {
  struct stat file{};
  if (fstat(fd, &file) != 0) {
    return set_error(ATALLA_ERR_SYSTEM, "descriptor %d of another process's DRAM: %s", fd, strerror(errno));
  }
  const auto size = static_cast<uint64_t>(file.st_size);
  if (bytes > size || size == 0) {
    return set_error(ATALLA_ERR_ARGUMENT, "an import of %" PRIu64 " bytes of a file that has %" PRIu64, bytes, size);
  }
  return map(fd, bytes == 0 ? size : (bytes + page_size() - 1) & ~(page_size() - 1));
}

atalla_status Dram::map(int fd, uint64_t size) {
  void* device = mmap(nullptr, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  void* engine = device == MAP_FAILED ? MAP_FAILED
                                      : mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (engine == MAP_FAILED) {
    const int error = errno;
    if (device != MAP_FAILED) munmap(device, size);
    return set_error(ATALLA_ERR_SYSTEM, "mapping %" PRIu64 " bytes of device DRAM: %s", size, strerror(error));
  }
  // Core dumps of a crashed host program need not hold gigabytes of sparse DRAM. Advice only: failures do not matter.
  madvise(device, size, MADV_DONTDUMP);
  madvise(engine, size, MADV_DONTDUMP);
  madvise(engine, size, MADV_HUGEPAGE);
  base_ = reinterpret_cast<uintptr_t>(device);
  engine_ = static_cast<uint8_t*>(engine);
  size_ = size;
  return ATALLA_OK;
}

void Dram::unmap() {
  if (engine_ == nullptr) return;
  munmap(reinterpret_cast<void*>(base_), size_);
  munmap(engine_, size_);
  engine_ = nullptr;
}

Dram::~Dram() {
  unmap();
  if (fd_ >= 0) close(fd_);
}

bool Dram::write_fresh(void* to, const void* from, uint64_t bytes) const {
  if (fd_ < 0) return false;
  // What lies before the first whole page shares its page with others.
  const uint64_t offset = static_cast<uint64_t>(static_cast<uint8_t*>(to) - engine_), end = offset + bytes;
  uint64_t at = (offset + page_size() - 1) & ~(page_size() - 1);
  if (at >= end) return false;
  const off_t data = lseek(fd_, static_cast<off_t>(at), SEEK_DATA);
  if (data >= 0 ? static_cast<uint64_t>(data) < end : errno != ENXIO) return false;
  memcpy(to, from, at - offset);
  while (at < end) {
    const auto* next = static_cast<const uint8_t*>(from) + (at - offset);
    const ssize_t written = pwrite(fd_, next, end - at, static_cast<off_t>(at));
    if (written <= 0) return false;  // EFAULT: the caller's copy will fault where the program can see it
    at += static_cast<uint64_t>(written);
  }
  return true;
}

void Dram::discard(atalla_addr addr, uint64_t bytes) {
  const uint64_t offset = addr - base_;
  const uint64_t begin = (offset + page_size() - 1) & ~(page_size() - 1);
  const uint64_t end = (offset + bytes) & ~(page_size() - 1);
  if (begin >= end) return;
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
            static_cast<off_t>(end - begin));
}

}  // namespace atalla::sim
