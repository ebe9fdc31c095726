// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `convolution`, 1-d to 3-d, as an implicit matrix product: out[co, position] = sum over (ci, tap) of
// weight[co, (ci, tap)] * patch[(ci, tap), position]. docs/kernels.md has the contract, docs/gemm.md the structure.
#include "epilogue_program.h"
//
#include "convolution_patches.h"
#include "convolution_product.h"
#include "gemm_cost.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr uint64_t kDtypes = 1u << ATALLA_U8 | 1u << ATALLA_I8 | 1u << ATALLA_I16 | 1u << ATALLA_I32 |
                             1u << ATALLA_I64 | 1u << ATALLA_F16 | 1u << ATALLA_F32 | 1u << ATALLA_F64 |
                             1u << ATALLA_BF16;
constexpr int64_t kSerialConvolution = 1 << 18;  // multiply-adds below which a second thread does not pay

using LongLong = long long;

// Output channels [c0, c1) of a group at positions [p0, p1).
template <class T>
bool run_matrix(const Convolution<T>& conv, int64_t batch, int64_t group, int64_t c0, int64_t c1, int64_t p0,
                int64_t p1) {
  const ConvolutionShape& s = conv.shape;
  const int64_t first = group * s.out_per_group();
  MatrixProduct<T> g;
  g.m = s.out_per_group(), g.n = s.positions(), g.k = s.depth();
  g.a = {reinterpret_cast<const char*>(conv.weight + first * g.k), kNativeDtype<T>, g.k, 1,
         static_cast<int64_t>(sizeof(T))};
  g.epilogue = conv.epilogue(batch, first);
  const PatchSource<T> source{s, conv.in, conv.image(batch, group)};
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
  g.epilogue.out = {reinterpret_cast<const char*>(rows - c0 * width - p0), kNativeDtype<T>, width, 1, item};
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
  bool contiguous = w.dtype == kNativeDtype<T>;
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
  conv.out = convolution_tensor(launch.operand(0), launch.data[0]);
  conv.in = convolution_tensor(launch.operand(1), launch.data[1]);
  conv.weight = weight_rows<T>(s, convolution_tensor(launch.operand(2), launch.data[2]));
  if (conv.weight == nullptr && s.depth() > 0) {
    return set_error(ATALLA_ERR_SYSTEM, "convolution: no memory for a copy of the weight");
  }
  const bool has_bias = launch.desc.n_operands == 4 && launch.data[3] != nullptr;
  conv.bias = has_bias ? launch.ptr<const char>(3) : nullptr;
  conv.bias_dtype = has_bias ? launch.operand(3).dtype : kNativeDtype<T>;
  conv.bias_stride = has_bias ? launch.operand(3).strides[0] : 0;
  conv.compute_dtype = launch.desc.compute_dtype;
  const int64_t* st = conv.out.strides;
  int64_t expected = -1;  // stride that the next outer dimension must have
  conv.flat_out = true;
  for (int d = kSpatial - 1; d >= 0; --d) {
    if (s.out[d] == 1) continue;
    if (expected >= 0 && st[2 + d] != expected) conv.flat_out = false;
    expected = st[2 + d] * s.out[d];
  }

  bool ok = true;
  const int64_t work_a_position = max_of(1, s.out_per_group() * s.depth());
  const SlabPlan plan = plan_slabs<T>(s);
  if (plan.pays) {
    const int64_t units = s.batch * s.groups * plan.slabs * plan.blocks;
    const int64_t work = s.batch * s.out_channels * s.positions() * s.depth() / units;
    parallel_for(units, ceil_div(kSerialConvolution, work + 1), [&](int64_t begin, int64_t end) {
      if (!multiply_slabs(conv, plan, begin, end)) __atomic_store_n(&ok, false, __ATOMIC_RELAXED);
    });
    return ok ? ATALLA_OK : set_error(ATALLA_ERR_SYSTEM, "convolution: no memory for the copy of the image");
  }
  // Units are panels of positions of every (batch, group); with few of them, channels are cut instead.
  const int64_t panel = kPanel<T>;
  const int64_t panels = ceil_div(s.positions(), panel);
  const int64_t images = s.batch * s.groups;
  const int64_t limit = conv.flat_out ? s.positions() : 32 * panel;  // bounds the scratch rows of scattered outputs
  if (images * panels < 8 && s.out_per_group() >= 4 * kMaxRows) {
    const int64_t grain = kMaxRows * ceil_div(kSerialConvolution, images * s.positions() * s.depth() * kMaxRows + 1);
    parallel_for(s.out_per_group(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < images; ++i) {
        if (!run_matrix(conv, i / s.groups, i % s.groups, begin, end, 0, s.positions())) {
          __atomic_store_n(&ok, false, __ATOMIC_RELAXED);
        }
      }
    });
  } else {
    const int64_t grain = ceil_div(kSerialConvolution, work_a_position * panel);
    parallel_for(images * panels, grain, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t image = begin / panels, from = begin % panels;
        const int64_t to = min_of(panels, from + (end - begin));
        for (int64_t p = from * panel; p < min_of(to * panel, s.positions()); p += limit) {
          const int64_t stop = min_of(p + limit, min_of(to * panel, s.positions()));
          if (!run_matrix(conv, image / s.groups, image % s.groups, 0, s.out_per_group(), p, stop)) {
            __atomic_store_n(&ok, false, __ATOMIC_RELAXED);
          }
        }
        begin += to - from;
      }
    });
  }
  return ok ? ATALLA_OK : set_error(ATALLA_ERR_SYSTEM, "convolution: no memory for packing buffers");
}

atalla_status check(const Launch& launch) {
  const atalla_launch_desc& desc = launch.desc;
  if (desc.n_outputs != 1 || (desc.n_operands != 3 && desc.n_operands != 4)) {
    return set_error(ATALLA_ERR_ARGUMENT, "convolution: %d outputs of %d operands, expected 1 of 3 or 4",
                     int{desc.n_outputs}, int{desc.n_operands});
  }
  auto supported = [](atalla_dtype d) { return d < 64 && ((kDtypes >> d) & 1) != 0; };
  if (!supported(desc.compute_dtype)) {
    return set_error(ATALLA_ERR_UNSUPPORTED, "convolution: compute dtype code %d is not supported",
                     int{desc.compute_dtype});
  }
  const atalla_operand &out = launch.operand(0), &in = launch.operand(1), &weight = launch.operand(2);
  const int ndim = in.ndim;
  if (ndim < 3 || ndim > 5 || out.ndim != ndim || weight.ndim != ndim) {
    return set_error(ATALLA_ERR_ARGUMENT,
                     "convolution: out, in and weight have %d, %d and %d dimensions, expected 3 to 5", int{out.ndim},
                     ndim, int{weight.ndim});
  }
  const bool has_bias = desc.n_operands == 4 && launch.data[3] != nullptr;
  for (int i = 0; i < (has_bias ? 4 : 3); ++i) {
    if (!supported(launch.operand(i).dtype)) {
      return set_error(ATALLA_ERR_UNSUPPORTED, "convolution: operand %d has dtype code %d, which is not supported", i,
                       int{launch.operand(i).dtype});
    }
  }
  const ConvolutionShape s = convolution_shape(desc);
  if (s.groups < 1 || s.in_channels % s.groups != 0 || s.out_channels % s.groups != 0) {
    return set_error(ATALLA_ERR_ARGUMENT, "convolution: %lld input and %lld output channels in %lld groups",
                     LongLong{s.in_channels}, LongLong{s.out_channels}, LongLong{s.groups});
  }
  if (out.sizes[0] != s.batch || weight.sizes[0] != s.out_channels || weight.sizes[1] != s.in_per_group()) {
    return set_error(
        ATALLA_ERR_ARGUMENT,
        "convolution: batch %lld and weight [%lld, %lld, ...], expected batch %lld and weight [%lld, %lld, ...]",
        LongLong{out.sizes[0]}, LongLong{weight.sizes[0]}, LongLong{weight.sizes[1]}, LongLong{s.batch},
        LongLong{s.out_channels}, LongLong{s.in_per_group()});
  }
  for (int d = kSpatial - (ndim - 2); d < kSpatial; ++d) {
    if (s.stride[d] < 1 || s.dilation[d] < 1 || s.kernel[d] < 1) {
      return set_error(ATALLA_ERR_ARGUMENT, "convolution: kernel %lld, stride %lld, dilation %lld; expected at least 1",
                       LongLong{s.kernel[d]}, LongLong{s.stride[d]}, LongLong{s.dilation[d]});
    }
  }
  if (has_bias && (launch.operand(3).ndim != 1 || launch.operand(3).sizes[0] != s.out_channels)) {
    return set_error(ATALLA_ERR_ARGUMENT, "convolution: bias has %d dimensions and %lld elements, expected 1 and %lld",
                     int{launch.operand(3).ndim}, LongLong{launch.operand(3).sizes[0]}, LongLong{s.out_channels});
  }
  return ATALLA_OK;
}

atalla_status run(const Launch& launch) {
  if (atalla_status s = check(launch)) return s;
  switch (launch.desc.compute_dtype) {
    case ATALLA_F64:
      return run_as<double>(launch);
    case ATALLA_I64:
      return run_as<uint64_t>(launch);
    case ATALLA_F16:
    case ATALLA_BF16:
    case ATALLA_F32:
      return run_as<float>(launch);
    default:
      return run_as<uint32_t>(launch);
  }
}

// Positions stream through the array as rows, the weight [depth, co] is stationary. SDMA gathers patches from DRAM: an
// input element is read once for every tap that sees it, unless the group's image fits into half a scratchpad. A
// depthwise group would use one column of the array; it runs on the vector unit instead, one multiply and one add a
// tap.
void cost(const atalla_launch_desc& desc, Cost& cost) {
  const ConvolutionShape s = convolution_shape(desc);
  if (s.groups < 1 || s.batch * s.out_channels * s.positions() <= 0) return;
  const uint64_t images = static_cast<uint64_t>(s.batch) * static_cast<uint64_t>(s.groups);
  const int64_t in_item = cost_element_size(desc.operands[1].dtype);
  const int64_t weight_item = cost_element_size(desc.operands[2].dtype);
  const int64_t positions = s.positions(), depth = s.depth(), co = s.out_per_group();
  const int64_t image_bytes = s.in_per_group() * s.in[0] * s.in[1] * s.in[2] * in_item;
  const uint64_t vectors =
      static_cast<uint64_t>(s.batch * s.out_channels) * static_cast<uint64_t>(ceil_div(positions, kVectorElements));
  if (co == 1) {
    cost.vector_ops = 2 * vectors * static_cast<uint64_t>(depth);
    cost.bytes_read = images * static_cast<uint64_t>(image_bytes + depth * weight_item);
  } else {
    const ArrayProduct product = array_product(positions, co, depth, in_item, weight_item);
    cost.macs = product.macs * images;
    cost.array_rows = product.array_rows * images;
    cost.weight_rows = product.weight_rows * images;
    const uint64_t a_bytes = image_bytes <= kScratchpadBytes / 2 ? static_cast<uint64_t>(image_bytes) : product.a_bytes;
    cost.bytes_read = images * (a_bytes + product.b_bytes);
  }
  if (desc.n_operands == 4 && desc.operands[3].addr != 0) {
    cost.bytes_read += stored_bytes(desc.operands[3]);
    cost.vector_ops += vectors;
  }
  cost.bytes_written = static_cast<uint64_t>(s.batch * s.out_channels * positions) *
                       static_cast<uint64_t>(cost_element_size(desc.operands[0].dtype));
}

// convolution_fused: the sums stand in the first output, F32 with contiguous positions, until the program replaces
// them. Other outputs and the extra inputs are [n, co, positions].
struct Finish : ConvolutionFinish {
  const Launch& launch;
  int first_extra;
  EpilogueProgram program;
  mutable bool failed = false;

  explicit Finish(const Launch& l) : ConvolutionFinish{apply}, launch(l), first_extra(l.desc.n_outputs + 3) {}

  MatrixView view(int index, int64_t batch, int64_t row_stride, int64_t col_stride, int64_t batch_stride) const {
    const atalla_operand& o = launch.operand(index);
    if (o.immediate) return {launch.ptr<const char>(index), o.dtype, 0, 0, element_size(o.dtype)};
    const int64_t item = element_size(o.dtype);
    return {launch.ptr<const char>(index) + batch * batch_stride * item, o.dtype, row_stride, col_stride, item};
  }

  static void apply(const ConvolutionFinish& base, int64_t batch, int64_t c0, int64_t c1, int64_t p0, int64_t p1) {
    const Finish& self = static_cast<const Finish&>(base);
    auto* buffers = scratch<unsigned char>(ScratchSlot::Scores, EpilogueProgram::kBufferBytes);
    if (buffers == nullptr) return __atomic_store_n(&self.failed, true, __ATOMIC_RELAXED);
    const atalla_launch_desc& desc = self.launch.desc;
    MatrixView outs[kProgramOutputs], extras[kProgramInputs];
    const int64_t* st = desc.operands[0].strides;
    outs[0] = self.view(0, batch, st[1], 1, st[0]);
    for (int j = 1; j < desc.n_outputs; ++j) {
      const int64_t* t = desc.operands[j].strides;
      outs[j] = self.view(j, batch, t[1], t[2], t[0]);
    }
    for (int k = self.first_extra; k + 1 < desc.n_operands; ++k) {
      const int64_t* t = desc.operands[k].strides;
      extras[k - self.first_extra] = self.view(k, batch, t[1], t[2], t[0]);
    }
    for (int64_t c = c0; c < c1; ++c) {
      const auto* sums = reinterpret_cast<const float*>(outs[0].at(c, p0));
      self.program.run_row(sums, c, p0, p1 - p0, outs, extras, buffers);
    }
  }
};

atalla_status run_fused(const Launch& launch) {
  const atalla_launch_desc& desc = launch.desc;
  const int n_out = desc.n_outputs, last = desc.n_operands - 1;
  Finish finish(launch);
  if (n_out < 1 || n_out > kProgramOutputs || last < finish.first_extra) {
    return set_error(ATALLA_ERR_ARGUMENT, "convolution_fused: %d outputs of %d operands, expected %d and more", n_out,
                     int{desc.n_operands}, finish.first_extra + 1);
  }
  // The convolution alone: its parameters are those of `convolution`.
  atalla_launch_desc alone;
  std::memcpy(static_cast<void*>(&alone), &desc, offsetof(atalla_launch_desc, operands));
  alone.n_outputs = 1, alone.n_operands = 4;
  const int chosen[] = {0, n_out, n_out + 1, n_out + 2};
  void* data[4];
  for (int i = 0; i < 4; ++i) alone.operands[i] = desc.operands[chosen[i]], data[i] = launch.data[chosen[i]];
  const Launch convolution{alone, data};
  if (atalla_status s = check(convolution)) return s;
  if (atalla_status s = finish.program.decode(launch, finish.first_extra, last)) return s;
  const ConvolutionShape shape = convolution_shape(alone);
  const atalla_operand& out = desc.operands[0];
  int64_t expected = 1;
  bool flat = out.dtype == ATALLA_F32 && finish.program.sums_in_output();
  for (int d = out.ndim - 1; d >= 2; --d) {
    flat = flat && (out.sizes[d] == 1 || out.strides[d] == expected);
    expected *= out.sizes[d];
  }
  if (!flat) {
    return set_error(ATALLA_ERR_ARGUMENT,
                     "convolution_fused: expected an F32 output with contiguous positions, which "
                     "the program writes after its last use of the sums");
  }
  for (int i = 1; i < last; ++i) {
    if (i >= n_out && i < finish.first_extra) continue;
    const atalla_operand& o = desc.operands[i];
    if (o.immediate && i >= n_out) continue;
    if (o.ndim != 3 || o.sizes[0] != shape.batch || o.sizes[1] != shape.out_channels ||
        o.sizes[2] != shape.positions() || o.dtype == ATALLA_C64 || o.dtype == ATALLA_C128 ||
        launch.data[i] == nullptr) {
      return set_error(ATALLA_ERR_ARGUMENT, "convolution_fused: operand %d is not [n, co, positions] of real numbers",
                       i);
    }
  }
  for (int k = n_out; k < last; ++k) {
    for (int j = 0; j < n_out; ++j) {
      if (launch.data[j] != launch.data[k] || launch.data[k] == nullptr) continue;
      return set_error(ATALLA_ERR_ARGUMENT, "convolution_fused: output %d stands where operand %d does", j, k);
    }
  }
  if (atalla_status s = run_as<float>(convolution, &finish)) return s;
  return finish.failed ? set_error(ATALLA_ERR_SYSTEM, "convolution_fused: no memory for the program's buffers")
                       : ATALLA_OK;
}

void cost_fused(const atalla_launch_desc& desc, Cost& cost_of) {
  const int n_out = desc.n_outputs;
  if (n_out < 1 || desc.n_operands < n_out + 4) return;
  atalla_launch_desc alone;
  std::memcpy(static_cast<void*>(&alone), &desc, offsetof(atalla_launch_desc, operands));
  alone.n_outputs = 1, alone.n_operands = 4;
  const int chosen[] = {0, n_out, n_out + 1, n_out + 2};
  for (int i = 0; i < 4; ++i) alone.operands[i] = desc.operands[chosen[i]];
  cost(alone, cost_of);
  for (int i = 1; i < n_out; ++i) cost_of.bytes_written += stored_bytes(desc.operands[i]);
  for (int i = n_out + 3; i + 1 < desc.n_operands; ++i) {
    if (desc.operands[i].addr != 0) cost_of.bytes_read += stored_bytes(desc.operands[i]);
  }
  const ConvolutionShape s = convolution_shape(alone);
  cost_vector_program(s.batch * s.out_channels * s.positions(), desc.iparams[10], desc.iparams[11], cost_of);
}

constexpr Kernel kKernels[] = {{"convolution", 1, kDtypes, run, cost},
                               {"convolution_fused", 1, 1u << ATALLA_F32, run_fused, cost_fused}};

}  // namespace

KernelTable convolution_kernels() { return kKernels; }

}  // namespace atalla::sim::ATALLA_ISA
