// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/loadable/program/bind_symbols.h"

#include <cinttypes>

#include "runtime/loadable/file/geometry.h"

namespace atalla::runtime::loadable {
namespace {

Int128 size_for(const Symbol& symbol, int64_t value) {
  return static_cast<Int128>(symbol.multiplier) * value + symbol.offset;
}

std::string number(Int128 n) { return std::to_string(static_cast<int64_t>(n)); }

}  // namespace

std::string range_text(const Symbol& symbol) {
  std::string text;
  if (symbol.multiplier != 1) {
    text = symbol.offset == 0 ? "a multiple of " + number(symbol.multiplier)
                              : number(symbol.offset) + " plus a multiple of " + number(symbol.multiplier);
    text += symbol.max >= kMaxElements - 1 ? ", " : " from ";
  }
  if (symbol.max >= kMaxElements - 1) return text + "at least " + number(size_for(symbol, symbol.min));
  return text + number(size_for(symbol, symbol.min)) + " to " + number(size_for(symbol, symbol.max));
}

std::vector<int64_t> bind_symbols(const View& view, const DynamicMethod& dynamic, uint32_t first_input,
                                  const atalla_tensor* inputs, Problems& problems) {
  std::vector<int64_t> values(dynamic.symbols.size());
  for (size_t i = 0; i < values.size(); ++i) {
    Symbol symbol = view.symbols[dynamic.symbols[i]];
    const atalla_tensor& given = inputs[symbol.input - first_input];
    values[i] = symbol.value;  // where there is a problem, so that the rest can be looked at
    Port port = view.inputs[symbol.input];
    uint8_t ndim = view.values[port.value].ndim;
    if (given.ndim != ndim) {
      problems.add("input %u '%.100s' has %u dimensions, expected %u", symbol.input - first_input,
                   view.string(port.name), given.ndim, ndim);
      continue;
    }
    int64_t size = given.sizes[symbol.dim];
    Int128 rest = static_cast<Int128>(size) - symbol.offset;
    Int128 value = rest / symbol.multiplier;
    if (rest % symbol.multiplier != 0 || value < symbol.min || value > symbol.max) {
      problems.add("input %u '%.100s': dimension %u is %" PRId64 ", expected %s", symbol.input - first_input,
                   view.string(port.name), symbol.dim, size, range_text(symbol).c_str());
      continue;
    }
    values[i] = static_cast<int64_t>(value);
  }
  return values;
}

}  // namespace atalla::runtime::loadable
