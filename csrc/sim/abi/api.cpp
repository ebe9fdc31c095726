// SPDX-License-Identifier: BSD-3-Clause
//
// The table of the C ABI and the one symbol that this library exports.
#include "sim/abi/api_internal.h"
#include "sim/abi/atalla_link.h"
#include "sim/host/thread_pool.h"

namespace atalla::sim {
namespace api {

atalla_status set_threads(uint32_t threads) {
  return guarded([&] { return set_pool_threads(threads); });
}

atalla_status get_threads(uint32_t* threads) {
  if (threads == nullptr) return null_argument("threads");
  return guarded([&] {
    *threads = pool_threads();
    return ATALLA_OK;
  });
}

}  // namespace api

namespace {

constexpr atalla_api kApi = {
    .struct_size = sizeof(atalla_api),
    .abi_major = ATALLA_ABI_MAJOR,
    .abi_minor = ATALLA_ABI_MINOR,
    .reserved = 0,
    .last_error = last_error,
    .status_name = status_name,
    .device_count = api::device_count,
    .device_open = api::device_open,
    .device_close = api::device_close,
    .device_properties = api::device_properties,
    .device_memory_fd = api::device_memory_fd,
    .device_host_view = api::device_host_view,
    .mem_alloc = api::mem_alloc,
    .mem_free = api::mem_free,
    .mem_info = api::mem_info,
    .stream_create = api::stream_create,
    .stream_destroy = api::stream_destroy,
    .stream_default = api::stream_default,
    .stream_query = api::stream_query,
    .stream_synchronize = api::stream_synchronize,
    .stream_wait_event = api::stream_wait_event,
    .event_create = api::event_create,
    .event_destroy = api::event_destroy,
    .event_record = api::event_record,
    .event_query = api::event_query,
    .event_synchronize = api::event_synchronize,
    .event_cycles = api::event_cycles,
    .device_synchronize = api::device_synchronize,
    .copy = api::copy,
    .kernel_count = api::kernel_count,
    .kernel_lookup = api::kernel_lookup,
    .kernel_info = api::kernel_info,
    .launch = api::launch,
    .launch_estimate = api::launch_estimate,
    .counters_read = api::counters_read,
    .counters_reset = api::counters_reset,
    .launch_records = api::launch_records,
    .scpad_alloc = api::scpad_alloc,
    .scpad_free = api::scpad_free,
    .set_threads = api::set_threads,
    .get_threads = api::get_threads,
    .chip_config = api::chip_config,
    .charge_launch = api::charge_launch,
    .charge_copy = api::charge_copy,
    .execute_launch = api::execute_launch,
    .execute_copy = api::execute_copy,
    .work_records = api::work_records,
    .mem_import = api::mem_import,
    .mem_release = api::mem_release,
    .stream_meet = api::stream_meet,
    .meeting_arrival = api::meeting_arrival,
    .meeting_tell = api::meeting_tell,
    .charge_create = api::charge_create,
    .charge_provider_set = api::charge_provider_set,
    .charges_waiting = api::charges_waiting,
};

}  // namespace
}  // namespace atalla::sim

extern "C" atalla_status atalla_get_api(uint32_t abi_major, const atalla_api** api) {
  using atalla::sim::set_error;
  if (api == nullptr) return set_error(ATALLA_ERR_ARGUMENT, "api is a null pointer");
  if (abi_major != ATALLA_ABI_MAJOR) {
    return set_error(ATALLA_ERR_VERSION, "the caller wants ABI version %u; this library speaks %u.%u", abi_major,
                     ATALLA_ABI_MAJOR, ATALLA_ABI_MINOR);
  }
  *api = &atalla::sim::kApi;
  return ATALLA_OK;
}
