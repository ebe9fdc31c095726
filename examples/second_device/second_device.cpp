// SPDX-License-Identifier: BSD-3-Clause
//
// A second device behind atalla.h (ABI 1.0): host memory, work that runs at once under one lock, five kernels.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <string>

#include "atalla.h"

namespace {

constexpr uint64_t kAlign = 64, kDefaultBytes = uint64_t{1} << 30, kMostBytes = uint64_t{1} << 40;

struct Device {
  uint64_t bytes, base;  // one mapping is the device view and the engine view
  uint64_t default_stream, clock;
  std::map<uint64_t, uint64_t> blocks;  // address, bytes
};
struct Stream {
  Device* device;
  atalla_status fault;
  std::string text;
};
struct Event {
  bool recorded;
  uint64_t cycles;
};

// Objects by their handle: a number that is used once, so that an old or invented handle is found to be none.
template <class T>
std::map<uint64_t, T> live;
uint64_t last_handle = 0;
std::mutex lock;
thread_local std::string error_text;

atalla_status fail(atalla_status status, const char* text) { return error_text = text, status; }
atalla_status bad(const char* text) { return fail(ATALLA_ERR_ARGUMENT, text); }
template <class Handle, class T>
Handle make(T object) {
  live<T>.emplace(++last_handle, std::move(object));
  return reinterpret_cast<Handle>(last_handle);
}
template <class T>
typename std::map<uint64_t, T>::iterator find(void* handle) {
  return live<T>.find(reinterpret_cast<uintptr_t>(handle));
}
// A struct of the caller, which may have another size than here.
template <class T>
bool read(const T* given, T* value) {
  if (given == nullptr || given->struct_size < 4) return false;
  std::memcpy(static_cast<void*>(value), given, std::min<size_t>(given->struct_size, sizeof *value));
  return true;
}
template <class T>
atalla_status write(T value, T* out) {
  if (out == nullptr || out->struct_size < 4) return bad("no struct, or struct_size below 4");
  value.struct_size = out->struct_size;
  std::memcpy(static_cast<void*>(out), &value, std::min<size_t>(out->struct_size, sizeof value));
  return ATALLA_OK;
}

// Entry<body>::call is the entry of the table for body(object, arguments...): it locks, and looks the handle up.
template <auto body>
struct Entry;
template <class T, class... Args, atalla_status (*body)(T&, Args...)>
struct Entry<body> {
  template <class Handle>
  static atalla_status call(Handle handle, Args... args) {
    const std::lock_guard<std::mutex> guard(lock);
    const auto at = find<T>(handle);
    return at != live<T>.end() ? body(at->second, args...) : fail(ATALLA_ERR_HANDLE, "null, closed, or no handle");
  }
};
// device_close, stream_destroy and event_destroy: the object's memory ends after `body`.
template <class T, class Handle, atalla_status (*body)(T&)>
atalla_status destroy(Handle handle) {
  const atalla_status status = Entry<body>::call(handle);
  const std::lock_guard<std::mutex> guard(lock);
  if (status == ATALLA_OK) live<T>.erase(reinterpret_cast<uintptr_t>(handle));
  return status;
}
template <class... Args>
atalla_status missing(Args...) {
  return fail(ATALLA_ERR_UNSUPPORTED, "the second device does not have this");
}

atalla_status device_open(const atalla_device_params* given, atalla_device* out) {
  const std::lock_guard<std::mutex> guard(lock);
  atalla_device_params p{};
  if (!read(given, &p) || p.ordinal != 0) return bad("no parameters, struct_size below 4, or an ordinal that is not 0");
  if (!live<Device>.empty() || p.dram_bytes > kMostBytes) return bad("open already, or more than 2^40 bytes of DRAM");
  const uint64_t bytes = p.dram_bytes != 0 ? p.dram_bytes : kDefaultBytes;
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return fail(ATALLA_ERR_SYSTEM, "mmap failed");
  *out = make<atalla_device>(Device{bytes, reinterpret_cast<uintptr_t>(base), 0, 0, {}});
  Device* device = &find<Device>(*out)->second;
  device->default_stream = make<uint64_t>(Stream{device, ATALLA_OK, ""});
  return ATALLA_OK;
}
atalla_status device_close(Device& d) {
  munmap(reinterpret_cast<void*>(d.base), d.bytes);
  live<Stream>.clear();
  live<Event>.clear();
  return ATALLA_OK;
}
atalla_status device_properties(Device& d, atalla_device_properties* out) {
  return write({0, 0, "Second device", d.bytes, d.base, kAlign, 0, 0, 0, 0, 0, 0, 1e9, 1}, out);
}

// A range of DRAM; null if it is not in there.
char* view(const Device& d, uint64_t addr, uint64_t bytes) {
  const uint64_t offset = addr - d.base;  // wraps below the base
  return offset <= d.bytes && bytes <= d.bytes - offset ? reinterpret_cast<char*>(addr) : nullptr;
}
atalla_status device_host_view(Device& d, atalla_addr addr, uint64_t bytes, void** host) {
  char* at = view(d, addr, bytes);
  return at != nullptr ? (*host = at, ATALLA_OK) : fail(ATALLA_ERR_FAULT_ADDRESS, "the range is not in DRAM");
}
atalla_status mem_alloc(Device& d, uint64_t bytes, uint64_t align, atalla_addr* out) {
  if (bytes == 0 || (align & (align - 1)) != 0) return bad("0 bytes, or an alignment that is no power of two");
  align = std::max(align, kAlign);
  uint64_t at = d.base;
  for (auto next = d.blocks.begin();; ++next) {  // the first gap that is large enough
    const uint64_t end = next != d.blocks.end() ? next->first : d.base + d.bytes;
    at = (at + align - 1) & ~(align - 1);
    if (at <= end && bytes <= end - at) return d.blocks[*out = at] = bytes, ATALLA_OK;
    if (next == d.blocks.end()) return fail(ATALLA_ERR_OUT_OF_MEMORY, "no gap in DRAM is large enough");
    at = next->first + next->second;
  }
}
atalla_status mem_free(Device& d, atalla_addr addr) {
  return d.blocks.erase(addr) == 1 ? ATALLA_OK : bad("not the start of a block");
}
atalla_status mem_info(Device& d, uint64_t* free_bytes, uint64_t* total_bytes) {
  *free_bytes = *total_bytes = d.bytes;
  for (const auto& [addr, bytes] : d.blocks) *free_bytes -= bytes;
  return ATALLA_OK;
}

atalla_status stream_create(Device& d, int32_t, atalla_stream* out) {
  return *out = make<atalla_stream>(Stream{&d, ATALLA_OK, ""}), ATALLA_OK;
}
atalla_status stream_end(Stream& s) {
  return &s != &live<Stream>.at(s.device->default_stream) ? ATALLA_OK : bad("the default stream cannot be destroyed");
}
atalla_status stream_default(Device& d, atalla_stream* out) {
  return *out = reinterpret_cast<atalla_stream>(d.default_stream), ATALLA_OK;
}
atalla_status stream_query(Stream& s) { return s.fault == ATALLA_OK ? ATALLA_OK : fail(s.fault, s.text.c_str()); }
atalla_status stream_synchronize(Stream& s) {
  const atalla_status status = stream_query(s);
  return s.fault = ATALLA_OK, status;
}
atalla_status device_synchronize(Device&) {
  atalla_status first = ATALLA_OK;
  for (auto& [handle, s] : live<Stream>)
    if (s.fault != ATALLA_OK) first = stream_synchronize(s);
  return first;
}
atalla_status event_create(Device&, atalla_event* out) { return *out = make<atalla_event>(Event{false, 0}), ATALLA_OK; }
atalla_status event_query(Event&) { return ATALLA_OK; }
atalla_status stream_wait_event(Stream&, atalla_event event) {
  return find<Event>(event) != live<Event>.end() ? ATALLA_OK : fail(ATALLA_ERR_HANDLE, "no event");
}
atalla_status event_record(Event& e, atalla_stream stream) {
  const auto s = find<Stream>(stream);
  if (s == live<Stream>.end()) return fail(ATALLA_ERR_HANDLE, "no stream");
  return e = {true, s->second.device->clock}, ATALLA_OK;
}
atalla_status event_cycles(Event& e, uint64_t* cycles) {
  return e.recorded ? (*cycles = e.cycles, ATALLA_OK) : bad("the event was never recorded");
}

// Runs work in the order of a stream. A fault stops the stream until it is synchronized.
template <class Work>
atalla_status submit(Stream& s, Work work) {
  if (s.fault != ATALLA_OK) return stream_query(s);
  const atalla_status status = work();
  if (status >= ATALLA_ERR_FAULT_ADDRESS) s.fault = status, s.text = error_text;
  s.device->clock += status == ATALLA_OK;
  return status;
}
atalla_status run_copy(const Device& d, const atalla_copy_params& p) {
  const uint64_t rows = std::max<uint64_t>(p.rows, 1), width = p.row_bytes;
  const uint64_t to = p.dst_pitch != 0 ? p.dst_pitch : width, from = p.src_pitch != 0 ? p.src_pitch : width;
  if (p.kind < ATALLA_COPY_HOST_TO_DEVICE || p.kind > ATALLA_COPY_DEVICE_TO_DEVICE) return bad("unknown kind of copy");
  if (rows > 1 && (to < width || from < width)) return bad("a pitch is below the bytes of a row");
  if (width == 0) return ATALLA_OK;
  const auto locate = [&](bool on_device, uint64_t addr, uint64_t pitch) {
    if (rows > kMostBytes || pitch > kMostBytes / rows || width > kMostBytes) return static_cast<char*>(nullptr);
    return on_device ? view(d, addr, (rows - 1) * pitch + width) : reinterpret_cast<char*>(addr);
  };
  char* dst = locate(p.kind != ATALLA_COPY_DEVICE_TO_HOST, p.dst, to);
  const char* src = locate(p.kind != ATALLA_COPY_HOST_TO_DEVICE, p.src, from);
  if (dst == nullptr || src == nullptr) return fail(ATALLA_ERR_FAULT_ADDRESS, "an end of the copy is not in memory");
  for (uint64_t r = 0; r < rows; ++r) std::memmove(dst + r * to, src + r * from, width);
  return ATALLA_OK;
}
atalla_status copy(Stream& s, const atalla_copy_params* given) {
  atalla_copy_params p{};
  if (!read(given, &p)) return bad("no parameters, or struct_size below 4");
  return submit(s, [&] { return run_copy(*s.device, p); });
}

// f(a value of the dtype's C++ type); false if the device does not have the dtype.
template <class F>
bool visit(atalla_dtype dtype, F f) {
  if (dtype == ATALLA_BOOL) return f(bool{}), true;
  if (dtype == ATALLA_I64) return f(int64_t{}), true;
  if (dtype == ATALLA_F32) return f(float{}), true;
  return dtype == ATALLA_F64 ? (f(double{}), true) : false;
}
constexpr uint64_t kNumbers = 1 << ATALLA_I64 | 1 << ATALLA_F32 | 1 << ATALLA_F64, kAll = kNumbers | 1 << ATALLA_BOOL;
enum { kCopy, kFill, kAdd, kMul, kGemm, kKernels };
const atalla_kernel_info kernels[] = {{0, 1, "copy", kAll},
                                      {0, 1, "fill", kAll},
                                      {0, 1, "pointwise.add", kNumbers},
                                      {0, 1, "pointwise.mul", kNumbers},
                                      {0, 1, "gemm", kNumbers}};

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
// An operand must lie in DRAM, and have a dtype of the device. The sizes and strides that this device takes are below
// 2^40, so that nothing overflows.
atalla_status check(const Device& d, const atalla_operand& o, bool output) {
  int64_t width = 0, low = 0, high = 0;
  if (!visit(o.dtype, [&](auto value) { width = sizeof value; })) return bad("the operand's dtype is not here");
  if (o.ndim > ATALLA_MAX_DIMS || (o.immediate != 0 && (output || o.ndim != 0))) return bad("an operand is malformed");
  for (int k = 0; k < o.ndim; ++k) {
    if (o.sizes[k] < 0) return bad("a size is negative");
    if (o.sizes[k] == 0) return ATALLA_OK;
    int64_t reach = 0;
    if (__builtin_mul_overflow(o.sizes[k] - 1, o.strides[k], &reach) || std::abs(reach) > int64_t{kMostBytes})
      return fail(ATALLA_ERR_FAULT_ADDRESS, "an operand leaves DRAM");
    (reach < 0 ? low : high) += reach;
  }
  const bool inside = view(d, o.addr + low * width, (high - low + 1) * width) != nullptr;
  return inside || o.immediate != 0 ? ATALLA_OK : fail(ATALLA_ERR_FAULT_ADDRESS, "an operand leaves DRAM");
}

// Each element of operand 0 becomes f(its indices).
template <class T, class F>
atalla_status compute(const atalla_operand& out, F f) {
  const int64_t count = std::accumulate(out.sizes, out.sizes + out.ndim, int64_t{1}, std::multiplies<int64_t>());
  for (int64_t i = 0; i < count; ++i) {
    int64_t index[ATALLA_MAX_DIMS], rest = i, offset = 0;
    for (int k = out.ndim; k-- > 0; rest /= out.sizes[k]) offset += (index[k] = rest % out.sizes[k]) * out.strides[k];
    visit(out.dtype, [&](auto stored) {
      stored = static_cast<decltype(stored)>(f(index));
      std::memcpy(reinterpret_cast<decltype(stored)*>(out.addr) + offset, &stored, sizeof stored);
    });
  }
  return ATALLA_OK;
}
template <class T>
atalla_status run(const atalla_launch_desc& desc, T alpha, T beta) {
  const atalla_operand *o = desc.operands, &a = o[1], &b = o[2], &c = o[3];
  const bool product = desc.kernel == kGemm, addend = product && desc.n_operands == 4 && c.addr != 0 && beta != 0;
  const auto same = [&](const atalla_operand& x, int dim) {
    return x.ndim == o->ndim && x.sizes[dim] == o->sizes[dim];
  };
  for (int k = 1; !product && k < desc.n_operands; ++k)
    for (int dim = 0; dim < o->ndim; ++dim)
      if (o[k].immediate == 0 && !same(o[k], dim)) return bad("the sizes of the operands differ");
  if (desc.kernel <= kFill) return compute<T>(*o, [&](int64_t* at) { return load<T>(a, a.immediate ? nullptr : at); });
  if (desc.kernel == kAdd) return compute<T>(*o, [&](int64_t* at) { return load<T>(a, at) + alpha * load<T>(b, at); });
  if (desc.kernel == kMul) return compute<T>(*o, [&](int64_t* at) { return load<T>(a, at) * load<T>(b, at); });
  if (o->ndim != 3 || a.ndim != 3 || b.ndim != 3 || !same(a, 0) || !same(a, 1) || !same(b, 0) || !same(b, 2) ||
      a.sizes[2] != b.sizes[1] || (addend && (!same(c, 0) || !same(c, 1) || !same(c, 2))))
    return bad("gemm: the sizes do not fit");
  if (desc.iparams[2] != 0) return fail(ATALLA_ERR_UNSUPPORTED, "gemm: no activation is supported");
  return compute<T>(*o, [&](const int64_t* at) {
    T sum{};
    for (int64_t k = 0; k < a.sizes[2]; ++k) {
      const int64_t left[] = {at[0], at[1], k}, right[] = {at[0], k, at[2]};
      sum += load<T>(a, left) * load<T>(b, right);
    }
    return alpha * sum + (addend ? beta * load<T>(c, at) : T{});
  });
}
atalla_status launch(Stream& s, const atalla_launch_desc* desc, size_t bytes) {
  if (desc == nullptr || bytes < atalla_launch_desc_bytes(0)) return bad("no descriptor, or too few bytes");
  if (desc->kernel >= kKernels) return fail(ATALLA_ERR_UNKNOWN_KERNEL, "no kernel of that id");
  const int n = desc->n_operands, inputs = desc->kernel <= kFill ? 1 : 2;
  if (desc->n_outputs != 1 || n < 1 + inputs || n > 1 + inputs + (desc->kernel == kGemm)) return bad("operand count");
  if (bytes < atalla_launch_desc_bytes(desc->n_operands)) return bad("too few bytes for the operands");
  if (desc->compute_dtype > 63 || (kernels[desc->kernel].dtypes >> desc->compute_dtype & 1) == 0)
    return fail(ATALLA_ERR_UNSUPPORTED, "the kernel does not compute in this dtype");
  return submit(s, [&] {
    atalla_status status = ATALLA_OK;
    for (int k = 0; k < n && status == ATALLA_OK; ++k)
      if (k < 3 || desc->operands[k].addr != 0) status = check(*s.device, desc->operands[k], k == 0);
    if (status != ATALLA_OK) return status;
    const auto compute_in = [&](auto type) {
      const bool integer = std::is_integral_v<decltype(type)>;
      const auto parameter = [&](int k) {
        return integer ? decltype(type)(desc->iparams[k]) : decltype(type)(desc->fparams[k]);
      };
      status = run<decltype(type)>(*desc, parameter(0), parameter(1));
    };
    visit(desc->compute_dtype, compute_in);
    return status;
  });
}
atalla_status kernel_count(uint32_t* count) { return *count = kKernels, ATALLA_OK; }
atalla_status kernel_lookup(const char* name, atalla_kernel* out) {
  if (name == nullptr) return bad("no name");
  for (atalla_kernel k = 0; k < kKernels; ++k)
    if (std::strcmp(kernels[k].name, name) == 0) return *out = k, ATALLA_OK;
  return fail(ATALLA_ERR_UNKNOWN_KERNEL, "no kernel of that name");
}
atalla_status kernel_info(atalla_kernel kernel, atalla_kernel_info* out) {
  return kernel < kKernels ? write(kernels[kernel], out) : fail(ATALLA_ERR_UNKNOWN_KERNEL, "no kernel of that id");
}
const char* status_name(atalla_status status) {
#define NAME(name) \
  {                \
    name, #name    \
  }
  static const std::map<atalla_status, const char*> names = {NAME(ATALLA_OK),
                                                             NAME(ATALLA_NOT_READY),
                                                             NAME(ATALLA_ERR_SYSTEM),
                                                             NAME(ATALLA_ERR_VERSION),
                                                             NAME(ATALLA_ERR_CONFIG),
                                                             NAME(ATALLA_ERR_INTERNAL),
                                                             NAME(ATALLA_ERR_ARGUMENT),
                                                             NAME(ATALLA_ERR_HANDLE),
                                                             NAME(ATALLA_ERR_UNKNOWN_KERNEL),
                                                             NAME(ATALLA_ERR_UNSUPPORTED),
                                                             NAME(ATALLA_ERR_FORMAT),
                                                             NAME(ATALLA_ERR_OUT_OF_MEMORY),
                                                             NAME(ATALLA_ERR_SCRATCHPAD),
                                                             NAME(ATALLA_ERR_LIMIT),
                                                             NAME(ATALLA_ERR_FAULT_ADDRESS),
                                                             NAME(ATALLA_ERR_FAULT_INDEX),
                                                             NAME(ATALLA_ERR_FAULT_KERNEL)};
  const auto at = names.find(status);
  return at != names.end() ? at->second : "an unknown status";
}
const char* last_error() { return error_text.c_str(); }
atalla_status device_count(int32_t* count) { return *count = 1, ATALLA_OK; }

// In the order of atalla.h, as far as version 1.0 goes; the driver does without the rest.
const atalla_api table = {offsetof(atalla_api, charge_launch),
                          ATALLA_ABI_MAJOR,
                          0,
                          0,
                          last_error,
                          status_name,
                          device_count,
                          device_open,
                          destroy<Device, atalla_device, device_close>,
                          Entry<device_properties>::call,
                          missing,
                          Entry<device_host_view>::call,
                          Entry<mem_alloc>::call,
                          Entry<mem_free>::call,
                          Entry<mem_info>::call,
                          Entry<stream_create>::call,
                          destroy<Stream, atalla_stream, stream_end>,
                          Entry<stream_default>::call,
                          Entry<stream_query>::call,
                          Entry<stream_synchronize>::call,
                          Entry<stream_wait_event>::call,
                          Entry<event_create>::call,
                          destroy<Event, atalla_event, event_query>,
                          Entry<event_record>::call,
                          Entry<event_query>::call,
                          Entry<event_query>::call,
                          Entry<event_cycles>::call,
                          Entry<device_synchronize>::call,
                          Entry<copy>::call,
                          kernel_count,
                          kernel_lookup,
                          kernel_info,
                          Entry<launch>::call,
                          missing,
                          missing,
                          missing,
                          missing,
                          missing,
                          missing,
                          missing,
                          missing,
                          missing};

}  // namespace

atalla_status atalla_get_api(uint32_t abi_major, const atalla_api** api) {
  if (abi_major != ATALLA_ABI_MAJOR) return fail(ATALLA_ERR_VERSION, "this library speaks ABI version 1.0");
  return *api = &table, ATALLA_OK;
}
