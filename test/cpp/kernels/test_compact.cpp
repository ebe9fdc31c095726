// SPDX-License-Identifier: BSD-3-Clause
//
// The kernels that select by masks, over several blocks and strides, against plain loops.
#include "check.h"
#include "kernels/harness.h"

using namespace kernel_test;

namespace {

using Index = std::vector<int64_t>;

constexpr int64_t kBlock = 4096;

atalla_status launch(const char* name, std::vector<Tensor*> operands) {
  atalla_launch_desc d{};
  d.n_outputs = 1;
  d.compute_dtype = operands[0]->dtype;
  return run_kernel(name, d, operands);
}

Tensor counts_of(Tensor& mask) {
  int64_t n = 1;
  for (const int64_t s : mask.sizes) n *= s;
  Tensor starts(ATALLA_I64, {(n + kBlock - 1) / kBlock + 1});
  CHECK_EQ(launch("compact.count", {&starts, &mask}), ATALLA_OK);
  return starts;
}

void selection(const Index& shape, std::vector<int> order, atalla_dtype d) {
  Random random;
  Tensor mask(ATALLA_BOOL, shape, order), in(d, shape);
  random.fill(mask);
  random.fill(in);
  std::vector<Index> places;
  mask.each([&](const Index& i) {
    if (mask.get(i) != 0) places.push_back(i);
  });
  const int64_t n = static_cast<int64_t>(places.size());
  Tensor starts = counts_of(mask);
  CHECK_EQ(starts.get_integer({starts.sizes[0] - 1}), n);
  Tensor where(ATALLA_I64, {n, static_cast<int64_t>(shape.size())}, {1, 0}), line(d, {n}), back(d, shape, order);
  CHECK_EQ(launch("compact.nonzero", {&where, &mask, &starts}), ATALLA_OK);
  CHECK_EQ(launch("compact.select", {&line, &in, &mask, &starts}), ATALLA_OK);
  back.each([&](const Index& i) { back.set(i, 1); });
  CHECK_EQ(launch("masked_scatter", {&back, &line, &mask, &starts}), ATALLA_OK);
  int wrong = 0;
  for (int64_t k = 0; k < n; ++k) {
    for (size_t c = 0; c < shape.size(); ++c) {
      wrong += where.get_integer({k, static_cast<int64_t>(c)}) != places[static_cast<size_t>(k)][c];
    }
    wrong += line.get({k}) != in.get(places[static_cast<size_t>(k)]);
  }
  back.each([&](const Index& i) { wrong += back.get(i) != (mask.get(i) != 0 ? in.get(i) : 1); });
  CHECK_EQ(wrong, 0);
  // A source that is too short, and a result with fewer rows than there are places.
  if (n < 2) return;
  Tensor shorter(d, {n - 1}), first(ATALLA_I64, {n / 2, static_cast<int64_t>(shape.size())});
  const Tensor before = back;
  CHECK_EQ(launch("masked_scatter", {&back, &shorter, &mask, &starts}), ATALLA_ERR_ARGUMENT);
  CHECK(back.bytes == before.bytes);
  Tensor wrong_starts = starts;
  wrong_starts.set({0}, static_cast<double>(n));
  CHECK_EQ(launch("compact.select", {&line, &in, &mask, &wrong_starts}), ATALLA_ERR_ARGUMENT);
  CHECK_EQ(launch("compact.nonzero", {&first, &mask, &starts}), ATALLA_OK);
  wrong = 0;
  first.each([&](const Index& i) { wrong += first.get_integer(i) != where.get_integer(i); });
  CHECK_EQ(wrong, 0);
}

void falling_ends() {
  Tensor ends(ATALLA_I64, {3}), out(ATALLA_I64, {5});
  const double sums[] = {2, 1, 5};
  for (int64_t i = 0; i < 3; ++i) ends.set({i}, sums[i]);
  CHECK_EQ(launch("repeat_interleave", {&out, &ends}), ATALLA_ERR_ARGUMENT);
}

}  // namespace

int main() {
  for (const atalla_dtype d : {ATALLA_U8, ATALLA_BF16, ATALLA_F32, ATALLA_I64}) {
    selection({7}, {}, d);
    selection({20000}, {}, d);
    selection({90, 110}, {1, 0}, d);
    selection({30, 1, 3, 70}, {}, d);
    selection({5000, 2}, {}, d);
  }
  falling_ends();
  return check_report();
}
