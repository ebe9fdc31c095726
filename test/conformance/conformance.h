// SPDX-License-Identifier: BSD-3-Clause
//
// Checks of a device library through atalla.h alone: the results, the library under test, and its open devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "atalla.h"

namespace conformance {

// The table of the library under test; set before the groups run.
extern const atalla_api* api;

// Each call is one check and prints one line. They return whether it passed.
bool expect(bool ok, const std::string& what, const std::string& detail = "");
bool expect_status(atalla_status given, atalla_status expected, const std::string& what);
// A failing call: one of the two statuses, and an error text.
bool expect_refusal(atalla_status given, atalla_status expected, const std::string& what);
void skip(const std::string& what, const std::string& reason);
// 0 if at least one check ran and none failed. Prints the totals.
int report();

// "ATALLA_ERR_HANDLE (the text of the library)".
std::string shown(atalla_status status);

// True if the table of the library has this function. Functions of later minor versions may be absent.
#define CONFORMANCE_HAS(function)                                                                              \
  (::conformance::api->struct_size >= offsetof(atalla_api, function) + sizeof(::conformance::api->function) && \
   ::conformance::api->function != nullptr)

// Kernels of the library, by name.
bool has_kernel(const char* name, atalla_dtype dtype, atalla_kernel* kernel);

// An open device. A group that cannot open one ends the program, since nothing else can be checked.
class Session {
 public:
  explicit Session(int32_t ordinal = 0);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  atalla_addr alloc(uint64_t bytes) const;  // freed when the session ends
  atalla_stream new_stream() const;
  // Copies that wait for their end.
  atalla_status write(atalla_addr to, const void* from, uint64_t bytes) const;
  atalla_status read(void* to, atalla_addr from, uint64_t bytes) const;

  template <class T>
  atalla_addr upload(const std::vector<T>& values) const {
    const atalla_addr addr = alloc(values.size() * sizeof(T));
    write(addr, values.data(), values.size() * sizeof(T));
    return addr;
  }
  template <class T>
  std::vector<T> download(atalla_addr addr, size_t count) const {
    std::vector<T> values(count);
    read(values.data(), addr, count * sizeof(T));
    return values;
  }

  atalla_device device = nullptr;
  atalla_stream stream = nullptr;  // the default one
  atalla_device_properties properties{};

 private:
  int32_t ordinal_;
};

atalla_copy_params copy_params(atalla_copy_kind kind, uint64_t dst, uint64_t src, uint64_t bytes);
inline uint64_t host(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

atalla_launch_desc description(atalla_kernel kernel, atalla_dtype compute);
// Appends a dense operand of these sizes, or one with strides.
void add_operand(atalla_launch_desc* desc, atalla_addr addr, atalla_dtype dtype, const std::vector<int64_t>& sizes);
void add_operand(atalla_launch_desc* desc, atalla_addr addr, atalla_dtype dtype, const std::vector<int64_t>& sizes,
                 const std::vector<int64_t>& strides);
void add_immediate(atalla_launch_desc* desc, atalla_dtype dtype, const void* value, size_t bytes);
atalla_status launch(atalla_stream stream, const atalla_launch_desc& desc);
// fill of `count` F32 elements; its kernel must be there.
atalla_launch_desc fill_f32(atalla_kernel fill, atalla_addr addr, int64_t count, float value);

// The groups.
void check_table();
void check_devices();
void check_memory();
void check_copies();
void check_streams();
void check_faults();
void check_kernels();
void check_launches();
void check_telemetry();
void check_threads();

}  // namespace conformance
