# SPDX-License-Identifier: BSD-3-Clause
"""Entries -> dispatcher registrations (csrc, sharded).

For a structured op every variant is emitted from the entry: upstream's meta computes shapes, type promotion, overlap
checks and error messages; our launch takes the place of upstream's impl. (Upstream's composite functional variant would
dispatch twice.) An op whose promoted dtype the chip does not take, or whose kernels the device library does not have,
goes to the fallback, which counts or forbids it.
"""

from __future__ import annotations

import re
import zlib

from torchgen.api import structured
from torchgen.api.translate import translate
from torchgen.api.types import DispatcherSignature
from torchgen.context import native_function_manager
from torchgen.model import NativeFunction, SchemaKind

from .calls import CallError, Declarations
from .model import CODES, DTYPES, Entry, EntryError, upstream_kernels

# Tensor arguments whose dtype is not the op's: indices and masks.
UNCHECKED = {
    "index", "indices", "mask", "condition", "attn_bias", "offsets", "p", "target", "targets", "input_lengths",
    "target_lengths", "state_steps", "lr", "grad_scale", "found_inf", "reserve", "offset2bag", "bag_size",
    "maximum_indices",
}  # fmt: skip

HEADER = """// Generated from atalla_native_functions.yaml by tools/codegen. Do not edit.
#include "aten/device/empty.h"
#include "aten/dispatch/fallback.h"
#include "aten/launch/dense.h"
#include "aten/launch/launch.h"
#include "aten/dispatch/structured.h"
"""


def mask(dtypes) -> str:
    return f"{sum(1 << CODES[d] for d in dtypes):#x}u"


def identifier(entry: Entry) -> str:
    return entry.op.replace(".", "_") + "_ns"


def signature(f: NativeFunction) -> DispatcherSignature:
    return DispatcherSignature.from_schema(f.func, symint=False)


def declaration(f: NativeFunction, name: str) -> str:
    sig = signature(f)
    return f"{sig.returns_type().cpp_type()} {name}({', '.join(a.decl() for a in sig.arguments())})"


def function_type(f: NativeFunction) -> str:
    return signature(f).type()


def fallback_call(f: NativeFunction) -> str:
    """Statements that call the op's fallback and return its results."""
    name = f.func.name
    names = "".join(f", {a.name}" for a in signature(f).arguments())
    call = f'("aten::{name.name}", "{name.overload_name}"{names});'
    written = ["self"] if f.func.kind() == SchemaKind.inplace else [a.name for a in f.func.arguments.out]
    if not written or not f.func.returns:
        return f"return fallback<{signature(f).returns_type().cpp_type()}>{call}"
    result = written[0] if len(written) == 1 else f"{{{', '.join(written)}}}"
    return f"{{ fallback<void>{call} return {result}; }}"


def upstream_kernel(f: NativeFunction) -> str:
    """The function, or the structured class, in at::native that the CPU runs."""
    metadata = upstream_kernels()[f.func.name]
    return f"at::native::{'structured_' if f.structured or f.structured_delegate else ''}{metadata.kernel}"


def kernel_type(entry: Entry) -> str:
    return "PointwiseKernel" if entry.formula else "Kernel"


def kernel_definitions(entry: Entry) -> list[str]:
    if entry.adaptor or entry.family != "pointwise":
        names = ", ".join(f'"{kernel}"' for kernel in entry.kernels)
        lines = [
            f"constexpr uint32_t kDtypes = {mask(entry.compute_dtypes)};",
            f"constexpr const char* kNames[] = {{{names}}};",
            "const KernelSet kernels{kNames};",
        ]
        if entry.call and entry.call.uses("kernel"):
            formula = entry.formula
            limits = f", {mask(formula.dtypes)}, {len(formula.inputs)}" if formula else ""
            lines.append(f'const {kernel_type(entry)} kernel{{"{entry.kernels[0]}"{limits}}};')
        return lines
    by_name = {f"pointwise.{p.name}": p for p in entry.pointwise}
    lines = []
    for i, kernel in enumerate(entry.kernels):
        dtypes = by_name[kernel].dtypes if kernel in by_name else entry.compute_dtypes
        inputs = len(by_name[kernel].inputs) if kernel in by_name else 2  # a shared kernel is a binary one
        lines.append(f'const PointwiseKernel kernel{i}{{"{kernel}", {mask(dtypes)}, {inputs}}};')
    return lines


def launch_expression(entry: Entry, f: NativeFunction, iterator: str) -> str:
    """A bool expression: whether the launch was taken."""
    kernel = "kernel0"
    if entry.variants:
        kernel = f"kernel{len(entry.kernels) - 1}"
        arg = next(a for a in signature(f).arguments() if a.name == entry.variant_arg)
        optional = "optional" in arg.type
        for value, name in reversed(list(entry.variants.items())[:-1]):
            test = f'{arg.name} == "{value}"'
            if value == "none" and optional:
                test = f"!{arg.name}.has_value()"
            kernel = f"{test} ? kernel{entry.kernels.index(name)} : {kernel}"
        kernel = f"({kernel})"
    scalars = entry.pointwise[0].scalars if entry.pointwise else ()
    return f"launch_pointwise({', '.join([iterator, kernel, *(s.name for s in scalars)])})"


# Ops whose metas compare the dtypes of all tensors, also that of a scalar.
SAME_DTYPES = ("heaviside",)
# Arguments that are one factor of the formula, which metas do not look at.
FACTORS = ("alpha", "value", "weight", "negative_slope")


# Ops whose numbers must fit the dtype of the tensors, also where it is a 16-bit float: upstream's kernels convert them
# to it, and those of other ops to float32.
FITTING_NUMBERS = ("clamp", "clamp_min", "clamp_max")


def number_checks(entry: Entry, f: NativeFunction) -> list[str]:
    if entry.op not in FITTING_NUMBERS:
        return []
    numbers = [a.name for a in signature(f).arguments() if "Scalar" in a.type]
    return [f"  check_fits({name}, op.common_dtype());" for name in numbers]


def dense_launch(entry: Entry, f: NativeFunction, result: str) -> list[str]:
    """The short way for contiguous numbers of one shape, for ops of which upstream's meta checks nothing of such
    tensors: those whose arguments are tensors, and a factor."""
    given = [a for a in f.func.arguments.flat_non_out if not a.type.is_tensor_like()]
    like_self = entry.iterator == "binary_like_self"  # in strides, too
    if entry.adaptor or like_self or len(entry.pointwise) != 1 or any(a.name not in FACTORS for a in given):
        return []
    if entry.op in SAME_DTYPES:
        return []
    formula = entry.pointwise[0]
    tensors = [a.name for a in f.func.arguments.flat_non_out if a.type.is_tensor_like()]
    if len(formula.results) != 1 or [(i.name, i.type) for i in formula.inputs] != [(t, "compute") for t in tensors]:
        return []
    known = formula.result in DTYPES
    arguments = [
        "kernel0",
        f"static_cast<c10::ScalarType>({CODES[formula.result]})" if known else "c10::ScalarType::Undefined",
        result or "dense",
        f"{{{', '.join(f'&{t}' for t in tensors)}}}",
        *(f"&{s.name}" for s in formula.scalars),
    ]
    made = [] if result else ["  at::Tensor dense;"]
    return [*made, f"  if (launch_dense({', '.join(arguments)})) return {result or 'dense'};"]


def variant_check(entry: Entry, f: NativeFunction) -> list[str]:
    """A string argument that picks the kernel is checked before anything is computed (an optional one: by the meta)."""
    if not entry.variants:
        return []
    arg = next(a for a in signature(f).arguments() if a.name == entry.variant_arg)
    if "optional" in arg.type:
        return []
    test = " || ".join(f'{arg.name} == "{v}"' for v in entry.variants)
    return [f'  TORCH_CHECK({test}, "{arg.name} argument must be either {" or ".join(entry.variants)}.");']


def device_check(f: NativeFunction) -> list[str]:
    tensors = [a.name for a in f.func.arguments.flat_all if a.type.is_tensor_like() and not a.type.is_list_like()]
    return [f'  check_devices("{f.func.name}", {", ".join(tensors)});'] if tensors else []


def written_check(f: NativeFunction, is_upstream: bool = False) -> list[str]:
    """A tensor that is written must be on the device, also one without dimensions (structured ops: by the meta)."""
    draws = any(argument.name == "generator" for argument in f.func.arguments.flat_all)
    if draws and not (is_upstream and f.func.kind() == SchemaKind.out):
        return []  # reserve_positions (random_launch.cpp) says so in terms of the generator
    tensors = [a for a in f.func.arguments.flat_all if a.type.is_tensor_like() and not a.type.is_list_like()]
    written = [a.name for a in tensors if a.annotation is not None and a.annotation.is_write]
    return [f'  check_written("{f.func.name}", {name});' for name in written]


def overlap_checks(entry: Entry, f: NativeFunction) -> list[str]:
    """Checks of the memory of the outputs that the caller gives (for iterators: by the meta)."""
    if entry.overlap is None or f.func.kind() == SchemaKind.functional:
        return []
    given = [a.name for a in f.func.arguments.out] or ["self"]
    inputs = {"internal": [], "partial": entry.tensors()[:1], "any": entry.tensors()}[entry.overlap]
    whole = "true" if entry.overlap == "any" else "false"
    lines = [f"  at::assert_no_internal_overlap({out});" for out in given]
    lines += [f"  check_overlap({out}, {t}, {whole});" for out in given for t in inputs if t != out]
    return lines


# Families whose launches join and divide dimensions: through an iterator, or as a matrix.
ANY_RANK = ("pointwise.", "random.", "reduce.")


def taken_dtypes(entry: Entry, dtypes: str = "kDtypes") -> str:
    """The mask for `takes`."""
    return f"{dtypes} | kAnyRank" if all(kernel.startswith(ANY_RANK) for kernel in entry.kernels) else dtypes


def adaptor_call(entry: Entry, values: dict[str, str]) -> str:
    """The call of the adaptor, where the op's arguments have these values."""
    assert entry.call is not None
    names = re.compile("|".join(['"[^"]*"', *(rf"\b{name}\b" for name in values)]))
    arguments = [names.sub(lambda m: values.get(m[0], m[0]), a) for a in entry.call.filled(list(values))]
    return f"{entry.call.function}({', '.join(arguments)})"


def structured_variant(entry: Entry, f: NativeFunction) -> list[str]:
    group = entry.group
    assert group is not None
    kind = f.func.kind()
    outs = [a.name for a in f.func.arguments.out]
    n = len(group.out.func.arguments.out)
    holder = {
        SchemaKind.functional: f"Functional<Meta, {n}> op;",
        SchemaKind.inplace: f"Inplace<Meta, {n}> op(self);",
        SchemaKind.out: f"Out<Meta, {n}> op({', '.join(outs)});",
    }[kind]
    sig = signature(f)
    meta = structured.meta_arguments(group)
    given_to_meta = [e.expr for e in translate(sig.arguments(), meta, method=False)]
    meta_args = ", ".join(given_to_meta)
    lines = [f"{declaration(f, kind.name)} {{", *variant_check(entry, f)]
    given = {SchemaKind.functional: "", SchemaKind.inplace: "self", SchemaKind.out: ", ".join(outs)}[kind]
    lines += dense_launch(entry, f, given)
    is_iterator = group.out.structured_inherits is not None
    if not is_iterator:
        lines += device_check(f)
    lines += [f"  {holder}", f"  op.meta({meta_args});", *number_checks(entry, f), *overlap_checks(entry, f)]
    if entry.adaptor:
        iterator = is_iterator and not entry.is_upstream
        values = {"iterator": "op"} if iterator else {}
        values |= zip((a.name for a in meta), given_to_meta, strict=True)
        values |= {a.name: f"op.output({i})" for i, a in enumerate(group.out.func.arguments.out)}
        tensors = [t for t in entry.tensors() if t not in UNCHECKED]
        taken = f"takes({taken_dtypes(entry)}, {', '.join(['op.output(0)', *tensors])})"
        if iterator and entry.pointwise and tensors:  # which converts its inputs to the dtype of the result
            taken = (
                f"takes({taken_dtypes(entry)}, op.output(0)) && takes({mask(DTYPES)} | kAnyRank, {', '.join(tensors)})"
            )
            taken = f"({taken})"
        lines.append(f"  if (!kernels.available() || !{taken}) {fallback_call(f)}")
        upstream = f"op.impl({', '.join(values.values())})"
        lines.append(f"  {upstream if entry.is_upstream else adaptor_call(entry, values)};")
    else:
        lines.append(f"  if (!{launch_expression(entry, f, 'op')}) {fallback_call(f)}")
    lines.append("  op.finish();")
    if kind == SchemaKind.functional:
        result = ", ".join(f"op.take({i})" for i in range(n))
        lines.append(f"  return {result};" if n == 1 else f"  return {{{result}}};")
    elif kind == SchemaKind.inplace:
        lines.append("  return self;")
    else:
        lines.append(f"  return {outs[0]};" if n == 1 else f"  return {{{', '.join(outs)}}};")
    return [*lines, "}"]


def iterator_variant(entry: Entry, f: NativeFunction) -> list[str]:
    kind = f.func.kind()
    formula = entry.formula if entry.pointwise else None
    tensors = ", ".join(i.name for i in formula.inputs) if formula else ", ".join(entry.tensors())
    out = f.func.arguments.out[0].name if f.func.arguments.out else ""
    result = {SchemaKind.functional: "result", SchemaKind.inplace: "self", SchemaKind.out: out}[kind]
    lines = [f"{declaration(f, kind.name)} {{"]
    if kind == SchemaKind.functional:
        lines.append("  at::Tensor result;")
    if kind == SchemaKind.inplace and entry.pointwise and entry.pointwise[0].result == "real":
        base = str(f.func.name.name.base)
        lines.append(f'  TORCH_CHECK(!self.is_complex(), "In-place {base} is not supported for complex tensors.");')
    lines += dense_launch(entry, f, "" if kind == SchemaKind.functional else result)
    lines.append(f"  auto iterator = {entry.iterator}_iterator({result}, {tensors});")
    lines.append(f"  if (!{launch_expression(entry, f, 'iterator')}) {fallback_call(f)}")
    lines.append(f"  return {'iterator.output()' if kind == SchemaKind.functional else result};")
    return [*lines, "}"]


def copies(entry: Entry) -> bool:
    """Whether the op is an out= form, and the adaptor gives new tensors."""
    outs = entry.function.func.arguments.out
    return bool(outs and entry.call and not entry.call.is_given(outs[0].name))


def copied_results(entry: Entry, outs: list[str], call: str) -> list[str]:
    lines = [f"  const auto result = {call};"]
    if len(outs) == 1:
        return [*lines, f"  return copy_result(result, {outs[0]});"]
    lines += [f"  copy_result(std::get<{i}>(result), {out});" for i, out in enumerate(outs) if out not in UNCHECKED]
    return [*lines, f"  return {{{', '.join(outs)}}};"]


# The dtype of a result that the wrapper allocates, by the first tensor.
RESULT_DTYPES = {
    "same": "{}.scalar_type()",
    "real": "c10::toRealValueType({}.scalar_type())",
    "index": "out_int32 ? c10::kInt : c10::kLong",
}


def adaptor_variant(entry: Entry, f: NativeFunction) -> list[str]:
    sig = signature(f)
    names = [a.name for a in sig.arguments()]
    outs = [a.name for a in f.func.arguments.out]
    allocates = entry.allocates and f.func.kind() == SchemaKind.functional
    lines = [f"{declaration(f, variant_name(entry, f))} {{", *device_check(f), *written_check(f, entry.is_upstream)]
    checked = [t for t in entry.tensors() if t not in UNCHECKED] + [name for name in outs if name != "reserve"]
    dtypes = mask({*entry.compute_dtypes, *(r for r in entry.results if r in DTYPES)}) if outs else "kDtypes"
    taken = f" || !takes({taken_dtypes(entry, dtypes)}, {', '.join(checked)})" if checked else ""
    lines += [f"  if (!kernels.available(){taken}) {fallback_call(f)}", *overlap_checks(entry, f)]
    if entry.is_upstream:
        return [*lines, f"  return {upstream_kernel(f)}({', '.join(names)});", "}"]
    assert entry.call is not None
    values = {a.name: entry.call.value(a.name, a.type) for a in sig.arguments()}
    if copies(entry):
        return [*lines, *copied_results(entry, outs, adaptor_call(entry, values)), "}"]
    if not allocates:
        return [*lines, f"  return {adaptor_call(entry, values)};", "}"]
    first = "self" if "self" in entry.tensors() else entry.tensors()[0]
    results = entry.results[: len(f.func.returns)]
    for i, result in enumerate(results):
        dtype = RESULT_DTYPES.get(result, "").format(first) or f"static_cast<c10::ScalarType>({CODES[result]})"
        lines.append(f"  at::Tensor result{i} = empty_like_dtype({first}, {{0}}, {dtype});")
    made = [f"result{i}" for i in range(len(results))]
    assert entry.group is not None
    values |= zip((a.name for a in entry.group.out.func.arguments.out), made, strict=True)
    lines.append(f"  {adaptor_call(entry, values)};")
    return [*lines, f"  return {made[0]};" if len(made) == 1 else f"  return {{{', '.join(made)}}};", "}"]


def variant_name(entry: Entry, f: NativeFunction) -> str:
    return f.func.kind().name if len(adaptor_functions(entry)) > 1 else "direct"


def adaptor_functions(entry: Entry) -> list[NativeFunction]:
    """The overloads that an entry with an adaptor registers: the one that it names, and with it those of its group that
    the adaptor serves too."""
    functional = entry.function.func.kind() == SchemaKind.functional
    if entry.group is None or not functional or not (entry.allocates or entry.is_upstream):
        return [entry.function]
    if entry.allocates:
        return [entry.group.functional, entry.group.out]
    return [f for f in entry.group.functions() if f.func.name in upstream_kernels()]


def variants(entry: Entry) -> list[tuple[NativeFunction, str, list[str]]]:
    """(function, name of the C++ wrapper, its lines) for every overload that the entry registers."""
    if entry.structured or entry.iterator:
        emit = structured_variant if entry.structured else iterator_variant
        found = []
        for f in entry.group.functions() if entry.group else [entry.function]:
            if f.func.kind() in (SchemaKind.functional, SchemaKind.inplace, SchemaKind.out):
                with native_function_manager(f):
                    found.append((f, f.func.kind().name, emit(entry, f)))
        return found
    found = []
    for f in adaptor_functions(entry):
        with native_function_manager(f):
            found.append((f, variant_name(entry, f), adaptor_variant(entry, f)))
    return found


def overloads(entry: Entry) -> list[str]:
    return [str(f.func.name) for f, _, _ in variants(entry)]


def adaptor_declaration(entry: Entry, declarations: Declarations) -> str:
    if entry.call is None or entry.is_upstream:
        return ""
    group = entry.group
    if entry.structured:
        assert group is not None
        returned = "void"
        types = {"iterator": "at::TensorIteratorBase&"} if group.out.structured_inherits else {}
        with native_function_manager(group):
            types |= {a.name: a.type for a in structured.meta_arguments(group)}
        types |= {a.name: "const at::Tensor&" for a in group.out.func.arguments.out}
    else:
        f = group.out if entry.allocates and group else entry.function
        with native_function_manager(f):
            returned = signature(f).returns_type().cpp_type()
            types = {a.name: a.type for a in signature(f).arguments()}
        if copies(entry):
            returned = returned.replace("&", "")
    names = list(types)
    types["kernel"] = f"const {kernel_type(entry)}&"
    try:
        return declarations.add(entry.call, returned, types, names)
    except CallError as error:
        raise EntryError(f"line {entry.line}: adaptor of `{entry.op}`: {error}") from error


def shard(entries: list[Entry], declared: dict[str, str]) -> str:
    includes, declarations, body, registrations = set(), [], [], []
    for entry in entries:
        space = identifier(entry)
        body += [f"namespace {space} {{"]
        if entry.structured:
            assert entry.group is not None
            meta = f"at::meta::structured_{str(entry.group.functional.func.name).replace('.', '_')}"
            includes.add(f"ATen/ops/{entry.group.functional.root_name}_meta.h")
            body.append(f"using Meta = {upstream_kernel(entry.group.out) if entry.is_upstream else meta};")
        if entry.op in FITTING_NUMBERS:
            declarations.append("void check_fits(const std::optional<at::Scalar>& value, c10::ScalarType dtype);")
        if entry.is_upstream or (entry.call and "at::native::" in entry.call.function):
            includes.add(f"ATen/ops/{entry.function.root_name}_native.h")
        if entry.call:
            includes |= entry.call.headers()
        if declared[entry.op] and declared[entry.op] not in declarations:
            declarations.append(declared[entry.op])
        body += kernel_definitions(entry)
        for f, name, lines in variants(entry):
            body += lines
            # Not TORCH_FN: with a pointer of run time, functions of one type share the code that boxes their arguments,
            # which otherwise makes up most of the compile time.
            registrations.append(f'  m.impl("{f.func.name}", &{space}::{name});')
        body.append(f"}}  // namespace {space}\n")
    return "\n".join(
        [
            HEADER,
            *(f"#include <{i}>" for i in sorted(includes)),
            "\nnamespace atalla::aten {",
            *declarations,
            "namespace {",
            *body,
            "TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {",
            *registrations,
            "}",
            "}  // namespace",
            "}  // namespace atalla::aten",
            "",
        ]
    )


def generate(entries: list[Entry], shards: int = 4) -> dict[str, str]:
    """File name -> source. An op's shard depends on the type of its functions alone: ops of one type share a file, for
    the reason told above, and a new entry recompiles one file."""
    parts: list[list[Entry]] = [[] for _ in range(shards)]
    declarations = Declarations()
    declared = {entry.op: adaptor_declaration(entry, declarations) for entry in entries}
    for entry in entries:
        with native_function_manager(entry.function):
            key = function_type(variants(entry)[0][0])
        parts[zlib.crc32(key.encode()) % shards].append(entry)
    return {f"register_{i:02d}.cpp": shard(part, declared) for i, part in enumerate(parts) if part}


def promoted(entries: list[Entry]) -> str:
    """Names of the ops that compute in floating point whatever integers they get: emulated_dtypes.cpp includes them."""
    names = sorted({e.function.func.name.name.base for e in entries if e.promotion == "int_to_float"})
    return "// Generated by tools/codegen/registrations.py.\n" + "".join(f'"{name}",\n' for name in names)
