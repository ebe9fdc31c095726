// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel table, descriptors that are refused, and launches against plain loops.
#include <functional>
#include <numeric>
#include <set>

#include "conformance.h"

namespace conformance {
namespace {

constexpr uint64_t kKnownDtypes = 0x8EFF;  // a bit for each code of atalla.h

atalla_kernel_info info_of(atalla_kernel kernel) {
  atalla_kernel_info info{};
  info.struct_size = sizeof info;
  api->kernel_info(kernel, &info);
  return info;
}

void check_refused_launches(const Session& session) {
  uint32_t count = 0;
  api->kernel_count(&count);
  atalla_launch_desc desc = description(count, ATALLA_F32);
  desc.n_outputs = 0;
  expect_refusal(launch(session.stream, desc), ATALLA_ERR_UNKNOWN_KERNEL, "launch of the id after the last kernel");
  desc.kernel = ATALLA_NO_KERNEL;
  expect_refusal(launch(session.stream, desc), ATALLA_ERR_UNKNOWN_KERNEL, "launch of ATALLA_NO_KERNEL");
  expect_refusal(api->launch(session.stream, nullptr, sizeof desc), ATALLA_ERR_ARGUMENT, "launch without a descriptor");
  atalla_kernel fill = 0;
  if (!has_kernel("fill", ATALLA_F32, &fill)) return skip("refused descriptors of fill", "no kernel fill for F32");
  const std::vector<float> before(4, 7.0f);
  const atalla_addr addr = session.upload(before);
  const atalla_launch_desc good = fill_f32(fill, addr, 4, 1);
  const auto refused = [&](const char* what, atalla_status status,
                           const std::function<void(atalla_launch_desc&)>& damage) {
    atalla_launch_desc bad = good;
    damage(bad);
    expect_refusal(api->launch(session.stream, &bad, sizeof bad), status, std::string("launch with ") + what);
  };
  expect_refusal(api->launch(session.stream, &good, atalla_launch_desc_bytes(1)), ATALLA_ERR_ARGUMENT,
                 "launch with fewer bytes than its operands need");
  expect_refusal(api->launch(session.stream, &good, 3), ATALLA_ERR_ARGUMENT, "launch with a descriptor of 3 bytes");
  refused("13 operands", ATALLA_ERR_ARGUMENT, [](auto& d) { d.n_operands = ATALLA_MAX_OPERANDS + 1; });
  refused("more outputs than operands", ATALLA_ERR_ARGUMENT, [](auto& d) { d.n_outputs = 3; });
  refused("a compute dtype without a meaning", ATALLA_ERR_UNSUPPORTED, [](auto& d) { d.compute_dtype = 8; });
  refused("an operand's dtype without a meaning", ATALLA_ERR_ARGUMENT, [](auto& d) { d.operands[0].dtype = 8; });
  refused("13 dimensions", ATALLA_ERR_ARGUMENT, [](auto& d) { d.operands[0].ndim = ATALLA_MAX_DIMS + 1; });
  refused("a negative size", ATALLA_ERR_ARGUMENT, [](auto& d) { d.operands[0].sizes[0] = -1; });
  refused("an immediate output", ATALLA_ERR_ARGUMENT, [](auto& d) { d.operands[0].immediate = 1; });
  expect_status(api->stream_synchronize(session.stream), ATALLA_OK, "refused launches leave no fault");
  expect(session.download<float>(addr, 4) == before, "refused launches write nothing");
}

// Kernels must not trust a descriptor: without operands each refuses it with a reason, or does nothing.
void check_empty_launches(const Session& session) {
  uint32_t count = 0, silent = 0;
  api->kernel_count(&count);
  for (atalla_kernel kernel = 0; kernel < count; ++kernel) {
    atalla_dtype dtype = 0;
    while ((info_of(kernel).dtypes >> dtype & 1) == 0) ++dtype;
    atalla_launch_desc desc = description(kernel, dtype);
    desc.n_outputs = 0;
    const atalla_status status = launch(session.stream, desc);
    silent += status != ATALLA_OK && api->last_error()[0] == '\0';
    api->stream_synchronize(session.stream);
  }
  expect(silent == 0, "each kernel survives a launch without operands", std::to_string(silent) + " gave no reason");
}

template <class T>
void expect_values(const Session& session, const atalla_launch_desc& desc, atalla_addr out,
                   const std::vector<T>& expected, const std::string& what) {
  if (!expect_status(launch(session.stream, desc), ATALLA_OK, what + ": launched")) return;
  expect_status(api->stream_synchronize(session.stream), ATALLA_OK, what + ": synchronized");
  const std::vector<T> seen = session.download<T>(out, expected.size());
  size_t at = 0;
  while (at < expected.size() && seen[at] == expected[at]) ++at;
  const bool same = at == expected.size();
  expect(same, what + ": the values",
         same ? ""
              : "element " + std::to_string(at) + " is " + std::to_string(seen[at]) + ", expected " +
                    std::to_string(expected[at]));
}

template <class T>
std::vector<T> counting(size_t count, T first) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

template <class T>
void check_fill(const Session& session, atalla_dtype dtype, const std::string& name) {
  atalla_kernel fill = 0;
  if (!has_kernel("fill", dtype, &fill)) return skip("fill of " + name, "not in the kernel table");
  const atalla_addr out = session.upload(std::vector<T>(12, T(9)));
  const double wide = 5;
  atalla_launch_desc desc = description(fill, dtype);
  add_operand(&desc, out, dtype, {3, 2}, {4, 1});
  add_immediate(&desc, ATALLA_F64, &wide, sizeof wide);
  expect_values<T>(session, desc, out, {5, 5, 9, 9, 5, 5, 9, 9, 5, 5, 9, 9}, "fill of strided " + name + " from F64");
}

template <class T>
void check_copy(const Session& session, atalla_dtype dtype, const std::string& name) {
  atalla_kernel copy = 0;
  if (!has_kernel("copy", dtype, &copy)) return skip("copy of " + name, "not in the kernel table");
  const atalla_addr in = session.upload(counting<T>(6, 1)), out = session.alloc(6 * sizeof(T));
  atalla_launch_desc desc = description(copy, dtype);
  add_operand(&desc, out, dtype, {3, 2});
  add_operand(&desc, in, dtype, {3, 2}, {1, 3});
  expect_values<T>(session, desc, out, {1, 4, 2, 5, 3, 6}, "copy of transposed " + name);
  desc.operands[1].strides[0] = 0;
  expect_values<T>(session, desc, out, {1, 4, 1, 4, 1, 4}, "copy of broadcast " + name);
  desc.operands[0].sizes[0] = desc.operands[1].sizes[0] = 0;
  expect_values<T>(session, desc, out, {1, 4, 1, 4, 1, 4}, "copy of no element of " + name);
}

void check_conversion(const Session& session) {
  atalla_kernel copy = 0;
  if (!has_kernel("copy", ATALLA_F32, &copy) || !has_kernel("copy", ATALLA_I64, &copy))
    return skip("copy of I64 to F32", "not in the kernel table");
  const atalla_addr in = session.upload(std::vector<int64_t>{-3, 0, 1 << 20}), out = session.alloc(12);
  atalla_launch_desc desc = description(copy, ATALLA_F32);
  add_operand(&desc, out, ATALLA_F32, {3});
  add_operand(&desc, in, ATALLA_I64, {3});
  expect_values<float>(session, desc, out, {-3, 0, 1 << 20}, "copy of I64 to F32");
}

// Places of launch parameters, as docs/reference/kernels.md lists them. Kernels of integers read iparams.
enum Parameter { kAlpha, kBeta };
void set_factor(atalla_launch_desc* desc, Parameter parameter, int value) {
  desc->fparams[parameter] = value;
  desc->iparams[parameter] = value;
}

template <class T>
void check_add(const Session& session, atalla_dtype dtype, const std::string& name) {
  atalla_kernel add = 0;
  if (!has_kernel("pointwise.add", dtype, &add)) return skip("pointwise.add of " + name, "not in the kernel table");
  const atalla_addr a = session.upload(counting<T>(6, 10)), b = session.upload(counting<T>(3, 1));
  const atalla_addr out = session.alloc(6 * sizeof(T));
  atalla_launch_desc desc = description(add, dtype);
  set_factor(&desc, kAlpha, 2);
  add_operand(&desc, out, dtype, {2, 3});
  add_operand(&desc, a, dtype, {2, 3});
  add_operand(&desc, b, dtype, {2, 3}, {0, 1});
  expect_values<T>(session, desc, out, {12, 15, 18, 15, 18, 21}, "pointwise.add of " + name + ", broadcast, alpha 2");
  const T one = 1;
  desc.n_operands = 2;
  add_immediate(&desc, dtype, &one, sizeof one);
  for (int64_t& stride : desc.operands[2].strides) stride = 0;
  desc.operands[2].addr = 0;
  desc.operands[2].ndim = 0;
  expect_values<T>(session, desc, out, {12, 13, 14, 15, 16, 17}, "pointwise.add of " + name + " and an immediate");
  desc.operands[0].addr = a;
  expect_values<T>(session, desc, a, {12, 13, 14, 15, 16, 17}, "pointwise.add of " + name + " in place");
}

// Small integers: exact in each order of summation.
template <class T>
void check_gemm(const Session& session, atalla_dtype dtype, const std::string& name) {
  atalla_kernel gemm = 0;
  if (!has_kernel("gemm", dtype, &gemm)) return skip("gemm of " + name, "not in the kernel table");
  constexpr int64_t kBatch = 2, kM = 3, kN = 4, kK = 5;
  const auto a = counting<T>(kBatch * kM * kK, -7), b = counting<T>(kBatch * kN * kK, -20), c = counting<T>(kN, 1);
  const atalla_addr at_a = session.upload(a), at_b = session.upload(b), at_c = session.upload(c);
  const atalla_addr out = session.alloc(kBatch * kM * kN * sizeof(T));
  const auto reference = [&](T alpha, T beta, int64_t depth) {
    std::vector<T> values;
    for (int64_t s = 0; s < kBatch; ++s)
      for (int64_t m = 0; m < kM; ++m)
        for (int64_t n = 0; n < kN; ++n) {
          T sum = 0;
          for (int64_t k = 0; k < depth; ++k) sum += a[(s * kM + m) * kK + k] * b[(s * kN + n) * kK + k];
          values.push_back(alpha * sum + beta * c[n]);
        }
    return values;
  };
  atalla_launch_desc desc = description(gemm, dtype);
  set_factor(&desc, kAlpha, 1);
  add_operand(&desc, out, dtype, {kBatch, kM, kN});
  add_operand(&desc, at_a, dtype, {kBatch, kM, kK});
  add_operand(&desc, at_b, dtype, {kBatch, kK, kN}, {kN * kK, 1, kK});
  expect_values(session, desc, out, reference(1, 0, kK), "gemm of " + name + " with a transposed operand");
  add_operand(&desc, at_c, dtype, {kBatch, kM, kN}, {0, 0, 1});
  set_factor(&desc, kAlpha, 2);
  set_factor(&desc, kBeta, 3);
  expect_values(session, desc, out, reference(2, 3, kK), "gemm of " + name + " with alpha, beta and an addend");
  desc.operands[1].sizes[2] = desc.operands[2].sizes[1] = 0;
  expect_values(session, desc, out, reference(2, 3, 0), "gemm of " + name + " of depth 0");
}

}  // namespace

void check_kernels() {
  uint32_t count = 0;
  expect_status(api->kernel_count(&count), ATALLA_OK, "kernel_count");
  expect(count > 0, "there are kernels");
  atalla_kernel kernel = 77;
  expect_refusal(api->kernel_lookup("no.such.kernel", &kernel), ATALLA_ERR_UNKNOWN_KERNEL,
                 "kernel_lookup of no kernel");
  expect_refusal(api->kernel_lookup("", &kernel), ATALLA_ERR_UNKNOWN_KERNEL, "kernel_lookup of an empty name");
  expect_refusal(api->kernel_lookup(nullptr, &kernel), ATALLA_ERR_ARGUMENT, "kernel_lookup without a name");
  expect(kernel == 77, "a failing kernel_lookup leaves its output");
  atalla_kernel_info info{};
  info.struct_size = sizeof info;
  expect_refusal(api->kernel_info(count, &info), ATALLA_ERR_UNKNOWN_KERNEL, "kernel_info of the id after the last");
  std::set<std::string> names;
  uint32_t described = 0, found = 0, versions = 0, dtypes = 0;
  for (uint32_t id = 0; id < count; ++id) {
    info = {};
    info.struct_size = sizeof info;
    if (api->kernel_info(id, &info) != ATALLA_OK || info.name == nullptr || info.struct_size != sizeof info) continue;
    ++described;
    names.insert(info.name);
    found += api->kernel_lookup(info.name, &kernel) == ATALLA_OK && kernel == id;
    versions += info.version >= 1;
    dtypes += info.dtypes != 0 && (info.dtypes & ~kKnownDtypes) == 0;
  }
  expect(described == count, "kernel_info describes each kernel", std::to_string(described));
  expect(names.size() == count, "kernels have names of their own", std::to_string(names.size()));
  expect(found == count, "kernel_lookup finds each kernel by its name", std::to_string(found));
  expect(versions == count, "versions of kernels start at 1", std::to_string(versions));
  expect(dtypes == count, "each kernel has dtypes, all of atalla.h", std::to_string(dtypes));
}

void check_launches() {
  const Session session;
  check_refused_launches(session);
  check_empty_launches(session);
  check_fill<float>(session, ATALLA_F32, "F32");
  check_fill<int64_t>(session, ATALLA_I64, "I64");
  check_copy<float>(session, ATALLA_F32, "F32");
  check_copy<int64_t>(session, ATALLA_I64, "I64");
  check_conversion(session);
  check_add<float>(session, ATALLA_F32, "F32");
  check_add<int64_t>(session, ATALLA_I64, "I64");
  check_gemm<float>(session, ATALLA_F32, "F32");
  check_gemm<int64_t>(session, ATALLA_I64, "I64");
}

}  // namespace conformance
