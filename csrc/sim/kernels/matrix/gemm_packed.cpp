// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel `gemm_packed`: a matrix product whose second operand was packed ahead of time, with a vector program as
// its epilogue. docs/reference/kernels.md has the contract, docs/concepts/gemm.md the structure.
//
// Sums are those of `gemm`, in its order: blocks of k, ascending, one accumulator. So the results are the same bits.
#include "sim/kernels/matrix/epilogue_program.h"
//
#include "sim/kernels/matrix/gemm_block.h"
#include "sim/kernels/matrix/gemm_packed_micro.h"
#include "sim/kernels/matrix/gemm_parallel.h"
#include "sim/kernels/matrix/gemm_vector.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

constexpr uint64_t kDtypes = 1u << ATALLA_F16 | 1u << ATALLA_F32 | 1u << ATALLA_BF16;
constexpr uint64_t kStoredDtypes = kDtypes | 1u << ATALLA_I8;
static_assert(kStoredPanel % kPanel<float> == 0);

struct PackedProduct {
  int64_t m = 0, n = 0, k = 0;
  MatrixView a;
  const char* b = nullptr;  // [panels][k][kStoredPanel]
  atalla_dtype b_dtype = ATALLA_F32;
  MatrixView c;
  EpilogueProgram program;
  MatrixView outs[kProgramOutputs];
  MatrixView extras[kProgramInputs];
  bool sums_in_out = false;

  const char* panel(int64_t j, int64_t p) const {
    const int64_t inner = j % kStoredPanel;
    return b + ((j / kStoredPanel * k + p) * kStoredPanel + inner) * dtype_size(b_dtype);
  }
};

// Rows p .. p + depth of the panel at column j, as floats with row stride kStoredPanel.
const float* read_panel(const PackedProduct& g, int64_t j, int64_t p, int64_t depth, float* unpacked) {
  const char* stored = g.panel(j, p);
  if (g.b_dtype == ATALLA_F32) return reinterpret_cast<const float*>(stored);
  load_run(stored, g.b_dtype, 1, depth * kStoredPanel, unpacked);
  return unpacked;
}

// out[i0 .. i1, j0 .. j1), j0 at the beginning of a stored panel. False when there is no memory.
bool multiply_packed(const PackedProduct& g, int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
  constexpr int64_t panel = kPanel<float>;
  const int64_t chunks = max_of(1, ceil_div(g.k, kBlockDepth<float>));
  const int64_t depth = block_depth<float>(g.k);
  const int64_t width = min_of(j1 - j0, kBlockColumns);
  const bool direct_a = reads_a_in_place<float>(g.a, g.k, j1 - j0);
  const int64_t lda_packed = depth + 2 * kLanes<float>;
  const int64_t ld = g.sums_in_out ? g.outs[0].row_stride : round_up(width, panel);

  float* const packed_a =
      direct_a ? nullptr
               : scratch<float>(ScratchSlot::PackedA, (min_of(i1 - i0, kBlockRows) + kMaxRows) * lda_packed + panel);
  float* const unpacked =
      g.b_dtype == ATALLA_F32 ? nullptr : scratch<float>(ScratchSlot::PackedB, depth * kStoredPanel);
  float* const workspace = g.sums_in_out ? nullptr : scratch<float>(ScratchSlot::Partial, (i1 - i0) * ld);
  unsigned char* const buffers = scratch<unsigned char>(ScratchSlot::Scores, EpilogueProgram::kBufferBytes);
  if ((!direct_a && packed_a == nullptr) || (g.b_dtype != ATALLA_F32 && unpacked == nullptr)) return false;
  if ((!g.sums_in_out && workspace == nullptr) || buffers == nullptr) return false;

  alignas(64) float tile[kMaxRows * panel];
  for (int64_t jc = j0; jc < j1; jc += kBlockColumns) {
    const int64_t je = min_of(jc + kBlockColumns, j1);
    Epilogue<float> sums;
    sums.c = g.c;
    if (sums.c.data != nullptr) sums.beta = 1;
    sums.out = g.outs[0];
    if (!g.sums_in_out) {  // element [i0, jc] at the beginning of the workspace
      sums.out = {reinterpret_cast<const char*>(workspace) - (i0 * ld + jc) * 4, ATALLA_F32, ld, 1, 4};
    }
    for (int64_t pc = 0, chunk = 0; chunk < chunks; ++chunk, pc += depth) {
      const int64_t kc = min_of(depth, g.k - pc);
      const Chunk position{chunk == 0, chunk + 1 == chunks};
      // A whole panel is stored by the micro-kernel, with what it adds: c, or the sums of earlier k.
      const bool plain_c = g.c.data == nullptr || (g.c.dtype == ATALLA_F32 && g.c.col_stride == 1);
      const bool direct_store = plain_c || !position.first;
      const int64_t row_blocks = ceil_div(i1 - i0, kBlockRows);
      const int64_t row_block = ceil_div(i1 - i0, row_blocks);
      for (int64_t ic = i0; ic < i1; ic += row_block) {
        const int64_t rows = min_of(row_block, i1 - ic);
        const float* a = packed_a;
        int64_t lda = lda_packed;
        if (direct_a) {
          a = reinterpret_cast<const float*>(g.a.at(ic, pc));
          lda = g.a.row_stride;
        } else {
          const MatrixView view{g.a.at(ic, pc), g.a.dtype, g.a.row_stride, g.a.col_stride, g.a.item};
          pack_matrix<float>(view, rows, kc, kc, packed_a, lda_packed);
        }
        const int64_t groups = ceil_div(rows, kMaxRows);
        for (int64_t js = jc; js < je; js += kStoredPanel) {
          const float* stored = read_panel(g, js, pc, kc, unpacked);
          // The next panel is on its way to L2 while this one is used.
          const int64_t item = dtype_size(g.b_dtype), panel_bytes = kc * kStoredPanel * item;
          const bool more = js + kStoredPanel < g.n && ic == i0;
          const char* next = more ? g.panel(js + kStoredPanel, pc) : reinterpret_cast<const char*>(&tile);
          const int64_t next_bytes = more ? ceil_div(panel_bytes, groups * (kStoredPanel / panel)) : 0;
          for (int64_t j = js; j < min_of(js + kStoredPanel, je); j += panel) {
            const int64_t cols = min_of(panel, je - j);
            const float* b = stored + (j - js);
            for (int64_t q = 0, r = 0; q < groups; ++q) {
              const int64_t height = rows / groups + (q < rows % groups);
              const int64_t i = ic + r;
              const float* rows_of_a = a + r * lda;
              r += height;
              if (direct_store && cols == panel) {
                float* const out = sums.out_row(i, j);
                const int64_t ldo = sums.out.row_stride;
                const float* addend = position.first ? reinterpret_cast<const float*>(g.c.data) : out;
                if (position.first && addend != nullptr) addend = reinterpret_cast<const float*>(g.c.at(i, j));
                select_packed_kernel(height)({kc, rows_of_a, lda, b, out, ldo, addend,
                                              position.first ? g.c.row_stride : ldo, next, next_bytes / max_of(kc, 1)});
                next += next_bytes;
                continue;
              }
              select_micro_kernel<float>(height, cols)(kc, rows_of_a, lda, b, kStoredPanel, tile, panel);
              sums.apply(tile, height, cols, i, j, position, sums.out_row(i, j), sums.out.row_stride);
            }
          }
        }
        if (!position.last) continue;
        for (int64_t i = ic; i < ic + rows; ++i) {
          if (g.program) {
            g.program.run_row(sums.out_row(i, jc), i, jc, je - jc, g.outs, g.extras, buffers);
          } else if (!g.sums_in_out) {
            store_run(sums.out_row(i, jc), je - jc, const_cast<char*>(g.outs[0].at(i, jc)), g.outs[0].dtype,
                      g.outs[0].col_stride);
          }
        }
      }
    }
  }
  return true;
}

// A as the micro-kernels read it in place, packed once instead of once for each part of the columns. Nothing if it can
// be read as it is, or is so large that the threads should pack it.
MatrixView packed_once(const PackedProduct& g) {
  constexpr int64_t kMost = 1 << 16;  // elements
  int64_t ld = g.k + 2 * kLanes<float>;
  if (ld % 256 == 0) ld += kLanes<float>;  // rows would share few sets of the caches
  MatrixView packed{nullptr, ATALLA_F32, ld, 1, 4};
  if (g.m * ld > kMost || reads_a_in_place<float>(g.a, g.k, g.n) || !reads_a_in_place<float>(packed, g.k, g.n))
    return {};
  float* const room = scratch<float>(ScratchSlot::Queries, g.m * ld);
  packed.data = reinterpret_cast<const char*>(room);
  if (room != nullptr) pack_matrix<float>(g.a, g.m, g.k, g.k, room, ld);
  return packed;
}

bool multiply_packed(PackedProduct g) {
  if (g.m * g.n * max_of(g.k, 1) <= kSerialWork / 2) return multiply_packed(g, 0, g.m, 0, g.n);
  const bool by_columns = g.n >= 2 * kStoredPanel;
  const int64_t length = by_columns ? g.n : g.m;
  const int64_t other = by_columns ? g.m : g.n;
  const int64_t unit = by_columns ? kStoredPanel : kMaxRows;
  const int64_t grain = unit * max_of(1, ceil_div(kSerialWork / 4, max_of(1, other * g.k * unit)));
  if (by_columns) {
    if (const MatrixView packed = packed_once(g); packed.data != nullptr) g.a = packed;
  }
  return parallel_try(length, grain, [&](int64_t begin, int64_t end) {
    return by_columns ? multiply_packed(g, 0, g.m, begin, end) : multiply_packed(g, begin, end, 0, g.n);
  });
}

MatrixView view_of(const Launch& launch, int index) {
  const atalla_operand& o = launch.operand(index);
  if (o.immediate) return {launch.ptr<const char>(index), o.dtype, 0, 0, dtype_size(o.dtype)};
  MatrixView view{launch.ptr<const char>(index), o.dtype, o.strides[0], o.strides[1], dtype_size(o.dtype)};
  if (o.sizes[1] <= 1) view.col_stride = 1;
  return view;
}

atalla_status check_matrix(const Launch& launch, int index, const char* name, uint64_t dtypes) {
  const atalla_operand& o = launch.operand(index);
  if ((dtypes >> o.dtype & 1) == 0)
    return fail(launch, ATALLA_ERR_UNSUPPORTED, "{} is {}, which it does not take", name, dtype_name(o.dtype));
  if (launch.data[index] == nullptr && element_count(o) != 0)
    return fail(launch, ATALLA_ERR_ARGUMENT, "{} (operand {}) is absent", name, index);
  return ATALLA_OK;
}

atalla_status run(const Launch& launch) {
  const atalla_launch_desc& desc = launch.desc;
  const int n_out = desc.n_outputs, a = n_out, b = n_out + 1, c = n_out + 2, first_extra = n_out + 3;
  const bool has_program = GemmPackedParameters::read(desc).has_program;
  if (n_out < 1 || n_out > kProgramOutputs ||
      (has_program ? desc.n_operands <= first_extra : desc.n_operands != first_extra || n_out != 1)) {
    return fail(launch, ATALLA_ERR_ARGUMENT, "{} outputs of {} operands, expected {} and more", n_out, desc.n_operands,
                first_extra + has_program);
  }
  const atalla_operand &first = desc.operands[0], &packed = desc.operands[b];
  PackedProduct g;
  g.m = first.sizes[0], g.n = first.sizes[1], g.k = desc.operands[a].sizes[1];
  for (int j = 0; j < n_out; ++j) {
    ATALLA_CHECK(check_matrix(launch, j, "output", has_program ? kRealDtypes : kDtypes));
    g.outs[j] = view_of(launch, j);
  }
  ATALLA_CHECK(check_matrix(launch, a, "a", kDtypes));
  g.a = view_of(launch, a);
  if ((kStoredDtypes >> packed.dtype & 1) == 0 || (launch.data[b] == nullptr && g.n * g.k != 0)) {
    return fail(launch, ATALLA_ERR_ARGUMENT, "b is not [{}, {}, 32], contiguous, of a weight's dtype",
                ceil_div(g.n, kStoredPanel), g.k);
  }
  g.b = launch.ptr<const char>(b);
  g.b_dtype = packed.dtype;
  if (launch.data[c] != nullptr) {
    ATALLA_CHECK(check_matrix(launch, c, "c", kDtypes));
    g.c = view_of(launch, c);
  }
  for (int k = first_extra; k + 1 < desc.n_operands; ++k) {
    if (!desc.operands[k].immediate) ATALLA_CHECK(check_matrix(launch, k, "an extra input", kRealDtypes));
    g.extras[k - first_extra] = view_of(launch, k);
  }
  if (has_program) {
    if (atalla_status s = g.program.decode(launch, first_extra, desc.n_operands - 1)) return s;
  }
  if (g.m == 0 || g.n == 0) return ATALLA_OK;
  if (atalla_status s = check_outputs_apart(launch)) return s;
  const bool plain_out = first.dtype == ATALLA_F32 && g.outs[0].col_stride == 1;
  g.sums_in_out = plain_out && (!g.program || g.program.sums_in_output());
  return multiply_packed(g) ? ATALLA_OK : fail(launch, ATALLA_ERR_SYSTEM, "no memory for packing buffers");
}

}  // namespace

extern constexpr KernelFamily gemm_packed_kernels = {{"gemm_packed", kDtypes, run}};

}  // namespace atalla::sim::ATALLA_ISA
