// SPDX-License-Identifier: BSD-3-Clause
//
// Runs one kernel on small host tensors and brings the results back, for tests which compare with a naive reference.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "sim/abi/atalla.h"
#include "sim/abi/dtype.h"

namespace kernel_test {

using atalla::sim::dtype_name;
inline size_t item_size(atalla_dtype dtype) { return atalla::sim::dtype_size(dtype); }

// Slow and plain conversions, written apart from those of the kernels.
inline double decode_half(uint16_t h) {
  const int exponent = (h >> 10) & 31, fraction = h & 1023;
  const double sign = (h & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

inline uint16_t encode_half(double x) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return 0x7e00;
  x = std::fabs(x);
  if (x == 0) return sign;
  if (x >= 65520.0) return sign | 0x7c00;
  int exponent = 0;
  std::frexp(x, &exponent);
  exponent = exponent < -13 ? -13 : exponent;
  const double units = std::nearbyint(std::ldexp(x, 11 - exponent));  // in units of 2^(exponent - 11)
  const int64_t code = (static_cast<int64_t>(exponent + 13) << 10) + static_cast<int64_t>(units);
  return sign | static_cast<uint16_t>(code);
}

inline uint16_t encode_bfloat(double x) {
  const float f = static_cast<float>(x);
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  if (std::isnan(f)) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline double decode_bfloat(uint16_t b) {
  const uint32_t bits = static_cast<uint32_t>(b) << 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

// A strided tensor over its own bytes.
struct Tensor {
  atalla_dtype dtype = ATALLA_F32;
  std::vector<int64_t> sizes, strides;
  std::vector<uint8_t> bytes;
  bool present = true, immediate = false;  // an immediate value: that of its first element

  Tensor() : present(false) {}
  // `order` lists the dimensions from the slowest to the fastest varying; `gap` multiplies the fastest stride.
  // A dimension in `broadcast` (bit mask) gets stride 0.
  Tensor(atalla_dtype d, std::vector<int64_t> shape, std::vector<int> order = {}, int64_t gap = 1,
         uint32_t broadcast = 0)
      : dtype(d), sizes(std::move(shape)), strides(sizes.size(), 0) {
    if (order.empty()) {
      for (size_t i = 0; i < sizes.size(); ++i) order.push_back(static_cast<int>(i));
    }
    int64_t step = gap;
    for (size_t i = order.size(); i-- > 0;) {
      if ((broadcast >> order[i]) & 1) continue;
      strides[order[i]] = step;
      step *= sizes[order[i]] > 0 ? sizes[order[i]] : 1;
    }
    bytes.assign(static_cast<size_t>(step) * item_size(d) + 64, 0xA5);
  }

  int64_t offset(const std::vector<int64_t>& index) const {
    int64_t o = 0;
    for (size_t d = 0; d < index.size(); ++d) o += index[d] * strides[d];
    return o;
  }
  double get(const std::vector<int64_t>& index) const { return get_at(offset(index)); }
  double get_at(int64_t o) const {
    const uint8_t* p = bytes.data() + o * static_cast<int64_t>(item_size(dtype));
    switch (dtype) {
      case ATALLA_BOOL:
        return *p != 0;
      case ATALLA_U8:
        return *p;
      case ATALLA_I8:
        return static_cast<int8_t>(*p);
      case ATALLA_I16:
        return read<int16_t>(p);
      case ATALLA_I32:
        return read<int32_t>(p);
      case ATALLA_I64:
        return static_cast<double>(read<int64_t>(p));
      case ATALLA_F16:
        return decode_half(read<uint16_t>(p));
      case ATALLA_BF16:
        return decode_bfloat(read<uint16_t>(p));
      case ATALLA_F32:
        return read<float>(p);
      default:
        return read<double>(p);
    }
  }
  int64_t get_integer(const std::vector<int64_t>& index) const {
    const int64_t o = offset(index);
    return dtype == ATALLA_I64 ? read<int64_t>(bytes.data() + o * 8) : static_cast<int64_t>(get_at(o));
  }
  void set(const std::vector<int64_t>& index, double x) {
    uint8_t* p = bytes.data() + offset(index) * static_cast<int64_t>(item_size(dtype));
    switch (dtype) {
      case ATALLA_BOOL:
        *p = x != 0;
        break;
      case ATALLA_U8:
        *p = static_cast<uint8_t>(static_cast<int64_t>(x));
        break;
      case ATALLA_I8:
        *p = static_cast<uint8_t>(static_cast<int64_t>(x));
        break;
      case ATALLA_I16:
        write(p, static_cast<int16_t>(static_cast<int64_t>(x)));
        break;
      case ATALLA_I32:
        write(p, static_cast<int32_t>(static_cast<int64_t>(x)));
        break;
      case ATALLA_I64:
        write(p, static_cast<int64_t>(x));
        break;
      case ATALLA_F16:
        write(p, encode_half(x));
        break;
      case ATALLA_BF16:
        write(p, encode_bfloat(x));
        break;
      case ATALLA_F32:
        write(p, static_cast<float>(x));
        break;
      default:
        write(p, x);
    }
  }
  // Visits every index in row-major order.
  void each(const std::function<void(const std::vector<int64_t>&)>& f) const {
    std::vector<int64_t> index(sizes.size(), 0);
    for (int64_t s : sizes) {
      if (s == 0) return;
    }
    for (;;) {
      f(index);
      size_t d = sizes.size();
      while (d > 0 && ++index[d - 1] == sizes[d - 1]) index[--d] = 0;
      if (d == 0) return;
    }
  }

 private:
  template <class T>
  static T read(const uint8_t* p) {
    T t;
    std::memcpy(&t, p, sizeof t);
    return t;
  }
  template <class T>
  static void write(uint8_t* p, T t) {
    std::memcpy(p, &t, sizeof t);
  }
};

// A small deterministic generator (xorshift64*).
struct Random {
  uint64_t state = 0x9E3779B97F4A7C15ull;
  uint64_t next() {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545F4914F6CDD1Dull;
  }
  int64_t below(int64_t n) { return static_cast<int64_t>((next() >> 11) % static_cast<uint64_t>(n)); }
  double uniform(double low, double high) { return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53; }
  // Integers for integer dtypes, whole range of the small ones; a uniform value in [-1, 1] otherwise.
  void fill(Tensor& t) {
    t.each([&](const std::vector<int64_t>& i) {
      if (t.dtype == ATALLA_BOOL) {
        t.set(i, static_cast<double>(below(4) == 0));
      } else if (t.dtype <= ATALLA_I64) {
        t.set(i, static_cast<double>(below(256) - (t.dtype == ATALLA_U8 ? 0 : 128)));
      } else {
        t.set(i, uniform(-1, 1));
      }
    });
  }
};

inline void describe(const Tensor& t, atalla_operand& o) {
  o = {};
  o.dtype = t.dtype;
  o.ndim = static_cast<uint8_t>(t.sizes.size());
  for (size_t d = 0; d < t.sizes.size(); ++d) o.sizes[d] = t.sizes[d], o.strides[d] = t.strides[d];
}

struct Device {
  const atalla_api* api = nullptr;
  atalla_device device = nullptr;
  atalla_stream stream = nullptr;
  Device() {
    if (atalla_get_api(ATALLA_ABI_MAJOR, &api) != ATALLA_OK) std::abort();
    atalla_device_params params{};
    params.struct_size = sizeof params;
    params.dram_bytes = 256u << 20;
    if (api->device_open(&params, &device) != ATALLA_OK || api->stream_default(device, &stream) != ATALLA_OK) {
      std::fprintf(stderr, "device: %s\n", api->last_error());
      std::abort();
    }
  }
  ~Device() { api->device_close(device); }
  static Device& get() {
    static Device device;
    return device;
  }
};

inline std::string& last_error() {
  static std::string text;
  return text;
}

inline atalla_status run_kernel(const char* name, atalla_launch_desc& desc, const std::vector<Tensor*>& operands,
                                int alias = -1) {
  Device& d = Device::get();
  desc.n_operands = static_cast<uint8_t>(operands.size());
  std::vector<atalla_addr> addresses(operands.size(), 0);
  auto copy = [&](atalla_copy_kind kind, uint64_t dst, uint64_t src, size_t bytes) {
    atalla_copy_params p{};
    p.struct_size = sizeof p, p.kind = kind, p.dst = dst, p.src = src, p.row_bytes = bytes;
    return d.api->copy(d.stream, &p);
  };
  atalla_status status = ATALLA_OK;
  for (size_t i = 0; i < operands.size() && status == ATALLA_OK; ++i) {
    desc.operands[i] = {};
    if (operands[i] == nullptr || !operands[i]->present) continue;
    describe(*operands[i], desc.operands[i]);
    if (operands[i]->immediate) {
      desc.operands[i].immediate = 1, desc.operands[i].ndim = 0;
      std::memcpy(desc.operands[i].sizes, operands[i]->bytes.data(), item_size(operands[i]->dtype));
      continue;
    }
    if (static_cast<int>(i) == alias) {
      desc.operands[i].addr = addresses[0];
      continue;
    }
    status = d.api->mem_alloc(d.device, operands[i]->bytes.size(), 0, &addresses[i]);
    if (status == ATALLA_OK) {
      status = copy(ATALLA_COPY_HOST_TO_DEVICE, addresses[i], reinterpret_cast<uint64_t>(operands[i]->bytes.data()),
                    operands[i]->bytes.size());
    }
    desc.operands[i].addr = addresses[i];
  }
  if (status == ATALLA_OK) status = d.api->kernel_lookup(name, &desc.kernel);
  if (status == ATALLA_OK) {
    status = d.api->launch(d.stream, &desc, atalla_launch_desc_bytes(desc.n_operands));
  }
  if (status != ATALLA_OK) last_error() = d.api->last_error();
  const atalla_status after = d.api->stream_synchronize(d.stream);
  if (status == ATALLA_OK && after != ATALLA_OK) status = after, last_error() = d.api->last_error();
  for (size_t i = 0; i < operands.size(); ++i) {
    if (addresses[i] == 0) continue;
    if (status == ATALLA_OK && i < desc.n_outputs) {
      copy(ATALLA_COPY_DEVICE_TO_HOST, reinterpret_cast<uint64_t>(operands[i]->bytes.data()), addresses[i],
           operands[i]->bytes.size());
      d.api->stream_synchronize(d.stream);
    }
    d.api->mem_free(d.device, addresses[i]);
  }
  return status;
}

inline void set_threads(int n) { Device::get().api->set_threads(static_cast<uint32_t>(n)); }

}  // namespace kernel_test
