// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/device/api.h"

#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/device/error.h"

namespace atalla::runtime {
namespace {

constexpr const char* kLibraryVariable = "ATALLA_DEVICE_LIBRARY";
constexpr const char* kDefaultLibrary = "libatalla_sim.so";

// The default library stands beside the file that holds this function.
std::string default_library_path() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&default_library_path), &info) == 0 || info.dli_fname == nullptr)
    return kDefaultLibrary;
  const std::string self = info.dli_fname;
  const size_t slash = self.rfind('/');
  return slash == std::string::npos ? kDefaultLibrary : self.substr(0, slash + 1) + kDefaultLibrary;
}

std::string version_text(uint32_t major, uint32_t minor) { return std::to_string(major) + "." + std::to_string(minor); }

// The functions of version 1.0; later ones are looked for before they are called.
constexpr uint32_t kNeededBytes = offsetof(atalla_api, charge_launch);

void check_version(const std::string& path, const atalla_api& table) {
  if (table.abi_major == ATALLA_ABI_MAJOR && table.struct_size >= kNeededBytes) return;
  throw Error(ATALLA_ERR_VERSION,
              "device library '" + path + "' speaks ABI version " + version_text(table.abi_major, table.abi_minor) +
                  " (a table of " + std::to_string(table.struct_size) + " bytes), the driver needs " +
                  version_text(ATALLA_ABI_MAJOR, 0) + " (" + std::to_string(kNeededBytes) + " bytes)");
}

const atalla_schedule_api* schedule_table = nullptr;  // set by load()
const atalla_isa_api* isa_table = nullptr;            // likewise

struct ChargeProvider {
  atalla_charge_provider function = nullptr;
  void* context = nullptr;
};
std::mutex provider_mutex;
ChargeProvider wanted_provider;  // guarded, as the next one
const atalla_api* loaded_table = nullptr;

// The caller holds the mutex.
void give_provider() {
  if (loaded_table != nullptr && loaded_table->abi_minor >= 6 && loaded_table->charge_provider_set != nullptr)
    loaded_table->charge_provider_set(wanted_provider.function, wanted_provider.context);
}

const atalla_api& load() {
  const char* variable = std::getenv(kLibraryVariable);
  const bool chosen = variable != nullptr && *variable != '\0';
  const std::string path = chosen ? variable : default_library_path();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw Error(ATALLA_ERR_SYSTEM, "cannot load device library '" + path + "' (" +
                                       (chosen ? "from " + std::string(kLibraryVariable)
                                               : "the default; " + std::string(kLibraryVariable) + " names another") +
                                       "): " + (reason != nullptr ? reason : "unknown reason"));
  }
  try {
    auto get_api = reinterpret_cast<decltype(&atalla_get_api)>(dlsym(library, "atalla_get_api"));
    if (get_api == nullptr)
      throw Error(ATALLA_ERR_VERSION, "'" + path + "' is not a device library: it does not export atalla_get_api");
    const atalla_api* table = nullptr;
    const atalla_status status = get_api(ATALLA_ABI_MAJOR, &table);
    if (status != ATALLA_OK || table == nullptr) {
      throw Error(status != ATALLA_OK ? status : ATALLA_ERR_INTERNAL,
                  "device library '" + path + "' does not speak ABI version " + std::to_string(ATALLA_ABI_MAJOR));
    }
    check_version(path, *table);
    auto get_schedule = reinterpret_cast<decltype(&atalla_get_schedule_api)>(dlsym(library, "atalla_get_schedule_api"));
    if (get_schedule != nullptr) get_schedule(ATALLA_SCHEDULE_ABI_MAJOR, &schedule_table);
    auto get_isa = reinterpret_cast<decltype(&atalla_get_isa_api)>(dlsym(library, "atalla_get_isa_api"));
    if (get_isa != nullptr) get_isa(ATALLA_ISA_ABI_MAJOR, &isa_table);
    const std::lock_guard lock(provider_mutex);
    loaded_table = table;
    if (wanted_provider.function != nullptr) give_provider();
    return *table;  // the library stays loaded until the process ends
  } catch (...) {
    dlclose(library);
    throw;
  }
}

}  // namespace

const atalla_api& api() {
  static const atalla_api& table = load();  // an exception leaves it unset: the next call tries again
  return table;
}

void set_charge_provider(atalla_charge_provider provider, void* context) {
  const std::lock_guard lock(provider_mutex);
  wanted_provider = {provider, context};
  give_provider();
}

const atalla_schedule_api* schedule_api() {
  api();
  return schedule_table;
}

const atalla_isa_api* isa_api() {
  api();
  return isa_table;
}

bool charges_at_submission() noexcept {
  static const bool both = [] {
    const atalla_api& table = api();
    constexpr uint32_t kBytes = offsetof(atalla_api, execute_copy) + sizeof(table.execute_copy);
    return table.abi_minor >= 1 && table.struct_size >= kBytes && table.charge_launch != nullptr &&
           table.charge_copy != nullptr && table.execute_launch != nullptr && table.execute_copy != nullptr;
  }();
  return both;
}

int device_count() noexcept {
  static std::atomic<int> known{-1};
  int count = known.load(std::memory_order_relaxed);
  if (count >= 0) return count;
  try {
    int32_t devices = 0;
    check(api().device_count(&devices));
    known.store(devices, std::memory_order_relaxed);
    return devices;
  } catch (...) {
    return 0;  // whoever opens a device learns the reason
  }
}

bool has_kernel(const char* name) {
  atalla_kernel id = 0;
  const atalla_status status = api().kernel_lookup(name, &id);
  if (status != ATALLA_ERR_UNKNOWN_KERNEL) check(status);
  return status == ATALLA_OK;
}

atalla_kernel kernel(const char* name) {
  if (name == nullptr) throw Error(ATALLA_ERR_ARGUMENT, "a kernel name is expected, not a null pointer");
  atalla_kernel id = 0;
  check(api().kernel_lookup(name, &id));
  return id;
}

uint64_t kernel_dtypes(atalla_kernel id) {
  static const std::vector<uint64_t> known = [] {
    uint32_t count = 0;
    check(api().kernel_count(&count));
    std::vector<uint64_t> found(count, ~uint64_t{0});
    for (uint32_t k = 0; k < count; ++k) {
      atalla_kernel_info info{};
      info.struct_size = sizeof info;
      if (api().kernel_info(k, &info) == ATALLA_OK) found[k] = info.dtypes;
    }
    return found;
  }();
  return id < known.size() ? known[id] : 0;
}

std::string kernel_name(atalla_kernel id) {
  if (id == ATALLA_NO_KERNEL) return "";
  atalla_kernel_info info{};
  info.struct_size = sizeof info;
  return api().kernel_info(id, &info) == ATALLA_OK ? info.name : "kernel " + std::to_string(id);
}

}  // namespace atalla::runtime
