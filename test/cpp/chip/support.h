// SPDX-License-Identifier: BSD-3-Clause
//
// What the tests of the chip share. They use the C ABI only, so they hold for any device library behind it.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "check.h"
#include "sim/abi/atalla.h"
#include "sim/abi/atalla_isa.h"
#include "sim/abi/atalla_schedule.h"

namespace chip_test {

inline const atalla_api& api() {
  static const atalla_api* const table = [] {
    const atalla_api* found = nullptr;
    if (atalla_get_api(ATALLA_ABI_MAJOR, &found) != ATALLA_OK) std::abort();
    return found;
  }();
  return *table;
}

inline const atalla_schedule_api& schedule() {
  static const atalla_schedule_api* const table = [] {
    const atalla_schedule_api* found = nullptr;
    if (atalla_get_schedule_api(ATALLA_SCHEDULE_ABI_MAJOR, &found) != ATALLA_OK) std::abort();
    return found;
  }();
  return *table;
}

inline const atalla_isa_api& isa() {
  static const atalla_isa_api* const table = [] {
    const atalla_isa_api* found = nullptr;
    if (atalla_get_isa_api(ATALLA_ISA_ABI_MAJOR, &found) != ATALLA_OK) std::abort();
    return found;
  }();
  return *table;
}

inline atalla_isa_params isa_params() {
  atalla_isa_params params{};
  params.struct_size = sizeof params;
  return params;
}

// The call must give this status, and an error text with `part` in it.
inline bool fails(atalla_status status, atalla_status expected, std::string_view part, const char* file, int line) {
  const std::string text = api().last_error();
  return check::note(status == expected && text.find(part) != std::string::npos, file, line,
                     std::string(api().status_name(status)) + " \"" + text + "\"; expected " +
                         api().status_name(expected) + " with \"" + std::string(part) + "\"");
}
#define CHECK_FAILS(call, status, part) ::chip_test::fails((call), (status), (part), __FILE__, __LINE__)
#define CHECK_OK(call) CHECK_EQ((call), ATALLA_OK)

struct Options {
  int32_t ordinal = 0;
  uint64_t dram_bytes = uint64_t{64} << 20;
  const char* config = nullptr;
};

// An open device, closed at the end.
class OpenDevice {
 public:
  explicit OpenDevice(const Options& options = {}) {
    atalla_device_params params{};
    params.struct_size = sizeof params;
    params.ordinal = options.ordinal;
    params.dram_bytes = options.dram_bytes;
    params.chip_config = options.config;
    if (api().device_open(&params, &handle) != ATALLA_OK || api().stream_default(handle, &stream) != ATALLA_OK) {
      std::fprintf(stderr, "cannot open device %d: %s\n", options.ordinal, api().last_error());
      std::exit(1);
    }
  }
  ~OpenDevice() {
    if (handle != nullptr) api().device_close(handle);
  }
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;

  atalla_addr alloc(uint64_t bytes, uint64_t align = 0) const {
    atalla_addr addr = 0;
    CHECK_OK(api().mem_alloc(handle, bytes, align, &addr));
    return addr;
  }
  template <class T>
  T* view(atalla_addr addr, uint64_t count = 1) const {
    void* host = nullptr;
    CHECK_OK(api().device_host_view(handle, addr, count * sizeof(T), &host));
    return static_cast<T*>(host);
  }
  atalla_device_properties properties() const {
    atalla_device_properties value{};
    value.struct_size = sizeof value;
    CHECK_OK(api().device_properties(handle, &value));
    return value;
  }
  atalla_counters counters() const {
    atalla_counters value{};
    value.struct_size = sizeof value;
    CHECK_OK(api().counters_read(handle, &value));
    return value;
  }
  // Of a stream, or of the default one.
  uint64_t clock(atalla_stream of = nullptr) const {
    atalla_event event = nullptr;
    uint64_t cycles = 0;
    CHECK_OK(api().event_create(handle, &event));
    CHECK_OK(api().event_record(event, of));
    CHECK_OK(api().event_cycles(event, &cycles));
    CHECK_OK(api().event_destroy(event));
    return cycles;
  }

  atalla_launch_record estimate(const atalla_launch_desc& desc) const {
    atalla_launch_record record{};
    CHECK_OK(api().launch_estimate(handle, &desc, sizeof desc, &record));
    return record;
  }
  // The kept records of launches and copies from a sequence number on.
  std::vector<atalla_work_record> records(uint64_t from = 0) const {
    std::vector<atalla_work_record> found(1 << 15);
    size_t count = found.size();
    CHECK_OK(api().work_records(handle, from, found.data(), sizeof found[0], &count));
    found.resize(count);
    return found;
  }

  atalla_device handle = nullptr;
  atalla_stream stream = nullptr;
};

inline atalla_kernel_info info_of(atalla_kernel id) {
  atalla_kernel_info info{};
  info.struct_size = sizeof info;
  CHECK_OK(api().kernel_info(id, &info));
  return info;
}

inline atalla_kernel kernel(const char* name) {
  atalla_kernel id = UINT32_MAX;
  CHECK_OK(api().kernel_lookup(name, &id));
  return id;
}

inline atalla_operand tensor(atalla_addr addr, std::initializer_list<int64_t> sizes, atalla_dtype dtype = ATALLA_F32) {
  atalla_operand operand{};
  operand.addr = addr;
  operand.dtype = dtype;
  operand.ndim = static_cast<uint8_t>(sizes.size());
  int64_t stride = 1;
  int d = operand.ndim;
  for (const int64_t* size = sizes.end(); size != sizes.begin();) {
    operand.sizes[--d] = *--size;
    operand.strides[d] = stride;
    stride *= *size;
  }
  return operand;
}

inline atalla_operand immediate(float value) {
  atalla_operand operand{};
  operand.dtype = ATALLA_F32;
  operand.immediate = 1;
  std::memcpy(operand.sizes, &value, sizeof value);
  return operand;
}

// A launch of operands in the order of the kernel's contract, whose factor, if it has one, is 1.
inline atalla_launch_desc describe(const char* name, std::initializer_list<atalla_operand> operands,
                                   atalla_dtype dtype = ATALLA_F32, uint8_t outputs = 1) {
  atalla_launch_desc desc{};
  desc.kernel = kernel(name);
  desc.n_outputs = outputs;
  desc.compute_dtype = dtype;
  for (const atalla_operand& operand : operands) desc.operands[desc.n_operands++] = operand;
  desc.fparams[0] = 1;
  return desc;
}

// out[...] = value, a kernel of one output and an immediate.
inline atalla_launch_desc fill(const atalla_operand& out, float value, uint64_t tag = 0) {
  static const atalla_kernel id = kernel("fill");
  atalla_launch_desc desc{};
  desc.kernel = id;
  desc.n_outputs = 1;
  desc.n_operands = 2;
  desc.compute_dtype = ATALLA_F32;
  desc.tag = tag;
  desc.operands[0] = out;
  desc.operands[1] = immediate(value);
  return desc;
}

inline atalla_launch_work work_of(const atalla_launch_desc& desc) {
  atalla_launch_work work{};
  work.struct_size = sizeof work;
  CHECK_OK(schedule().launch_work(&desc, sizeof desc, &work));
  return work;
}

inline atalla_status launch(atalla_stream stream, const atalla_launch_desc& desc) {
  return api().launch(stream, &desc, atalla_launch_desc_bytes(desc.n_operands));
}

inline atalla_copy_params copy_params(int kind, uint64_t dst, uint64_t src, uint64_t row_bytes, uint64_t rows = 1) {
  atalla_copy_params params{};
  params.struct_size = sizeof params;
  params.kind = static_cast<atalla_copy_kind>(kind);
  params.dst = dst;
  params.src = src;
  params.row_bytes = row_bytes;
  params.rows = rows;
  return params;
}

inline atalla_status copy(atalla_stream stream, atalla_copy_kind kind, uint64_t dst, uint64_t src, uint64_t row_bytes,
                          uint64_t rows = 1, uint64_t dst_pitch = 0, uint64_t src_pitch = 0) {
  atalla_copy_params params = copy_params(kind, dst, src, row_bytes, rows);
  params.dst_pitch = dst_pitch;
  params.src_pitch = src_pitch;
  return api().copy(stream, &params);
}

inline uint64_t address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// Runs `body` in a child process; returns its wait status.
template <class F>
int in_child(F&& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

// The built-in configuration's text, edited and written to a file that lives as long as the object.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) {
    char name[] = "/tmp/atalla-chip-XXXXXX";
    const int fd = mkstemp(name);
    if (fd < 0) std::abort();
    close(fd);
    path_ = name;
    std::ofstream(path_) << text;
  }
  ~ConfigFile() { unlink(path_.c_str()); }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;
  const char* path() const { return path_.c_str(); }

 private:
  std::string path_;
};

inline std::string builtin_config() {
  const OpenDevice device;
  const char* text = nullptr;
  CHECK_OK(api().chip_config(device.handle, &text));
  return text;
}

// `text` with the first `from` replaced, which must be there.
inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  if (!CHECK(at != std::string::npos)) return text;
  return text.replace(at, from.size(), to);
}

// The same chip with four cores, each with scratchpads of its own; on a mesh, 2 x 2.
inline std::string with_cores(const std::string& text, const char* topology) {
  std::string four = replaced(text, "count = { value = 1, unit = \"cores\"", "count = { value = 4, unit = \"cores\"");
  four = replaced(four, "columns = { value = 1, unit = \"routers\"", "columns = { value = 2, unit = \"routers\"");
  four = replaced(four, "scratchpads = { value = \"shared\"", "scratchpads = { value = \"own\"");
  return replaced(four, "topology = { value = \"bus\"", std::string("topology = { value = \"") + topology + "\"");
}

}  // namespace chip_test
