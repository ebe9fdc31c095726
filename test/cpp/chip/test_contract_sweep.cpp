// SPDX-License-Identifier: BSD-3-Clause
//
// Random launches of every kernel within its contract have the same bits with any number of threads. Another layout,
// repeated values instead of strides of 0, and working in place where the contract allows it change only the rounding
// of sums. Only the elements of outputs are written. Numbers are small integers, so that most sums are exact.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>

#include "chip/random_launch.h"
#include "kernels/harness.h"
#include "sim/abi/dtype.h"

using namespace chip_test;

namespace {

constexpr int kLaunches = 60;  // that run, of each kernel
constexpr uint32_t kDraws = 600;
constexpr uint64_t kMemory = kRoom * ATALLA_MAX_OPERANDS;

using Bytes = std::vector<unsigned char>;

int64_t size_of(atalla_dtype dtype) { return static_cast<int64_t>(atalla::sim::dtype_size(dtype)); }

bool has_memory(const atalla_operand& o) { return o.addr != 0 && o.immediate == 0; }

int64_t count_of(const atalla_operand& o) {
  int64_t count = 1;
  for (int d = 0; d < o.ndim; ++d) count *= o.sizes[d];
  return count;
}

// Calls f(index, offset in elements) for each element in row-major order.
template <class F>
void for_each(const atalla_operand& o, const F& f) {
  std::array<int64_t, ATALLA_MAX_DIMS> index{};
  for (int64_t left = count_of(o); left > 0; --left) {
    int64_t offset = 0;
    for (int d = 0; d < o.ndim; ++d) offset += index[static_cast<size_t>(d)] * o.strides[d];
    f(index, offset);
    for (int d = o.ndim - 1; d >= 0; --d) {
      if (++index[static_cast<size_t>(d)] < o.sizes[d]) break;
      index[static_cast<size_t>(d)] = 0;
    }
  }
}

// A small number of the dtype, from 0 to 3, or negative for some floating-point numbers.
void put(unsigned char* to, atalla_dtype dtype, uint32_t random) {
  const int small = static_cast<int>(random % 6), real = small < 4 ? small : 3 - small;
  const auto write = [&](auto number) { std::memcpy(to, &number, sizeof number); };
  switch (dtype) {
    case ATALLA_C128:
      put(to + 8, ATALLA_F64, random / 6);
      [[fallthrough]];
    case ATALLA_F64:
      return write(static_cast<double>(real));
    case ATALLA_C64:
      put(to + 4, ATALLA_F32, random / 6);
      [[fallthrough]];
    case ATALLA_F32:
      return write(static_cast<float>(real));
    case ATALLA_BF16:
      return write(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(real)) >> 16));
    case ATALLA_F16:
      return write(kernel_test::encode_half(real));
    default: {
      const int64_t number = dtype == ATALLA_BOOL ? small % 2 : small % 4;
      std::memcpy(to, &number, static_cast<size_t>(size_of(dtype)));
    }
  }
}

// A floating-point number as a double: of a complex dtype, the part that begins there.
double number(atalla_dtype dtype, const unsigned char* from) {
  if (dtype == ATALLA_F64 || dtype == ATALLA_C128) {
    double wide = 0;
    std::memcpy(&wide, from, sizeof wide);
    return wide;
  }
  uint32_t bits = 0;
  if (dtype == ATALLA_F32 || dtype == ATALLA_C64) {
    std::memcpy(&bits, from, sizeof bits);
  } else if (dtype == ATALLA_BF16) {
    std::memcpy(&bits, from, sizeof(uint16_t));
    bits <<= 16;
  } else if (dtype == ATALLA_F16) {
    uint16_t half = 0;
    std::memcpy(&half, from, sizeof half);
    return kernel_test::decode_half(half);
  }
  float narrow = 0;
  std::memcpy(&narrow, &bits, sizeof narrow);
  return static_cast<double>(narrow);
}

// How far the number after 1 is from 1; 0 for integers.
double epsilon(atalla_dtype dtype) {
  switch (dtype) {
    case ATALLA_F64:
    case ATALLA_C128:
      return 0x1p-52;
    case ATALLA_F32:
    case ATALLA_C64:
      return 0x1p-23;
    case ATALLA_F16:
      return 0x1p-10;
    case ATALLA_BF16:
      return 0x1p-7;
    default:
      return 0;
  }
}

struct Outcome {
  atalla_status status = ATALLA_OK;
  std::vector<Bytes> outputs;  // the elements in row-major order
};

class Sweep {
 public:
  Sweep(const char* name, const KernelTraits& traits) : name_(name), traits_(traits) {}

  // All forms of one launch. Returns the status of the first one.
  atalla_status check(const OpenDevice& device, atalla_addr memory, const atalla_launch_desc& given, uint32_t seed) {
    device_ = &device, given_ = &given, memory_ = memory, seed_ = seed, random_.seed(seed);
    const std::optional<atalla_launch_desc> plain = moved(given, &Sweep::dense);
    if (!plain) return ATALLA_ERR_ARGUMENT;
    CHECK_OK(api().set_threads(1));
    const Outcome first = run(*plain);
    if (first.status != ATALLA_OK) return first.status;
    ++ran;
    CHECK_OK(api().set_threads(3));
    expect("with three threads", *plain, first, false);
    CHECK_OK(api().set_threads(1));
    if (const auto other = moved(given, &Sweep::scattered)) expect("in another layout", *other, first, true);
    if (const auto whole = moved(given, &Sweep::repeated)) expect("with values repeated", *whole, first, true);
    if (is_in_place()) check_in_place(*plain, first);
    return ATALLA_OK;
  }

  int ran = 0, laid_out = 0, refused = 0;

 private:
  void expect(const char* form, const atalla_launch_desc& desc, const Outcome& first, bool may_refuse) {
    beside_ ^= 0x66;  // what lies beside the operands must not matter
    const Outcome found = run(desc);
    if (found.status != ATALLA_OK) {
      ++refused;
      if (!may_refuse) fail(form, std::string(": ") + api().last_error());
      return;
    }
    ++laid_out;
    for (int k = 0; k < desc.n_outputs; ++k) {
      const auto at = static_cast<size_t>(k);
      const Bytes &a = first.outputs[at], &b = found.outputs[at];
      if (a.size() != b.size()) continue;
      const atalla_dtype dtype = desc.operands[k].dtype;
      const bool is_integer = epsilon(dtype) == 0, is_complex = dtype == ATALLA_C64 || dtype == ATALLA_C128;
      const auto item = static_cast<size_t>(size_of(dtype) / (is_complex ? 2 : 1));  // parts are compared on their own
      const auto compute = static_cast<atalla_dtype>(desc.compute_dtype);
      const double step = std::max(epsilon(dtype), size_of(compute) < 4 ? epsilon(ATALLA_F32) : epsilon(compute));
      double most = 0;  // of the finite numbers
      for (size_t i = 0; may_refuse && i < a.size(); i += item) {
        const double x = std::fabs(number(dtype, &a[i]));
        if (std::isfinite(x)) most = std::max(most, x);
      }
      for (size_t i = 0; i < a.size(); i += item) {
        if (std::memcmp(&a[i], &b[i], item) == 0) continue;
        const double x = number(dtype, &a[i]), y = number(dtype, &b[i]);
        if (is_integer) return fail(form, ": output " + std::to_string(k) + ", byte " + std::to_string(i));
        if (std::isnan(x) && std::isnan(y)) continue;
        // (Sums of what is no small integer depend on the order of the elements in memory.)
        if (may_refuse && std::fabs(x - y) <= 64 * step * most) continue;
        return fail(form, ": output " + std::to_string(k) + ", element " + std::to_string(i / item) + ": " +
                              std::to_string(y) + ", " + std::to_string(x) + " in the first form");
      }
    }
  }

  void fail(const char* form, const std::string& what) {
    if (++failures_ > 3) return;
    std::printf("%s %s%s (launch %u)\n", name_, form, what.c_str(), seed_);
    for (int k = 0; k < given_->n_operands; ++k) {
      const atalla_operand& o = given_->operands[k];
      std::printf("  operand %d: %s, dtype %d, [", k,
                  o.immediate != 0 ? "a value"
                  : o.addr != 0    ? "memory"
                                   : "absent",
                  static_cast<int>(o.dtype));
      for (int d = 0; d < o.ndim; ++d)
        std::printf("%s%lld * %lld", d != 0 ? ", " : "", static_cast<long long>(o.sizes[d]),
                    static_cast<long long>(o.strides[d]));
      std::printf("]\n");
    }
    CHECK(!"a form of a launch differs");
  }

  // The trait of that name in kernels.yaml: the result may be written over an input.
  bool is_in_place() const {
    const std::string_view name(name_);
    return name.starts_with("pointwise.") || name == "fused";
  }

  void check_in_place(const atalla_launch_desc& plain, const Outcome& first) {
    const atalla_operand& out = plain.operands[0];
    for (int k = plain.n_outputs; k < plain.n_operands; ++k) {
      const atalla_operand& in = plain.operands[k];
      const bool same = has_memory(in) && in.dtype == out.dtype && in.ndim == out.ndim &&
                        std::memcmp(in.sizes, out.sizes, sizeof(int64_t) * in.ndim) == 0 &&
                        std::memcmp(in.strides, out.strides, sizeof(int64_t) * in.ndim) == 0;
      if (!same) continue;
      atalla_launch_desc desc = plain;
      desc.operands[k].addr = out.addr;
      source_ = k;
      expect("in place", desc, first, true);
      source_ = -1;
      return;
    }
  }

  // The launch with all its operands placed by `place`; nothing if one does not fit its room.
  std::optional<atalla_launch_desc> moved(const atalla_launch_desc& given,
                                          void (Sweep::*place)(atalla_operand&, bool)) {
    atalla_launch_desc desc = given;
    for (int k = 0; k < desc.n_operands; ++k) {
      atalla_operand& o = desc.operands[k];
      if (!has_memory(o)) continue;
      o.addr = memory_ + static_cast<uint64_t>(k) * kRoom;
      (this->*place)(o, k >= desc.n_outputs);
      int64_t last = 0;
      for (int d = 0; d < o.ndim; ++d) last += std::max<int64_t>(0, o.sizes[d] - 1) * o.strides[d];
      if (o.addr + static_cast<uint64_t>((last + 1) * size_of(o.dtype)) >
          memory_ + (static_cast<uint64_t>(k) + 1) * kRoom)
        return {};
    }
    return desc;
  }
  // As it is: contiguous, or with strides of 0.
  void dense(atalla_operand&, bool) {}
  // Dimensions in another order: in every other launch with elements between them, in one of four with channels last.
  void scattered(atalla_operand& o, bool) {
    const bool gaps = seed_ % 2 == 0;
    std::array<int, ATALLA_MAX_DIMS> order{};
    const auto end = order.begin() + o.ndim;
    std::iota(order.begin(), end, 0);
    if (seed_ % 4 != 1) {
      std::shuffle(order.begin(), end, random_);
    } else if (o.ndim > 1) {
      std::reverse(order.begin(), end);
      std::rotate(order.begin(), end - 2, end - 1);
    }
    int64_t stride = gaps ? 1 + static_cast<int64_t>(random_() % 3) : 1;
    for (int d = 0; d < o.ndim; ++d) {
      const int dim = order[static_cast<size_t>(d)];
      if (o.strides[dim] == 0 && o.sizes[dim] != 1) continue;
      o.strides[dim] = stride;
      stride = stride * std::max<int64_t>(1, o.sizes[dim]) + (gaps ? static_cast<int64_t>(random_() % 2) : 0);
    }
    if (gaps) o.addr += static_cast<uint64_t>(size_of(o.dtype)) * (random_() % 5);
  }
  // Without strides of 0.
  void repeated(atalla_operand& o, bool is_input) {
    int64_t stride = 1;
    for (int d = o.ndim - 1; is_input && d >= 0; --d) {
      o.strides[d] = stride;
      stride *= std::max<int64_t>(1, o.sizes[d]);
    }
  }

  Outcome run(const atalla_launch_desc& desc) {
    const uint64_t size = kRoom * std::min(desc.n_operands + 1, ATALLA_MAX_OPERANDS);
    unsigned char* const host = device_->view<unsigned char>(memory_, size);
    std::memset(host, beside_, size);
    for (int k = 0; k < desc.n_operands; ++k) fill(desc, k, host);
    Bytes expected(host, host + size);
    Outcome outcome;
    outcome.status = launch(device_->stream, desc);
    if (outcome.status != ATALLA_OK) return outcome;
    for (int k = 0; k < desc.n_outputs; ++k) {
      const atalla_operand& o = desc.operands[k];
      Bytes& found = outcome.outputs.emplace_back();
      if (!has_memory(o)) continue;
      const auto item = static_cast<size_t>(size_of(o.dtype));
      for_each(o, [&](const auto&, int64_t offset) {
        const size_t at = o.addr - memory_ + static_cast<uint64_t>(offset) * item;
        found.insert(found.end(), host + at, host + at + item);
        std::memcpy(&expected[at], host + at, item);
      });
    }
    const bool changed = std::memcmp(expected.data(), host, size) != 0;
    for (uint64_t i = 0; changed && i < size; ++i) {
      if (expected[i] == host[i]) continue;
      fail("changes", " byte " + std::to_string(i % kRoom) + " of the room of operand " + std::to_string(i / kRoom));
      break;
    }
    return outcome;
  }

  // The value of an element depends on its index, along dimensions with a stride other than 0 in the launch as given.
  void fill(const atalla_launch_desc& desc, int k, unsigned char* host) {
    const atalla_operand& o = desc.operands[k];
    if (!has_memory(o) || k == source_) return;
    const uint32_t key = seed_ * 31 + static_cast<uint32_t>(source_ >= 0 && k == 0 ? source_ : k);
    for_each(o, [&](const auto& index, int64_t offset) {
      uint32_t value = key;
      for (int d = 0; d < o.ndim; ++d)
        value =
            (value ^ static_cast<uint32_t>(index[static_cast<size_t>(d)] * (broadcast(k, d) ? 0 : 1) + 1)) * 16777619;
      put(host + (o.addr - memory_) + offset * size_of(o.dtype), o.dtype, value >> 8);
    });
  }

  bool broadcast(int k, int d) const { return given_->operands[k].strides[d] == 0; }

  const char* name_;
  const KernelTraits traits_;
  const OpenDevice* device_ = nullptr;
  const atalla_launch_desc* given_ = nullptr;  // the launch that the forms belong to
  atalla_addr memory_ = 0;
  uint32_t seed_ = 0;
  unsigned char beside_ = 0xa5;
  int source_ = -1, failures_ = 0;  // the input that stands where the first output does
  std::mt19937 random_;
};

}  // namespace

int main(int argc, char** argv) {
  uint32_t count = 0;
  int ran = 0, laid_out = 0, refused = 0, kernels = 0;
  CHECK_OK(api().kernel_count(&count));
  for (atalla_kernel id = 0; id < count; ++id) {
    const atalla_kernel_info info = info_of(id);
    if (argc > 1 && std::strcmp(argv[1], info.name) != 0) continue;
    Sweep sweep(info.name, row_of(atalla::sim::kKernelTraits, info.name));
    RandomLaunch launches(id, info, /*large=*/true);
    for (uint32_t left = kDraws; left > 0 && sweep.ran < kLaunches;) {
      const OpenDevice device({.dram_bytes = uint64_t{1} << 21});
      const atalla_addr memory = device.alloc(kMemory);
      for (atalla_status status = ATALLA_OK; left > 0 && sweep.ran < kLaunches && !is_fault(status);
           --left) {  // a fault stays
        const atalla_launch_desc desc = launches.next(memory);
        status = sweep.check(device, memory, desc, left);
      }
    }
    ran += sweep.ran, laid_out += sweep.laid_out, refused += sweep.refused, kernels += sweep.ran > 0;
  }
  std::printf("%d launches of %d kernels, %d other forms, %d refused\n", ran, kernels, laid_out, refused);
  if (argc == 1) CHECK(kernels >= 280);
  return check_report();
}
