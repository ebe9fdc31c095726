// SPDX-License-Identifier: BSD-3-Clause
//
// Launches that are large enough to be divided between threads have the same bits with one, two and three of them. The
// launches of the sweep over the contracts (test/cpp/chip/test_contract_sweep.cpp) are smaller.
#include "check.h"
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

using Index = std::vector<int64_t>;

struct Case {
  const char* kernel;
  int outputs;
  std::vector<Tensor> operands;
  Index iparams = {};
  std::vector<double> fparams = {};
};

void check_case(Case c) {
  atalla_launch_desc desc{};
  desc.n_outputs = static_cast<uint16_t>(c.outputs);
  desc.compute_dtype = c.operands[static_cast<size_t>(c.outputs)].dtype;
  for (size_t i = 0; i < c.iparams.size(); ++i) desc.iparams[i] = c.iparams[i];
  for (size_t i = 0; i < c.fparams.size(); ++i) desc.fparams[i] = c.fparams[i];
  Random random;
  for (size_t k = static_cast<size_t>(c.outputs); k < c.operands.size(); ++k) random.fill(c.operands[k]);
  std::vector<Tensor> first;
  for (const int threads : {1, 2, 3}) {
    std::vector<Tensor> operands = c.operands;
    std::vector<Tensor*> list;
    for (Tensor& t : operands) list.push_back(&t);
    set_threads(threads);
    const atalla_status status = run_kernel(c.kernel, desc, list);
    check::note(status == ATALLA_OK, __FILE__, __LINE__, std::string(c.kernel) + ": " + last_error());
    if (threads == 1) first = operands;
    bool same = true;
    for (size_t k = 0; k < static_cast<size_t>(c.outputs); ++k) same = same && operands[k].bytes == first[k].bytes;
    check::note(same, __FILE__, __LINE__, std::string(c.kernel) + " with " + std::to_string(threads) + " threads");
  }
}

}  // namespace

int main() {
  constexpr atalla_dtype kF32 = ATALLA_F32, kF64 = ATALLA_F64, kI32 = ATALLA_I32, kI64 = ATALLA_I64;
  const Tensor none, wide(kF32, {300, 383}), tall(kF32, {3000, 65}), line(kF32, {300000}), square(kF64, {1, 300, 300});
  const Tensor image(kF32, {2, 8, 1, 60, 70}), resized(kF32, {2, 8, 1, 90, 33});
  for (const atalla_dtype d : {kF32, atalla_dtype{ATALLA_BF16}}) {
    const Tensor x(d, {3000, 65, 1}), y(d, {4, 3, 50000}), few(kF32, {3}), many(kF32, {65});
    check_case({"channel_norm.statistics", 4, {many, many, none, none, x}, {}, {1e-5}});
    check_case({"channel_norm.statistics", 4, {few, few, none, none, y}, {}, {1e-5}});
    check_case({"gemm", 1, {Tensor(d, {1, 130, 1030}), Tensor(d, {1, 130, 641}), Tensor(d, {1, 641, 1030})}, {}, {1}});
    check_case({"gemm", 1, {Tensor(d, {1, 1, 3000}), Tensor(d, {1, 1, 1000}), Tensor(d, {1, 1000, 3000})}, {}, {1}});
    const Tensor q(d, {1, 3, 300, 40});
    check_case({"attention", 2, {q, Tensor(kF32, {1, 3, 300}), q, q, q}, {1}, {0.2}});
    const Index window = {1, 1, 1, 1, 0, 0, 0, 1, 1, 1};
    const auto convolution = [&](Tensor out, Tensor in, const Index& weight) {
      check_case({"convolution", 1, {std::move(out), std::move(in), Tensor(d, weight)}, window});
    };
    for (const int64_t gap : {1, 2})
      convolution(Tensor(d, {2, 40, 33, 33}, {}, gap), Tensor(d, {2, 32, 35, 35}), {40, 32, 3, 3});
    convolution(Tensor(d, {1, 200, 3, 3}), Tensor(d, {1, 64, 4, 4}), {200, 64, 2, 2});  // few positions
    convolution(Tensor(d, {1, 33, 7, 7}, {3, 2, 1, 0}), Tensor(d, {1, 90, 9, 9}), {33, 90, 3, 3});
    convolution(Tensor(d, {1, 200, 3, 3}, {0, 1, 3, 2}), Tensor(d, {1, 8, 9, 9}), {200, 8, 7, 7});
    convolution(Tensor(d, {4, 70, 3, 3}, {0, 1, 3, 2}), Tensor(d, {4, 8, 9, 9}, {}, 2), {70, 8, 7, 7});
    convolution(Tensor(d, {1, 33, 7, 7}), Tensor(d, {1, 90, 9, 9}, {0, 2, 3, 1}), {33, 90, 3, 3});
  }
  check_case({"copy", 1, {Tensor(ATALLA_BF16, wide.sizes, {1, 0}), Tensor(ATALLA_BF16, wide.sizes)}});
  for (const int64_t gap : {1, 2}) {
    const Tensor rows(kF32, {45, 70}, {}, gap), columns(kF32, {45, 70}, {1, 0}, 2);
    check_case({"copy", 1, {rows, columns}});
    check_case({"copy", 1, {columns, rows}});
  }
  check_case({"cat", 1, {Tensor(kF32, {600, 383}), wide, wide}, {0}});
  for (const int64_t dim : {0, 1}) {
    for (const char* kernel : {"softmax", "log_softmax", "cumsum", "logcumsumexp"})
      check_case({kernel, 1, {wide, wide}, {dim}});
    for (const char* kernel : {"cummax", "sort"})
      check_case({kernel, 2, {wide, Tensor(kI64, wide.sizes), wide}, {dim}});
    Tensor kept(kF32, dim ? Index{3000, 1} : Index{1, 65});
    for (const char* kernel : {"reduce.sum", "reduce.var", "reduce.logsumexp", "reduce.amax"})
      check_case({kernel, 1, {kept, tall}, {dim ? 2 : 1}, {1}});
  }
  check_case({"sort", 2, {line, Tensor(kI64, line.sizes), line}});
  check_case({"layer_norm", 3, {wide, Tensor(kF32, {300}), Tensor(kF32, {300}), wide}, {}, {1e-5}});
  check_case({"rms_norm", 3, {wide, none, Tensor(kF32, {300}), wide}, {}, {1e-5}});
  for (const Index& shape : {Index{37, 300}, Index{1, 65536}, Index{1, 5 * 8191}}) {
    const Tensor x(ATALLA_C64, shape);
    check_case({"fft.c2c", 1, {x, x}, {1, 1}, {1}});
  }
  for (const char* kernel : {"resample.cubic", "resample.linear_aa", "pool.adaptive_average"})
    check_case({kernel, 1, {resized, image}});
  const Tensor pivots(kI32, {1, 300}), info(kI32, {1});
  check_case({"linalg.lu_factor", 3, {square, pivots, info, square}, {1}});
  check_case({"linalg.eigh", 3, {Tensor(kF64, {1, 300}), square, info, square}});
  return check_report();
}
