# SPDX-License-Identifier: BSD-3-Clause
"""Calls functions before a package is imported, and after a module of it was. Nothing is imported for it."""

from __future__ import annotations

import importlib.metadata
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Adapt = Callable[[ModuleType], None]

_waiting: dict[str, Adapt] = {}
_before: dict[str, Callable[[], None]] = {}


class _WatchedSpec(ModuleSpec):
    """A spec that sees its module's import begin and end, when the import system sets and clears `_initializing`.

    A module is often imported *while* its import is running: `import accelerate` imports torch, and that this package.
    A loader of our own would come too late for it; its spec does not. And a spec may be asked for without an import, as
    torch 2.15 does to learn Triton's version.
    """

    @property
    def _initializing(self) -> bool:
        return bool(self.__dict__["_initializing"])

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        self.__dict__["_initializing"] = value
        if value and (prepare := _before.pop(self.name, None)) is not None:
            prepare()
        module = sys.modules.get(self.name)  # absent if the import failed; the next one is watched again
        if not value and module is not None:
            self.__class__ = ModuleSpec  # type: ignore[assignment]
            _adapt(module)


class _Finder(MetaPathFinder):
    """Finds the modules that functions wait for, with the other finders, and watches their import."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _waiting and name not in _before:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                spec.__class__ = _WatchedSpec  # type: ignore[assignment]
                return spec
        return None


_finder = _Finder()


def _adapt(module: ModuleType) -> None:
    adapt = _waiting.pop(module.__name__, None)
    if adapt is not None:
        adapt(module)


def _adapt_or_warn(adapt: Adapt, module: ModuleType) -> None:
    try:
        adapt(module)
    except Exception as error:
        library = module.__name__.partition(".")[0]
        try:
            version = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            version = "of unknown version"
        warnings.warn(
            f"torch_atalla cannot adapt {module.__name__} of {library} {version}, so that the library may take the CPU "
            f"instead of atalla devices ({type(error).__name__}: {error}). docs/reference/libraries.md lists the "
            "versions that work.",
            stacklevel=2,
        )


def _watch_imports() -> None:
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def before_import(package: str, prepare: Callable[[], None]) -> None:
    """Call `prepare()` when the import of a package begins: now, if it began before."""
    if package in sys.modules:
        prepare()
    else:
        _before[package] = prepare
        _watch_imports()


def after_import(name: str, adapt: Adapt) -> None:
    """As call_after_import, but a failure of `adapt` is a warning."""
    call_after_import(name, partial(_adapt_or_warn, adapt))


def call_after_import(name: str, adapt: Adapt) -> None:
    """Call `adapt(module)` once the module `name` is imported: now, if it is."""
    _watch_imports()
    _waiting[name] = adapt
    module = sys.modules.get(name)
    if module is None:
        return
    spec: Any = module.__spec__
    if getattr(spec, "_initializing", False):
        spec.__class__ = _WatchedSpec
    else:
        _adapt(module)
