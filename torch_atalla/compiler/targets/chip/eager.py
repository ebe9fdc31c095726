# SPDX-License-Identifier: BSD-3-Clause
"""Eager ops as Atalla programs: `with torch_atalla.chip.engine("isa"):`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from torch_atalla.driver.extension import _C
from torch_atalla.isa.engine import Stats
from torch_atalla.loadable.errors import ExportError
from torch_atalla.loadable.leaves import Leaf

from ...program.ir import Launch
from ...schedule.chip_model import chip_model
from .build import CompiledNetwork, compile_model
from .device_program import DeviceProgram
from .network import NoProgramError
from .section import of_network

aten = torch.ops.aten

# What moves or makes tensors and computes nothing.
_PLAIN = {
    aten.empty.memory_format, aten.empty_strided.default, aten.empty_like.default, aten.new_empty.default,
    aten.new_empty_strided.default, aten.detach.default, aten._local_scalar_dense.default, aten.copy_.default,
    aten.record_stream.default, aten.lift_fresh.default,
}  # fmt: skip


class _Op(torch.nn.Module):
    """A call of one op, with everything fixed but its tensors, which are given as `_stored` has them."""

    def __init__(self, func: Any, leaves: list, spec: Any) -> None:
        super().__init__()
        self.func, self.leaves, self.spec = func, leaves, spec

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        leaves = [_expanded(next(given), leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.func(*args, **kwargs)


class IsaMode(TorchDispatchMode):
    """`stats`: of the last op; `kernels`: of its launches; `ops`: how often each ran as Atalla code.

    lines: set it to {} to have, of the next kernels of Triton, packets and cycles by line of Python; line 0 has what no
    line of the kernel takes. Each packet then runs alone, which takes a hundred times as long."""

    def __init__(self, missing: str = "error") -> None:
        super().__init__()
        if missing not in ("error", "functional"):
            raise ValueError(f'missing: expected "error" or "functional", got {missing!r}')
        self.missing = missing
        self.stats = Stats()
        self.kernels: tuple[str, ...] = ()
        self.ops: dict[str, int] = {}
        self.lines: dict[int, tuple[int, int]] | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        leaves, spec = pytree.tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if not self._computes(func, tensors, kwargs):
            return func(*args, **kwargs)
        try:
            program, kernels, result, out_spec = _program(func, leaves, spec, tensors)
        except (NoProgramError, ExportError) as error:
            if self.missing == "functional":
                return func(*args, **kwargs)
            raise NoProgramError(f"{func}: {error}") from None
        outputs = iter(program([_stored(tensor) for tensor in tensors]))
        self.stats, self.kernels = program.stats, kernels
        self.ops[str(func)] = self.ops.get(str(func), 0) + 1
        results = [next(outputs) if leaf.is_tensor else leaf.value for leaf in result]
        return pytree.tree_unflatten(results, out_spec)

    @staticmethod
    def _computes(func: Any, tensors: list[torch.Tensor], kwargs: dict) -> bool:
        if func in _PLAIN or not tensors or any(t.device.type != "atalla" for t in tensors):
            return False
        if func is aten._to_copy.default and torch.device(kwargs.get("device") or "atalla").type != "atalla":
            return False
        return not func.is_view


def active_mode() -> IsaMode | None:
    """The innermost mode that is entered."""
    modes = [mode for mode in _get_current_dispatch_mode_stack() if isinstance(mode, IsaMode)]
    return modes[-1] if modes else None


def _stored(tensor: torch.Tensor) -> torch.Tensor:
    """With each expanded element once: a program would take a copy of an expanded input."""
    for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride())):
        if stride == 0 and size > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def _expanded(stored: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    return stored if stored.shape == tensor.shape else stored.expand(tensor.shape)


_Compiled = tuple[DeviceProgram, tuple[str, ...], list[Leaf], Any]  # kernels, what the result has where, its structure
_CACHE: dict[tuple, _Compiled | Exception] = {}


def _program(func: Any, leaves: list, spec: Any, tensors: list[torch.Tensor]) -> _Compiled:
    """Raises NoProgramError or ExportError, each time."""
    if func._schema.is_mutable:
        raise NoProgramError("an op that writes to its arguments")
    key = (func, str(spec), tuple(_key(leaf) for leaf in leaves))
    if key not in _CACHE:
        try:
            _CACHE[key] = _compile(func, leaves, spec, tensors)
        except (NoProgramError, ExportError) as error:
            _CACHE[key] = error
    found = _CACHE[key]
    if isinstance(found, Exception):
        raise found
    return found


def _key(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.device, leaf.dtype, tuple(leaf.shape), leaf.stride()
    return type(leaf), str(leaf)


def _compile(func: Any, leaves: list, spec: Any, tensors: list[torch.Tensor]) -> _Compiled:
    fixed = [torch.device("cpu") if isinstance(leaf, torch.device) else leaf for leaf in leaves]
    metas = [(tuple(t.shape), t.stride(), t.dtype) for t in map(_stored, tensors)]
    chip = replace(chip_model(_C.chip_config(tensors[0].device.index)), cores=1)

    def capture() -> CompiledNetwork:
        examples = tuple(torch.empty_strided(sizes, strides, dtype=dtype) for sizes, strides, dtype in metas)
        with torch.no_grad():
            return compile_model(_Op(func, fixed, spec), examples, chip=chip)

    # A thread of its own: beneath autograd and inside a mode, the dispatcher's state keeps torch.export from tracing.
    with ThreadPoolExecutor(1) as thread:
        compiled = thread.submit(capture).result()
    network = compiled.network
    inputs, outputs = (
        [(p.name, p.dtype, p.sizes, p.strides) for p in ports] for ports in (network.inputs, network.outputs)
    )
    program = DeviceProgram(of_network(network, compiled.code), inputs, outputs, tensors[0].device)
    kernels = tuple(item.launch.kernel for item in network.launches if isinstance(item.launch, Launch))
    return program, kernels, compiled.captured.outputs, compiled.captured.out_spec
