# SPDX-License-Identifier: BSD-3-Clause
"""atalla_layout_functions.yaml -> registrations of the ops on sparse and quantized tensors, and their page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import yaml
from torchgen.api.types import DispatcherSignature, NativeSignature
from torchgen.context import native_function_manager
from torchgen.model import DispatchKey, NativeFunction, SchemaKind

from . import calls
from .model import native_functions, upstream

ROOT = Path(__file__).resolve().parents[2]
TABLE = "csrc/aten/atalla_layout_functions.yaml"
FIELDS = {"title", "shared", "upstream", "own", "store", "without"}


class LayoutError(Exception):
    """A wrong entry of the table: says where and why."""


@dataclass(frozen=True)
class Kernel:
    """The kernel of one op for one dispatch key."""

    function: NativeFunction
    name: str
    is_own: bool
    store: str  # the function that gives a tensor of the caller the values of a result

    @property
    def op(self) -> str:
        return str(self.function.func.name)


@dataclass(frozen=True)
class Layout:
    key: str
    title: str
    kernels: tuple[Kernel, ...]
    without: dict[str, str]


def shared_kernels(functions: dict[str, NativeFunction], indices: dict, keys: list[str]) -> dict[str, str]:
    first, second = (indices[DispatchKey.parse(key)].index for key in keys)
    found = {}
    for op, f in functions.items():
        kernel = first.get(f.func.name)
        if kernel is not None and kernel == second.get(f.func.name):
            found[op] = kernel.kernel
    return found


def by_op(table: dict[str, str | list[str]]) -> dict[str, str]:
    """The function of each op, from the op or ops of each function."""
    listed = ((function, [ops] if isinstance(ops, str) else ops) for function, ops in table.items())
    return {op: calls.for_op(function, op) for function, ops in listed for op in ops}


def load(path: Path) -> list[Layout]:
    functions, indices = upstream()[0], native_functions().backend_indices
    found = []
    for key, entry in yaml.safe_load(path.read_text()).items():
        if unknown := set(entry) - FIELDS:
            raise LayoutError(f"{path}: {key}: unknown field {', '.join(sorted(unknown))}")
        shared = shared_kernels(functions, indices, entry["shared"]) if "shared" in entry else {}
        own, further = by_op(entry.get("own", {})), by_op(entry.get("upstream", {}))
        without = entry.get("without", {})
        if missing := (set(own) | set(further)) - set(functions):
            raise LayoutError(f"{path}: {key}: PyTorch has no overload {', '.join(sorted(missing))}")
        if stale := set(without) - set(shared):
            raise LayoutError(f"{path}: {key}: {', '.join(sorted(stale))} in `without` is not a shared kernel")
        names = {op: name for op, name in shared.items() if op not in without}
        names |= further | own
        store = entry.get("store", "copy_result")
        kernels = tuple(Kernel(functions[op], name, op in own, store) for op, name in sorted(names.items()))
        found.append(Layout(key, entry["title"], kernels, without))
    return found


def guard(f: NativeFunction) -> list[str]:
    """A statement that makes the device of the arguments the current one: PyTorch's kernels allocate there."""
    if f.func.arguments.tensor_options is not None:
        return ["const c10::DeviceGuard guard(c10::device_or_default(device));"]
    given = [*([f.func.arguments.self_arg.argument] if f.func.arguments.self_arg else []), *f.func.arguments.flat_all]
    tensors = [a.name for a in given if a.type.is_tensor_like()]
    return [f"const c10::OptionalDeviceGuard guard(at::device_of({tensors[0]}));"] if tensors else []


def wrapper(key: str, kernel: Kernel) -> tuple[str, list[str]]:
    """Name and definition of the function that is registered."""
    f = kernel.function
    name = f"{key}_{kernel.op.replace('.', '_')}"
    with native_function_manager(f):
        signature: DispatcherSignature | NativeSignature
        signature = DispatcherSignature.from_schema(f.func, symint=False)
        if not kernel.is_own:
            signature = NativeSignature(f.func, symint=kernel.name.endswith("_symint"))
        arguments = signature.arguments()
        names = ", ".join(a.name for a in arguments)
        call = own_call(kernel) if kernel.is_own else f"at::native::{kernel.name}({names})"
        declared = ", ".join(a.decl() for a in arguments)
        lines = [f"{signature.returns_type().cpp_type()} {name}({declared}) {{", *(f"  {s}" for s in guard(f))]
        return name, [*lines, f"  return {call};", "}"]


def written(kernel: Kernel) -> str:
    """The tensor of the caller that takes the result, "" without."""
    f, call = kernel.function.func, calls.parse(kernel.name)
    if call.arguments is None:
        return ""
    if f.kind() == SchemaKind.out:
        name = f.arguments.out[0].name
        return "" if call.uses(name) else name
    return "self" if f.kind() == SchemaKind.inplace else ""


def own_call(kernel: Kernel) -> str:
    call = calls.parse(kernel.name)
    signature = DispatcherSignature.from_schema(kernel.function.func, symint=False)
    outs = [a.name for a in kernel.function.func.arguments.out]
    names = [a.name for a in signature.arguments() if not written(kernel) or a.name not in outs]
    function = call.function if "::" in call.function else f"aten::{call.function}"  # not the function of ATen's name
    text = f"{function}({', '.join(call.filled(names))})"
    text = re.sub(r"\brest\b", ", ".join(names[1:]), text)
    return f"{kernel.store}({text}, {written(kernel)})" if written(kernel) else text


def is_expression(kernel: Kernel) -> bool:
    """Whether the call has others as arguments, of functions that a header declares."""
    return any("(" in argument for argument in calls.parse(kernel.name).arguments or ())


def declaration(kernel: Kernel, declarations: calls.Declarations) -> str:
    with native_function_manager(kernel.function):
        signature = DispatcherSignature.from_schema(kernel.function.func, symint=False)
        returned = signature.returns_type().cpp_type()
        outs = [a.name for a in kernel.function.func.arguments.out] if written(kernel) else []
        types = {a.name: a.type for a in signature.arguments() if a.name not in outs}
        if written(kernel):
            returned = returned.replace("&", "")
            types = {name: "const at::Tensor &" if type_ == "at::Tensor &" else type_ for name, type_ in types.items()}
        return declarations.add(calls.parse(kernel.name), returned, types, list(types))


def generate(layouts: list[Layout]) -> str:
    kernels = [kernel for layout in layouts for kernel in layout.kernels]
    includes = {kernel.function.root_name for kernel in kernels if not kernel.is_own}
    declarations = calls.Declarations()
    own = [kernel for kernel in kernels if kernel.is_own]
    declared = {declaration(kernel, declarations) for kernel in own if not is_expression(kernel)}
    headers = {header for kernel in own for header in calls.parse(kernel.name).headers()}
    stores = {f"at::Tensor& {layout.kernels[0].store}(const at::Tensor&, at::Tensor&);" for layout in layouts}
    lines = [
        f"// Generated from {Path(TABLE).name} by tools/codegen. Do not edit.",
        "#include <ATen/DeviceGuard.h>",
        "#include <torch/library.h>",
        *(f"#include <ATen/ops/{name}_native.h>" for name in sorted(includes)),
        *(f"#include <{header}>" for header in sorted(headers)),
        '#include "aten/kernels/quantized/quantized.h"',
        "namespace atalla::aten {",
        *sorted(declared | stores),
        "namespace {",
    ]
    for layout in layouts:
        wrappers = [wrapper(layout.key, kernel) for kernel in layout.kernels]
        lines += [line for _, definition in wrappers for line in definition]
        lines.append(f"TORCH_LIBRARY_IMPL(aten, {layout.key}, m) {{")
        lines += [
            f'  m.impl("{kernel.op}", &{name});' for kernel, (name, _) in zip(layout.kernels, wrappers, strict=True)
        ]
        lines.append("}")
    return "\n".join([*lines, "}  // namespace", "}  // namespace atalla::aten", ""])


def page() -> str:
    """docs/reference/layouts.md: which ops take sparse, quantized and nested tensors, and whose kernels they run."""
    layouts = load(ROOT / TABLE)
    lines = [
        "# Ops on sparse, quantized and nested tensors",
        "",
        "This page lists the ops on sparse, quantized and nested tensors of the device. Generated by `make docs` from",
        f"{TABLE}. Ops that PyTorch composes of these are not listed.",
        "",
        "The indices and values of these tensors are dense tensors in DRAM. A kernel of PyTorch's calls native ops on",
        "them. The device's own kernels (csrc/aten/kernels) also compose native ops, or launch kernels of the chip. No",
        "kernel copies to the CPU, except for the number of elements of a result, as on other devices.",
    ]
    for layout in layouts:
        own = [f"`{kernel.op}`" for kernel in layout.kernels if kernel.is_own]
        shared = [f"`{kernel.op}`" for kernel in layout.kernels if not kernel.is_own]
        lines += ["", f"## {layout.title}", "", f"Dispatch key {layout.key}, {len(layout.kernels)} overloads."]
        lines += ["", f"Kernels of the device: {', '.join(own)}."] if own else []
        lines += ["", f"Kernels of PyTorch: {', '.join(shared)}."] if shared else []
        if layout.without:
            refused = ", ".join(f"`{op}` ({reason})" for op, reason in layout.without.items())
            lines += ["", f"Refused: {refused}."]
    return "\n".join(lines) + "\n"
