// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/memory/sharing.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device/api.h"
#include "runtime/device/device.h"
#include "runtime/device/error.h"
#include "runtime/device/fork.h"

namespace atalla::runtime {
namespace {

// DRAM of another process, mapped once for each device that takes ranges of it.
struct Import {
  int ordinal = 0;
  int fd = -1;  // a description of its own, without locks
  DramRange file;
  uintptr_t base = 0;
  uint64_t bytes = 0;
  size_t ranges = 0;

  bool contains(const void* ptr) const { return reinterpret_cast<uintptr_t>(ptr) - base < bytes; }
};

struct Imports {
  std::mutex mutex;
  std::vector<Import> all;
  std::atomic<size_t> count{0};
};
Imports& imports() {
  static Imports* instance = new Imports;  // tensors may outlive static destruction
  return *instance;
}

[[noreturn]] void system_error(const std::string& what) {
  throw Error(ATALLA_ERR_SYSTEM, what + ": " + strerror(errno));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// Another description of the same file: its locks are its own.
int reopen(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const int opened = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) system_error("cannot open the DRAM of a device a second time");
  return opened;
}

struct flock lock_of(short type, uint64_t offset, size_t bytes) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(offset);
  lock.l_len = static_cast<off_t>(bytes);
  return lock;
}

int memory_fd(const Device& device) {
  int fd = -1;
  check(api().device_memory_fd(device.handle(), &fd));
  return fd;
}

// The whole file of a descriptor.
DramRange file_of(int fd) {
  struct stat file{};
  if (fstat(fd, &file) != 0) system_error("descriptor " + std::to_string(fd) + " of shared device memory");
  return {file.st_dev, file.st_ino, 0, static_cast<uint64_t>(file.st_size)};
}

bool same_file(const DramRange& a, const DramRange& b) {
  return a.file_device == b.file_device && a.file_inode == b.file_inode;
}

uint64_t address(const void* ptr) { return reinterpret_cast<uintptr_t>(ptr); }

// The descriptor of the DRAM that holds the range, and the offset in it. Under the imports' mutex.
int locate(const Device& device, const void* ptr, size_t bytes, uint64_t* offset) {
  const auto& properties = device.properties();
  if (device.contains(ptr) && bytes <= properties.dram_bytes - (address(ptr) - properties.dram_base)) {
    *offset = address(ptr) - properties.dram_base;
    return memory_fd(device);
  }
  for (const Import& import : imports().all) {
    if (import.ordinal != device.ordinal() || !import.contains(ptr)) continue;
    *offset = address(ptr) - import.base;
    if (bytes <= import.bytes - *offset) return import.fd;
  }
  throw Error(ATALLA_ERR_FAULT_ADDRESS, std::to_string(bytes) + " bytes at address " + std::to_string(address(ptr)) +
                                            " do not lie in the DRAM of device " + std::to_string(device.ordinal()));
}

void check_range(uint64_t offset, size_t bytes, uint64_t size) {
  if (offset <= size && bytes <= size - offset) return;
  throw Error(ATALLA_ERR_ARGUMENT, std::to_string(bytes) + " shared bytes from offset " + std::to_string(offset) +
                                       " leave the sender's DRAM of " + std::to_string(size) + " bytes");
}

Import& find_or_map(Device& device, int fd, const DramRange& file) {
  for (Import& import : imports().all) {
    if (import.ordinal == device.ordinal() && same_file(import.file, file)) return import;
  }
  if (api().struct_size < offsetof(atalla_api, mem_release) + sizeof(api().mem_release))
    throw Error(ATALLA_ERR_UNSUPPORTED, "this device library cannot import the DRAM of another process");
  Import import;
  import.ordinal = device.ordinal();
  import.file = file;
  Descriptor own(reopen(fd));
  atalla_addr base = 0;
  check(api().mem_import(device.handle(), fd, 0, &base));
  import.fd = own.release();
  import.base = static_cast<uintptr_t>(base);
  import.bytes = file.bytes;
  imports().all.push_back(import);
  imports().count.store(imports().all.size(), std::memory_order_release);
  return imports().all.back();
}

// One range of an import less; the last one takes the import with it. Not for DRAM of the device's own.
void drop_range(Device& device, const void* ptr) {
  auto& all = imports().all;
  for (auto import = all.begin(); import != all.end(); ++import) {
    if (import->ordinal != device.ordinal() || !import->contains(ptr)) continue;
    if (--import->ranges > 0) return;
    const Import last = *import;
    all.erase(import);
    imports().count.store(all.size(), std::memory_order_release);
    close(last.fd);
    check(api().mem_release(device.handle(), last.base));
    return;
  }
}

}  // namespace

ExportedMemory export_memory(int ordinal, const void* ptr, size_t bytes) {
  Device& device = Device::get(ordinal);
  std::lock_guard guard(imports().mutex);
  uint64_t offset = 0;
  Descriptor reference(reopen(locate(device, ptr, bytes, &offset)));
  struct flock lock = lock_of(F_RDLCK, offset, bytes);
  if (fcntl(reference.get(), F_OFD_SETLK, &lock) != 0) system_error("cannot lock shared device memory");
  ExportedMemory exported;
  exported.range = file_of(reference.get());
  exported.range.offset = offset;
  exported.range.bytes = bytes;
  exported.fd = reference.release();
  return exported;
}

bool is_exported(int ordinal, const void* ptr, size_t bytes) {
  Device& device = Device::get(ordinal);
  std::lock_guard guard(imports().mutex);
  uint64_t offset = 0;
  const int fd = locate(device, ptr, bytes, &offset);
  struct flock lock = lock_of(F_WRLCK, offset, bytes);
  if (fcntl(fd, F_OFD_GETLK, &lock) != 0) system_error("cannot query the locks of shared device memory");
  return lock.l_type != F_UNLCK;
}

void* import_memory(int ordinal, int fd, uint64_t offset, size_t bytes) {
  Descriptor reference(fd);
  Device& device = Device::get(ordinal);
  const DramRange file = file_of(fd);
  check_range(offset, bytes, file.bytes);
  std::lock_guard guard(imports().mutex);
  if (same_file(file_of(memory_fd(device)), file)) {
    reference.release();
    return reinterpret_cast<void*>(device.properties().dram_base + offset);
  }
  Import& import = find_or_map(device, fd, file);
  ++import.ranges;
  reference.release();
  return reinterpret_cast<void*>(import.base + offset);
}

void release_memory(int ordinal, void* ptr, int fd) noexcept {
  if (in_forked_child()) {  // the mapping and the mutex are as the fork left them
    close(fd);
    return;
  }
  try {
    Device& device = Device::get(ordinal);
    device.drain();
    std::lock_guard guard(imports().mutex);
    drop_range(device, ptr);
  } catch (const std::exception&) {  // a device that cannot be waited for keeps its mapping
  }
  close(fd);
}

std::optional<int> importer_of(const void* ptr) noexcept {
  if (imports().count.load(std::memory_order_acquire) == 0 || in_forked_child()) return std::nullopt;
  std::lock_guard guard(imports().mutex);
  for (const Import& import : imports().all) {
    if (import.contains(ptr)) return import.ordinal;
  }
  return std::nullopt;
}

}  // namespace atalla::runtime
