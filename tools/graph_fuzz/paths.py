# SPDX-License-Identifier: BSD-3-Clause
"""Running a case in eager mode: on the CPU, on the device, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_map

from torch_atalla.compiler.capture.narrow import to_bfloat16
from torch_atalla.testing import tensors

from . import unspecified
from .conditioning import Bounds, in_float64, jittered, measure
from .nested.export import export_nested
from .program import Case
from .refusals import Refused, quiet


@dataclass(frozen=True)
class Problem:
    """A difference, crash or internal error. `category` names its kind, and groups failures."""

    check: str
    category: str
    text: str


@dataclass
class Forward:
    outputs: list[torch.Tensor]
    buffers: list[torch.Tensor]
    written: list[int] = field(default_factory=list)  # of a loadable: which of the module's buffers these are

    @property
    def all(self) -> list[torch.Tensor]:
        return [*self.outputs, *self.buffers]


def forward(module: torch.nn.Module, args: tuple[Any, ...]) -> Forward:
    with torch.no_grad(), quiet():
        results = module(*args)
    return Forward(tensors(results), list(module.buffers()))


def on_device(value: Any, device: str = "atalla") -> Any:
    """A copy on the device with the same strides and offset, gaps and shared elements included."""
    if not isinstance(value, torch.Tensor):
        return value
    elements = value.untyped_storage().nbytes() // value.itemsize
    flat = value.detach().as_strided((elements,), (1,), 0).to(device)
    return flat.as_strided(value.shape, value.stride(), value.storage_offset())


def other_values(args: tuple[Any, ...], seed: int) -> tuple[Any, ...]:
    """The same tensors with their elements in another order, so that positions stay in range."""
    generator = torch.Generator().manual_seed(seed)

    def shuffled(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.numel() < 2:
            return value
        flat = value.untyped_storage().nbytes() // value.itemsize
        stored = value.as_strided((flat,), (1,), 0)
        return stored[torch.randperm(flat, generator=generator)].as_strided(
            value.shape, value.stride(), value.storage_offset()
        )

    return tree_map(shuffled, args)


def with_batch(args: tuple[Any, ...], batch: int, size: int) -> tuple[Any, ...]:
    """Tensors of `size` rows where those of a case have `batch`: rows repeat or are left out. The strides stay, except
    those that span the rows."""

    def resized(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.ndim or value.shape[0] != batch:
            return value
        rows = value.index_select(0, torch.arange(size) % batch)
        step = value.stride(0)
        strides = [s // batch * size if d and step and s >= step * batch else s for d, s in enumerate(value.stride())]
        for dim, stride in enumerate(strides):
            if stride == 0:  # expanded: one element for all
                rows = rows.narrow(dim, 0, min(1, rows.shape[dim]))
        return torch.empty_strided(rows.shape, strides, dtype=value.dtype).copy_(rows).expand(size, *value.shape[1:])

    return tree_map(resized, args)


def batch_of(args: tuple[Any, ...]) -> int:
    """The first dimension that most arguments have."""
    firsts = [x.shape[0] for x in args if isinstance(x, torch.Tensor) and x.ndim]
    return max(set(firsts), key=lambda size: (firsts.count(size), -firsts.index(size)), default=0)


def export(module: torch.nn.Module, args: tuple[Any, ...], dynamic: str = "") -> torch.export.ExportedProgram:
    """dynamic: "free" or "bounded", for a first dimension whose size the call determines. Raises Refused."""
    shapes: Any = None
    if dynamic:
        batch = batch_of(args)
        hint = torch.export.Dim.AUTO
        if dynamic == "bounded":
            hint = torch.export.Dim.AUTO(min=2, max=max(16, batch))
        shapes = tuple(
            {0: hint} if isinstance(x, torch.Tensor) and x.ndim and x.shape[0] == batch and batch > 1 else None
            for x in args
        )
    try:
        with quiet(), torch.no_grad():
            return torch.export.export(module, args, dynamic_shapes=shapes)
    except Exception as error:
        raise Refused(f"torch.export: {type(error).__name__}") from None


def loss_and_gradients(module: torch.nn.Module, args: tuple[Any, ...]) -> list[torch.Tensor]:
    """Of each floating-point argument and each parameter; zeros where nothing flows."""
    leaves = [x for x in args if isinstance(x, torch.Tensor) and x.is_floating_point()]
    for leaf in leaves:
        leaf.requires_grad_()
    with quiet():
        results = [x for x in tensors(module(*args)) if x.requires_grad]
        if not results:
            return []
        generator = torch.Generator().manual_seed(1)
        weights = [torch.randn(x.shape, generator=generator) for x in results]
        real = [x.abs() if x.is_complex() else x for x in results]
        torch.autograd.backward(real, [w.to(x.dtype).to(x.device) for w, x in zip(weights, real)])
    wanted = [*leaves, *(p for p in module.parameters() if p.requires_grad)]
    return [torch.zeros_like(x) if x.grad is None else x.grad for x in wanted]


@dataclass(eq=False)
class Context:
    """A case with what its checks share, computed once."""

    case: Case
    seed: int = 0
    change: Callable[[tuple[Any, ...]], tuple[Any, ...]] = lambda args: args  # what is called with
    _bounds: dict[str, list[Bounds]] = field(default_factory=dict, init=False)

    def build(self) -> tuple[torch.nn.Module, tuple[Any, ...]]:
        module, args = self.case.build(self.seed)
        return module, self.change(args)

    def build_bfloat16(self) -> tuple[torch.nn.Module, tuple[Any, ...]]:
        module, args = self.build()
        return module.to(torch.bfloat16), tree_map(to_bfloat16, args)

    def on_device(self, bfloat16: bool = False) -> tuple[torch.nn.Module, tuple[Any, ...]]:
        module, args = self.build_bfloat16() if bfloat16 else self.build()
        return module.to("atalla"), tree_map(on_device, args)

    @cached_property
    def cpu(self) -> Forward:
        with unspecified.forms_of_all_devices():
            return forward(*self.build())

    @cached_property
    def eager(self) -> Forward:
        return forward(*self.on_device())

    @cached_property
    def exported(self) -> torch.export.ExportedProgram:
        if self.case.dynamic == "nested":
            return export_nested(self.case)
        return export(*self.build(), self.case.dynamic)

    def bounds(self, ulps: float = 2.0, runs: int = 3, joined: bool = False) -> list[Bounds]:
        """Of the outputs and buffers in eager mode; `joined`: of launches that the compiler joined at "fast"."""
        return self._measured("forward", lambda m, a: forward(m, a).all, self.cpu.all, ulps, runs, joined)

    def gradient_bounds(self, reference: list[torch.Tensor], ulps: float = 2.0, runs: int = 3) -> list[Bounds]:
        return self._measured("backward", loss_and_gradients, reference, ulps, runs)

    def _measured(
        self, what: str, work: Any, reference: list[torch.Tensor], ulps: float, runs: int, joined: bool = False
    ) -> list[Bounds]:
        key = f"{what} {ulps} {runs} {joined}"
        if key not in self._bounds:
            try:
                results = [jittered(work, self.build, 100 + k, ulps, joined) for k in range(runs)]
            except RuntimeError as error:  # a gradient that is zero without memory does not go through a dispatch mode
                raise Refused(f"moving by rounding: {str(error).splitlines()[0][:80]}") from None
            exact = in_float64(work, self.build)
            if exact is not None:
                results.append(exact)
            if "scaled_dot_product" in self.case.text:  # whose fused form on the CPU loses NaNs of its inputs
                for form in (sdpa_kernel(SDPBackend.MATH), unspecified.masked_scores_left_out()):
                    # Its derivative keeps other tensors, which the program may have written in place.
                    with form, suppress(RuntimeError):
                        results.append(work(*self.build()))
            self._bounds[key] = measure(reference, results)
        return self._bounds[key]
