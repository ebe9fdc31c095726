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

void selection(const Index& shape, std::vector<int> order, atalla_dtype d, int threads) {
  set_threads(threads);
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
  CHECK_EQ(launch("compact.nonzero", {&first, &mask, &starts}), ATALLA_OK);
  wrong = 0;
  first.each([&](const Index& i) { wrong += first.get_integer(i) != where.get_integer(i); });
  CHECK_EQ(wrong, 0);
}

void truth() {
  for (const atalla_dtype d : {ATALLA_U8, ATALLA_I16, ATALLA_I64, ATALLA_F16, ATALLA_BF16, ATALLA_F32, ATALLA_F64}) {
    Tensor in(d, {5});
    const double values[] = {0, 1, -0.0, 3, 0};
    for (int64_t i = 0; i < 5; ++i) in.set({i}, values[i]);
    if (d >= ATALLA_F16) in.set({4}, NAN);
    Tensor starts = counts_of(in);
    CHECK_EQ(starts.get_integer({1}), d >= ATALLA_F16 ? 3 : 2);
  }
}

void generated() {
  for (int64_t rows = 0; rows < 5; ++rows) {
    for (int64_t columns = 0; columns < 5; ++columns) {
      for (int64_t diagonal = -6; diagonal <= 6; ++diagonal) {
        for (const int64_t upper : {0, 1}) {
          std::vector<Index> want;
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t c = 0; c < columns; ++c) {
              if (upper ? c - r >= diagonal : c - r <= diagonal) want.push_back({r, c});
            }
          }
          Tensor out(ATALLA_I32, {2, static_cast<int64_t>(want.size())});
          atalla_launch_desc d{};
          d.n_outputs = 1;
          d.compute_dtype = ATALLA_I32;
          d.iparams[0] = rows, d.iparams[1] = columns, d.iparams[2] = diagonal, d.iparams[3] = upper;
          CHECK_EQ(run_kernel("triangle_indices", d, {&out}), ATALLA_OK);
          int wrong = 0;
          out.each([&](const Index& i) {
            wrong += out.get_integer(i) != want[static_cast<size_t>(i[1])][static_cast<size_t>(i[0])];
          });
          CHECK_EQ(wrong, 0);
        }
      }
    }
  }
  Tensor ends(ATALLA_I64, {4}), out(ATALLA_I64, {5});
  const double sums[] = {2, 2, 5, 5}, want[] = {0, 0, 2, 2, 2};
  for (int64_t i = 0; i < 4; ++i) ends.set({i}, sums[i]);
  CHECK_EQ(launch("repeat_interleave", {&out, &ends}), ATALLA_OK);
  for (int64_t i = 0; i < 5; ++i) CHECK_EQ(out.get({i}), want[i]);
  ends.set({1}, 1);
  CHECK_EQ(launch("repeat_interleave", {&out, &ends}), ATALLA_ERR_ARGUMENT);
}

}  // namespace

int main() {
  for (const int threads : {1, 4}) {
    for (const atalla_dtype d : {ATALLA_U8, ATALLA_BF16, ATALLA_F32, ATALLA_I64}) {
      selection({7}, {}, d, threads);
      selection({20000}, {}, d, threads);
      selection({90, 110}, {1, 0}, d, threads);
      selection({30, 1, 3, 70}, {}, d, threads);
      selection({5000, 2}, {}, d, threads);
    }
  }
  truth();
  generated();
  return check_report();
}
