// SPDX-License-Identifier: BSD-3-Clause
//
// nms: the boxes that overlap no box of a higher score too much. Kept boxes are compared with all later ones, a vector
// of boxes at a time.
//
// Instruction sets: up to avx2
#include "sim/kernels/index/index.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

using Operand = NmsOperands;

template <class T>
T larger(T a, T b) {
  return a < b ? b : a;
}
template <class T>
T smaller(T a, T b) {
  return b < a ? b : a;
}

// The largest number of T that is at most x: overlaps of type T are larger than both or than neither.
template <class T>
T at_most(double x) {
  const T near = static_cast<T>(x);
  if (!(static_cast<double>(near) > x)) return near;
  if constexpr (sizeof(T) == sizeof(double)) return near;
  else return __builtin_nextafterf(near, -__builtin_inff());
}

// The boxes by falling score.
template <class T>
struct Boxes {
  ScratchArray<T> x1, y1, x2, y2, area;
  ScratchArray<int32_t> dropped;

  bool allocate(int64_t n) {
    return x1.allocate(n) && y1.allocate(n) && x2.allocate(n) && y2.allocate(n) && area.allocate(n) &&
           dropped.allocate(n);
  }

  // Drops the boxes from `i + 1` on that overlap box i too much.
  void drop_behind(int64_t i, int64_t n, T threshold) {
    const T left = x1[i], top = y1[i], right = x2[i], bottom = y2[i], own = area[i];
    const T *px1 = x1.get(), *py1 = y1.get(), *px2 = x2.get(), *py2 = y2.get(), *pa = area.get();
    int32_t* d = dropped.get();
    for (int64_t j = i + 1; j < n; ++j) {
      const T width = larger(T(0), smaller(right, px2[j]) - larger(left, px1[j]));
      const T height = larger(T(0), smaller(bottom, py2[j]) - larger(top, py1[j]));
      const T both = width * height;
      d[j] |= both / (own + pa[j] - both) > threshold;
    }
  }
};

template <class T, class S>
atalla_status suppress(const Launch& l, const NmsParameters& p, const IndexOperand& order) {
  const atalla_operand &boxes = l.operand(Operand::kBoxes), &keep = l.operand(Operand::kKeep),
                       &places = l.operand(Operand::kOrder);
  const int64_t n = boxes.sizes[0], limit = keep.sizes[0];
  Boxes<T> b;
  if (!b.allocate(n)) return no_memory(l);
  for (int64_t i = 0; i < n; ++i) {
    const S* box = l.at<const S>(Operand::kBoxes, order.read(i * places.strides[0]));
    const int64_t s = boxes.strides[1];
    b.x1[i] = convert<T>(box[0]), b.y1[i] = convert<T>(box[s]);
    b.x2[i] = convert<T>(box[2 * s]), b.y2[i] = convert<T>(box[3 * s]);
    b.area[i] = (b.x2[i] - b.x1[i]) * (b.y2[i] - b.y1[i]);
    b.dropped[i] = 0;
  }
  const T threshold = at_most<T>(p.iou_threshold);
  int64_t kept = 0;
  int64_t* out = l.ptr<int64_t>(Operand::kKeep);
  for (int64_t i = 0; i < n; ++i) {
    if (b.dropped[i]) continue;
    if (kept < limit) out[kept * keep.strides[0]] = order.read(i * places.strides[0]);
    ++kept;
    if (kept >= limit && l.data[Operand::kCount] == nullptr) break;
    b.drop_behind(i, n, threshold);
  }
  for (int64_t i = kept; i < limit; ++i) out[i * keep.strides[0]] = p.fill;
  if (l.data[Operand::kCount] != nullptr) *l.ptr<int64_t>(Operand::kCount) = kept;
  return ATALLA_OK;
}

atalla_status run_nms(const Launch& l) {
  const atalla_operand& boxes = l.operand(Operand::kBoxes);
  const IndexOperand index{l.data[Operand::kOrder], true, 1, boxes.sizes[0], false};
  ATALLA_CHECK(check_index_values(l, Operand::kOrder, index, 0));
  const NmsParameters p = NmsParameters::read(l.desc);
  return with_float_types(boxes.dtype, [&]<class T, class S>(T, S) { return suppress<T, S>(l, p, index); });
}

}  // namespace

extern constexpr KernelFamily nms_kernels = {{"nms", kFloatDtypes, run_nms}};

}  // namespace atalla::sim::ATALLA_ISA
