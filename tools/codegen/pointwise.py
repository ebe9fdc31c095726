# SPDX-License-Identifier: BSD-3-Clause
"""Pointwise kernels: formulas of the op list -> C++ loops and the list of ops.

`emit(kernels, yaml_path, directory)` writes pointwise_ops.inc (names, dtypes, costs) and, for each dtype class,
pointwise_loops_<class>.inc: the loops, templates over the loop type and the type that stands in memory.
docs/concepts/pointwise.md tells how the engine uses them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from tools.codegen.files import write
from tools.codegen.model import CLASSES, CODES, Pointwise

STORED = {
    "bool": "bool", "uint8": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
    "float32": "float", "float64": "double",
}  # fmt: skip

# Vector and exp instructions that a function or operator costs for 32 elements, on a chip that has add, subtract,
# multiply, compare and exp, and neither divide nor select nor logarithm. docs/concepts/pointwise.md has the expansions.
NEWTON = 7  # a seed by exponent arithmetic and three Newton steps of a multiply and a multiply-subtract
SELECT = 2  # a masked add onto a seeded register
POLYNOMIAL = 16  # argument reduction and a polynomial of degree six
POLYNOMIALS = (
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
    "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
    "legendre_polynomial_p",
)  # fmt: skip
COSTS: dict[str, tuple[int, int]] = {
    "exp": (0, 1), "exp2": (1, 1), "expm1": (2, 1), "exp10": (1, 1),
    "log": (POLYNOMIAL, 0), "log2": (POLYNOMIAL + 1, 0), "log10": (POLYNOMIAL + 1, 0), "log1p": (POLYNOMIAL + 1, 0),
    "sqrt": (NEWTON + 1, 0), "rsqrt": (NEWTON, 0), "cbrt": (POLYNOMIAL + 1, 1), "reciprocal": (NEWTON, 0),
    "sin": (POLYNOMIAL, 0), "cos": (POLYNOMIAL, 0), "tan": (2 * POLYNOMIAL + NEWTON, 0),
    "asin": (POLYNOMIAL + NEWTON, 0), "acos": (POLYNOMIAL + NEWTON, 0), "atan": (POLYNOMIAL + NEWTON, 0),
    "atan2": (POLYNOMIAL + NEWTON + 3 * SELECT, 0),
    "sinh": (NEWTON + 2, 1), "cosh": (NEWTON + 2, 1), "tanh": (NEWTON + 3, 1), "sigmoid": (NEWTON + 2, 1),
    "asinh": (POLYNOMIAL + NEWTON + 4, 0), "acosh": (POLYNOMIAL + NEWTON + 4, 0), "atanh": (POLYNOMIAL + NEWTON + 3, 0),
    "erf": (POLYNOMIAL + NEWTON, 1), "erfc": (POLYNOMIAL + NEWTON, 1),
    "pow": (POLYNOMIAL + 1, 1), "hypot": (NEWTON + 4, 0), "logaddexp": (POLYNOMIAL + 5, 1),
    "fmod": (NEWTON + 4, 0), "remainder": (NEWTON + 6, 0), "div_floor": (NEWTON + 8, 0), "div_trunc": (NEWTON + 3, 0),
    "abs": (1 + SELECT, 0), "sign": (2 + 2 * SELECT, 0), "copysign": (2 + 2 * SELECT, 0), "signbit": (1, 0),
    "floor": (3, 0), "ceil": (3, 0), "trunc": (4, 0), "round": (2, 0),
    "maximum": (1 + SELECT, 0), "minimum": (1 + SELECT, 0), "fmax": (1 + SELECT, 0), "fmin": (1 + SELECT, 0),
    "clamp": (2 + 2 * SELECT, 0), "heaviside": (2 + 2 * SELECT, 0), "lerp": (6 + SELECT, 0),
    "logaddexp2": (POLYNOMIAL + 6, 1), "logit": (POLYNOMIAL + NEWTON + 4 + 3 * SELECT, 0),
    "logit_gradient": (NEWTON + 4 + SELECT, 0), "gelu_tanh_gradient": (12, 0), "elu_gradient": (8 + 2 * SELECT, 1),
    "gcd": (16 * (NEWTON + 6), 0), "lcm": (17 * (NEWTON + 6), 0),
    "nextafter": (4 + 4 * SELECT, 0), "frexp_mantissa": (4 + 2 * SELECT, 0), "frexp_exponent": (4 + 2 * SELECT, 0),
    "round_decimals": (4 + NEWTON, 0),
    "lgamma": (3 * POLYNOMIAL + NEWTON, 0), "digamma": (3 * POLYNOMIAL + 11 * NEWTON, 0),
    "polygamma": (12 * POLYNOMIAL, 10), "zeta": (12 * POLYNOMIAL, 10),
    "igamma": (8 * POLYNOMIAL, 4), "igammac": (8 * POLYNOMIAL, 4),
    "gamma_sample_gradient": (7 * POLYNOMIAL, 3), "dirichlet_sample_gradient": (12 * POLYNOMIAL, 3),
    "erfinv": (3 * POLYNOMIAL + NEWTON, 0), "ndtri": (3 * POLYNOMIAL + NEWTON, 0),
    "erfcx": (3 * POLYNOMIAL, 1), "log_ndtr": (5 * POLYNOMIAL, 1),
    "i0": (4 * POLYNOMIAL, 1), "i0e": (4 * POLYNOMIAL, 0), "i1": (4 * POLYNOMIAL, 1), "i1e": (4 * POLYNOMIAL, 0),
    "k0": (6 * POLYNOMIAL, 1), "k0e": (6 * POLYNOMIAL, 1), "k1": (6 * POLYNOMIAL, 1), "k1e": (6 * POLYNOMIAL, 1),
    "bessel_j0": (5 * POLYNOMIAL, 0), "bessel_j1": (5 * POLYNOMIAL, 0), "bessel_y0": (7 * POLYNOMIAL, 0),
    "bessel_y1": (7 * POLYNOMIAL, 0), "spherical_bessel_j0": (POLYNOMIAL + NEWTON, 0),
    "airy_ai": (8 * POLYNOMIAL, 1), **dict.fromkeys(POLYNOMIALS, (8 * 4, 0)),
    "isnan": (1, 0), "isinf": (2, 0), "shift_left": (4, 0), "shift_right": (4, 0),
}  # fmt: skip
# The counts of kernels whose generated Atalla code uses the vector unit. tools/chip_counts.py measures them.
LANES = 32
GENERATED: dict[str, dict[str, float]] = json.loads(Path(__file__).with_name("chip_counts.json").read_text())
OPERATORS: dict[str, tuple[int, int]] = {
    "/": (NEWTON + 1, 0), "%": (NEWTON + 4, 0), "?": (SELECT, 0),
    **{op: (1, 0) for op in ("+", "-", "*", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "!", "&", "|", "^", "~",
                             "<<", ">>")},
}  # fmt: skip

# The same for complex numbers, whose components stand in registers of their own.
LOG_C, SINCOS_C, DIVIDE_C = 2 * POLYNOMIAL + 2 * NEWTON + 3 * SELECT + 4, 2 * POLYNOMIAL + NEWTON + 6, 2 * NEWTON + 12
ROOT_C = 2 * NEWTON + 12
INVERSE_C = LOG_C + ROOT_C + 10
COMPLEX_COSTS: dict[str, tuple[int, int]] = {
    "exp": (2 * POLYNOMIAL + 2, 1), "exp2": (2 * POLYNOMIAL + 4, 1), "expm1": (3 * POLYNOMIAL + 8, 2),
    "log": (LOG_C, 0), "log2": (LOG_C + 2, 0), "log10": (LOG_C + 2, 0), "log1p": (LOG_C + DIVIDE_C + 10, 0),
    "sqrt": (ROOT_C, 0), "reciprocal": (DIVIDE_C, 0), "pow": (LOG_C + 6 + 2 * POLYNOMIAL + 2, 1),
    "sin": (SINCOS_C, 1), "cos": (SINCOS_C, 1), "sinh": (SINCOS_C, 1), "cosh": (SINCOS_C, 1),
    "tan": (SINCOS_C + DIVIDE_C, 1), "tanh": (SINCOS_C + DIVIDE_C, 1), "sinc": (SINCOS_C + DIVIDE_C + 8, 1),
    "asin": (INVERSE_C, 0), "acos": (INVERSE_C, 0), "asinh": (INVERSE_C, 0), "acosh": (INVERSE_C, 0),
    "atan": (LOG_C + DIVIDE_C, 0), "atanh": (LOG_C + DIVIDE_C, 0),
    "sigmoid": (2 * POLYNOMIAL + DIVIDE_C + 6, 1), "lerp": (22 + 2 * SELECT, 0),
    "logaddexp": (2 * LOG_C + DIVIDE_C + 2 * POLYNOMIAL, 1),
    "abs": (NEWTON + 4, 0), "angle": (POLYNOMIAL + NEWTON + 3 * SELECT, 0), "sgn": (2 * NEWTON + 8 + 2 * SELECT, 0),
    "conj": (1, 0), "isnan": (3, 0),
}  # fmt: skip
COMPLEX_OPERATORS: dict[str, tuple[int, int]] = {
    "+": (2, 0), "-": (2, 0), "*": (6, 0), "/": (DIVIDE_C, 0), "==": (3, 0), "!=": (3, 0), "?": (2 * SELECT, 0),
    "&&": (1, 0), "||": (1, 0), "!": (1, 0),
}  # fmt: skip

# Functions whose vector form may differ from the scalar one in the last place.
INEXACT = frozenset(
    "acos acosh asin asinh atan atanh atan2 cbrt cos cosh erf erfc exp exp2 expm1 hypot log log10 log1p log2 pow sin "
    "lgamma sinh tan tanh sigmoid logaddexp logaddexp2 logit elu_gradient".split()
)
# Formulas that change the sign bit of a float alone.
SIGNS = {"-self": "Sign::kFlip", "abs(self)": "Sign::kClear"}
FAULTING = frozenset(("div_trunc", "div_floor", "fmod", "remainder"))  # integer division

# Functions of two floats that need no branch where divides_easily() holds of all elements (vec_math.h): there their
# quick_ forms stand for them.
STAGED = re.compile(r"\b(fmod|remainder|div_floor)\(\s*(\w+)\s*,\s*(\w+)\s*\)")

TOKEN = re.compile(
    r"(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<operator><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>!~&|^?:(),])|(?P<space>\s+)|(?P<other>.)"
)


RESULTS = {"same": "T", "real": "typename RealOf<T>::Type"}
OPERAND_DTYPES = {"same": "kComputeDtype", "compute": "kComputeDtype", "real": "kComponentDtype"}


def tokens(formula: str) -> list[tuple[str, str]]:
    """(kind, text) of each token but blanks."""
    found = [(str(m.lastgroup), m.group()) for m in TOKEN.finditer(formula)]
    return [t for t in found if t[0] != "space"]


def calls(formula: str) -> set[str]:
    found = tokens(formula)
    return {t for (kind, t), following in zip(found, found[1:], strict=False) if kind == "name" and following[1] == "("}


def is_exact(formula: str) -> bool:
    """No function of the formula has a vector form that may differ from its scalar one."""
    return INEXACT.isdisjoint(calls(formula))


def cost(formula: str, is_complex: bool = False) -> tuple[int, int]:
    """Vector and exp instructions for 32 elements. A sign before an operand costs one subtraction from zero."""
    functions, operators = (COMPLEX_COSTS, COMPLEX_OPERATORS) if is_complex else (COSTS, OPERATORS)
    vector = exp = 0
    for kind, text in tokens(formula):
        v, e = (functions if kind == "name" else operators).get(text, (0, 0))
        vector, exp = vector + v, exp + e
    return vector, exp


def counts(p: Pointwise) -> tuple[int, int]:
    """Vector and exp instructions for 32 elements of the floating form. Waits for the scalar core, which computes some
    functions lane by lane, count as the vector instructions that could issue in their place."""
    if measured := GENERATED.get(p.name):
        lane_by_lane = round(measured["packets"] / 2) if measured["packets"] >= LANES else 0
        vector, exp = int(measured["vector"]) + lane_by_lane, int(measured["exp"])
    else:
        vector, exp = cost(p.formulas.get("floating") or next(iter(p.formulas.values())))
    return max(vector, 1 - exp), exp


def waits(p: Pointwise) -> int:
    """Packets per 32 vectors in which code that only does this waits for the first results of a tile. Behind a product,
    where the array works beside the vector units, there are none."""
    packets = GENERATED.get(p.name, {"packets": 0})["packets"]
    return round(packets * LANES) if packets < LANES else 0


def hoist(formula: str, prefix: str = "call") -> tuple[list[str], str]:
    """Moves calls of maths functions in front of the expression, so that none stands in an untaken branch, which would
    keep the loop from being vectorised. Literals with a decimal point get the type T."""
    statements: list[str] = []
    items = tokens(formula)

    def expression(position: int, stop_at_comma: bool) -> tuple[str, int]:
        parts: list[str] = []
        while position < len(items):
            kind, text = items[position]
            if text == ")" or (stop_at_comma and text == ","):
                break
            following = items[position + 1][1] if position + 1 < len(items) else ""
            if kind == "name" and following == "(":
                arguments: list[str] = []
                position += 2
                while True:
                    argument, position = expression(position, True)
                    arguments.append(argument)
                    if position >= len(items) or items[position][1] == ")":
                        break
                    position += 1
                call = f"{text}({', '.join(arguments)})"
                if text in INEXACT:
                    statements.append(f"const auto {prefix}{len(statements)}_ = {call};")
                    call = f"{prefix}{len(statements) - 1}_"
                parts.append(call)
            elif text == "(":
                inner, position = expression(position + 1, False)
                parts.append(f"({inner})")
            elif kind == "number" and not text.isdigit():
                parts.append(f"T({text})")
            else:
                parts.append(text)
            position += 1
        return " ".join(parts), position

    text, end = expression(0, False)
    if end != len(items):
        return [], formula  # unbalanced: the compiler says so, at the entry's line
    return statements, text


def mask(dtypes: Iterable[str]) -> int:
    return sum(1 << CODES[d] for d in dtypes)


def identifier(p: Pointwise) -> str:
    return "op_" + re.sub(r"\W", "_", p.name)


def ops_inc(kernels: list[Pointwise]) -> str:
    rows = []
    for p in kernels:
        exact = is_exact(p.formulas.get("floating", ""))
        may_fault = not FAULTING.isdisjoint(calls(p.formulas.get("integer", "")))
        vector, exp = counts(p)
        complex_vector, complex_exp = cost(p.formulas.get("complex", ""), True)
        results, inputs = (
            ", ".join(OPERAND_DTYPES.get(t) or str(CODES[t]) for t in types)
            for types in (p.results, [i.type for i in p.inputs])
        )
        flags = ", ".join(str(f).lower() for f in (may_fault, bool(p.requires), exact))
        sign = SIGNS.get(p.formulas.get("floating", ""), "Sign::kOther")
        rows.append(
            f'    {{"pointwise.{p.name}", {len(p.results)}, {len(p.inputs)}, {flags}, {sign}, {{{vector}, '
            f"{max(complex_vector, 2 - complex_exp)}}}, {{{exp}, {complex_exp}}}, {waits(p)}, {mask(p.dtypes):#x}, "
            f"{{{results}}}, "
            f"{{{inputs}}}}},"
        )
    body = "\n".join(rows)
    return (
        "// Generated by tools/codegen/pointwise.py.\n"
        f"inline constexpr int kNumOps = {len(kernels)};\n"
        f"inline constexpr PointwiseOp kOps[] = {{\n{body}\n}};\n"
    )


class Source:
    def __init__(self, name: str):
        self.name = name
        self.lines: list[str] = []

    def add(self, *lines: str) -> None:
        self.lines += lines

    def located(self, path: Path, line: int, *lines: str) -> None:
        """Lines that the compiler reports as standing at path:line."""
        for text in lines:
            self.add(f'#line {line} "{path}"', text)
        self.add(f'#line {len(self.lines) + 2} "{self.name}"')

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def emit_loads(source: Source, p: Pointwise) -> None:
    for k, i in enumerate(p.inputs):
        stored = "T, S" if i.type == "compute" else STORED[i.type]
        source.add(f"    [[maybe_unused]] const auto {i.name} = load_element<{stored}>(from{k}_, i_);")


def emit_elements(source: Source, p: Pointwise, formula: str, path: Path) -> None:
    """The loop over the elements."""
    source.add("#pragma GCC ivdep", "  for (int64_t i_ = 0; i_ < n_; ++i_) {")
    emit_loads(source, p)
    lines, stores = [f"holds{k}_ &= ({condition});" for k, (condition, _) in enumerate(p.requires)], []
    for k, text in enumerate(formula.split(";")):
        statements, expression = hoist(text, f"call{k}_" if k else "call")
        lines += [*statements, f"const auto result{k}_ = static_cast<R{k}_>({expression});"]
        stores.append(f"    to{k}_[i_] = E{k}_::store(result{k}_);")
    source.located(path, p.line, *(f"    {line}" for line in lines))
    source.add(*stores, "  }")


def emit_loop(source: Source, p: Pointwise, dtype_class: str, path: Path) -> None:
    formula = p.formulas[dtype_class]
    inexact = dtype_class == "floating" and not is_exact(formula)
    source.add(
        "template <class T, class S>",
        f"void {identifier(p)}(void* const* out_, const void* const* in_, int64_t n_, "
        "[[maybe_unused]] const atalla_launch_desc& desc_) {",
    )
    if "compute_dtype" in [text for _, text in tokens(formula)]:
        source.add("  const atalla_dtype compute_dtype = desc_.compute_dtype;")
    for k, r in enumerate(p.results):
        source.add(
            f"  using R{k}_ = {RESULTS.get(r) or STORED[r]};",
            f"  using E{k}_ = Element<R{k}_, {'S' if r == 'same' else f'R{k}_'}>;",
            f"  auto* to{k}_ = static_cast<typename E{k}_::Stored*>(out_[{k}]);",
        )
    for k, i in enumerate(p.inputs):
        source.add(f"  const void* const from{k}_ = in_[{k}];  // {i.name}")
    if p.scalars:
        source.add("  const PointwiseParameters parameters_ = PointwiseParameters::read(desc_);")
    for k, s in enumerate(p.scalars):
        source.add(f"  [[maybe_unused]] const T {s.name} = scalar_as<T>(parameters_.scalars[{k}]);")
        if s.optional:
            source.add(f"  [[maybe_unused]] const bool has_{s.name} = (parameters_.present >> {k} & 1) != 0;")
    if inexact:
        source.add("  n_ &= -kLoopMultiple;")
    # A power with one exponent for all elements: one loop for each usual exponent.
    power = next((s.name for s in p.scalars if re.search(rf"\bpow\(\s*\w+\s*,\s*{s.name}\s*\)", formula)), None)
    if power:
        formula = re.sub(rf"\bpow\((\s*\w+\s*,\s*{power}\s*)\)", r"pow_case<case_>(\1)", formula)
        source.add(
            f"  dispatch_power({power}, [&](auto chosen_) {{", "  constexpr int case_ = decltype(chosen_)::value;"
        )
    source.add(*(f"  bool holds{k}_ = true;" for k, _ in enumerate(p.requires)))
    staged = STAGED.findall(formula) if dtype_class == "floating" else []
    if staged:
        easy = " & ".join(dict.fromkeys(f"divides_easily({a}, {b})" for _, a, b in staged))
        source.add("  int hard_ = 0;", "  for (int64_t i_ = 0; i_ < n_; ++i_) {")
        emit_loads(source, p)
        source.add(f"    hard_ |= {easy} ? 0 : 1;", "  }", "  if (hard_ == 0) {")
        emit_elements(source, p, STAGED.sub(r"quick_\1(\2, \3)", formula), path)
        source.add("    return;", "  }")
    emit_elements(source, p, formula, path)
    if power:
        source.add("  });")
    for k, (_, text) in enumerate(p.requires):
        source.add(f'  if (!holds{k}_) element_fault = "{text}";')
    source.add("}", "")


def loops_inc(kernels: list[Pointwise], dtype_class: str, path: Path, name: str) -> str:
    source = Source(name)
    source.add(
        "// Generated by tools/codegen/pointwise.py.",
        '#include "sim/kernels/pointwise/pointwise_loops.h"',
        "namespace atalla::sim::ATALLA_ISA {",
        "namespace {",
        "",
    )
    for p in kernels:
        if dtype_class in p.formulas:
            emit_loop(source, p, dtype_class, path)
    source.add("template <class T, class S = T>", "constexpr PointwiseLoop kLoops[] = {")
    members = CLASSES[dtype_class]
    for p in kernels:
        if dtype_class in p.formulas:
            exact = is_exact(p.formulas[dtype_class])
            taken = f"{mask(d for d in p.dtypes if d in members):#x}, {str(exact).lower()}"
            source.add(
                f"    []() -> PointwiseLoop {{ if constexpr (loop_enabled<S>({taken})) return {identifier(p)}<T, S>; "
                "else return nullptr; }(),"
            )
        else:
            source.add("    nullptr,")
    source.add("};", "", "}  // namespace", "}  // namespace atalla::sim::ATALLA_ISA")
    return source.text()


def emit(kernels: list[Pointwise], yaml_path: str | Path, directory: str | Path) -> None:
    """`yaml_path` is what the compiler's messages shall name."""
    directory = Path(directory)
    write(directory / "pointwise_ops.inc", ops_inc(kernels))
    for dtype_class in CLASSES:
        name = f"pointwise_loops_{dtype_class}.inc"
        write(directory / name, loops_inc(kernels, dtype_class, Path(yaml_path), name))
