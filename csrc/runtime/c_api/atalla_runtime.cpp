// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/c_api/atalla_runtime.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/c_api/c_interface.h"
#include "runtime/device/api.h"

using namespace atalla::runtime;

namespace {

void require(const void* pointer, const char* what) {
  if (pointer == nullptr) throw Error(ATALLA_ERR_ARGUMENT, std::string(what) + " must not be a null pointer");
}

// Hands a result to a caller whose struct may be older (shorter) than ours.
template <class T>
void give(T result, T* out, const char* what) {
  require(out, what);
  const uint32_t size = out->struct_size;
  if (size < sizeof(uint32_t)) {
    throw Error(ATALLA_ERR_ARGUMENT,
                std::string(what) + "->struct_size is " + std::to_string(size) + ", expected sizeof *" + what);
  }
  result.struct_size = size;
  std::memcpy(static_cast<void*>(out), &result, std::min<size_t>(size, sizeof result));
}

void* pointer(atalla_addr addr) { return reinterpret_cast<void*>(addr); }

}  // namespace

const char* atalla_rt_last_error(void) { return c_error(); }
const char* atalla_rt_status_name(atalla_status status) { return status_name(status); }

atalla_status atalla_rt_device_count(int32_t* count) {
  return c_call([&] {
    require(count, "count");
    check(api().device_count(count));
  });
}

atalla_status atalla_rt_open(int32_t ordinal, const atalla_rt_params* params, atalla_rt_device* device) {
  return c_call([&] {
    require(device, "device");
    atalla_rt_params given{};
    if (params != nullptr) {
      if (params->struct_size < sizeof(uint32_t)) {
        throw Error(ATALLA_ERR_ARGUMENT,
                    "params->struct_size is " + std::to_string(params->struct_size) + ", expected sizeof *params");
      }
      std::memcpy(static_cast<void*>(&given), params, std::min<size_t>(params->struct_size, sizeof given));
    }
    Device& opened = Device::get(ordinal);
    if (params != nullptr) opened.allocator().set_limit(given.memory_limit);
    *device = handle_of_device(opened);
  });
}

atalla_status atalla_rt_properties(atalla_rt_device device, atalla_device_properties* properties) {
  return c_call([&] { give(device_of_handle(device).properties(), properties, "properties"); });
}

atalla_status atalla_rt_alloc(atalla_rt_device device, uint64_t bytes, atalla_addr* addr) {
  return c_call([&] {
    require(addr, "addr");
    Device& target = device_of_handle(device);
    *addr = reinterpret_cast<atalla_addr>(target.allocator().allocate(bytes, target.default_stream()));
  });
}

atalla_status atalla_rt_free(atalla_rt_device device, atalla_addr addr) {
  return c_call([&] {
    CachingAllocator& allocator = device_of_handle(device).allocator();
    if (addr == 0) return;
    (void)allocator.allocation_bytes(pointer(addr));  // throws for what is not an allocation
    allocator.free(pointer(addr));
  });
}

atalla_status atalla_rt_empty_cache(atalla_rt_device device) {
  return c_call([&] { device_of_handle(device).allocator().empty_cache(); });
}

atalla_status atalla_rt_memory_info(atalla_rt_device device, atalla_rt_memory* memory) {
  return c_call([&] {
    Device& target = device_of_handle(device);
    const Stats stats = target.allocator().stats();
    atalla_rt_memory result{};
    result.allocated = static_cast<uint64_t>(stats.allocated_bytes[0].current);
    result.allocated_peak = static_cast<uint64_t>(stats.allocated_bytes[0].peak);
    result.cached = static_cast<uint64_t>(stats.reserved_bytes[0].current);
    result.cached_peak = static_cast<uint64_t>(stats.reserved_bytes[0].peak);
    target.memory_info(&result.device_free, &result.device_total);
    give(result, memory, "memory");
  });
}

atalla_status atalla_rt_copy_to_device(atalla_rt_device device, atalla_addr dst, const void* src, uint64_t bytes) {
  return c_call([&] {
    if (bytes != 0) require(src, "src");
    device_of_handle(device).default_stream().memcpy_h2d(pointer(dst), src, bytes);
  });
}

atalla_status atalla_rt_copy_from_device(atalla_rt_device device, void* dst, atalla_addr src, uint64_t bytes) {
  return c_call([&] {
    if (bytes != 0) require(dst, "dst");
    device_of_handle(device).default_stream().memcpy_d2h(dst, pointer(src), bytes);
  });
}

atalla_status atalla_rt_copy_on_device(atalla_rt_device device, atalla_addr dst, atalla_addr src, uint64_t bytes) {
  return c_call([&] { device_of_handle(device).default_stream().memcpy_d2d(pointer(dst), pointer(src), bytes); });
}

atalla_status atalla_rt_kernel(const char* name, atalla_kernel* id) {
  return c_call([&] {
    require(id, "kernel");
    *id = kernel(name);
  });
}

atalla_status atalla_rt_launch(atalla_rt_device device, const char* name, const atalla_launch_desc* desc) {
  return c_call([&] {
    require(desc, "desc");
    Stream& stream = device_of_handle(device).default_stream();
    if (name == nullptr) return stream.launch(*desc);
    if (desc->n_operands > ATALLA_MAX_OPERANDS) {
      throw Error(ATALLA_ERR_ARGUMENT, "desc->n_operands is " + std::to_string(desc->n_operands) +
                                           ", expected at most " + std::to_string(ATALLA_MAX_OPERANDS));
    }
    atalla_launch_desc named;
    std::memcpy(static_cast<void*>(&named), desc, atalla_launch_desc_bytes(desc->n_operands));
    named.kernel = kernel(name);
    stream.launch(named);
  });
}

atalla_status atalla_rt_synchronize(atalla_rt_device device) {
  return c_call([&] { device_of_handle(device).synchronize(); });
}

atalla_status atalla_rt_counters(atalla_rt_device device, atalla_counters* counters) {
  return c_call([&] { give(device_of_handle(device).counters(), counters, "counters"); });
}

atalla_status atalla_rt_reset_counters(atalla_rt_device device) {
  return c_call([&] { device_of_handle(device).reset_counters(); });
}
