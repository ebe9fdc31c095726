// SPDX-License-Identifier: BSD-3-Clause
#include "aten/device/sharing.h"

#include <Python.h>
#include <c10/core/StorageImpl.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <mutex>
#include <vector>

#include "aten/device/error.h"
#include "runtime/device/fork.h"
#include "runtime/device/runtime.h"

namespace atalla::aten {

namespace {

// The memory of a storage that was shared. When the storage goes, this stays until no other process has a reference.
struct Shared {
  c10::DataPtr memory;
  size_t bytes = 0;

  bool in_use() const {
    try {
      return runtime::is_exported(memory.device().index(), memory.get(), bytes);
    } catch (const std::exception&) {  // rather kept than freed under somebody's hands
      return true;
    }
  }
};

struct Limbo {
  std::mutex mutex;
  std::vector<std::unique_ptr<Shared>> waiting;
  std::atomic<size_t> count{0};
};
Limbo& limbo() {
  static Limbo* instance = new Limbo;
  return *instance;
}

void release_shared(void* context) {
  std::unique_ptr<Shared> shared(static_cast<Shared*>(context));
  if (runtime::in_forked_child() || !shared->in_use()) return;
  Limbo& l = limbo();
  std::lock_guard guard(l.mutex);
  l.waiting.push_back(std::move(shared));
  l.count.store(l.waiting.size());
}

struct Received {
  void* ptr;
  int fd;
  int ordinal;
};

// Waiting for the device must not keep the interpreter's lock: queued work may need it.
void release_received(void* context) {
  std::unique_ptr<Received> received(static_cast<Received*>(context));
  const auto release = [&] { runtime::release_memory(received->ordinal, received->ptr, received->fd); };
  if (Py_IsInitialized() && PyGILState_Check()) {
    pybind11::gil_scoped_release unlocked;
    release();
  } else {
    release();
  }
}

}  // namespace

runtime::ExportedMemory share_storage(const c10::Storage& storage) {
  TORCH_CHECK(storage.device_type() == c10::DeviceType::PrivateUse1, "Expected an atalla storage, got one on ",
              storage.device());
  collect_shared();
  const int ordinal = storage.device().index();
  void* ptr = storage.mutable_data();
  c10::StorageImpl& impl = *storage.unsafeGetStorageImpl();
  const runtime::ExportedMemory exported = driver_call([&] {
    runtime::Device::get(ordinal).drain();  // all streams: a queue pickles on a thread that knows no current stream
    return runtime::export_memory(ordinal, ptr, storage.nbytes());
  });
  const c10::DeleterFnPtr deleter = storage.data_ptr().get_deleter();
  if (deleter == &release_shared || deleter == &release_received) return exported;
  // A received storage needs no such guard: the reference that it holds is its own.
  auto* shared = new Shared;
  shared->bytes = storage.nbytes();
  shared->memory = impl.set_data_ptr(c10::DataPtr(ptr, shared, &release_shared, storage.device()));
  return exported;
}

c10::Storage receive_storage(int ordinal, int fd, uint64_t offset, size_t bytes) {
  void* ptr = driver_call([&] { return runtime::import_memory(ordinal, fd, offset, bytes); });
  const c10::Device device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(ordinal));
  c10::DataPtr data(ptr, new Received{ptr, fd, ordinal}, &release_received, device);
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes, std::move(data), nullptr, /*resizable=*/false);
}

size_t collect_shared() {
  Limbo& l = limbo();
  if (l.count.load() == 0 || runtime::in_forked_child()) return 0;
  std::vector<std::unique_ptr<Shared>> done;  // freed without the lock
  std::lock_guard guard(l.mutex);
  auto gone = std::partition(l.waiting.begin(), l.waiting.end(), [](const auto& shared) { return shared->in_use(); });
  std::move(gone, l.waiting.end(), std::back_inserter(done));
  l.waiting.erase(gone, l.waiting.end());
  l.count.store(l.waiting.size());
  return done.size();
}

}  // namespace atalla::aten
