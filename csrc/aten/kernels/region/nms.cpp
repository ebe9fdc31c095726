// SPDX-License-Identifier: BSD-3-Clause
//
// Non-maximum suppression: torchvision's op, and one whose result has a fixed size.

#include "aten/kernels/adaptor.h"

namespace atalla::aten {

namespace {

void check(const Tensor& dets, const Tensor& scores) {
  check_devices("nms", dets, scores);
  TORCH_CHECK(dets.dim() == 2, "boxes should be a 2d tensor, got ", dets.dim(), "D");
  TORCH_CHECK(dets.size(1) == 4, "boxes should have 4 elements in dimension 1, got ", dets.size(1));
  TORCH_CHECK(scores.dim() == 1, "scores should be a 1d tensor, got ", scores.dim(), "D");
  TORCH_CHECK(dets.size(0) == scores.size(0),
              "boxes and scores should have same number of elements in dimension 0, got ", dets.size(0), " and ",
              scores.size(0));
  TORCH_CHECK(dets.scalar_type() == scores.scalar_type(), "dets should have the same type as scores");
  TORCH_CHECK(at::isFloatingType(dets.scalar_type()), "nms: expected boxes of a floating dtype, got ",
              dets.scalar_type());
}

void suppress(const Tensor& dets, const Tensor& scores, double iou_threshold, int64_t fill, const Tensor& keep,
              const Tensor& count) {
  const Tensor order = std::get<1>(at::sort(scores, /*stable=*/true, /*dim=*/0, /*descending=*/true));
  launch(kNms, dets.scalar_type(), {keep, count}, {dets, order},
         NmsParameters{.iou_threshold = iou_threshold, .fill = fill});
}

Tensor nms(const Tensor& dets, const Tensor& scores, double iou_threshold) {
  check(dets, scores);
  const Tensor keep = empty_like_dtype(dets, {dets.size(0)}, at::kLong);
  if (dets.size(0) == 0) return keep;
  const Tensor count = empty_like_dtype(dets, {1}, at::kLong);
  suppress(dets, scores, iou_threshold, -1, keep, count);
  return keep.narrow(0, 0, count.item<int64_t>());
}

Tensor nms_static(const Tensor& dets, const Tensor& scores, double iou_threshold, int64_t size, int64_t fill_value) {
  TORCH_CHECK(size >= 0, "nms_static: expected a size of 0 or more, got ", size);
  check(dets, scores);
  const Tensor keep = empty_like_dtype(dets, {size}, at::kLong);
  if (size == 0) return keep;
  if (dets.size(0) == 0) return keep.fill_(fill_value);
  suppress(dets, scores, iou_threshold, fill_value, keep, Tensor());
  return keep;
}

TORCH_LIBRARY_IMPL(torchvision, PrivateUse1, m) { m.impl("nms", TORCH_FN(nms)); }

TORCH_LIBRARY_IMPL(atalla, PrivateUse1, m) { m.impl("nms_static", TORCH_FN(nms_static)); }

}  // namespace
}  // namespace atalla::aten
