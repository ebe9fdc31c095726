// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `gemm_fused`: a batched matrix product with a vector program as its epilogue. docs/reference/kernels.md
// has the contract, docs/concepts/gemm.md the structure.
//
// The sums are those of `gemm`: its code computes them, and each thread runs the program over the part it computed.
#include "sim/kernels/matrix/epilogue_program.h"
//
#include "sim/kernels/matrix/gemm_operands.h"
#include "sim/kernels/matrix/gemm_parallel.h"
#include "sim/kernels/matrix/gemm_vector.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr uint64_t kFloats = 1u << ATALLA_F16 | 1u << ATALLA_F32 | 1u << ATALLA_BF16;
constexpr uint64_t kIntegers =
    1u << ATALLA_U8 | 1u << ATALLA_I8 | 1u << ATALLA_I16 | 1u << ATALLA_I32 | 1u << ATALLA_I64;
constexpr int64_t kSumsAtOnce = 1 << 21;  // elements of sums that stand in work memory

using Operands = GemmFusedOperands;

Batched operand_of(const Launch& launch, int index) {
  if (!launch.operand(index).immediate) return {launch, index};
  Batched constant;
  constant.view = {launch.ptr<const char>(index), launch.operand(index).dtype, 0, 0,
                   dtype_size(launch.operand(index).dtype)};
  return constant;
}

// T: of the sums, float or uint32_t.
template <class T>
class FusedProduct {
 public:
  explicit FusedProduct(const Launch& launch) : launch_(launch), at_(launch.desc) {}

  atalla_status run() {
    const atalla_launch_desc& desc = launch_.desc;
    const atalla_operand& first = launch_.operand(Operands::kOutputs);
    batches_ = first.sizes[0], m_ = first.sizes[1], n_ = first.sizes[2], k_ = launch_.operand(at_.a).sizes[2];
    ATALLA_CHECK(program_.decode(launch_, at_.extra, desc.n_operands - 1, kNativeOf<T>));
    if (batches_ == 0 || m_ == 0 || n_ == 0) return ATALLA_OK;
    const GemmFusedParameters p = GemmFusedParameters::read(desc);
    alpha_ = factor(p.alpha), beta_ = factor(p.beta);
    count_ = desc.n_operands - 1;
    for (int i = 0; i < count_; ++i) operands_[i] = operand_of(launch_, i);
    if (launch_.data[at_.c] == nullptr || beta_ == 0) operands_[at_.c].view.data = nullptr;
    fold();
    const bool ok = multiply_batches(batches_, m_ * n_ * max_of(k_, 1), [&](int64_t i) { return run_batch(i); });
    return ok ? ATALLA_OK : fail(launch_, ATALLA_ERR_SYSTEM, "no memory for packing buffers");
  }

 private:
  static T factor(double value) {
    if constexpr (std::is_floating_point_v<T>) return static_cast<T>(value);
    else return static_cast<T>(value > -0x1p53 && value < 0x1p53 ? static_cast<int64_t>(value) : 0);
  }

  void fold() {
    if (batches_ <= 1 || operands_[at_.b].batch_stride != 0) return;
    for (int i = 0; i < count_; ++i) {
      const bool moves = i != at_.b && operands_[i].view.data != nullptr && !launch_.operand(i).immediate;
      if (moves && !folds(batches_, m_, {&operands_[i]}, operands_[at_.b])) return;
    }
    m_ *= batches_;
    batches_ = 1;
  }

  // Sums stand in the first output, if that is how the program may find them, else in work memory, some rows at a time.
  bool run_batch(int64_t batch) const {
    const MatrixView out = operands_[0].matrix(batch);
    const bool in_output = out.dtype == kNativeOf<T> && out.col_stride == 1 && program_.sums_in_output();
    const int64_t step = in_output ? m_ : min_of(m_, max_of(kSumsAtOnce / n_, kMaxRows));
    T* const buffer = in_output ? nullptr : scratch<T>(ScratchSlot::Sums, step * n_);
    if (!in_output && buffer == nullptr) return false;
    for (int64_t row = 0; row < m_; row += step) {
      MatrixView sums = out;
      if (!in_output) sums = {reinterpret_cast<const char*>(buffer) - row * n_ * 4, kNativeOf<T>, n_, 1, 4};
      if (!run_rows(batch, row, min_of(row + step, m_), sums)) return false;
    }
    return true;
  }

  bool run_rows(int64_t batch, int64_t begin, int64_t end, const MatrixView& sums) const {
    MatrixView outs[kProgramOutputs], extras[kProgramInputs];
    for (int j = 0; j < launch_.desc.n_outputs; ++j) outs[j] = operands_[j].matrix(batch);
    for (int j = at_.extra; j < count_; ++j) extras[j - at_.extra] = operands_[j].matrix(batch);
    const auto from_row = [&](const MatrixView& view) {
      MatrixView part = view;
      if (view.data != nullptr) part.data = view.at(begin, 0);
      return part;
    };
    MatrixProduct<T> g;
    g.m = end - begin, g.n = n_, g.k = k_;
    g.a = from_row(operands_[at_.a].matrix(batch));
    g.b = operands_[at_.b].matrix(batch);
    g.epilogue.alpha = alpha_, g.epilogue.beta = beta_;
    g.epilogue.c = from_row(operands_[at_.c].matrix(batch));
    g.epilogue.out = from_row(sums);
    return multiply(g, [&](int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
      unsigned char* const buffers = scratch<unsigned char>(ScratchSlot::Scores, EpilogueProgram::kBufferBytes);
      if (buffers == nullptr) return false;
      for (int64_t i = begin + i0; i < begin + i1; ++i) {
        program_.run_row(sums.at(i, j0), i, j0, j1 - j0, outs, extras, buffers);
      }
      return true;
    });
  }

  const Launch& launch_;
  const Operands at_;
  EpilogueProgram program_;
  Batched operands_[ATALLA_MAX_OPERANDS];
  int count_ = 0;  // of operands, without the program
  int64_t batches_ = 0, m_ = 0, n_ = 0, k_ = 0;
  T alpha_ = 1, beta_ = 0;
};

atalla_status check(const Launch& launch) {
  const atalla_launch_desc& desc = launch.desc;
  const Operands at(desc);
  if (desc.n_outputs > kProgramOutputs || desc.n_operands <= at.extra) {
    return fail(launch, ATALLA_ERR_ARGUMENT, "{} outputs of {} operands, expected 1 to {} of {} and more",
                desc.n_outputs, desc.n_operands, kProgramOutputs, at.extra + 1);
  }
  for (int i = 0; i + 1 < desc.n_operands; ++i) {
    const bool is_extra = i >= at.extra;
    if (launch.operand(i).immediate && is_extra) continue;
    if (launch.data[i] == nullptr && i == at.c) continue;
    ATALLA_CHECK(check_matrix(launch, i));
    if (launch.data[i] == nullptr && element_count(launch.operand(i)) != 0)
      return fail(launch, ATALLA_ERR_ARGUMENT, "operand {} is absent", i);
    const bool factor = i >= at.a && i <= at.c, integers = desc.compute_dtype == ATALLA_I32;
    if (factor && ((integers ? kIntegers : kFloats) >> launch.operand(i).dtype & 1) == 0) {
      return fail(launch, ATALLA_ERR_UNSUPPORTED, "operand {} is {}, expected {}", i,
                  dtype_name(launch.operand(i).dtype), integers ? "an integer" : "float16, bfloat16 or float32");
    }
  }
  return check_outputs_apart(launch);
}

atalla_status run(const Launch& launch) {
  ATALLA_CHECK(check(launch));
  if (launch.desc.compute_dtype == ATALLA_I32) return FusedProduct<uint32_t>(launch).run();
  return FusedProduct<float>(launch).run();
}

}  // namespace

extern constexpr KernelFamily gemm_fused_kernels = {{"gemm_fused", kFloats | 1u << ATALLA_I32, run}};

}  // namespace atalla::sim::ATALLA_ISA
