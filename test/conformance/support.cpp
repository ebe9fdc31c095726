// SPDX-License-Identifier: BSD-3-Clause
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "conformance.h"

namespace conformance {

const atalla_api* api = nullptr;

namespace {
std::mutex output;
int passed = 0, failed = 0, skipped = 0;
}  // namespace

bool expect(bool ok, const std::string& what, const std::string& detail) {
  const std::lock_guard<std::mutex> lock(output);
  ++(ok ? passed : failed);
  std::printf("%s %s%s%s\n", ok ? "ok  " : "FAIL", what.c_str(), ok || detail.empty() ? "" : ": ",
              ok ? "" : detail.c_str());
  return ok;
}

std::string shown(atalla_status status) {
  const char* name = api->status_name(status);
  std::string text = name != nullptr ? name : "a status without a name";
  const char* reason = status != ATALLA_OK ? api->last_error() : nullptr;
  return reason != nullptr && *reason != '\0' ? text + " (" + reason + ")" : text;
}

bool expect_status(atalla_status given, atalla_status expected, const std::string& what) {
  return expect(given == expected, what,
                given == expected ? "" : "got " + shown(given) + ", expected " + api->status_name(expected));
}

bool expect_refusal(atalla_status given, atalla_status expected, const std::string& what) {
  if (given != expected) return expect_status(given, expected, what);
  const char* text = api->last_error();
  return expect(text != nullptr && *text != '\0', what, "the status is right, but last_error gives no text");
}

void skip(const std::string& what, const std::string& reason) {
  const std::lock_guard<std::mutex> lock(output);
  ++skipped;
  std::printf("skip %s: %s\n", what.c_str(), reason.c_str());
}

int report() {
  std::printf("passed %d, failed %d, skipped %d (not supported)\n", passed, failed, skipped);
  return passed > 0 && failed == 0 ? 0 : 1;
}

bool has_kernel(const char* name, atalla_dtype dtype, atalla_kernel* kernel) {
  if (api->kernel_lookup(name, kernel) != ATALLA_OK) return false;
  atalla_kernel_info info{};
  info.struct_size = sizeof info;
  return api->kernel_info(*kernel, &info) == ATALLA_OK && (info.dtypes >> dtype & 1) != 0;
}

Session::Session(int32_t ordinal) : ordinal_(ordinal) {
  atalla_device_params params{};
  params.struct_size = sizeof params;
  params.ordinal = ordinal;
  properties.struct_size = sizeof properties;
  atalla_status status = api->device_open(&params, &device);
  if (status == ATALLA_OK) status = api->device_properties(device, &properties);
  if (status == ATALLA_OK) status = api->stream_default(device, &stream);
  if (status == ATALLA_OK) return;
  expect(false, "device " + std::to_string(ordinal) + " opens", shown(status));
  std::exit(report());
}

Session::~Session() {
  expect_status(api->device_close(device), ATALLA_OK, "device_close of device " + std::to_string(ordinal_));
}

atalla_addr Session::alloc(uint64_t bytes) const {
  atalla_addr addr = 0;
  const atalla_status status = api->mem_alloc(device, bytes, 0, &addr);
  if (status == ATALLA_OK) return addr;
  expect(false, "mem_alloc of " + std::to_string(bytes) + " bytes", shown(status));
  std::exit(report());
}

atalla_stream Session::new_stream() const {
  atalla_stream made = nullptr;
  const atalla_status status = api->stream_create(device, 0, &made);
  if (status == ATALLA_OK) return made;
  expect(false, "stream_create", shown(status));
  std::exit(report());
}

atalla_copy_params copy_params(atalla_copy_kind kind, uint64_t dst, uint64_t src, uint64_t bytes) {
  atalla_copy_params params{};
  params.struct_size = sizeof params;
  params.kind = kind;
  params.dst = dst;
  params.src = src;
  params.row_bytes = bytes;
  return params;
}

atalla_status Session::write(atalla_addr to, const void* from, uint64_t bytes) const {
  const atalla_copy_params params = copy_params(ATALLA_COPY_HOST_TO_DEVICE, to, host(from), bytes);
  const atalla_status status = api->copy(stream, &params);
  return status == ATALLA_OK ? api->stream_synchronize(stream) : status;
}

atalla_status Session::read(void* to, atalla_addr from, uint64_t bytes) const {
  const atalla_copy_params params = copy_params(ATALLA_COPY_DEVICE_TO_HOST, host(to), from, bytes);
  const atalla_status status = api->copy(stream, &params);
  return status == ATALLA_OK ? api->stream_synchronize(stream) : status;
}

atalla_launch_desc description(atalla_kernel kernel, atalla_dtype compute) {
  atalla_launch_desc desc;
  std::memset(static_cast<void*>(&desc), 0, sizeof desc);
  desc.kernel = kernel;
  desc.n_outputs = 1;
  desc.compute_dtype = compute;
  return desc;
}

void add_operand(atalla_launch_desc* desc, atalla_addr addr, atalla_dtype dtype, const std::vector<int64_t>& sizes,
                 const std::vector<int64_t>& strides) {
  atalla_operand& operand = desc->operands[desc->n_operands++];
  operand.addr = addr;
  operand.dtype = dtype;
  operand.ndim = static_cast<uint8_t>(sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) operand.sizes[d] = sizes[d], operand.strides[d] = strides[d];
}

void add_operand(atalla_launch_desc* desc, atalla_addr addr, atalla_dtype dtype, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  add_operand(desc, addr, dtype, sizes, strides);
}

void add_immediate(atalla_launch_desc* desc, atalla_dtype dtype, const void* value, size_t bytes) {
  atalla_operand& operand = desc->operands[desc->n_operands++];
  operand.dtype = dtype;
  operand.immediate = 1;
  std::memcpy(operand.sizes, value, bytes);
}

atalla_status launch(atalla_stream stream, const atalla_launch_desc& desc) {
  return api->launch(stream, &desc, atalla_launch_desc_bytes(desc.n_operands));
}

atalla_launch_desc fill_f32(atalla_kernel fill, atalla_addr addr, int64_t count, float value) {
  atalla_launch_desc desc = description(fill, ATALLA_F32);
  add_operand(&desc, addr, ATALLA_F32, {count});
  add_immediate(&desc, ATALLA_F32, &value, sizeof value);
  return desc;
}

}  // namespace conformance
