// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/loadable/file/expressions.h"

#include <algorithm>

namespace atalla::runtime::loadable {
namespace {

constexpr size_t kTextLength = 200;  // shared operands make the text of a small graph long

bool is_binary(ExpressionOp op) { return op >= ExpressionOp::kAdd; }

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

void write_text(const View& view, uint32_t index, std::string& out) {
  if (out.size() > kTextLength) return;
  Expression e = view.expressions[index];
  if (e.op == ExpressionOp::kConstant) {
    out += std::to_string(e.constant);
  } else if (e.op == ExpressionOp::kSymbol) {
    out += view.text(view.symbols[e.a].name);
  } else {
    constexpr const char* kSigns[] = {" + ",   " - ",  " * ",  " // ", " % ", " min ",
                                      " max ", " == ", " != ", " < ",  " <= "};
    out += '(';
    write_text(view, e.a, out);
    out += kSigns[static_cast<unsigned>(e.op) - static_cast<unsigned>(ExpressionOp::kAdd)];
    write_text(view, e.b, out);
    out += ')';
  }
}

}  // namespace

std::optional<int64_t> evaluate(const Expression& e, const std::vector<int64_t>& symbols,
                                const std::vector<int64_t>& values) noexcept {
  if (e.op == ExpressionOp::kConstant) return e.constant;
  if (e.op == ExpressionOp::kSymbol) return symbols[e.a];
  int64_t a = values[e.a], b = values[e.b], result = 0;
  switch (e.op) {
    case ExpressionOp::kAdd:
      return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case ExpressionOp::kSub:
      return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case ExpressionOp::kMul:
      return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case ExpressionOp::kFloorDiv:
      return b == 0 || (a == INT64_MIN && b == -1) ? std::nullopt : std::optional(floor_div(a, b));
    case ExpressionOp::kMod:
      return b == 0 ? std::nullopt : b == -1 ? std::optional<int64_t>(0) : std::optional(a - floor_div(a, b) * b);
    case ExpressionOp::kMin:
      return std::min(a, b);
    case ExpressionOp::kMax:
      return std::max(a, b);
    case ExpressionOp::kEq:
      return a == b;
    case ExpressionOp::kNe:
      return a != b;
    case ExpressionOp::kLt:
      return a < b;
    case ExpressionOp::kLe:
      return a <= b;
    default:
      return std::nullopt;
  }
}

std::vector<uint32_t> expressions_of(const View& view, uint32_t method) {
  std::vector<bool> needed(view.expressions.size());
  for (uint32_t i = 0; i < view.dynamic.size(); ++i)
    if (view.dynamic[i].method == method) needed[view.dynamic[i].expression] = true;
  for (uint32_t i = 0; i < view.guards.size(); ++i)
    if (view.guards[i].method == method) needed[view.guards[i].expression] = true;
  std::vector<uint32_t> order;
  for (uint32_t i = view.expressions.size(); i-- > 0;) {
    if (!needed[i]) continue;
    order.push_back(i);
    Expression e = view.expressions[i];
    if (is_binary(e.op)) needed[e.a] = needed[e.b] = true;
  }
  std::reverse(order.begin(), order.end());
  return order;
}

std::string expression_text(const View& view, uint32_t expression) {
  std::string text;
  write_text(view, expression, text);
  if (text.size() > kTextLength) text = text.substr(0, kTextLength) + "...";
  return text;
}

}  // namespace atalla::runtime::loadable
