// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `convolution`, 1-d to 3-d, as an implicit matrix product: out[co, position] = sum over (ci, tap) of
// weight[co, (ci, tap)] * patch[(ci, tap), position]. docs/reference/kernels.md has the contract, docs/concepts/gemm.md
// the structure.
#include "sim/kernels/convolution/finish.h"
//
#include "sim/kernels/convolution/check.h"
#include "sim/kernels/convolution/patches.h"
#include "sim/kernels/convolution/product.h"
#include "sim/kernels/convolution/winograd.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr int64_t kSerialConvolution = 1 << 18;  // multiply-adds below which a second thread does not pay

// Output channels [c0, c1) of a group at positions [p0, p1).
template <class T>
bool run_matrix(const Convolution<T>& conv, int64_t batch, int64_t group, int64_t c0, int64_t c1, int64_t p0,
                int64_t p1) {
  const ConvolutionShape& s = conv.shape;
  const int64_t first = group * s.out_per_group();
  MatrixProduct<T> g;
  g.m = s.out_per_group(), g.n = s.positions(), g.k = s.depth();
  g.a = {reinterpret_cast<const char*>(conv.weight + first * g.k), kNativeOf<T>, g.k, 1,
         static_cast<int64_t>(sizeof(T))};
  g.epilogue = conv.epilogue(batch, first);
  const PatchSource<T> source{s, conv.in, conv.image(batch, group), conv.outside};
  if (conv.flat_out) {
    const bool done = multiply_block(g, source, c0, c1, p0, p1);
    if (done && conv.finish != nullptr) conv.finish->run(*conv.finish, batch, first + c0, first + c1, p0, p1);
    return done;
  }

  // Outputs that are scattered: computed in rows of the arithmetic type, then stored one by one.
  const int64_t width = p1 - p0;
  T* rows = scratch<T>(ScratchSlot::Scores, (c1 - c0) * width);
  if (rows == nullptr) return false;
  Epilogue<T> scattered = g.epilogue;
  const int64_t item = static_cast<int64_t>(sizeof(T));
  g.epilogue.out = {reinterpret_cast<const char*>(rows - c0 * width - p0), kNativeOf<T>, width, 1, item};
  if (!multiply_block(g, source, c0, c1, p0, p1)) return false;
  for (int64_t c = c0; c < c1; ++c) {
    char* base = const_cast<char*>(conv.out.at(batch, first + c));
    for (int64_t p = p0; p < p1;) {
      const int64_t n = min_of(p1 - p, s.out[2] - p % s.out[2]);  // to the end of the image row
      store_run(rows + (c - c0) * width + (p - p0), n, base + conv.position_offset(p) * conv.out.item,
                scattered.out.dtype, conv.out.strides[4]);
      p += n;
    }
  }
  return true;
}

// The weight as [co, depth] of T: in place when it lies so, else a copy in the calling thread's scratch memory.
template <class T>
const T* weight_rows(const ConvolutionShape& s, const ConvolutionTensor& w) {
  const int64_t depth = s.depth();
  int64_t expected = 1;
  bool contiguous = w.dtype == kNativeOf<T>;
  const int64_t sizes[] = {s.out_channels, s.in_per_group(), s.kernel[0], s.kernel[1], s.kernel[2]};
  for (int d = 4; d >= 0; --d) {
    if (sizes[d] > 1) contiguous = contiguous && w.strides[d] == expected;
    expected *= sizes[d];
  }
  if (contiguous) return reinterpret_cast<const T*>(w.data);
  T* copy = scratch<T>(ScratchSlot::Alias, s.out_channels * depth);
  if (copy == nullptr) return nullptr;
  T* dst = copy;
  for (int64_t o = 0; o < s.out_channels; ++o) {
    for (int64_t c = 0; c < s.in_per_group(); ++c) {
      for (int64_t z = 0; z < s.kernel[0]; ++z) {
        for (int64_t y = 0; y < s.kernel[1]; ++y, dst += s.kernel[2]) {
          load_run(w.at(o, c) + (z * w.strides[2] + y * w.strides[3]) * w.item, w.dtype, w.strides[4], s.kernel[2],
                   dst);
        }
      }
    }
  }
  return copy;
}

template <class T>
atalla_status run_as(const Launch& launch, const ConvolutionFinish* finish = nullptr) {
  Convolution<T> conv;
  conv.finish = finish;
  conv.shape = convolution_shape(launch.desc);
  const ConvolutionShape& s = conv.shape;
  if (s.batch * s.out_channels * s.positions() == 0) return ATALLA_OK;
  using Operands = ConvolutionOperands;
  const auto tensor = [&](int index) { return convolution_tensor(launch.operand(index), launch.data[index]); };
  conv.out = tensor(Operands::kOut), conv.in = tensor(Operands::kInput);
  conv.weight = weight_rows<T>(s, tensor(Operands::kWeight));
  if (conv.weight == nullptr && s.depth() > 0) {
    return fail(launch, ATALLA_ERR_SYSTEM, "no memory for a copy of the weight");
  }
  if (has_operand(launch, Operands::kBias)) conv.bias = {launch, Operands::kBias};
  if (has_operand(launch, Operands::kOutside)) {
    const atalla_operand& outside = launch.operand(Operands::kOutside);
    load_run(launch.ptr<const char>(Operands::kOutside), outside.dtype, 1, 1, &conv.outside);
  }
  conv.compute_dtype = launch.desc.compute_dtype;
  const int64_t* st = conv.out.strides;
  int64_t expected = -1;  // stride that the next outer dimension must have
  conv.flat_out = true;
  for (int d = kSpatial - 1; d >= 0; --d) {
    if (s.out[d] == 1) continue;
    if (expected >= 0 && st[2 + d] != expected) conv.flat_out = false;
    expected = st[2 + d] * s.out[d];
  }

  if constexpr (std::is_same_v<T, float>) {
    if (conv.compute_dtype == ATALLA_F32 && winograd_outputs(s) != 0) {
      const WinogradEnd end = run_winograd({s, conv.in, conv.out, conv.weight, /*packed=*/false, conv.bias, finish});
      if (end == WinogradEnd::kDone) return ATALLA_OK;
      if (end == WinogradEnd::kNoMemory) {
        return fail(launch, ATALLA_ERR_SYSTEM, "no memory for transformed images and weights");
      }
    }
  }
  const int64_t work_a_position = max_of(1, s.out_per_group() * s.depth());
  const SlabPlan plan = plan_slabs<T>(s);
  if (plan.pays) {
    const int64_t units = s.batch * s.groups * plan.slabs * plan.blocks;
    const int64_t work = s.batch * s.out_channels * s.positions() * s.depth() / units;
    const bool ok = parallel_try(units, ceil_div(kSerialConvolution, work + 1),
                                 [&](int64_t begin, int64_t end) { return multiply_slabs(conv, plan, begin, end); });
    return ok ? ATALLA_OK : fail(launch, ATALLA_ERR_SYSTEM, "no memory for the copy of the image");
  }
  // Units are panels of positions of every (batch, group); with few of them, channels are cut instead.
  const int64_t panel = kPanel<T>;
  const int64_t panels = ceil_div(s.positions(), panel);
  const int64_t images = s.batch * s.groups;
  const int64_t limit = conv.flat_out ? s.positions() : 32 * panel;  // bounds the scratch rows of scattered outputs
  bool ok = true;
  if (images * panels < 8 && s.out_per_group() >= 4 * kMaxRows) {
    const int64_t grain = kMaxRows * ceil_div(kSerialConvolution, images * s.positions() * s.depth() * kMaxRows + 1);
    ok = parallel_try(s.out_per_group(), grain, [&](int64_t begin, int64_t end) {
      bool done = true;
      for (int64_t i = 0; i < images; ++i) {
        done = run_matrix(conv, i / s.groups, i % s.groups, begin, end, 0, s.positions()) && done;
      }
      return done;
    });
  } else {
    const int64_t grain = ceil_div(kSerialConvolution, work_a_position * panel);
    ok = parallel_try(images * panels, grain, [&](int64_t begin, int64_t end) {
      bool done = true;
      while (begin < end) {
        const int64_t image = begin / panels, from = begin % panels;
        const int64_t to = min_of(panels, from + (end - begin));
        for (int64_t p = from * panel; p < min_of(to * panel, s.positions()); p += limit) {
          const int64_t stop = min_of(p + limit, min_of(to * panel, s.positions()));
          done = run_matrix(conv, image / s.groups, image % s.groups, 0, s.out_per_group(), p, stop) && done;
        }
        begin += to - from;
      }
      return done;
    });
  }
  return ok ? ATALLA_OK : fail(launch, ATALLA_ERR_SYSTEM, "no memory for packing buffers");
}

atalla_status run(const Launch& launch) {
  if (atalla_status s = check_convolution(launch)) return s;
  return with_product_type(launch.desc.compute_dtype, [&]<class T>(T) { return run_as<T>(launch); });
}

constexpr int kFusedInputs = 2;  // behind the weight: bias and the value outside of the input

atalla_status run_fused(const Launch& launch) {
  const int n_out = launch.desc.n_outputs;
  const bool integers = launch.desc.compute_dtype == ATALLA_I32;
  ProgramFinish finish(launch, kFusedInputs);
  if (atalla_status s = finish.check_count()) return s;
  atalla_launch_desc alone;
  describe_convolution_alone(launch.desc, kFusedInputs, alone);
  alone.operands[ConvolutionOperands::kOut].dtype = integers ? ATALLA_I32 : ATALLA_F32;
  void* data[3 + kFusedInputs] = {launch.data[0]};
  for (int i = 0; i < 2 + kFusedInputs; ++i) data[1 + i] = launch.data[n_out + i];
  const Launch convolution{alone, data, launch.kernel};
  if (atalla_status s = check_convolution(convolution)) return s;
  if (atalla_status s = finish.decode(alone, data[0])) return s;
  if (atalla_status s = check_outputs_apart(launch)) return s;
  if (atalla_status s = integers ? run_as<uint32_t>(convolution, &finish) : run_as<float>(convolution, &finish))
    return s;
  return finish.status();
}

constexpr uint64_t kFusedDtypes = 1u << ATALLA_F16 | 1u << ATALLA_F32 | 1u << ATALLA_BF16 | 1u << ATALLA_I32;

}  // namespace

extern constexpr KernelFamily convolution_kernels = {
    {"convolution", kConvolutionDtypes, run},
    {"convolution_fused", kFusedDtypes, run_fused},
};

}  // namespace atalla::sim::ATALLA_ISA
