// SPDX-License-Identifier: BSD-3-Clause
//
// Numerics of the kernel `convolution` by Winograd's algorithm, and the bits of `convolution_packed`. Other values are
// those of their contracts (test/kernels).
#include "check.h"
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

// One group of F32, with stride and dilation 1 and no padding.
atalla_launch_desc plain() {
  atalla_launch_desc desc{};
  desc.n_outputs = 1, desc.compute_dtype = ATALLA_F32, desc.iparams[0] = 1;
  for (int d = 0; d < 3; ++d) desc.iparams[1 + d] = desc.iparams[7 + d] = 1;
  return desc;
}

// An infinity, a NaN, and numbers whose differences overflow: the outputs are those of a direct sum.
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
    CHECK(ok);
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
  CHECK_EQ(run_kernel("convolution", desc, {&out, &in, &weight}), ATALLA_OK);
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
  CHECK(std::sqrt(errors / squares) < bound);
}

// [co, ci, h, w] -> [ceil(co / 32), ci, h, w, 32]; channels beyond the last one are zero.
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

// `convolution_packed` gives the bits of `convolution`.
void check_packed(int64_t images, int64_t channels, int64_t outputs, std::vector<int64_t> size,
                  std::vector<int64_t> taps, int64_t padding, Random& random) {
  Tensor in(ATALLA_F32, {images, channels, size[0], size[1]}),
      weight(ATALLA_F32, {outputs, channels, taps[0], taps[1]});
  Tensor found(ATALLA_F32, {images, outputs, size[0] + 2 * padding - taps[0] + 1, size[1] + 2 * padding - taps[1] + 1});
  Tensor bias(ATALLA_F32, {outputs}), expected = found, packed;
  random.fill(in), random.fill(weight), random.fill(bias);
  packed = pack(weight);
  atalla_launch_desc desc = plain();
  desc.iparams[4] = desc.iparams[5] = padding;
  for (const int threads : {1, 2}) {
    set_threads(threads);
    CHECK_EQ(run_kernel("convolution", desc, {&expected, &in, &weight, &bias}), ATALLA_OK);
    CHECK_EQ(run_kernel("convolution_packed", desc, {&found, &in, &packed, &bias}), ATALLA_OK);
    CHECK(found.bytes == expected.bytes);
  }
  Tensor gaps(ATALLA_F32, packed.sizes, {}, 2);
  CHECK_EQ(run_kernel("convolution_packed", desc, {&found, &in, &gaps, &bias}), ATALLA_ERR_ARGUMENT);
}

}  // namespace

int main() {
  Random random;
  for (const int64_t side : {16, 32}) check_values_that_are_not_finite(side);  // small and large tiles
  check_precision(16, 3.5e-7, random);
  check_precision(32, 1.1e-6, random);
  // One tap, and the image as it lies; Winograd's algorithm with odd sizes; k in several chunks, with whole rows and
  // with pairs of rows; kernels as large as the image.
  check_packed(2, 40, 70, {9, 11}, {1, 1}, 0, random);
  check_packed(3, 40, 45, {60, 51}, {3, 3}, 1, random);
  check_packed(3, 35, 70, {13, 17}, {3, 3}, 2, random);
  check_packed(2, 200, 33, {61, 16}, {3, 3}, 0, random);
  check_packed(1, 150, 96, {7, 7}, {3, 3}, 1, random);
  check_packed(1, 150, 96, {30, 33}, {3, 3}, 1, random);
  check_packed(1, 3, 96, {30, 33}, {30, 33}, 2, random);
  return check_report();
}
