// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/loadable/file/expressions.h"
#include "runtime/loadable/file/geometry.h"
#include "runtime/loadable/file/record_reporter.h"
#include "runtime/loadable/file/validate.h"
#include "runtime/loadable/program/instance.h"

namespace atalla::runtime::loadable {
namespace {

constexpr uint32_t kMixed = kNone - 1;  // an expression with symbols of several methods

class DynamicChecker : RecordReporter {
 public:
  DynamicChecker(const View& view, Problems& problems) : RecordReporter(view, problems, view.symbols.size() > 0) {}

  void run() {
    each("symbol", view_.symbols, [&](const Symbol& r) { check_symbol(r); });
    each("expression", view_.expressions, [&](const Expression& r) { check_expression(r); });
    if (!problems_.empty()) return;  // what follows evaluates them
    evaluate_all();
    each("dynamic number", view_.dynamic, [&](const Dynamic& r) { check_dynamic(r); });
    each("guard", view_.guards, [&](const Guard& r) { check_guard(r); });
    std::sort(targets_.begin(), targets_.end());
    auto twice = std::adjacent_find(targets_.begin(), targets_.end());
    if (twice != targets_.end())
      problems_.add("two dynamic numbers of kind %u for record %u", twice->first, twice->second);
  }

 private:
  void check_symbol(const Symbol& r) {
    if (string("name", r.name) && r.name.bytes == 0) problem("has no name");
    zero(r.reserved);
    if (r.min < 0 || r.min > r.value || r.value > r.max || r.max >= kMaxElements)
      problem("value %" PRId64 " in [%" PRId64 ", %" PRId64 "], expected 0 <= min <= value <= max < 2^47", r.value,
              r.min, r.max);
    if (r.multiplier < 1 || r.multiplier >= kMaxElements || r.offset <= -kMaxElements || r.offset >= kMaxElements)
      problem("multiplier %" PRId64 " and offset %" PRId64 " are out of range", r.multiplier, r.offset);
    if (!index("method", r.method, view_.methods, "METHODS")) return;
    Range inputs = view_.methods[r.method].inputs;
    if (r.input < inputs.first || r.input - inputs.first >= inputs.count)
      return problem("input %u is none of method %u", r.input, r.method);
    Value v = view_.values[view_.inputs[r.input].value];
    if (r.dim >= v.ndim) return problem("dimension %u of an input with %u", r.dim, v.ndim);
    int64_t size = view_.integers[v.sizes + r.dim];
    if (static_cast<Int128>(r.multiplier) * r.value + r.offset != size)
      problem("gives another size of dimension %u than %" PRId64, r.dim, size);
  }

  void check_expression(const Expression& r) {
    zero(r.reserved0);
    zero(r.reserved1);
    auto op = static_cast<unsigned>(r.op);
    if (op >= kExpressionOps) return problem("operation %u, expected 0 to %u", op, kExpressionOps - 1);
    bool binary = r.op >= ExpressionOp::kAdd;
    if (binary && (r.a >= index_ || r.b >= index_))
      problem("operands %u and %u, expected expressions before it", r.a, r.b);
    if (r.op == ExpressionOp::kSymbol) index("symbol", r.a, view_.symbols, "SYMBOLS");
    if ((!binary && r.b != 0) || (r.op == ExpressionOp::kConstant && r.a != 0) ||
        (r.op != ExpressionOp::kConstant && r.constant != 0))
      problem("fields that its operation does not use are not zero");
  }

  // Values under the assignment of the file, and whose symbols each expression has (kNone: none).
  void evaluate_all() {
    std::vector<int64_t> symbols(view_.symbols.size());
    for (uint32_t i = 0; i < symbols.size(); ++i) symbols[i] = view_.symbols[i].value;
    values_.resize(view_.expressions.size());
    good_.resize(values_.size());
    owner_.resize(values_.size(), kNone);
    for (uint32_t i = 0; i < values_.size(); ++i) {
      Expression e = view_.expressions[i];
      bool binary = e.op >= ExpressionOp::kAdd;
      good_[i] = !binary || (good_[e.a] && good_[e.b]);
      if (e.op == ExpressionOp::kSymbol) owner_[i] = view_.symbols[e.a].method;
      if (binary) owner_[i] = owner_[e.a] == kNone ? owner_[e.b] : owner_[e.a];
      if (binary && owner_[e.b] != kNone && owner_[e.b] != owner_[i]) owner_[i] = kMixed;
      auto value = good_[i] ? evaluate(e, symbols, values_) : std::nullopt;
      good_[i] = value.has_value();
      values_[i] = value.value_or(0);
    }
  }

  // Whether the expression may stand for a number of the method.
  bool usable(uint32_t expression, uint32_t method) {
    if (!index("expression", expression, view_.expressions, "EXPRESSIONS") ||
        !index("method", method, view_.methods, "METHODS"))
      return false;
    if (owner_[expression] != kNone && owner_[expression] != method)
      problem("expression %u has symbols of another method than %u", expression, method);
    else if (!good_[expression]) problem("expression %u overflows or divides by zero", expression);
    else return true;
    return false;
  }

  void check_dynamic(const Dynamic& r) {
    auto kind = static_cast<unsigned>(r.kind);
    if (kind < 1 || kind > 5) return problem("kind %u, expected 1 to 5", kind);
    targets_.emplace_back(kind, r.index);
    if (!has_dynamic_target(view_, r)) return problem("kind %u has no record %u that may change", kind, r.index);
    if (!usable(r.expression, r.method)) return;
    int64_t stored = read_dynamic(view_, r);
    if (stored != values_[r.expression])
      problem("expression %u is %" PRId64 ", the file has %" PRId64, r.expression, values_[r.expression], stored);
  }

  void check_guard(const Guard& r) {
    string("text", r.text);
    if (usable(r.expression, r.method) && values_[r.expression] == 0)
      problem("does not hold for the sizes that the file is written for");
  }

  std::vector<int64_t> values_;
  std::vector<bool> good_;
  std::vector<uint32_t> owner_;
  std::vector<std::pair<uint32_t, uint32_t>> targets_;
};

}  // namespace

void validate_dynamic(const View& view, Problems& problems) { DynamicChecker(view, problems).run(); }

}  // namespace atalla::runtime::loadable
