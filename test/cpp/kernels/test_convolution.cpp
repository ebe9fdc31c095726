// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `convolution` against a naive sum over channels and taps in double precision.
#define ATALLA_TEST_TABLES isa::convolution_kernels()
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

int passed = 0, failed = 0;

struct Case {
  atalla_dtype dtype = ATALLA_F32;
  int dims = 2;
  int64_t n = 1, ci = 1, co = 1, groups = 1;
  int64_t in[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, padding[3] = {}, dilation[3] = {1, 1, 1};
  int64_t more = 0;                                      // outputs than the input and its padding give
  int layout_in = 0, layout_weight = 0, layout_out = 0;  // 0 contiguous, 1 channels last, 2 gaps, 3 reversed
  bool bias = true;
  bool wide = false;      // int32 sums of products of int8
  bool bordered = false;  // with a value outside of the input
  atalla_dtype sums() const { return wide ? atalla_dtype{ATALLA_I32} : dtype; }
};

std::vector<int64_t> shape(int64_t d0, int64_t d1, const int64_t* spatial, int dims) {
  std::vector<int64_t> s = {d0, d1};
  for (int d = 0; d < dims; ++d) s.push_back(spatial[d]);
  return s;
}

Tensor make(atalla_dtype dtype, std::vector<int64_t> sizes, int layout) {
  std::vector<int> order;
  const int n = static_cast<int>(sizes.size());
  if (layout == 1) {
    order.push_back(0);
    for (int d = 2; d < n; ++d) order.push_back(d);
    order.push_back(1);
  } else if (layout == 3) {
    for (int d = n; d-- > 0;) order.push_back(d);
  }
  return Tensor(dtype, std::move(sizes), order, layout == 2 ? 2 : 1);
}

void report(bool ok, const Case& t, const char* what, const std::string& detail) {
  ok ? ++passed : ++failed;
  if (!ok && failed < 30) {
    std::printf(
        "FAIL %s: %s %dd n=%lld ci=%lld co=%lld groups=%lld in=%lld,%lld,%lld k=%lld,%lld,%lld layouts %d %d %d: %s\n",
        what, dtype_name(t.dtype), t.dims, (long long)t.n, (long long)t.ci, (long long)t.co, (long long)t.groups,
        (long long)t.in[0], (long long)t.in[1], (long long)t.in[2], (long long)t.kernel[0], (long long)t.kernel[1],
        (long long)t.kernel[2], t.layout_in, t.layout_weight, t.layout_out, detail.c_str());
  }
}

void check_case(const Case& t, Random& random) {
  int64_t o[3] = {1, 1, 1};
  for (int d = 0; d < t.dims; ++d) {
    const int64_t span = t.in[d] + 2 * t.padding[d] - t.dilation[d] * (t.kernel[d] - 1) - 1;
    if (span < 0) return;
    o[d] = span / t.stride[d] + 1 + t.more;
    if (o[d] < 1) return;
  }
  const bool integer = t.dtype <= ATALLA_I64;
  Tensor in = make(t.dtype, shape(t.n, t.ci, t.in, t.dims), t.layout_in);
  Tensor weight = make(t.dtype, shape(t.co, t.ci / t.groups, t.kernel, t.dims), t.layout_weight);
  Tensor out = make(t.sums(), shape(t.n, t.co, o, t.dims), t.layout_out), bias, outside;
  random.fill(in), random.fill(weight);
  if (t.bias) bias = Tensor(t.dtype, {t.co}), random.fill(bias);
  if (t.bordered) outside = Tensor(t.wide ? atalla_dtype{ATALLA_I64} : t.dtype, {}), random.fill(outside);
  atalla_launch_desc desc{};
  desc.n_outputs = 1;
  desc.compute_dtype = t.sums();
  desc.iparams[0] = t.groups;
  for (int d = 0; d < t.dims; ++d) {
    desc.iparams[1 + d] = t.stride[d], desc.iparams[4 + d] = t.padding[d], desc.iparams[7 + d] = t.dilation[d];
  }
  std::vector<Tensor*> operands = {&out, &in, &weight};
  if (t.bias || t.bordered) operands.push_back(&bias);
  if (t.bordered) operands.push_back(&outside);
  set_threads(2);
  const atalla_status status = run_kernel("convolution", desc, operands);
  if (status != ATALLA_OK) return report(false, t, "status", std::to_string(status) + " " + last_error());

  const double roundoff = t.dtype == ATALLA_F16    ? 0x1p-11
                          : t.dtype == ATALLA_BF16 ? 0x1p-8
                          : t.dtype == ATALLA_F32  ? 0x1p-24
                                                   : 0x1p-53;
  const double accumulator = t.dtype == ATALLA_F64 ? 0x1p-53 : 0x1p-24;
  std::string detail;
  std::vector<double> in_values, weight_values;
  in.each([&](const std::vector<int64_t>& i) { in_values.push_back(in.get(i)); });
  weight.each([&](const std::vector<int64_t>& i) { weight_values.push_back(weight.get(i)); });
  const int64_t cig = t.ci / t.groups, cog = t.co / t.groups;
  out.each([&](const std::vector<int64_t>& i) {
    if (!detail.empty()) return;
    int64_t at[3] = {0, 0, 0};
    for (int d = 0; d < t.dims; ++d) at[d] = i[static_cast<size_t>(2 + d)];
    double sum = t.bias ? bias.get({i[1]}) : 0, magnitude = std::fabs(sum);
    int64_t terms = 1;
    for (int64_t c = 0; c < cig; ++c) {
      for (int64_t k0 = 0; k0 < t.kernel[0]; ++k0) {
        for (int64_t k1 = 0; k1 < t.kernel[1]; ++k1) {
          for (int64_t k2 = 0; k2 < t.kernel[2]; ++k2) {
            const int64_t tap[3] = {k0, k1, k2};
            int64_t x[3];
            bool inside = true;
            for (int d = 0; d < 3; ++d) {
              x[d] = at[d] * t.stride[d] - t.padding[d] + tap[d] * t.dilation[d];
              inside = inside && x[d] >= 0 && x[d] < t.in[d];
            }
            if (!inside && !t.bordered) continue;
            const int64_t channel = i[1] / cog * cig + c;
            const int64_t at_in = (((i[0] * t.ci + channel) * t.in[0] + x[0]) * t.in[1] + x[1]) * t.in[2] + x[2];
            const int64_t at_w = (((i[1] * cig + c) * t.kernel[0] + k0) * t.kernel[1] + k1) * t.kernel[2] + k2;
            const double x_value = inside ? in_values[static_cast<size_t>(at_in)] : outside.get({});
            const double y = x_value * weight_values[static_cast<size_t>(at_w)];
            sum += y, magnitude += std::fabs(y), ++terms;
          }
        }
      }
    }
    if (integer) {
      const int64_t exact = static_cast<int64_t>(sum);
      const int64_t want = t.sums() == ATALLA_U8   ? static_cast<uint8_t>(exact)
                           : t.sums() == ATALLA_I8 ? static_cast<int8_t>(exact)
                                                   : exact;
      if (out.get_integer(i) != want) {
        detail = "got " + std::to_string(out.get_integer(i)) + ", expected " + std::to_string(want);
      }
      return;
    }
    const double bound = 1.2 * magnitude * accumulator * static_cast<double>(terms + 4) +
                         1.01 * roundoff * std::fabs(sum) + (t.dtype == ATALLA_F16 ? 0x1p-25 : 0);
    if (!(std::fabs(out.get(i) - sum) <= bound)) {
      detail = "got " + std::to_string(out.get(i)) + ", expected " + std::to_string(sum);
    }
  });
  report(detail.empty(), t, "values", detail);

  Tensor serial = out;
  operands[0] = &serial;
  set_threads(1);
  run_kernel("convolution", desc, operands);
  report(serial.bytes == out.bytes, t, "one thread", "results differ from two threads");
}

// An infinity, a NaN, and numbers whose differences overflow: the outputs are those of a direct sum.
// One group of F32, with stride and dilation 1 and no padding.
atalla_launch_desc plain() {
  atalla_launch_desc desc{};
  desc.n_outputs = 1, desc.compute_dtype = ATALLA_F32, desc.iparams[0] = 1;
  for (int d = 0; d < 3; ++d) desc.iparams[1 + d] = desc.iparams[7 + d] = 1;
  return desc;
}

void check_values_that_are_not_finite(int64_t side) {
  atalla_launch_desc desc = plain();
  desc.iparams[4] = desc.iparams[5] = 1;
  for (const float value : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 3e38f}) {
    Tensor in(ATALLA_F32, {1, 32, side, side}), weight(ATALLA_F32, {32, 32, 3, 3}),
        out(ATALLA_F32, {1, 32, side, side});
    in.each([&](const std::vector<int64_t>& i) { in.set(i, i[1] == 3 && i[2] == 5 && i[3] == 8 ? value : 1.0); });
    weight.each([&](const std::vector<int64_t>& i) { weight.set(i, i[0] % 2 == 0 ? 0.25 : -0.5); });
    if (std::isfinite(value)) in.set({0, 3, 6, 8}, value), in.set({0, 3, 5, 9}, -value);
    bool ok = run_kernel("convolution", desc, {&out, &in, &weight}) == ATALLA_OK;
    out.each([&](const std::vector<int64_t>& i) {
      const bool sees = i[2] >= 4 && i[2] <= 6 && i[3] >= 7 && i[3] <= 9;
      const double got = out.get(i);
      if (std::isfinite(value)) ok = ok && std::isfinite(got);  // no sum of a window's products overflows
      else if (!sees) ok = ok && std::fabs(got) <= 9 * 32;
      else ok = ok && (std::isinf(value) ? std::isinf(got) : std::isnan(got));
    });
    ok ? ++passed : ++failed;
    if (!ok) std::printf("FAIL a value of %g, side %d\n", static_cast<double>(value), static_cast<int>(side));
  }
}

// The root mean square of the errors over that of the outputs.
void check_precision(int64_t side, double bound, Random& random) {
  const int64_t channels = 64;
  Tensor in(ATALLA_F32, {1, channels, side, side}), weight(ATALLA_F32, {channels, channels, 3, 3});
  Tensor out(ATALLA_F32, {1, channels, side - 2, side - 2});
  in.each([&](const std::vector<int64_t>& i) { in.set(i, random.uniform(-1, 1)); });
  weight.each([&](const std::vector<int64_t>& i) { weight.set(i, random.uniform(-1, 1)); });
  atalla_launch_desc desc = plain();
  bool ok = run_kernel("convolution", desc, {&out, &in, &weight}) == ATALLA_OK;
  double errors = 0, squares = 0;
  out.each([&](const std::vector<int64_t>& i) {
    if (i[1] % 8 != 0) return;
    double sum = 0;
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t t = 0; t < 9; ++t) {
        sum += in.get({0, c, i[2] + t / 3, i[3] + t % 3}) * weight.get({i[1], c, t / 3, t % 3});
      }
    }
    errors += (out.get(i) - sum) * (out.get(i) - sum), squares += sum * sum;
  });
  const double relative = std::sqrt(errors / squares);
  ok = ok && relative < bound;
  ok ? ++passed : ++failed;
  if (!ok) std::printf("FAIL errors of side %d: %g\n", static_cast<int>(side), relative);
}

void check_errors() {
  Tensor out(ATALLA_F32, {1, 4, 6, 6}), in(ATALLA_F32, {1, 3, 8, 8}), weight(ATALLA_F32, {4, 3, 3, 3});
  Tensor bias(ATALLA_F32, {5}), line(ATALLA_F32, {4, 3, 3});
  auto check = [](const char* what, std::vector<Tensor*> operands, int64_t groups, int64_t stride) {
    atalla_launch_desc desc{};
    desc.n_outputs = 1;
    desc.compute_dtype = ATALLA_F32;
    desc.iparams[0] = groups;
    for (int d = 0; d < 3; ++d) desc.iparams[1 + d] = stride, desc.iparams[7 + d] = 1;
    const atalla_status got = run_kernel("convolution", desc, operands);
    const bool ok = got == ATALLA_ERR_ARGUMENT && !last_error().empty();
    ok ? ++passed : ++failed;
    if (!ok) std::printf("FAIL %s: status %d (%s)\n", what, got, last_error().c_str());
  };
  check("weight rank", {&out, &in, &line}, 1, 1);
  check("groups", {&out, &in, &weight}, 2, 1);
  check("no groups", {&out, &in, &weight}, 0, 1);
  check("stride", {&out, &in, &weight}, 1, 0);
  check("bias size", {&out, &in, &weight, &bias}, 1, 1);
  Tensor none, border(ATALLA_F32, {1});
  check("rank of the value outside", {&out, &in, &weight, &none, &border}, 1, 1);
}

}  // namespace

int main() {
  Random random;
  for (atalla_dtype dtype :
       {ATALLA_F32, ATALLA_F64, ATALLA_F16, ATALLA_BF16, ATALLA_U8, ATALLA_I8, ATALLA_I32, ATALLA_I64}) {
    for (int i = 0; i < (dtype == ATALLA_I8 ? 120 : 60); ++i) {
      Case t;
      t.dtype = dtype;
      t.wide = i >= 60;
      t.bordered = i % 4 == 2;
      t.dims = 1 + i % 3;
      t.n = 1 + random.below(2);
      t.groups = i % 4 == 0 ? 1 + random.below(4) : 1;
      t.ci = t.groups * (1 + random.below(5)), t.co = t.groups * (1 + random.below(i % 10 == 0 ? 80 : 7));
      if (i % 9 == 0) t.groups = t.ci, t.co = t.ci * (1 + random.below(2));
      for (int d = 0; d < t.dims; ++d) {
        t.in[d] = 1 + random.below(t.dims == 1 ? 200 : t.dims == 2 ? 24 : 9);
        t.kernel[d] = 1 + random.below(4), t.stride[d] = 1 + random.below(3), t.padding[d] = random.below(4);
        t.dilation[d] = 1 + random.below(2);
      }
      t.layout_in = static_cast<int>(random.below(4)), t.layout_weight = static_cast<int>(random.below(4));
      t.layout_out = static_cast<int>(random.below(4));
      t.bias = random.below(2) == 0;
      if (i % 7 == 3) t.more = random.below(5) - 2, t.padding[0] -= 3;
      if (i == 33) t.n = 0;
      check_case(t, random);
    }
  }
  for (int i = 0; i < 20; ++i) {  // Winograd's path, with small and with large tiles
    Case t;
    t.dtype = ATALLA_F32;
    t.n = 1 + random.below(2);
    t.ci = 32 + random.below(40), t.co = 32 + random.below(40);
    for (int d = 0; d < 2; ++d) {
      t.in[d] = 12 + i % 2 * 15 + random.below(12), t.kernel[d] = 3, t.padding[d] = random.below(3);
    }
    t.layout_in = static_cast<int>(random.below(4)), t.layout_weight = static_cast<int>(random.below(4));
    t.layout_out = static_cast<int>(random.below(4));
    t.bias = random.below(2) == 0;
    check_case(t, random);
  }
  for (const int64_t side : {16, 32}) check_values_that_are_not_finite(side);  // small and large tiles
  check_precision(16, 3.5e-7, random);
  check_precision(32, 1.1e-6, random);
  // k in several chunks; many channels over few positions; long rows of a depthwise convolution.
  Case deep;
  deep.ci = 90, deep.co = 33, deep.in[0] = deep.in[1] = 9, deep.kernel[0] = deep.kernel[1] = 3, deep.padding[1] = 1;
  check_case(deep, random);
  deep.layout_out = 3;
  check_case(deep, random);
  Case wide;
  wide.ci = 64, wide.co = 200, wide.in[0] = wide.in[1] = 4, wide.kernel[0] = wide.kernel[1] = 2;
  check_case(wide, random);
  Case line;
  line.dims = 1, line.ci = line.co = line.groups = 3, line.in[0] = 1500, line.kernel[0] = 5, line.padding[0] = 2;
  check_case(line, random);
  check_errors();
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
