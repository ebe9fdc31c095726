# SPDX-License-Identifier: BSD-3-Clause
"""Pointwise kernels: formulas of the op list -> C++ loops and the list of ops.

`emit(kernels, yaml_path, directory)` writes pointwise_ops.inc (names, dtypes) and, for each dtype class,
pointwise_loops_<class>.inc: the loops, templates over the loop type and the type that stands in memory.
`loop_sources()` instantiates them, in a file for each dtype; pointwise_loops.inc finds the loop of a dtype.
docs/concepts/pointwise.md tells how the engine uses them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tools.codegen.files import write
from tools.codegen.kernels_cpp import handle
from tools.codegen.model import CLASSES, CODES, Pointwise

STORED = {
    "bool": "bool", "uint8": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
    "float32": "float", "float64": "double",
}  # fmt: skip
# The loop type, and the type in memory where it is another one. Loops of bfloat16 convert in registers; only exact ops
# have them. float16, and the other ops on bfloat16, use the loops of float32.
LOOP_TYPES = STORED | {"bfloat16": "float, BFloat16", "complex64": "Complex<float>", "complex128": "Complex<double>"}
# Scalar code: GCC's vectoriser fuses the multiplication and the alternating addition of a complex product (vfmaddsub)
# although contraction is off. Then z * conj(z) is not real, and the elements of a ragged end, which stay scalar, would
# differ from the others. The warning is about T(1), which has no imaginary part.
COMPLEX_PRAGMAS = (
    '#pragma GCC optimize("no-tree-vectorize")',
    '#pragma GCC diagnostic ignored "-Wmissing-field-initializers"',
)

# Functions whose vector form may differ from the scalar one in the last place.
INEXACT = frozenset(
    "acos acosh asin asinh atan atanh atan2 cbrt cos cosh erf erfc exp exp2 expm1 hypot log log10 log1p log2 pow sin "
    "lgamma sinh tan tanh sigmoid logit".split()
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


def hoist(formula: str, prefix: str = "call") -> tuple[list[str], str]:
    """Moves calls of maths functions in front of the expression, so that none stands in an untaken branch, which would
    keep the loop from being vectorised. Literals with a decimal point get the type T."""
    statements: list[str] = []
    brackets: list[tuple[str, list[list[str]]]] = [("", [[]])]  # that are open: the function called, and its arguments
    before = ""
    for kind, text in tokens(formula):
        arguments = brackets[-1][1]
        if text == "(":
            brackets.append((arguments[-1].pop() if before == "name" else "", [[]]))
        elif text == "," and brackets[-1][0]:
            arguments.append([])
        elif text == ")" and len(brackets) > 1:
            function, _ = brackets.pop()
            call = f"{function}({', '.join(map(' '.join, arguments))})"
            if function in INEXACT:
                statements.append(f"const auto {prefix}{len(statements)}_ = {call};")
                call = f"{prefix}{len(statements) - 1}_"
            brackets[-1][1][-1].append(call)
        else:
            arguments[-1].append(f"T({text})" if kind == "number" and not text.isdigit() else text)
        before = kind
    if len(brackets) > 1:
        return [], formula  # unbalanced: the compiler says so, at the entry's line
    return statements, " ".join(brackets[0][1][0])


def mask(dtypes: Iterable[str]) -> int:
    return sum(1 << CODES[d] for d in dtypes)


def identifier(p: Pointwise) -> str:
    return "op_" + re.sub(r"\W", "_", p.name)


def ops_inc(kernels: list[Pointwise]) -> str:
    rows = []
    for p in kernels:
        exact = is_exact(p.formulas.get("floating", ""))
        may_fault = not FAULTING.isdisjoint(calls(p.formulas.get("integer", "")))
        results, inputs = (
            ", ".join(OPERAND_DTYPES.get(t) or str(CODES[t]) for t in types)
            for types in (p.results, [i.type for i in p.inputs])
        )
        flags = ", ".join(str(f).lower() for f in (may_fault, bool(p.requires), exact))
        sign = SIGNS.get(p.formulas.get("floating", ""), "Sign::kOther")
        rows.append(
            f'    {{"pointwise.{p.name}", {len(p.results)}, {len(p.inputs)}, {flags}, {sign}, {mask(p.dtypes):#x}, '
            f"{{{results}}}, {{{inputs}}}}},"
        )
    body = "\n".join(rows)
    return (
        "// Generated by tools/codegen/pointwise.py.\n"
        f"inline constexpr int kNumOps = {len(kernels)};\n"
        f"inline constexpr PointwiseOp kOps[] = {{\n{body}\n}};\n"
    )


def handles(kernels: list[Pointwise]) -> list[str]:
    named = [(f"pointwise.{p.name}", f"{mask(p.dtypes):#x}, {len(p.inputs)}") for p in kernels]
    return [f'inline const PointwiseKernel {handle(name)}{{"{name}", {limits}}};' for name, limits in named]


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


def loop_sources() -> dict[str, str]:
    """The files that instantiate the loops, by name."""
    files = {}
    for dtype_class, dtypes in CLASSES.items():
        for dtype in filter(LOOP_TYPES.__contains__, dtypes):
            lines = ["// Generated by tools/codegen/pointwise.py."]
            lines += COMPLEX_PRAGMAS if dtype_class == "complex" else ()
            lines += [f'#include "pointwise_loops_{dtype_class}.inc"', "namespace atalla::sim::ATALLA_ISA {"]
            lines += [f"extern const PointwiseLoop* const kLoops_{dtype} = kLoops<{LOOP_TYPES[dtype]}>;"]
            files[f"pointwise_loops_{dtype}.cpp"] = "\n".join([*lines, "}  // namespace atalla::sim::ATALLA_ISA", ""])
    return files


def loop_table() -> str:
    lines = ["// Generated by tools/codegen/pointwise.py."]
    lines += [f"extern const PointwiseLoop* const kLoops_{dtype};" for dtype in LOOP_TYPES]
    lines += ["// The loop of an op over arrays of a dtype; null where the op has none.", "namespace {"]
    lines += ["PointwiseLoop loop_over(atalla_dtype dtype, int op) {", "  switch (dtype) {"]
    lines += [f"    case {CODES[dtype]}: return kLoops_{dtype}[op];" for dtype in LOOP_TYPES]
    return "\n".join([*lines, "    default: return nullptr;", "  }", "}", "}  // namespace", ""])


def emit(kernels: list[Pointwise], yaml_path: str | Path, directory: str | Path) -> None:
    """`yaml_path` is what the compiler's messages shall name."""
    directory = Path(directory)
    write(directory / "pointwise_ops.inc", ops_inc(kernels))
    write(directory / "pointwise_loops.inc", loop_table())
    for dtype_class in CLASSES:
        name = f"pointwise_loops_{dtype_class}.inc"
        write(directory / name, loops_inc(kernels, dtype_class, Path(yaml_path), name))
