// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `convolution_packed`: a convolution whose weight was packed ahead of time, perhaps with a vector program
// as its epilogue. docs/reference/kernels.md has the contract, docs/concepts/gemm.md the structure.
//
// Sums are those of `convolution`, in its order, so the results are the same bits.
#include "sim/kernels/convolution/finish.h"
//
#include "sim/kernels/convolution/check.h"
#include "sim/kernels/convolution/packed_plan.h"
#include "sim/kernels/convolution/product.h"
#include "sim/kernels/convolution/winograd.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr int kInputs = 1;                // behind the weight: the bias
constexpr int64_t kSerial = 1 << 18;      // multiply-adds below which a second thread does not pay
constexpr int64_t kSerialCopy = 1 << 13;  // elements that one thread copies as fast as two
constexpr int64_t kWholeImage = 1 << 28;  // elements of a slab's copy, at most
static_assert(kStoredPanel % kPanel<float> == 0);

// The slabs' copies of all images, for slabs whose blocks of panels are units of their own: each is made once, not by
// every thread that takes a block. A channel has room for the vector that is stored beyond its end.
struct SharedSlabs {
  float* copies = nullptr;  // [slab][image][channels][shape.channel]; null: each slab makes its own
  SlabShape shape;          // of a slab with plan.outputs

  static SlabShape padded(SlabShape shape) {
    shape.channel += kLanes<float>;
    return shape;
  }
  float* at(const ConvolutionShape& s, int64_t slab, int64_t image) const {
    return copies + (slab * s.batch + image) * s.in_channels * shape.channel;
  }

  // False: no memory.
  bool make(const FloatConvolution& conv, const PackedPlan& plan) {
    const ConvolutionShape& s = conv.shape;
    if (plan.blocks == 1 || is_image_in_place<float>(s, conv.in)) return true;
    shape = padded(slab_shape(s, plan.outputs));
    const int64_t images = plan.slabs * s.batch;
    copies = scratch<float>(ScratchSlot::PackedA, images * s.in_channels * shape.channel);
    if (copies == nullptr) return false;
    parallel_for(images * s.in_channels, ceil_div(kSerialCopy, shape.channel), [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t c = unit % s.in_channels, image = unit / s.in_channels % s.batch;
        const int64_t slab = unit / s.in_channels / s.batch, from = slab * plan.outputs;
        const SlabShape own = padded(slab_shape(s, min_of(plan.outputs, plan.size - from)));
        copy_slab(s, own, conv.in, conv.in.at(image, c), from, 1, 0.0f, at(s, slab, image) + c * own.channel);
      }
    });
    return true;
  }
};

// One slab of outputs. It lives in the scratch memory of the calling thread: one at a time.
class PackedSlab {
 public:
  PackedSlab(const FloatConvolution& conv, const PackedPlan& plan, const SharedSlabs& shared, int64_t slab)
      : conv_(conv),
        s_(conv.shape),
        plan_(plan),
        number_(slab),
        from_(slab * plan.outputs),
        count_(min_of(plan.outputs, plan.size - from_)),
        slab_(shared.copies == nullptr ? slab_shape(s_, count_) : SharedSlabs::padded(slab_shape(s_, count_))),
        positions_(s_.positions() / plan.size * count_),
        in_place_(is_image_in_place<float>(conv.shape, conv.in)),
        shared_(shared) {}

  // False: no memory for the copies.
  bool prepare(int64_t panels) {
    const int64_t rows = s_.taps() * plan_.channels;
    const bool copies = !in_place_ && shared_.copies == nullptr;
    copy_ = scratch<float>(ScratchSlot::PackedB, !copies ? 1 : plan_.channels * slab_.channel + kPanel<float>);
    sums_ = scratch<float>(ScratchSlot::Partial, plan_.chunks == 1 ? 1 : panels * positions_ * kStoredPanel);
    shifts_ = scratch<int32_t>(ScratchSlot::Offsets, rows);
    pieces_ = scratch<PatchPiece>(ScratchSlot::Values, positions_);
    if (copy_ == nullptr || sums_ == nullptr || shifts_ == nullptr || pieces_ == nullptr) return false;
    n_pieces_ = list_patches(slab_, count_, pieces_);
    if (in_place_) {
      for (int64_t c = 0; c < plan_.channels; ++c) shifts_[c] = static_cast<int32_t>(c * conv_.in.strides[1]);
    } else {
      slab_shifts(s_, slab_, plan_.channels, shifts_);
    }
    return true;
  }

  // Panels [p0, p1) of one image.
  void run(int64_t batch, int64_t p0, int64_t p1) {
    const int64_t depth = s_.depth();
    for (int64_t k0 = 0, chunk = 0; chunk < plan_.chunks; ++chunk, k0 += plan_.depth) {
      const int64_t k = min_of(plan_.depth, depth - k0), c0 = k0 / s_.taps(), c1 = ceil_div(k0 + k, s_.taps());
      const char* channels = conv_.in.at(batch, c0);
      const float* image = copy_;
      if (in_place_) {
        image = reinterpret_cast<const float*>(channels) + from_ * slab_.pitch[slab_.axis];
      } else if (shared_.copies != nullptr) {
        image = shared_.at(s_, number_, batch) + c0 * slab_.channel;
      } else {
        copy_slab(s_, slab_, conv_.in, channels, from_, c1 - c0, 0.0f, copy_);
      }
      for (int64_t p = p0; p < p1; ++p) {
        const bool more = p + 1 < p1;
        const float* b = conv_.weight + (p * depth + k0) * kStoredPanel;
        const float* next = more ? b + depth * kStoredPanel : conv_.weight + (p0 * depth + k0 + k) * kStoredPanel;
        const bool none = !more && chunk + 1 == plan_.chunks;
        multiply(batch, p, p - p0, k, image, shifts_ + (k0 - c0 * s_.taps()), b, none ? nullptr : next, chunk);
      }
    }
  }

 private:
  // A chunk of k for one panel of output channels. `next`: the weights that come after these.
  void multiply(int64_t batch, int64_t panel, int64_t slot, int64_t k, const float* image, const int32_t* shifts,
                const float* b, const float* next, int64_t chunk) {
    const bool first = chunk == 0, last = chunk + 1 == plan_.chunks;
    const int64_t channel = panel * kStoredPanel, channels = min_of(kStoredPanel, s_.out_channels - channel);
    const int64_t first_position = from_ * (s_.positions() / plan_.size);
    alignas(64) float bias[kStoredPanel] = {};
    if (first) conv_.bias.load(channel, channels, bias);
    const int64_t calls = n_pieces_ * (kStoredPanel / kPanel<float>);
    const auto* ahead = next == nullptr ? reinterpret_cast<const char*>(bias) : reinterpret_cast<const char*>(next);
    const int64_t step = next == nullptr ? 0 : ceil_div(kStoredPanel * 4, calls);
    float* const out = reinterpret_cast<float*>(const_cast<char*>(conv_.out.at(batch, channel))) + first_position;
    for (int64_t i = 0; i < n_pieces_; ++i) {
      const PatchPiece& piece = pieces_[i];
      const int64_t rows = piece.second != 0 ? 2 * piece.width : piece.width;
      const PatchKernel kernel = select_patch_kernel(piece.width, piece.second != 0);
      if (last) {  // the lines of the outputs, which nobody may have in cache, while the sums are computed
        const float* line = out + piece.position;
        for (int64_t c = 0; c < channels; ++c, line += conv_.out.strides[1]) {
          __builtin_prefetch(line, 1);
          __builtin_prefetch(line + rows - 1, 1);
        }
      }
      float* const sums = plan_.chunks == 1 ? tile_ : sums_ + (slot * positions_ + piece.position) * kStoredPanel;
      for (int64_t j = 0; j < kStoredPanel; j += kPanel<float>) {
        const float* addend = !first ? sums + j : conv_.bias.data != nullptr ? bias + j : nullptr;
        kernel({k, image + piece.image, piece.second, shifts, b + j, (last ? tile_ : sums) + j, kStoredPanel, addend,
                first ? 0 : kStoredPanel, ahead, step});
        ahead += k * step;
      }
      if (last) store_transposed(tile_, rows, channels, kStoredPanel, out + piece.position, conv_.out.strides[1]);
    }
    if (last && conv_.finish != nullptr) {  // while they are in cache
      conv_.finish->run(*conv_.finish, batch, channel, channel + channels, first_position, first_position + positions_);
    }
  }

  const FloatConvolution& conv_;
  const ConvolutionShape& s_;
  const PackedPlan& plan_;
  const int64_t number_, from_, count_;
  const SlabShape slab_;
  const int64_t positions_;
  const bool in_place_;
  const SharedSlabs& shared_;
  float *copy_ = nullptr, *sums_ = nullptr;
  int32_t* shifts_ = nullptr;
  PatchPiece* pieces_ = nullptr;
  int64_t n_pieces_ = 0;
  // A square of vectors may be read beyond the last row.
  alignas(64) float tile_[(kMaxRows + kLanes<float>)*kStoredPanel] = {};
};

// Units are slabs, of each all images, of each the blocks of panels. False: no memory for the copy of the image.
bool multiply_packed(const FloatConvolution& conv) {
  const ConvolutionShape& s = conv.shape;
  if (winograd_outputs(s) != 0) {
    const WinogradEnd end = run_winograd(conv);
    if (end == WinogradEnd::kDone) return true;
    if (end == WinogradEnd::kNoMemory) return false;
  }
  const PackedPlan plan = plan_packed(s);
  const int64_t units = s.batch * plan.slabs * plan.blocks;
  const int64_t work = s.batch * s.out_channels * s.positions() * s.depth() / units;
  SharedSlabs shared;
  if (!shared.make(conv, plan)) return false;
  return parallel_try(units, ceil_div(kSerial, work + 1), [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t slab = begin / (s.batch * plan.blocks), stop = min_of(end, (slab + 1) * s.batch * plan.blocks);
      PackedSlab product(conv, plan, shared, slab);
      if (!product.prepare(plan.panels)) return false;
      while (begin < stop) {
        const int64_t image = begin / plan.blocks % s.batch, block = begin % plan.blocks;
        const int64_t blocks = min_of(plan.blocks - block, stop - begin);
        product.run(image, plan.panels * block / plan.blocks, plan.panels * (block + blocks) / plan.blocks);
        begin += blocks;
      }
    }
    return true;
  });
}

// The weight as `convolution` sees it, [co, ci, kernel...]: what the packed one claims to be.
bool describe(const atalla_launch_desc& desc, atalla_launch_desc& alone) {
  if (desc.n_outputs < 1 || desc.n_operands < desc.n_outputs + 3) return false;
  describe_convolution_alone(desc, kInputs, alone);
  const atalla_operand &out = alone.operands[ConvolutionOperands::kOut],
                       &packed = desc.operands[ConvolutionPackedOperands(desc).weight];
  if (packed.ndim < 4 || packed.ndim > 6 || out.ndim < 2) return false;
  atalla_operand& weight = alone.operands[ConvolutionOperands::kWeight];
  weight.ndim = static_cast<decltype(weight.ndim)>(packed.ndim - 1);
  weight.sizes[0] = out.sizes[1];
  for (int d = 1; d < weight.ndim; ++d) weight.sizes[d] = packed.sizes[d];
  return true;
}

atalla_status check_packed(const Launch& l, const atalla_operand& packed, const ConvolutionShape& s) {
  int64_t expected = 1;
  bool contiguous = packed.dtype == ATALLA_F32 && packed.sizes[0] == ceil_div(s.out_channels, kStoredPanel) &&
                    packed.sizes[packed.ndim - 1] == kStoredPanel;
  for (int d = packed.ndim - 1; d >= 0; --d) {
    contiguous = contiguous && (packed.sizes[d] == 1 || packed.strides[d] == expected);
    expected *= packed.sizes[d];
  }
  if (contiguous) return ATALLA_OK;
  return fail(l, ATALLA_ERR_ARGUMENT, "the weight is not [{}, ci, kernel..., 32], contiguous, of float32",
              ceil_div(s.out_channels, kStoredPanel));
}

atalla_status run(const Launch& launch) {
  const atalla_launch_desc& desc = launch.desc;
  const int n_out = desc.n_outputs;
  atalla_launch_desc alone;
  if (!describe(desc, alone)) {
    return fail(launch, ATALLA_ERR_ARGUMENT,
                "{} outputs of {} operands; expected out, in, a packed weight of 4 to 6 dimensions and bias", n_out,
                desc.n_operands);
  }
  if (desc.n_operands > n_out + 3)
    alone.operands[ConvolutionOperands::kOut].dtype = ATALLA_F32;  // the sums; the program gives the outputs
  const ConvolutionPackedOperands at(desc);
  void* data[5] = {launch.data[at.kOut], launch.data[at.input], launch.data[at.weight], launch.data[at.bias]};
  const Launch convolution{alone, data, launch.kernel};
  if (atalla_status s = check_convolution(convolution)) return s;
  FloatConvolution conv;
  const ConvolutionShape& s = conv.shape = convolution_shape(alone);
  if (atalla_status status = check_packed(launch, desc.operands[at.weight], s)) return status;
  if (s.groups != 1) return fail(launch, ATALLA_ERR_ARGUMENT, "{} groups, expected 1", s.groups);
  ProgramFinish finish(launch, kInputs);
  const bool has_program = desc.n_operands > n_out + 3;
  if (has_program) {
    if (atalla_status status = finish.check_count()) return status;
    if (atalla_status status = finish.decode(alone, data[0])) return status;
    conv.finish = &finish;
  } else if (n_out != 1 || !has_flat_positions(desc.operands[at.kOut], ATALLA_F32)) {
    return fail(launch, ATALLA_ERR_ARGUMENT,
                "{} outputs, expected one without a program, F32 with contiguous positions", n_out);
  }
  if (atalla_status status = check_outputs_apart(launch)) return status;
  if (s.batch * s.out_channels * s.positions() == 0) return ATALLA_OK;
  const SlabShape whole = slab_shape(s, INT64_MAX);
  if (s.depth() == 0 || whole.phases[2] > kPhases || s.in_channels * whole.channel > kWholeImage) {
    return fail(launch, ATALLA_ERR_UNSUPPORTED,
                "no input channels, an image of more than 2^28 elements, or more than {} phases", kPhases);
  }
  conv.out = convolution_tensor(alone.operands[ConvolutionOperands::kOut], data[0]);
  conv.in = convolution_tensor(desc.operands[at.input], launch.data[at.input]);
  conv.weight = launch.ptr<const float>(at.weight);
  conv.packed = true;
  conv.bias = {launch, at.bias};
  if (!multiply_packed(conv)) return fail(launch, ATALLA_ERR_SYSTEM, "no memory for the copy of the image");
  return finish.status();
}

}  // namespace

extern constexpr KernelFamily convolution_packed_kernels = {{"convolution_packed", 1u << ATALLA_F32, run}};

}  // namespace atalla::sim::ATALLA_ISA
