# SPDX-License-Identifier: BSD-3-Clause
"""atalla_layout_functions.yaml -> registrations of the ops on sparse and quantized tensors, and their page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml
from torchgen.api.types import DispatcherSignature, NativeSignature
from torchgen.context import native_function_manager
from torchgen.model import DispatchKey, NativeFunction

from .model import native_functions, upstream

ROOT = Path(__file__).resolve().parents[2]
TABLE = "csrc/aten/atalla_layout_functions.yaml"
FIELDS = {"title", "shared", "upstream", "own", "without"}


class LayoutError(Exception):
    """A wrong entry of the table: says where and why."""


@dataclass(frozen=True)
class Kernel:
    """The kernel of one op for one dispatch key."""

    function: NativeFunction
    name: str
    is_own: bool

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


def load(path: Path) -> list[Layout]:
    functions, indices = upstream()[0], native_functions().backend_indices
    found = []
    for key, entry in yaml.safe_load(path.read_text()).items():
        if unknown := set(entry) - FIELDS:
            raise LayoutError(f"{path}: {key}: unknown field {', '.join(sorted(unknown))}")
        shared = shared_kernels(functions, indices, entry["shared"]) if "shared" in entry else {}
        own, without = entry.get("own", {}), entry.get("without", {})
        if missing := (set(own) | set(entry.get("upstream", {}))) - set(functions):
            raise LayoutError(f"{path}: {key}: PyTorch has no overload {', '.join(sorted(missing))}")
        if stale := set(without) - set(shared):
            raise LayoutError(f"{path}: {key}: {', '.join(sorted(stale))} in `without` is not a shared kernel")
        names = {op: name for op, name in shared.items() if op not in without}
        names |= entry.get("upstream", {}) | own
        kernels = tuple(Kernel(functions[op], name, op in own) for op, name in sorted(names.items()))
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
        if kernel.is_own:
            signature, function = DispatcherSignature.from_schema(f.func, symint=False), kernel.name
        else:
            signature = NativeSignature(f.func, symint=kernel.name.endswith("_symint"))
            function = f"at::native::{kernel.name}"
        arguments = signature.arguments()
        declared = ", ".join(a.decl() for a in arguments)
        lines = [f"{signature.returns_type().cpp_type()} {name}({declared}) {{", *(f"  {s}" for s in guard(f))]
        return name, [*lines, f"  return {function}({', '.join(a.name for a in arguments)});", "}"]


def declaration(kernel: Kernel) -> str:
    with native_function_manager(kernel.function):
        signature = DispatcherSignature.from_schema(kernel.function.func, symint=False)
        arguments = ", ".join(a.decl() for a in signature.arguments())
        return f"{signature.returns_type().cpp_type()} {kernel.name}({arguments});"


def generate(layouts: list[Layout]) -> str:
    kernels = [kernel for layout in layouts for kernel in layout.kernels]
    includes = {kernel.function.root_name for kernel in kernels if not kernel.is_own}
    lines = [
        f"// Generated from {Path(TABLE).name} by tools/codegen. Do not edit.",
        "#include <ATen/DeviceGuard.h>",
        "#include <torch/library.h>",
        *(f"#include <ATen/ops/{name}_native.h>" for name in sorted(includes)),
        "namespace atalla::aten {",
        *sorted({declaration(kernel) for kernel in kernels if kernel.is_own}),
        "namespace {",
    ]
    for layout in layouts:
        wrappers = [wrapper(layout.key, kernel) for kernel in layout.kernels]
        lines += [line for _, definition in wrappers for line in definition]
        lines.append(f"TORCH_LIBRARY_IMPL(aten, {layout.key}, m) {{")
        lines += [
            f'  m.impl("{kernel.op}", TORCH_FN({name}));'
            for kernel, (name, _) in zip(layout.kernels, wrappers, strict=True)
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
