// SPDX-License-Identifier: BSD-3-Clause
//
// A second device behind atalla.h (ABI 1.0): host memory, work that runs at once under one lock, four kernels.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>

#include "atalla.h"

namespace {
using Status = atalla_status;
constexpr Status kOk = ATALLA_OK;
constexpr uint64_t kAlign = 64, kDefaultBytes = uint64_t{1} << 30, kMostBytes = uint64_t{1} << 40;
struct Device {
  uint64_t bytes, base;  // one mapping is the device view and the engine view
  uint64_t default_stream, clock;
  std::map<uint64_t, uint64_t> blocks;  // address, bytes
};
struct Stream {
  Device* device;
  Status fault = kOk;
  std::string text = "";
};
using Event = std::optional<uint64_t>;  // the cycle at which it was recorded

// Objects by their handle: a number that is used once, so that an old or invented handle is found to be none.
template <class T>
std::map<uint64_t, T> live;
uint64_t last_handle = 0;
std::mutex lock;
thread_local std::string error_text;
Status fail(Status status, const char* text) { return error_text = text, status; }
Status bad(const char* text) { return fail(ATALLA_ERR_ARGUMENT, text); }
Status no_handle() { return fail(ATALLA_ERR_HANDLE, "the handle is null, closed, or of another kind"); }
Status no_kernel() { return fail(ATALLA_ERR_UNKNOWN_KERNEL, "there is no kernel of that name or id"); }
Status outside() { return fail(ATALLA_ERR_FAULT_ADDRESS, "an operand or an end of a copy is not in DRAM"); }
Status put(auto* out, auto value) { return *out = (std::remove_reference_t<decltype(*out)>)value, kOk; }
uint64_t make(auto object) { return live<decltype(object)>.emplace(++last_handle, std::move(object)), last_handle; }
template <class T>
T* find(void* handle) {
  const auto at = live<T>.find(reinterpret_cast<uintptr_t>(handle));
  return at != live<T>.end() ? &at->second : nullptr;
}
// A struct of the caller, which may have another size than here.
bool read(const auto* given, auto* value) {
  const bool sized = given != nullptr && given->struct_size >= 4;
  if (sized) std::memcpy(static_cast<void*>(value), given, std::min<size_t>(given->struct_size, sizeof *value));
  return sized;
}
template <class T>
Status write(T value, T* out) {
  if (out == nullptr || out->struct_size < 4) return bad("no struct, or struct_size below 4");
  std::memcpy(&value.struct_size, &out->struct_size, sizeof(uint32_t));
  return std::memcpy(static_cast<void*>(out), &value, std::min<size_t>(out->struct_size, sizeof value)), kOk;
}
// Entry<f>::call locks, and calls f(the object of the handle, arguments...). With `ends`, the object ends if f
// succeeds.
template <auto body, bool ends = false>
struct Entry;
template <class T, class... Args, Status (*body)(T&, Args...), bool ends>
struct Entry<body, ends> {
  template <class Handle>
  static Status call(Handle handle, Args... args) {
    const std::lock_guard<std::mutex> guard(lock);
    T* object = find<T>(handle);
    const Status status = object != nullptr ? body(*object, args...) : no_handle();
    if (ends && status == kOk) live<T>.erase(reinterpret_cast<uintptr_t>(handle));
    return status;
  }
};
Status missing(auto...) { return fail(ATALLA_ERR_UNSUPPORTED, "this is not supported"); }
Status device_open(const atalla_device_params* given, atalla_device* out) {
  const std::lock_guard<std::mutex> guard(lock);
  atalla_device_params p{};
  if (!read(given, &p) || p.ordinal != 0) return bad("no parameters, struct_size below 4, or an ordinal that is not 0");
  if (!live<Device>.empty() || p.dram_bytes > kMostBytes) return bad("open already, or more than 2^40 bytes of DRAM");
  const uint64_t bytes = p.dram_bytes != 0 ? p.dram_bytes : kDefaultBytes;
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return fail(ATALLA_ERR_SYSTEM, "mmap failed");
  put(out, make(Device{bytes, reinterpret_cast<uintptr_t>(base), 0, 0, {}}));
  Device* device = find<Device>(*out);
  return device->default_stream = make(Stream{device}), kOk;
}
Status device_close(Device& d) {
  munmap(reinterpret_cast<void*>(d.base), d.bytes);
  return live<Stream>.clear(), live<Event>.clear(), kOk;
}
Status device_properties(Device& d, atalla_device_properties* out) {
  return write({0, 0, "Second device", d.bytes, d.base, kAlign, 0, 0, 0, 0, 0, 0, 1e9, 1}, out);
}
// A range of DRAM; null if it is not in there.
char* view(const Device& d, uint64_t addr, uint64_t bytes) {
  const uint64_t offset = addr - d.base;  // wraps below the base
  return offset <= d.bytes && bytes <= d.bytes - offset ? reinterpret_cast<char*>(addr) : nullptr;
}
Status device_host_view(Device& d, atalla_addr addr, uint64_t bytes, void** host) {
  char* at = view(d, addr, bytes);
  return at != nullptr ? put(host, at) : outside();
}
Status mem_alloc(Device& d, uint64_t bytes, uint64_t align, atalla_addr* out) {
  if (bytes == 0 || (align & (align - 1)) != 0) return bad("0 bytes, or an alignment that is no power of two");
  align = std::max(align, kAlign);
  uint64_t at = d.base;
  for (auto next = d.blocks.begin();; ++next) {  // the first gap that is large enough
    const uint64_t end = next != d.blocks.end() ? next->first : d.base + d.bytes;
    at = (at + align - 1) & ~(align - 1);
    if (at <= end && bytes <= end - at) return d.blocks[at] = bytes, put(out, at);
    if (next == d.blocks.end()) return fail(ATALLA_ERR_OUT_OF_MEMORY, "no gap in DRAM is large enough");
    at = next->first + next->second;
  }
}
Status mem_free(Device& d, atalla_addr at) { return d.blocks.erase(at) == 1 ? kOk : bad("not the start of a block"); }
Status mem_info(Device& d, uint64_t* free_bytes, uint64_t* total_bytes) {
  *free_bytes = *total_bytes = d.bytes;
  for (const auto& [addr, bytes] : d.blocks) *free_bytes -= bytes;
  return kOk;
}
Status stream_create(Device& d, int32_t, atalla_stream* out) { return put(out, make(Stream{&d})); }
Status stream_default(Device& d, atalla_stream* out) { return put(out, d.default_stream); }
Status stream_end(Stream& s) {
  return &s != &live<Stream>[s.device->default_stream] ? kOk : bad("the default stream cannot be destroyed");
}
Status stream_query(Stream& s) { return s.fault == kOk ? kOk : fail(s.fault, s.text.c_str()); }
Status stream_synchronize(Stream& s) {
  const Status status = stream_query(s);
  return s.fault = kOk, status;
}
Status device_synchronize(Device&) {
  Status first = kOk;
  for (auto& [handle, s] : live<Stream>)
    if (s.fault != kOk) first = stream_synchronize(s);
  return first;
}
Status event_create(Device&, atalla_event* out) { return put(out, make(Event{})); }
Status event_query(Event&) { return kOk; }
Status event_cycles(Event& e, uint64_t* out) {
  return e.has_value() ? put(out, *e) : bad("the event was never recorded");
}
Status stream_wait_event(Stream&, atalla_event event) { return find<Event>(event) != nullptr ? kOk : no_handle(); }
Status event_record(Event& e, atalla_stream stream) {
  const Stream* s = find<Stream>(stream);
  return s != nullptr ? (e = s->device->clock, kOk) : no_handle();
}
// Runs work in the order of a stream. A fault stops the stream until it is synchronized.
Status submit(Stream& s, auto work) {
  if (s.fault != kOk) return stream_query(s);
  const Status status = work();
  if (status >= ATALLA_ERR_FAULT_ADDRESS) s.fault = status, s.text = error_text;
  s.device->clock += status == kOk;
  return status;
}
Status run_copy(const Device& d, const atalla_copy_params& p) {
  const uint64_t rows = std::max<uint64_t>(p.rows, 1), width = p.row_bytes;
  const uint64_t to = p.dst_pitch != 0 ? p.dst_pitch : width, from = p.src_pitch != 0 ? p.src_pitch : width;
  if (p.kind < ATALLA_COPY_HOST_TO_DEVICE || p.kind > ATALLA_COPY_DEVICE_TO_DEVICE) return bad("unknown kind of copy");
  if (rows > 1 && (to < width || from < width)) return bad("a pitch is below the bytes of a row");
  if (width == 0) return kOk;
  const auto locate = [&](bool on_device, uint64_t addr, uint64_t pitch) {
    if (rows > kMostBytes || pitch > kMostBytes / rows || width > kMostBytes) return static_cast<char*>(nullptr);
    return on_device ? view(d, addr, (rows - 1) * pitch + width) : reinterpret_cast<char*>(addr);
  };
  char* dst = locate(p.kind != ATALLA_COPY_DEVICE_TO_HOST, p.dst, to);
  const char* src = locate(p.kind != ATALLA_COPY_HOST_TO_DEVICE, p.src, from);
  if (dst == nullptr || src == nullptr) return outside();
  for (uint64_t r = 0; r < rows; ++r) std::memmove(dst + r * to, src + r * from, width);
  return kOk;
}
Status copy(Stream& s, const atalla_copy_params* given) {
  atalla_copy_params p{};
  return read(given, &p) ? submit(s, [&] { return run_copy(*s.device, p); }) : bad("no parameters, or no struct_size");
}
// f(a value of the dtype's C++ type); false if the device does not have the dtype.
bool visit(atalla_dtype dtype, auto f) {
  if (dtype == ATALLA_BOOL) return f(bool{}), true;
  if (dtype == ATALLA_I64) return f(int64_t{}), true;
  if (dtype == ATALLA_F32) return f(float{}), true;
  return dtype == ATALLA_F64 ? (f(double{}), true) : false;
}
constexpr uint64_t kNumbers = 1 << ATALLA_I64 | 1 << ATALLA_F32 | 1 << ATALLA_F64, kAll = kNumbers | 1 << ATALLA_BOOL;
enum { kCopy, kFill, kAdd, kGemm, kKernels };
enum { kAlpha, kBeta, kActivation };  // places of launch parameters, as docs/reference/kernels.md lists them
const char* const names[] = {"copy", "fill", "pointwise.add", "gemm"};
uint64_t dtypes_of(atalla_kernel kernel) { return kernel <= kFill ? kAll : kNumbers; }
// The operand's element at these indices, converted to T.
template <class T>
T load(const atalla_operand& o, const int64_t* index) {
  const int64_t offset = std::inner_product(index, index + o.ndim, o.strides, int64_t{0});
  const auto* data = o.immediate != 0 ? reinterpret_cast<const char*>(o.sizes) : reinterpret_cast<const char*>(o.addr);
  T value{};
  visit(o.dtype, [&](auto stored) {
    std::memcpy(&stored, data + offset * static_cast<int64_t>(sizeof stored), sizeof stored);
    value = static_cast<T>(stored);
  });
  return value;
}
// An operand must lie in DRAM, and have a dtype of the device.
Status check(const Device& d, const atalla_operand& o, bool output) {
  int64_t width = 0, low = 0, high = 0;
  if (!visit(o.dtype, [&](auto value) { width = sizeof value; })) return bad("the operand's dtype is not here");
  if (o.ndim > ATALLA_MAX_DIMS || (o.immediate != 0 && (output || o.ndim != 0))) return bad("an operand is malformed");
  for (int k = 0; k < o.ndim; ++k) {
    if (o.sizes[k] < 0) return bad("a size is negative");
    if (o.sizes[k] == 0) return kOk;
    const auto reach = static_cast<__int128>(o.sizes[k] - 1) * o.strides[k];
    if (reach > int64_t{kMostBytes} || -reach > int64_t{kMostBytes}) return outside();
    (reach < 0 ? low : high) += static_cast<int64_t>(reach);
  }
  const bool inside = view(d, o.addr + low * width, (high - low + 1) * width) != nullptr;
  return inside || o.immediate != 0 ? kOk : outside();
}
// Each element of operand 0 becomes f(its indices).
Status compute(const atalla_operand& out, auto f) {
  const int64_t count = std::accumulate(out.sizes, out.sizes + out.ndim, int64_t{1}, std::multiplies<int64_t>());
  for (int64_t i = 0; i < count; ++i) {
    int64_t index[ATALLA_MAX_DIMS], rest = i, offset = 0;
    for (int k = out.ndim; k-- > 0; rest /= out.sizes[k]) offset += (index[k] = rest % out.sizes[k]) * out.strides[k];
    visit(out.dtype, [&](auto stored) {
      stored = static_cast<decltype(stored)>(f(index));
      std::memcpy(reinterpret_cast<decltype(stored)*>(out.addr) + offset, &stored, sizeof stored);
    });
  }
  return kOk;
}
template <class T>
Status run(const atalla_launch_desc& desc, T alpha, T beta) {
  const atalla_operand *o = desc.operands, &a = o[1], &b = o[2], &c = o[3];
  const bool product = desc.kernel == kGemm, addend = product && desc.n_operands == 4 && c.addr != 0 && beta != 0;
  const auto same = [&](auto& x, int dim) { return x.ndim == o->ndim && x.sizes[dim] == o->sizes[dim]; };
  for (int k = 1; !product && k < desc.n_operands; ++k)
    for (int dim = 0; dim < o->ndim; ++dim)
      if (o[k].immediate == 0 && !same(o[k], dim)) return bad("the sizes of the operands differ");
  if (desc.kernel <= kFill) return compute(*o, [&](int64_t* at) { return load<T>(a, a.immediate ? nullptr : at); });
  if (desc.kernel == kAdd) return compute(*o, [&](int64_t* at) { return load<T>(a, at) + alpha * load<T>(b, at); });
  const bool fit = o->ndim == 3 && same(a, 0) && same(a, 1) && same(b, 0) && same(b, 2) && a.sizes[2] == b.sizes[1];
  if (!fit || (addend && !(same(c, 0) && same(c, 1) && same(c, 2)))) return bad("gemm: the sizes do not fit");
  if (desc.iparams[kActivation] != 0) return fail(ATALLA_ERR_UNSUPPORTED, "gemm: no activation is supported");
  return compute(*o, [&](const int64_t* at) {
    T sum{};
    for (int64_t k = 0; k < a.sizes[2]; ++k) {
      const int64_t left[] = {at[0], at[1], k}, right[] = {at[0], k, at[2]};
      sum += load<T>(a, left) * load<T>(b, right);
    }
    return alpha * sum + (addend ? beta * load<T>(c, at) : T{});
  });
}
Status launch(Stream& s, const atalla_launch_desc* desc, size_t bytes) {
  if (desc == nullptr || bytes < atalla_launch_desc_bytes(0) || bytes < atalla_launch_desc_bytes(desc->n_operands))
    return bad("no descriptor, or too few bytes for its operands");
  if (desc->kernel >= kKernels) return no_kernel();
  const int n = desc->n_operands, inputs = desc->kernel <= kFill ? 1 : 2;
  if (desc->n_outputs != 1 || n < 1 + inputs || n > 1 + inputs + (desc->kernel == kGemm)) return bad("operand count");
  if (desc->compute_dtype > 63 || (dtypes_of(desc->kernel) >> desc->compute_dtype & 1) == 0)
    return fail(ATALLA_ERR_UNSUPPORTED, "the kernel does not compute in this dtype");
  return submit(s, [&] {
    Status status = kOk;
    for (int k = 0; k < n && status == kOk; ++k)
      if (k < 3 || desc->operands[k].addr != 0) status = check(*s.device, desc->operands[k], k == 0);
    if (status == kOk)
      visit(desc->compute_dtype, [&](auto type) {
        using T = decltype(type);
        const auto factor = [&](int k) { return std::is_integral_v<T> ? T(desc->iparams[k]) : T(desc->fparams[k]); };
        status = run<T>(*desc, factor(kAlpha), factor(kBeta));
      });
    return status;
  });
}
Status kernel_count(uint32_t* out) { return put(out, kKernels); }
Status kernel_lookup(const char* name, atalla_kernel* out) {
  if (name == nullptr) return bad("no name");
  for (atalla_kernel k = 0; k < kKernels; ++k)
    if (std::strcmp(names[k], name) == 0) return put(out, k);
  return no_kernel();
}
Status kernel_info(atalla_kernel k, atalla_kernel_info* out) {
  return k < kKernels ? write({0, 1, names[k], dtypes_of(k)}, out) : no_kernel();
}
// clang-format off
#define NAME(status) case ATALLA_##status: return "ATALLA_" #status;
const char* status_name(Status status) {
  switch (status) {
    NAME(OK) NAME(NOT_READY) NAME(ERR_SYSTEM) NAME(ERR_VERSION) NAME(ERR_CONFIG) NAME(ERR_INTERNAL)
    NAME(ERR_ARGUMENT) NAME(ERR_HANDLE) NAME(ERR_UNKNOWN_KERNEL) NAME(ERR_UNSUPPORTED) NAME(ERR_FORMAT)
    NAME(ERR_OUT_OF_MEMORY) NAME(ERR_SCRATCHPAD) NAME(ERR_LIMIT) NAME(ERR_FAULT_ADDRESS) NAME(ERR_FAULT_INDEX)
    NAME(ERR_FAULT_KERNEL)
  }
  return "an unknown status";
}
const char* last_error() { return error_text.c_str(); }
Status device_count(int32_t* out) { return put(out, 1); }
// In the order of atalla.h. The driver does without what came after version 1.0.
constexpr uint32_t kTableBytes = offsetof(atalla_api, charge_launch);
const atalla_api table = {
  kTableBytes, ATALLA_ABI_MAJOR, 0, 0, last_error, status_name, device_count, device_open,
  Entry<device_close, true>::call, Entry<device_properties>::call, missing, Entry<device_host_view>::call,
  Entry<mem_alloc>::call, Entry<mem_free>::call, Entry<mem_info>::call, Entry<stream_create>::call,
  Entry<stream_end, true>::call, Entry<stream_default>::call, Entry<stream_query>::call,
  Entry<stream_synchronize>::call, Entry<stream_wait_event>::call, Entry<event_create>::call,
  Entry<event_query, true>::call, Entry<event_record>::call, Entry<event_query>::call, Entry<event_query>::call,
  Entry<event_cycles>::call, Entry<device_synchronize>::call, Entry<copy>::call, kernel_count, kernel_lookup,
  kernel_info, Entry<launch>::call, missing, missing, missing, missing, missing, missing, missing, missing, missing,
  nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
// clang-format on

}  // namespace

atalla_status atalla_get_api(uint32_t abi_major, const atalla_api** api) {
  if (abi_major != ATALLA_ABI_MAJOR) return fail(ATALLA_ERR_VERSION, "this library speaks ABI version 1.0");
  return *api = &table, ATALLA_OK;
}