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

constexpr atalla_api kApi = {.struct_size = sizeof(atalla_api),
                             .abi_major = ATALLA_ABI_MAJOR,
                             .abi_minor = ATALLA_ABI_MINOR,
                             .reserved = 0,
                             .last_error = last_error,
                             .status_name = status_name,
#define ATALLA_ENTRY(name) .name = api::name,
                             ATALLA_FORALL_API(ATALLA_ENTRY)
#undef ATALLA_ENTRY
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
