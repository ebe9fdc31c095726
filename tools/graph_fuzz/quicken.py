# SPDX-License-Identifier: BSD-3-Clause
"""Work that torch.export repeats for every program, done once per process, or once per program and not per check."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch


def quicken() -> None:
    quicken_export()
    _decompose_once()


def quicken_export() -> None:
    """What PyTorch does again for each program, and with the same result. The tests run with it, too."""
    _cache_export_tables()
    _remember_overrides()


def _cache_export_tables() -> None:
    """torch.export collects the table of composite ops for every program; it is the same for all of a process."""
    import torch._export.utils as utils
    import torch.export.exported_program as exported_program

    once = functools.lru_cache(maxsize=1)(utils._collect_all_valid_cia_ops)
    utils._collect_all_valid_cia_ops = once
    exported_program._collect_all_valid_cia_ops = lambda: set(once())


def _remember_overrides() -> None:
    """run_decompositions registers some thousand Python kernels, twice for each program. They depend on the op and its
    decomposition only: here they are made once, and put into the ops' tables after that."""
    import torch.export.exported_program as exported_program
    from torch._subclasses.fake_impls import op_implementations_dict

    general = exported_program._override_composite_implicit_decomp
    known: dict[Any, tuple[Callable, dict, dict, Any]] = {}  # decomposition, kernels before and during, fake rule

    @contextmanager
    def override(decompositions: dict[Any, Callable]) -> Iterator[None]:
        saved = {op: op.py_kernels.copy() for op in decompositions}
        for op, decomposition in decompositions.items():
            if op not in known or known[op][0] is not decomposition or known[op][1] != saved[op]:
                with general({op: decomposition}):
                    known[op] = decomposition, saved[op], op.py_kernels.copy(), op_implementations_dict[op]
        try:
            for op in decompositions:
                _, _, during, op_implementations_dict[op] = known[op]
                op.py_kernels.update(during)
                op._dispatch_cache.clear()
            yield
        finally:
            for op, kernels in saved.items():
                op.py_kernels.clear()
                op.py_kernels.update(kernels)
                op._dispatch_cache.clear()
                op_implementations_dict.pop(op, None)

    exported_program._override_composite_implicit_decomp = override  # type: ignore[assignment]


def _decompose_once() -> None:
    """The checks of a case take the same exported program apart; each gets a copy, since the passes change it."""
    from torch_atalla.compiler.capture import capture
    from torch_atalla.compiler.file import functional

    general = capture.decompose
    latest: list[tuple[torch.export.ExportedProgram, set[str], torch.export.ExportedProgram]] = []  # taken apart

    def decompose(program: torch.export.ExportedProgram, states: Collection[str] = ()) -> torch.export.ExportedProgram:
        for given, written, found in latest:
            if given is program and written == set(states):
                return _copied(found)
        found = general(program, states=states)
        del latest[:-1]
        latest.append((program, set(states), found))
        return _copied(found)

    capture.decompose = functional.decompose = decompose


def _copied(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    result = copy.copy(program)
    result._graph_module = copy.deepcopy(program.graph_module)
    result._graph_signature = copy.deepcopy(program.graph_signature)
    return result
