// SPDX-License-Identifier: BSD-3-Clause
//
// A second implementation of the device ABI, as small as it can be: plain host memory, work done at once, a clock that
// advances by 100 cycles a launch. It shows that the driver needs nothing of the simulator but atalla.h, and it can be
// slow, faulty or of a wrong version where a test wants that:
//   kernels      fill, pointwise.add, gemm (F32, dense), test.sleep (iparams[0] microseconds), test.fault, test.block
//                (sets the std::atomic<int> at iparams[0], then waits until the one at iparams[1] is set), test.append
//                (writes iparams[2] to the int array at iparams[1], at the index that the atomic at iparams[0] counts)
//   FAKE_THREADS                                      threads of the engine (default 4)
//   FAKE_ABI_MAJOR, FAKE_TABLE_BYTES, FAKE_REFUSE=1   a library that the driver must not accept
//   FAKE_ABI_MINOR=0                                  a library without the functions that came later
//   FAKE_DRAM_BYTES                                   capacity (default 256 MiB)
//   FAKE_HOST_WINDOW                                  largest range that device_host_view gives (default: all)
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <string>

#include "sim/abi/atalla.h"

struct atalla_device_s {
  int ordinal = 0;
  char* dram = nullptr;
  uint64_t bytes = 0;
  std::mutex mutex;
  std::map<uint64_t, uint64_t> used;  // address, bytes
  atalla_counters counters{};
  uint64_t clock = 0;
};
struct atalla_stream_s {
  atalla_device_s* device;
};
struct atalla_event_s {
  uint64_t cycles = 0;
};

namespace {

constexpr int kDevices = 2;
constexpr uint64_t kCyclesPerLaunch = 100;
const char* const kKernels[] = {"fill",       "pointwise.add", "gemm",       "test.sleep",
                                "test.fault", "test.block",    "test.append"};

thread_local std::string error_text;
atalla_device_s devices[kDevices];
atalla_stream_s default_streams[kDevices] = {{&devices[0]}, {&devices[1]}};

uint64_t setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 0) : otherwise;
}

atalla_status fail(atalla_status status, std::string text) {
  error_text = std::move(text);
  return status;
}

atalla_status device_open(const atalla_device_params* params, atalla_device* out) {
  if (params->ordinal < 0 || params->ordinal >= kDevices) return fail(ATALLA_ERR_ARGUMENT, "no such fake device");
  atalla_device_s& device = devices[params->ordinal];
  device.ordinal = params->ordinal;
  device.bytes = setting("FAKE_DRAM_BYTES", uint64_t{256} << 20);
  void* memory =
      mmap(nullptr, device.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return fail(ATALLA_ERR_SYSTEM, "mmap failed");
  device.dram = static_cast<char*>(memory);
  *out = &device;
  return ATALLA_OK;
}

atalla_status device_properties(atalla_device device, atalla_device_properties* out) {
  atalla_device_properties result{};
  result.struct_size = out->struct_size;
  result.ordinal = device->ordinal;
  std::strcpy(result.name, "Fake device");
  result.dram_bytes = device->bytes;
  result.dram_base = reinterpret_cast<uint64_t>(device->dram);
  result.dram_alignment = 64;
  result.clock_hz = 1e6;
  std::memcpy(static_cast<void*>(out), &result, std::min<size_t>(out->struct_size, sizeof result));
  return ATALLA_OK;
}

bool inside(const atalla_device_s& device, uint64_t addr, uint64_t bytes) {
  const uint64_t offset = addr - reinterpret_cast<uint64_t>(device.dram);
  return offset <= device.bytes && bytes <= device.bytes - offset;
}

atalla_status device_host_view(atalla_device device, atalla_addr addr, uint64_t bytes, void** host) {
  if (bytes > setting("FAKE_HOST_WINDOW", ~uint64_t{0})) return fail(ATALLA_ERR_UNSUPPORTED, "the window is smaller");
  if (!inside(*device, addr, bytes)) return fail(ATALLA_ERR_FAULT_ADDRESS, "outside of DRAM");
  *host = reinterpret_cast<void*>(addr);
  return ATALLA_OK;
}

atalla_status mem_alloc(atalla_device device, uint64_t bytes, uint64_t align, atalla_addr* out) {
  std::lock_guard lock(device->mutex);
  align = std::max<uint64_t>(align, 64);
  uint64_t at = reinterpret_cast<uint64_t>(device->dram);
  const uint64_t end = at + device->bytes;
  for (auto it = device->used.begin();; ++it) {
    at = (at + align - 1) / align * align;
    const uint64_t limit = it == device->used.end() ? end : it->first;
    if (at <= limit && bytes <= limit - at) {
      device->used[at] = bytes;
      *out = at;
      return ATALLA_OK;
    }
    if (it == device->used.end()) return fail(ATALLA_ERR_OUT_OF_MEMORY, "the fake DRAM is full");
    at = it->first + it->second;
  }
}

atalla_status mem_free(atalla_device device, atalla_addr addr) {
  std::lock_guard lock(device->mutex);
  return device->used.erase(addr) == 1 ? ATALLA_OK : fail(ATALLA_ERR_ARGUMENT, "free of what was not allocated");
}

atalla_status mem_info(atalla_device device, uint64_t* free_bytes, uint64_t* total_bytes) {
  std::lock_guard lock(device->mutex);
  *free_bytes = *total_bytes = device->bytes;
  for (const auto& [addr, bytes] : device->used) *free_bytes -= bytes;
  return ATALLA_OK;
}

atalla_status stream_create(atalla_device device, int32_t, atalla_stream* out) {
  *out = new atalla_stream_s{device};
  return ATALLA_OK;
}
atalla_status stream_destroy(atalla_stream stream) {
  delete stream;
  return ATALLA_OK;
}
atalla_status stream_default(atalla_device device, atalla_stream* out) {
  *out = &default_streams[device->ordinal];
  return ATALLA_OK;
}
atalla_status event_create(atalla_device, atalla_event* out) {
  *out = new atalla_event_s;
  return ATALLA_OK;
}
atalla_status event_destroy(atalla_event event) {
  delete event;
  return ATALLA_OK;
}
atalla_status event_record(atalla_event event, atalla_stream stream) {
  std::lock_guard lock(stream->device->mutex);
  event->cycles = stream->device->clock;
  return ATALLA_OK;
}
atalla_status event_cycles(atalla_event event, uint64_t* cycles) {
  *cycles = event->cycles;
  return ATALLA_OK;
}

atalla_status execute_copy(atalla_stream, const atalla_copy_params* params) {
  const uint64_t rows = std::max<uint64_t>(params->rows, 1);
  const uint64_t dst_pitch = params->dst_pitch != 0 ? params->dst_pitch : params->row_bytes;
  const uint64_t src_pitch = params->src_pitch != 0 ? params->src_pitch : params->row_bytes;
  const bool to_device = params->kind != ATALLA_COPY_DEVICE_TO_HOST;
  const bool dst_inside = std::any_of(std::begin(devices), std::end(devices), [&](const atalla_device_s& device) {
    return inside(device, params->dst, (rows - 1) * dst_pitch + params->row_bytes);
  });
  if (to_device && !dst_inside) return fail(ATALLA_ERR_FAULT_ADDRESS, "a copy to outside of DRAM");
  for (uint64_t row = 0; row < rows; ++row) {
    std::memmove(reinterpret_cast<char*>(params->dst) + row * dst_pitch,
                 reinterpret_cast<const char*>(params->src) + row * src_pitch, params->row_bytes);
  }
  return ATALLA_OK;
}

atalla_status charge_copy(atalla_stream stream, const atalla_copy_params*) {
  std::lock_guard lock(stream->device->mutex);
  ++stream->device->counters.copies;
  return ATALLA_OK;
}

atalla_status copy(atalla_stream stream, const atalla_copy_params* params) {
  const atalla_status status = execute_copy(stream, params);
  return status == ATALLA_OK ? charge_copy(stream, params) : status;
}

atalla_status kernel_lookup(const char* name, atalla_kernel* out) {
  const auto found = std::find(std::begin(kKernels), std::end(kKernels), std::string_view(name));
  if (found == std::end(kKernels)) return fail(ATALLA_ERR_UNKNOWN_KERNEL, "no kernel '" + std::string(name) + "'");
  *out = static_cast<atalla_kernel>(found - std::begin(kKernels));
  return ATALLA_OK;
}

float* floats(const atalla_operand& operand) { return reinterpret_cast<float*>(operand.addr); }

int64_t elements(const atalla_operand& operand) {
  int64_t count = 1;
  for (int d = 0; d < operand.ndim; ++d) count *= operand.sizes[d];
  return count;
}

atalla_status run(const atalla_launch_desc& desc) {
  const atalla_operand* op = desc.operands;
  const std::string_view name = kKernels[desc.kernel];
  if (name == "fill") {
    float value;
    std::memcpy(&value, op[1].sizes, sizeof value);
    std::fill_n(floats(op[0]), elements(op[0]), value);
  } else if (name == "pointwise.add") {  // out = a + alpha * b
    for (int64_t i = 0; i < elements(op[0]); ++i)
      floats(op[0])[i] = floats(op[1])[i] + static_cast<float>(desc.fparams[0]) * floats(op[2])[i];
  } else if (name == "gemm") {
    const int64_t rows = op[0].sizes[1], columns = op[0].sizes[2], depth = op[1].sizes[2];
    for (int64_t m = 0; m < rows; ++m) {
      for (int64_t n = 0; n < columns; ++n) {
        float sum = 0;
        for (int64_t k = 0; k < depth; ++k) sum += floats(op[1])[m * depth + k] * floats(op[2])[k * columns + n];
        floats(op[0])[m * columns + n] = static_cast<float>(desc.fparams[0]) * sum;
      }
    }
  } else if (name == "test.sleep") {
    usleep(static_cast<useconds_t>(desc.iparams[0]));
  } else if (name == "test.block") {
    reinterpret_cast<std::atomic<int>*>(desc.iparams[0])->store(1);
    while (reinterpret_cast<std::atomic<int>*>(desc.iparams[1])->load() == 0) sched_yield();
  } else if (name == "test.append") {
    const int at = reinterpret_cast<std::atomic<int>*>(desc.iparams[0])->fetch_add(1);
    reinterpret_cast<int*>(desc.iparams[1])[at] = static_cast<int>(desc.iparams[2]);
  } else {
    return fail(ATALLA_ERR_FAULT_KERNEL, "the kernel faulted, as asked (tag " + std::to_string(desc.tag) + ")");
  }
  return ATALLA_OK;
}

atalla_status check_launch(const atalla_launch_desc* desc, size_t bytes) {
  if (bytes != atalla_launch_desc_bytes(desc->n_operands)) return fail(ATALLA_ERR_ARGUMENT, "wrong descriptor size");
  if (desc->kernel >= std::size(kKernels)) return fail(ATALLA_ERR_UNKNOWN_KERNEL, "no such kernel id");
  return ATALLA_OK;
}

atalla_status execute_launch(atalla_stream, const atalla_launch_desc* desc, size_t bytes) {
  const atalla_status status = check_launch(desc, bytes);
  return status == ATALLA_OK ? run(*desc) : status;
}

atalla_status charge_launch(atalla_stream stream, const atalla_launch_desc* desc, size_t bytes) {
  const atalla_status status = check_launch(desc, bytes);
  if (status != ATALLA_OK) return status;
  std::lock_guard lock(stream->device->mutex);
  ++stream->device->counters.launches;
  stream->device->counters.cycles += kCyclesPerLaunch;
  stream->device->clock += kCyclesPerLaunch;
  return ATALLA_OK;
}

atalla_status launch(atalla_stream stream, const atalla_launch_desc* desc, size_t bytes) {
  const atalla_status status = execute_launch(stream, desc, bytes);
  return status == ATALLA_OK ? charge_launch(stream, desc, bytes) : status;
}

// Waiting counts as much work, the rest by its bytes.
atalla_status launch_estimate(atalla_device, const atalla_launch_desc* desc, size_t, atalla_launch_record* record) {
  const std::string_view name = kKernels[desc->kernel];
  *record = {};
  record->vector_cycles = name == "test.sleep" || name == "test.block" ? uint64_t{1} << 32 : 0;
  for (int i = 0; i < desc->n_operands; ++i) {
    if (desc->operands[i].addr != 0) record->dram_bytes_read += static_cast<uint64_t>(elements(desc->operands[i])) * 4;
  }
  return ATALLA_OK;
}

atalla_status counters_read(atalla_device device, atalla_counters* out) {
  std::lock_guard lock(device->mutex);
  const uint32_t size = out->struct_size;
  std::memcpy(static_cast<void*>(out), &device->counters, std::min<size_t>(size, sizeof device->counters));
  out->struct_size = size;
  return ATALLA_OK;
}

atalla_status counters_reset(atalla_device device) {
  std::lock_guard lock(device->mutex);
  device->counters = {};
  return ATALLA_OK;
}

template <class... Args>
atalla_status nothing_to_do(Args...) {
  return ATALLA_OK;
}
template <class... Args>
atalla_status not_here(Args...) {
  return fail(ATALLA_ERR_UNSUPPORTED, "the fake device does not do this");
}

atalla_api make_api() {
  atalla_api api{};
  const uint64_t minor = setting("FAKE_ABI_MINOR", ATALLA_ABI_MINOR);
  const size_t bytes = minor == 0 ? offsetof(atalla_api, charge_launch) : sizeof api;
  api.struct_size = static_cast<uint32_t>(setting("FAKE_TABLE_BYTES", bytes));
  api.abi_major = static_cast<uint32_t>(setting("FAKE_ABI_MAJOR", ATALLA_ABI_MAJOR));
  api.abi_minor = static_cast<uint32_t>(minor);
  api.last_error = [] { return error_text.c_str(); };
  api.status_name = [](atalla_status) { return "(fake)"; };
  api.device_count = [](int32_t* count) -> atalla_status { return *count = kDevices, ATALLA_OK; };
  api.device_open = device_open;
  api.device_close = nothing_to_do;
  api.device_properties = device_properties;
  api.device_memory_fd = not_here;
  api.device_host_view = device_host_view;
  api.mem_alloc = mem_alloc;
  api.mem_free = mem_free;
  api.mem_info = mem_info;
  api.stream_create = stream_create;
  api.stream_destroy = stream_destroy;
  api.stream_default = stream_default;
  api.stream_query = nothing_to_do;
  api.stream_synchronize = nothing_to_do;
  api.stream_wait_event = nothing_to_do;
  api.event_create = event_create;
  api.event_destroy = event_destroy;
  api.event_record = event_record;
  api.event_query = nothing_to_do;
  api.event_synchronize = nothing_to_do;
  api.event_cycles = event_cycles;
  api.device_synchronize = nothing_to_do;
  api.copy = copy;
  api.kernel_count = [](uint32_t* count) -> atalla_status { return *count = std::size(kKernels), ATALLA_OK; };
  api.kernel_lookup = kernel_lookup;
  api.kernel_info = not_here;
  api.launch = launch;
  api.launch_estimate = launch_estimate;
  api.counters_read = counters_read;
  api.counters_reset = counters_reset;
  api.launch_records = not_here;
  api.scpad_alloc = not_here;
  api.scpad_free = not_here;
  api.set_threads = nothing_to_do;
  api.get_threads = [](uint32_t* threads) -> atalla_status {
    *threads = static_cast<uint32_t>(setting("FAKE_THREADS", 4));
    return ATALLA_OK;
  };
  api.chip_config = not_here;
  if (minor == 0) {  // a driver that calls them all the same must crash
    std::memset(reinterpret_cast<char*>(&api) + bytes, 0xEE, sizeof api - bytes);
    return api;
  }
  api.charge_launch = charge_launch;
  api.charge_copy = charge_copy;
  api.execute_launch = execute_launch;
  api.execute_copy = execute_copy;
  api.work_records = not_here;
  api.mem_import = not_here;
  api.mem_release = not_here;
  return api;
}

}  // namespace

extern "C" atalla_status atalla_get_api(uint32_t abi_major, const atalla_api** api) {
  if (setting("FAKE_REFUSE", 0) != 0 || abi_major != ATALLA_ABI_MAJOR)
    return fail(ATALLA_ERR_VERSION, "the fake device refuses");
  static atalla_api table;
  table = make_api();
  *api = &table;
  return ATALLA_OK;
}
