// SPDX-License-Identifier: BSD-3-Clause
#include "sim/device/kernel_shapes.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "sim/abi/error.h"

namespace atalla::sim {
namespace {

// Instead of a size: of a name that no operand of the launch has, and of a division with a rest.
constexpr int64_t kUnbound = INT64_MIN, kInexact = INT64_MIN + 1;

bool is_size(int64_t a, int64_t b) { return std::min(a, b) > kInexact; }
int64_t plus(int64_t a, int64_t b) {
  int64_t result = 0;
  if (!is_size(a, b)) return std::min(a, b);
  return __builtin_add_overflow(a, b, &result) ? kInexact : result;
}
int64_t minus(int64_t a, int64_t b) {
  int64_t result = 0;
  if (!is_size(a, b)) return std::min(a, b);
  return __builtin_sub_overflow(a, b, &result) ? kInexact : result;
}
int64_t times(int64_t a, int64_t b) {
  int64_t result = 0;
  if (!is_size(a, b)) return std::min(a, b);
  return __builtin_mul_overflow(a, b, &result) ? kInexact : result;
}
int64_t quotient(int64_t a, int64_t b) {
  if (!is_size(a, b)) return std::min(a, b);
  return b < 1 || a % b != 0 ? kInexact : a / b;
}
int64_t quotient_up(int64_t a, int64_t b) {
  if (!is_size(a, b)) return std::min(a, b);
  return b < 1 ? kInexact : a / b + (a % b > 0);
}
int64_t minimum(int64_t a, int64_t b) { return std::min(a, b); }
int64_t maximum(int64_t a, int64_t b) { return is_size(a, b) ? std::max(a, b) : std::min(a, b); }

using LongLong = long long;

// Dimensions that several operands share.
struct Dims {
  const int64_t* sizes = nullptr;
  int count = -1;  // -1: no operand of the launch has them

  int64_t rank() const { return count < 0 ? kUnbound : count; }
};

}  // namespace

// Walks over the dimensions of one operand after the other. After an error it does nothing.
class SizeCheck {
 public:
  SizeCheck(const Launch& launch, const KernelTraits& traits) : launch_(launch), desc_(launch.desc), traits_(traits) {}

  atalla_status status() const { return status_; }
  int end_of_inputs() const { return desc_.n_operands - (has_program(traits_, desc_) ? 1 : 0); }

  // Operand `index` is a tensor, and no immediate value.
  void tensor(int index, const char* name) { begin(index, name, false); }
  void immediate(int index, const char* name) {
    if (begin(index, name, true)) fail("an immediate value");
  }

  // Begins with operand `index`, of `fixed` dimensions, or at least so many. `immediate`: it may be an immediate value.
  // False if there is nothing to check.
  bool open(int index, const char* name, const char* shape, int fixed, bool more, bool placed, bool immediate) {
    if (!begin(index, name, immediate)) return false;
    shape_ = shape, dim_ = 0, ndim_ = operand_->ndim;
    scalar_ = placed && ndim_ == 0;
    if (scalar_) ndim_ = 1;
    if (more ? ndim_ >= fixed : ndim_ == fixed) [[likely]]
      return true;
    fail("%s%d dimensions: %s", more ? "at least " : "", fixed, shape);
    return false;
  }
  void skip(int dims) { dim_ += dims; }
  void skip_to_last(int dims) { dim_ = ndim_ - dims; }

  // The next dimension has the size *value, or gives it.
  void size(int64_t* value, const char* term) {
    if (failed()) return;
    const int64_t given = next();
    if (*value == kUnbound) *value = given;
    else if (given != *value) wrong(*value, term);
  }
  void expect(int64_t value, const char* term) {
    if (failed()) return;
    const int64_t given = next();
    if (given != value && value != kUnbound) wrong(value, term);
  }

  // All dimensions but the last `rest`.
  void group(Dims* dims, const char* term, int rest) { take(dims, term, ndim_ - rest - dim_); }
  // As many dimensions as `dims` has.
  void same_rank(const Dims& dims, int rest) {
    const int count = ndim_ - rest - dim_;
    if (failed() || dims.count < 0) return;
    if (dims.count != count) fail("%d dimensions: %s", ndim_ - count + dims.count, shape_);
    dim_ += count;
  }
  // The dimensions before dimension `place`, which a parameter gives.
  void group_before(Dims* dims, const char* term, int64_t place) {
    if (failed()) return;
    if (place >= 0 && place < ndim_) return take(dims, term, static_cast<int>(place));
    fail("a dimension %lld: %s", LongLong{place}, shape_);
  }
  // As many dimensions as `dims` has, those of the mask with size 1.
  void masked(const Dims& dims, int64_t mask) {
    if (failed() || dims.count < 0) return;
    if (static_cast<uint64_t>(mask) >> dims.count != 0) {
      return fail("%d dimensions or more, since the mask is %#llx: %s",
                  64 - __builtin_clzll(static_cast<uint64_t>(mask)), LongLong{mask}, shape_);
    }
    if (dims.count != ndim_) return fail("%d dimensions: %s", dims.count, shape_);
    for (int d = 0; d < dims.count && !failed(); ++d) {
      const int64_t expected = (mask >> d & 1) != 0 ? 1 : dims.sizes[d], given = next();
      if (given != expected) wrong(expected, (mask >> d & 1) != 0 ? "a reduced dimension" : "a kept dimension");
    }
  }

  void one_value(int index, const char* name) {
    if (!begin(index, name, false)) return;
    for (int d = 0; d < operand_->ndim; ++d) {
      if (operand_->sizes[d] != 1) return fail("one value");
    }
  }
  void contiguous(int index, const char* name) {
    if (!begin(index, name, false) || is_empty(*operand_)) return;
    int64_t expected = 1;
    for (int d = operand_->ndim - 1; d >= 0; --d) {
      if (operand_->sizes[d] != 1 && operand_->strides[d] != expected) return not_contiguous("");
      expected *= operand_->sizes[d];
    }
  }
  void contiguous_rows(int index, const char* name) {
    if (!begin(index, name, false)) return;
    const int last = operand_->ndim - 1;
    if (last < 0 || operand_->sizes[last] <= 1 || operand_->strides[last] == 1) return;
    not_contiguous(" rows");
  }

 private:
  static constexpr int64_t kScalar[1] = {1};

  bool failed() const { return status_ != ATALLA_OK; }
  // False for an operand that is absent or immediate.
  bool begin(int index, const char* name, bool immediate) {
    if (failed() || index >= desc_.n_operands) return false;
    operand_ = &desc_.operands[index];
    index_ = index, name_ = name;
    if (operand_->immediate != 0) {
      if (!immediate) fail("a tensor, not an immediate value");
      return false;
    }
    return launch_.data[index] != nullptr || is_empty(*operand_);
  }
  const int64_t* sizes() const { return scalar_ ? kScalar : operand_->sizes; }
  int64_t next() { return sizes()[dim_++]; }

  void take(Dims* dims, const char* term, int count) {
    if (failed()) return;
    if (dims->count < 0) *dims = {sizes() + dim_, count};
    if (dims->count != count) return fail("%d dimensions: %s", ndim_ - count + dims->count, shape_);
    for (int d = 0; d < count && !failed(); ++d) {
      if (next() == dims->sizes[d]) continue;
      char expected[kTextBytes];
      write_sizes(dims->sizes, dims->count, expected);
      fail("%s: %s of %s", expected, term, shape_);
    }
  }

  // "[2, 3]"
  static constexpr size_t kTextBytes = 24 * ATALLA_MAX_DIMS;
  static void write_sizes(const int64_t* sizes, int count, char* text) {
    size_t used = 0;
    for (int d = 0; d < count; ++d) {
      used += static_cast<size_t>(
          snprintf(text + used, kTextBytes - used, "%s%lld", d == 0 ? "[" : ", ", LongLong{sizes[d]}));
    }
    snprintf(text + used, kTextBytes - used, count == 0 ? "[]" : "]");
  }
  [[gnu::cold]] void wrong(int64_t expected, const char* term) {
    if (expected == kInexact) return fail("size %s in dimension %d, which is no size: %s", term, dim_ - 1, shape_);
    fail("size %lld in dimension %d: %s of %s", LongLong{expected}, dim_ - 1, term, shape_);
  }
  // `expected` is what the operand should have.
  [[gnu::cold, gnu::format(printf, 2, 3)]] void fail(const char* expected, ...) {
    char given[kTextBytes], text[2 * kTextBytes];
    write_sizes(operand_->sizes, operand_->ndim, given);
    va_list arguments;
    va_start(arguments, expected);
    vsnprintf(text, sizeof text, expected, arguments);
    va_end(arguments);
    status_ = sim::fail(launch_, ATALLA_ERR_ARGUMENT, "operand {} ({}) is {}, expected {}", index_, name_, given, text);
  }
  [[gnu::cold]] void not_contiguous(const char* part) {
    status_ = sim::fail(launch_, ATALLA_ERR_ARGUMENT, "operand {} ({}) does not have contiguous{}", index_, name_,
                        *part != '\0' ? part : " elements");
  }

  const Launch& launch_;
  const atalla_launch_desc& desc_;
  const KernelTraits& traits_;
  const atalla_operand* operand_ = nullptr;
  const char *name_ = "", *shape_ = "";
  int index_ = 0, dim_ = 0, ndim_ = 0;
  bool scalar_ = false;  // stands for one dimension of size 1
  atalla_status status_ = ATALLA_OK;
};

namespace {

#include "kernel_shapes.inc"

}  // namespace

SizeFunction size_function(std::string_view kernel) {
  if (kernel.starts_with("pointwise.")) kernel = "pointwise.<name>";  // one contract for all of them
  for (const auto& row : kSizeFunctions) {
    if (row.name == kernel) return row.check;
  }
  return nullptr;
}

atalla_status check_sizes(const Launch& launch, SizeFunction function, const KernelTraits& traits) {
  if (function == nullptr) return ATALLA_OK;
  SizeCheck check(launch, traits);
  function(check, launch.desc);
  return check.status();
}

}  // namespace atalla::sim
