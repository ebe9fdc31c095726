// SPDX-License-Identifier: BSD-3-Clause
//
// The C ABI: copies, kernels and launches.

#include "sim/abi/api_internal.h"
#include "sim/abi/looks.h"
#include "sim/device/kernel_table.h"
#include "sim/device/launch.h"
#include "sim/memory/copy.h"
#include "sim/time/journal.h"

namespace atalla::sim::api {

namespace {

// body(Stream&, const atalla_copy_params&)
template <class F>
atalla_status with_copy(atalla_stream stream, const atalla_copy_params* params, F&& body) noexcept {
  return guarded([&]() -> atalla_status {
    Stream* s = registry.streams.find(number(stream));
    if (s == nullptr) return bad_handle("stream", number(stream));
    atalla_copy_params known;
    if (const atalla_status status = read_struct(params, "atalla_copy_params", &known)) return status;
    // The other device of a peer copy must stay open; the stream's lock holds its own.
    std::shared_lock peers(registry.mutex, std::defer_lock);
    if (copy_kind(known) == ATALLA_COPY_DEVICE_TO_DEVICE) peers.lock();
    return body(*s, known);
  });
}

}  // namespace

atalla_status copy(atalla_stream stream, const atalla_copy_params* params) {
  return with_copy(stream, params, [&](Stream& s, const atalla_copy_params& p) { return s.copy(number(stream), p); });
}

atalla_status execute_copy(atalla_stream stream, const atalla_copy_params* params) {
  return with_copy(stream, params,
                   [&](Stream& s, const atalla_copy_params& p) { return s.execute_copy(number(stream), p); });
}

atalla_status charge_copy(atalla_stream stream, const atalla_copy_params* params) {
  return guarded([&]() -> atalla_status {
    const std::shared_lock lock(registry.mutex);
    Stream* s = registry.streams.find(number(stream));
    if (s == nullptr) return bad_handle("stream", number(stream));
    atalla_copy_params known;
    if (const atalla_status status = read_struct(params, "atalla_copy_params", &known)) return status;
    return s->charge_copy(known);
  });
}

atalla_status kernel_count(uint32_t* count) {
  if (count == nullptr) return null_argument("count");
  return guarded([&] {
    *count = static_cast<uint32_t>(kernel_table().size());
    return ATALLA_OK;
  });
}

atalla_status kernel_lookup(const char* name, atalla_kernel* kernel) {
  if (name == nullptr || kernel == nullptr) return null_argument("name or kernel");
  return guarded([&]() -> atalla_status {
    const int64_t id = find_kernel(name);
    if (id < 0) return set_error(ATALLA_ERR_UNKNOWN_KERNEL, "there is no kernel \"%s\"", name);
    *kernel = static_cast<atalla_kernel>(id);
    return ATALLA_OK;
  });
}

atalla_status kernel_info(atalla_kernel kernel, atalla_kernel_info* info) {
  return guarded([&]() -> atalla_status {
    const KernelTable kernels = kernel_table();
    if (kernel >= kernels.size()) {
      return set_error(ATALLA_ERR_UNKNOWN_KERNEL, "there is no kernel %u; expected an id below %zu", kernel,
                       kernels.size());
    }
    const Kernel& known = kernels[kernel];
    const atalla_kernel_info value = {
        .struct_size = 0, .version = traits_of(kernel).version, .name = known.name, .dtypes = known.dtypes};
    return write_struct(value, "atalla_kernel_info", info);
  });
}

atalla_status charge_provider_set(atalla_charge_provider provider, void* context) {
  return guarded([&]() -> atalla_status {
    const std::shared_lock lock(registry.mutex);
    journal().settle(true);
    set_charge_provider(provider, context);
    registry.streams.for_each([](Stream& stream, uint64_t) { stream.forget_launches(); });
    return ATALLA_OK;
  });
}

atalla_status charges_waiting(uint64_t* bytes) {
  if (bytes == nullptr) return null_argument("bytes");
  *bytes = journal_bytes.load(std::memory_order_relaxed);
  return ATALLA_OK;
}

// The hot path: a lookup, one uncontended lock, and the work. Kernels do not throw, so there is nothing to guard.
atalla_status launch(atalla_stream stream, const atalla_launch_desc* desc, size_t desc_bytes) {
  return with_stream(stream, [&](Stream& s) { return s.launch(number(stream), desc, desc_bytes); });
}

atalla_status execute_launch(atalla_stream stream, const atalla_launch_desc* desc, size_t desc_bytes) {
  return with_stream(stream, [&](Stream& s) { return s.execute_launch(number(stream), desc, desc_bytes); });
}

atalla_status charge_launch(atalla_stream stream, const atalla_launch_desc* desc, size_t desc_bytes) {
  const std::shared_lock lock(registry.mutex);
  return with_stream(stream, [&](Stream& s) { return s.charge_launch(desc, desc_bytes); });
}

atalla_status launch_estimate(atalla_device device, const atalla_launch_desc* desc, size_t desc_bytes,
                              atalla_launch_record* record) {
  ask_about(device, desc, desc_bytes);
  return with_device(device, [&](Device& d) {
    if (record == nullptr) return null_argument("record");
    return estimate_launch(d, desc, desc_bytes, record, nullptr);
  });
}

atalla_status charge_create(atalla_device device, const atalla_launch_charge* given, uint32_t* charge) {
  return with_device(device, [&](Device& d) -> atalla_status {
    if (charge == nullptr) return null_argument("charge");
    atalla_launch_charge known;
    if (const atalla_status status = read_struct(given, "atalla_launch_charge", &known)) return status;
    return d.charges().add(known, charge);
  });
}

}  // namespace atalla::sim::api
