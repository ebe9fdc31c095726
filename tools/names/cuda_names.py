# SPDX-License-Identifier: BSD-3-Clause
"""docs/reference/cuda-names.md: the public names of torch.cuda, compared with those of torch.atalla.

torch.cuda's names are read from the source files of the installed torch, because half of them exist in a CUDA build
only: what a module lists in `__all__`, defines at its top or takes from its own submodules, and the public members of
its classes, those of their C++ bases (torch/_C/__init__.pyi) included. The name on atalla is the same with "cuda"
replaced. A name that is absent has its reason in tools/names/cuda_names.toml.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

import torch_atalla

from .. import pages
from .features import FEATURES

REASONS = Path(__file__).with_suffix(".toml")
SOURCE = Path(torch.__file__).parent

# Objects that users get from a function: their members count too. C++ class of _C/__init__.pyi -> how to get ours.
RETURNED = {"_CudaDeviceProperties": lambda: torch.atalla.get_device_properties(0)}  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Name:
    """A public name of torch.cuda: "memory.mem_get_info", "Stream.wait_event"."""

    path: str
    group: str  # the module or class that the page lists it under; "" for torch.cuda itself
    present: bool

    @property
    def on_atalla(self) -> str:
        return renamed(self.path)


def renamed(path: str) -> str:
    """A name of torch.cuda, on atalla."""
    return path.replace("cuda", "atalla").replace("_CudaDeviceProperties", "DeviceProperties")


def is_public(name: str) -> bool:
    return not name.startswith("_")


def targets(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [t.id for t in node.targets if isinstance(t, ast.Name)]
    return [node.target.id] if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else []


def literal_names(node: ast.stmt) -> list[str]:
    """The strings of `__all__ = [...]`."""
    if targets(node) != ["__all__"] or not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return []
    return list(ast.literal_eval(node.value))


def module_names(path: Path) -> set[str]:
    """Public names that a module defines or lists, and those that a package takes from its modules."""
    found: set[str] = set()
    deleted: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        found.update(literal_names(node), targets(node))
        if isinstance(node, ast.ImportFrom) and node.level == 1 and path.stem == "__init__":
            found.update(a.asname or a.name for a in node.names if a.name != "*")
        if isinstance(node, ast.Delete):
            deleted.update(t.id for t in node.targets if isinstance(t, ast.Name))
    return {n for n in found - deleted if is_public(n)}


def submodules(package: Path) -> dict[str, Path]:
    """Public modules of a package, with the file that defines each."""
    found = {p.stem: p for p in package.glob("*.py") if is_public(p.stem)}
    found |= {p.parent.name: p for p in package.glob("*/__init__.py") if is_public(p.parent.name)}
    return found


def classes_of(paths: Iterable[Path], prefix: str = "") -> dict[str, ast.ClassDef]:
    trees = [ast.parse(path.read_text()) for path in paths]
    return {prefix + node.name: node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}


@lru_cache(maxsize=1)
def class_sources() -> dict[str, ast.ClassDef]:
    """Classes of torch.cuda's files by name, and those of torch._C's stub as "torch._C.Name"."""
    stub = classes_of([SOURCE / "_C/__init__.pyi"], "torch._C.")
    return stub | classes_of(sorted((SOURCE / "cuda").rglob("*.py")))


def member_names(class_name: str) -> set[str]:
    """Public members of a class and of those of its bases that class_sources knows."""
    node = class_sources().get(class_name)
    if node is None:
        return set()
    found = {n for child in node.body for n in targets(child) if is_public(n)}
    for base in map(ast.unparse, node.bases):
        # A bare name in the stub is one of the stub; elsewhere it may be one that was imported from there.
        here = base in class_sources() and not class_name.startswith("torch._C.")
        found |= member_names(base if here or base.startswith("torch._C.") else f"torch._C.{base}")
    return found


def lookup(root: Any, path: str) -> bool:
    for part in path.split("."):
        if not hasattr(root, part):
            return False
        root = getattr(root, part)
    return True


@lru_cache(maxsize=1)
def collect() -> list[Name]:
    """All public names of torch.cuda, by module and class."""
    atalla = torch.get_device_module("atalla")
    cuda = SOURCE / "cuda"
    modules = {"": cuda / "__init__.py", **submodules(cuda)}
    modules |= {f"amp.{name}": path for name, path in submodules(cuda / "amp").items()}
    found: dict[str, Name] = {}

    def add(path: str, group: str, root: Any = None, inside: str = "") -> None:
        present = lookup(atalla if root is None else root, renamed(inside or path))
        found.setdefault(path, Name(path, group, present))

    for module, source in modules.items():
        if module:
            add(module, "")
        for name in module_names(source):
            path = f"{module}.{name}" if module else name
            add(path, module)
            if name not in class_sources():
                continue
            known = path in found and (not module or name not in module_names(modules[""]))
            if known or not module:  # a class that torch.cuda shows too is listed there only
                for member in member_names(name):
                    add(f"{path}.{member}", path)
    for cls, make in RETURNED.items():
        for member in member_names(f"torch._C.{cls}"):
            add(f"{cls}.{member}", cls, make(), member)
    return sorted(found.values(), key=lambda n: (n.group, n.path))


def load_reasons() -> dict[str, str]:
    """Name -> reason."""
    absent = tomllib.loads(REASONS.read_text())["absent"]
    found: dict[str, str] = {}
    for group in (absent["cuda"], absent["elsewhere"], *absent["lacks"].values()):
        found |= group
    return found


def load_missing_features() -> dict[str, list[str]]:
    """Feature of tools/names/features.py -> the names whose reason is that the product lacks it."""
    return {feature: list(group) for feature, group in tomllib.loads(REASONS.read_text())["absent"]["lacks"].items()}


def feature_problems(missing: dict[str, list[str]]) -> list[str]:
    """The names whose reason is that the product lacks a feature that it has, or that features.py does not have."""
    found = []
    for feature, names in missing.items():
        if feature not in FEATURES:
            found.append(f"{', '.join(names)}: tools/names/features.py has no feature {feature!r}")
        elif FEATURES[feature]():
            found.append(f"{', '.join(names)}: the reason is that there is no {feature}, which the product has")
    return found


def dangling(reasons: dict[str, str]) -> list[str]:
    """The objects of torch and torch_atalla that reasons name, and that do not exist."""
    found = []
    for key, reason in reasons.items():
        for name in re.findall(r"\b(?:torch|torch_atalla)(?:\.[A-Za-z_]\w*)+", reason):
            root, _, path = name.partition(".")
            if not name.startswith("torch.cuda") and not lookup(
                {"torch": torch, "torch_atalla": torch_atalla}[root], path
            ):
                found.append(f"the reason for {key} names {name}, which does not exist")
    return found


def reason_of(name: Name, reasons: dict[str, str]) -> str | None:
    """Its own reason, that of the module or class it belongs to, or that of the same name in torch.cuda itself."""
    parts = name.path.split(".")
    for end in range(len(parts), 0, -1):
        if (key := ".".join(parts[:end])) in reasons:
            return reasons[key] if end == len(parts) else f"as `{key}`"
    return f"as `{parts[-1]}`" if parts[-1] in reasons else None


def problems() -> list[str]:
    return name_problems(collect(), load_reasons()) + feature_problems(load_missing_features())


def name_problems(names: list[Name], reasons: dict[str, str]) -> list[str]:
    """What is wrong between the names, the reasons and torch.atalla; empty if nothing is."""
    by_path = {n.path: n for n in names}
    found = [
        f"torch.cuda.{n.path} is absent without a reason" for n in names if not n.present and not reason_of(n, reasons)
    ]
    found += dangling(reasons)
    for key in reasons:
        if key not in by_path:
            found.append(f"the reason for {key} stands for no name of torch.cuda")
        elif by_path[key].present:
            found.append(f"the reason for {key} stands for a name that exists: torch.atalla.{by_path[key].on_atalla}")
    return found


def page() -> str:
    return render(collect(), load_reasons())


def render(names: list[Name], reasons: dict[str, str]) -> str:
    present = sum(n.present for n in names)
    lines = [
        "# Names of torch.cuda on atalla",
        "",
        "Generated by `make docs` (tools/names/cuda_names.py) from the sources of torch "
        f"{torch.__version__.partition('+')[0]}; reasons are in tools/names/cuda_names.toml.",
        "",
        f"{len(names)} public names: {present} present, {len(names) - present} absent. `torch.cuda.x` is "
        "`torch.atalla.x`, and members that carry the name change it too (`cuda_stream`: `atalla_stream`).",
    ]
    for group in sorted({n.group for n in names}):
        rows = []
        for n in (n for n in names if n.group == group):
            own = n.path.removeprefix(f"{group}.")
            state = "present" if n.on_atalla == n.path else f"present: `{renamed(own)}`"
            rows.append((f"`{own}`", state if n.present else f"absent: {reason_of(n, reasons) or '?'}"))
        heading = f"## torch.cuda{'.' + group if group else ''}"
        lines += ["", heading, "", *pages.table("name | on atalla", rows)]
    return "\n".join(lines) + "\n"
