// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `convolution_packed` against `convolution`, bit for bit.
#define ATALLA_TEST_TABLES isa::convolution_kernels(), isa::convolution_packed_kernels()
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

int passed = 0, failed = 0;

struct Case {
  int dims = 2;
  int64_t n = 1, ci = 1, co = 1;
  int64_t in[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, padding[3] = {}, dilation[3] = {1, 1, 1};
  bool bias = true, channels_last = false;
};

std::string describe(const Case& t) {
  std::string text = std::to_string(t.dims) + "d n=" + std::to_string(t.n) + " ci=" + std::to_string(t.ci) +
                     " co=" + std::to_string(t.co);
  for (int d = 0; d < t.dims; ++d) {
    text += " [in " + std::to_string(t.in[d]) + " k " + std::to_string(t.kernel[d]) + " s " +
            std::to_string(t.stride[d]) + " p " + std::to_string(t.padding[d]) + " d " + std::to_string(t.dilation[d]) +
            "]";
  }
  return text;
}

void report(bool ok, const std::string& what) {
  ok ? ++passed : ++failed;
  if (!ok && failed < 30) std::printf("FAIL %s\n", what.c_str());
}

std::vector<int64_t> shape(int64_t d0, int64_t d1, const int64_t* spatial, int dims) {
  std::vector<int64_t> s = {d0, d1};
  for (int d = 0; d < dims; ++d) s.push_back(spatial[d]);
  return s;
}

// [co, ci, kernel...] -> [ceil(co / 32), ci, kernel..., 32]; channels beyond the last one are zero.
Tensor pack(const Tensor& weight) {
  std::vector<int64_t> sizes = weight.sizes;
  sizes[0] = (sizes[0] + 31) / 32;
  sizes.push_back(32);
  Tensor packed(ATALLA_F32, sizes);
  packed.each([&](const std::vector<int64_t>& i) {
    std::vector<int64_t> at(i.begin(), i.end() - 1);
    at[0] = i[0] * 32 + i.back();
    packed.set(i, at[0] < weight.sizes[0] ? weight.get(at) : 0);
  });
  return packed;
}

atalla_launch_desc descriptor(const Case& t) {
  atalla_launch_desc desc{};
  desc.n_outputs = 1;
  desc.compute_dtype = ATALLA_F32;
  desc.iparams[0] = 1;
  for (int d = 0; d < t.dims; ++d) {
    desc.iparams[1 + d] = t.stride[d], desc.iparams[4 + d] = t.padding[d], desc.iparams[7 + d] = t.dilation[d];
  }
  return desc;
}

void check_case(const Case& t, Random& random) {
  int64_t o[3] = {1, 1, 1};
  for (int d = 0; d < t.dims; ++d) {
    const int64_t span = t.in[d] + 2 * t.padding[d] - t.dilation[d] * (t.kernel[d] - 1) - 1;
    if (span < 0) return;
    o[d] = span / t.stride[d] + 1;
  }
  std::vector<int> order;
  if (t.channels_last) {
    order = {0};
    for (int d = 0; d < t.dims; ++d) order.push_back(2 + d);
    order.push_back(1);
  }
  Tensor in(ATALLA_F32, shape(t.n, t.ci, t.in, t.dims), order);
  Tensor weight(ATALLA_F32, shape(t.co, t.ci, t.kernel, t.dims));
  Tensor bias, expected(ATALLA_F32, shape(t.n, t.co, o, t.dims)), found = expected;
  random.fill(in), random.fill(weight);
  if (t.bias) bias = Tensor(ATALLA_F32, {t.co}), random.fill(bias);
  Tensor packed = pack(weight);
  atalla_launch_desc desc = descriptor(t);
  for (int threads : {1, 2}) {
    set_threads(threads);
    if (run_kernel("convolution", desc, {&expected, &in, &weight, &bias}) != ATALLA_OK ||
        run_kernel("convolution_packed", desc, {&found, &in, &packed, &bias}) != ATALLA_OK) {
      return report(false, describe(t) + ": " + last_error());
    }
    report(found.bytes == expected.bytes, describe(t) + ": bits differ, threads " + std::to_string(threads));
  }
}

void check_errors() {
  Tensor out(ATALLA_F32, {1, 40, 6, 6}), in(ATALLA_F32, {1, 3, 8, 8}), packed(ATALLA_F32, {2, 3, 3, 3, 32}), bias;
  Tensor last(ATALLA_F32, {1, 40, 6, 6}, {0, 2, 3, 1}), one(ATALLA_F32, {1, 3, 3, 3, 32});
  Tensor unpacked(ATALLA_F32, {40, 3, 3, 3}), gaps(ATALLA_F32, {2, 3, 3, 3, 32}, {}, 2);
  Tensor long_bias(ATALLA_F32, {64});
  auto check = [](const char* what, std::vector<Tensor*> operands, int64_t groups) {
    Case t;
    atalla_launch_desc desc = descriptor(t);
    desc.iparams[0] = groups;
    const atalla_status got = run_kernel("convolution_packed", desc, operands);
    report(got == ATALLA_ERR_ARGUMENT && !last_error().empty(), std::string(what) + ": " + std::to_string(got));
  };
  check("output in channels last", {&last, &in, &packed, &bias}, 1);
  check("too few panels", {&out, &in, &one, &bias}, 1);
  check("not packed", {&out, &in, &unpacked, &bias}, 1);
  check("gaps", {&out, &in, &gaps, &bias}, 1);
  check("groups", {&out, &in, &packed, &bias}, 2);
  check("bias", {&out, &in, &packed, &long_bias}, 1);
  check("in place", {&in, &in, &packed, &bias}, 1);
  check("no weight", {&out, &in}, 1);
}

}  // namespace

int main() {
  Random random;
  for (int i = 0; i < 240; ++i) {
    Case t;
    t.dims = 1 + i % 3;
    t.n = 1 + random.below(2);
    t.ci = 1 + random.below(i % 8 == 0 ? 90 : 6), t.co = 1 + random.below(i % 5 == 0 ? 150 : 70);
    for (int d = 0; d < t.dims; ++d) {
      t.in[d] = 1 + random.below(t.dims == 1 ? 200 : t.dims == 2 ? 40 : 9);
      t.kernel[d] = 1 + random.below(4), t.stride[d] = 1 + random.below(3), t.padding[d] = random.below(4);
      t.dilation[d] = 1 + random.below(2);
    }
    if (i % 6 == 5) {  // one tap: the image is read as it lies
      for (int d = 0; d < t.dims; ++d) t.kernel[d] = t.stride[d] = t.dilation[d] = 1, t.padding[d] = 0;
    }
    t.bias = random.below(2) == 0;
    t.channels_last = random.below(4) == 0;
    check_case(t, random);
  }
  for (int i = 0; i < 24; ++i) {  // Winograd's path: both transforms' sides shared between threads, odd sizes
    Case t;
    t.n = 1 + random.below(3);
    t.ci = 32 + random.below(i % 4 == 0 ? 200 : 40), t.co = 32 + random.below(80);
    for (int d = 0; d < 2; ++d) {
      t.in[d] = 12 + random.below(i % 3 == 0 ? 60 : 9);
      t.kernel[d] = 3, t.padding[d] = random.below(3);
    }
    t.bias = random.below(2) == 0;
    t.channels_last = random.below(4) == 0;
    check_case(t, random);
  }
  // k in several chunks, with whole rows and with pairs of rows; kernels as large as the image; no width is even.
  Case deep;
  deep.ci = 150, deep.co = 96, deep.in[0] = deep.in[1] = 7, deep.kernel[0] = deep.kernel[1] = 3;
  deep.padding[0] = deep.padding[1] = 1;
  check_case(deep, random);
  deep.in[0] = 30, deep.in[1] = 33;
  check_case(deep, random);
  deep.kernel[0] = 30, deep.kernel[1] = 33, deep.ci = 3, deep.padding[0] = deep.padding[1] = 2;
  check_case(deep, random);
  check_errors();
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
