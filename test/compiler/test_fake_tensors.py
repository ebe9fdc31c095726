# SPDX-License-Identifier: BSD-3-Clause
"""Fake tensors of the device have the dtypes, sizes and strides of real ones, for every operator that op_db's functions
and their gradients dispatch to. Compiled programs are made for those of fake tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import UnsupportedFakeTensorException
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

Layout = Callable[[torch.Tensor], torch.Tensor]

aten = torch.ops.aten
HALF_FIRST = (torch.bfloat16, torch.float32, torch.int64)  # of each op the first one that it takes
FLOAT_FIRST = (torch.float32, torch.bfloat16, torch.int64)  # upstream's fake half precision forgets expanded strides
SKIPPED_TAGS = {torch.Tag.dynamic_output_shape, torch.Tag.inplace_view, torch.Tag.data_dependent_output}


def facts(x: torch.Tensor | None) -> tuple[Any, ...] | None:
    if x is None:
        return None
    strides = [stride for stride, size in zip(x.stride(), x.shape) if size != 1] if x.numel() else []
    return x.dtype, tuple(x.shape), strides


class Compare(TorchDispatchMode):
    """Runs each operator with fake arguments, too, and keeps the differences."""

    def __init__(self, dynamic: bool = False) -> None:
        super().__init__()
        self.dynamic = dynamic  # the sizes of fake arguments are symbols
        self.differences: list[str] = []

    def fake(self, func: Any, args: Any, kwargs: Any, device: str = "atalla") -> Any:
        if func.namespace != "aten" or SKIPPED_TAGS & set(func.tags):
            return None
        if any(isinstance(x, torch.Tensor) and x.layout != torch.strided for x in tree_leaves((args, kwargs))):
            return None
        try:
            with FakeTensorMode(shape_env=ShapeEnv() if self.dynamic else None) as mode:
                fakes = tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs))
                if device != "atalla":
                    fakes = tree_map_only(
                        torch.Tensor,
                        lambda x: torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device),
                        fakes,
                    )
                return func(*fakes[0], **fakes[1])
        except UnsupportedFakeTensorException:
            return None
        except Exception as error:  # a difference, if the real call is taken
            return error

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        fake = self.fake(func, args, kwargs or {})
        real = func(*args, **(kwargs or {}))
        if fake is None:
            return real
        if isinstance(fake, Exception):
            self.differences.append(f"{func}: the fake one raises {fake}")
            return real
        for k, (a, b) in enumerate(zip(tree_leaves(real), tree_leaves(fake))):
            if isinstance(a, torch.Tensor) and a.layout == torch.strided and facts(a) != facts(b):
                upstream = self.fake(func, args, kwargs or {}, "cpu")  # with the same fault it is not the device's
                if isinstance(upstream, Exception) or facts(tree_leaves(upstream)[k]) != facts(b):
                    self.differences.append(f"{func}: {facts(a)}, the fake one {facts(b)}")
        return real


def plain(x: torch.Tensor) -> torch.Tensor:
    return x


def outer_last(x: torch.Tensor) -> torch.Tensor:
    """The same values with the first dimension innermost but one, as attention has its heads."""
    if x.layout != torch.strided or x.dim() < 2:
        return x
    return x.t().contiguous().t() if x.dim() == 2 else x.movedim(0, -2).contiguous().movedim(-2, 0)


def most_dimensions(given: Any) -> int:
    return max((x.dim() for x in tree_leaves(given) if isinstance(x, torch.Tensor)), default=0)


def calls(op: Any, layout: Layout, dtypes: tuple[torch.dtype, ...]) -> Iterator[Callable[[], Any]]:
    dtype = next((dtype for dtype in dtypes if dtype in op.dtypes), None)
    if dtype is None:
        return
    grad = op.supports_autograd and dtype in op.backward_dtypes
    samples = islice(op.sample_inputs("cpu", dtype), 12)
    for sample in sorted(samples, key=lambda sample: -most_dimensions(sample.input)):

        def moved(x: Any) -> Any:
            if not isinstance(x, torch.Tensor):
                return x
            return layout(x.detach()).to("atalla").requires_grad_(grad and x.is_floating_point())

        given = tree_map(moved, (sample.input, sample.args, sample.kwargs))

        def call(given: Any = given) -> None:
            results = op(given[0], *given[1], **given[2])
            ends = [x for x in tree_leaves(results) if isinstance(x, torch.Tensor) and x.requires_grad]
            inputs = [x for x in tree_leaves(given) if isinstance(x, torch.Tensor) and x.requires_grad]
            if ends and inputs:
                torch.autograd.grad(ends, inputs, [torch.ones_like(x) for x in ends], allow_unused=True)

        yield call


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout, dtypes", [(plain, HALF_FIRST), (outer_last, FLOAT_FIRST)])
def test_operators(layout: Layout, dtypes: tuple[torch.dtype, ...]) -> None:
    torch.manual_seed(0)
    found, compared = {}, 0
    for op in op_db:
        for call in islice(calls(op, layout, dtypes), 1):
            with Compare() as mode:
                try:
                    call()
                    compared += 1
                except (RuntimeError, AssertionError):
                    pass  # test_ops.py sees to it; what ran before is compared
            if mode.differences:
                found[op.name] = mode.differences[0]
    assert compared > 600
    assert found == {}, found


NORMS: dict[str, Callable[..., Any]] = {
    "layer norm": lambda x, w, mean: aten.native_layer_norm(x, [4], w, w, 1e-5),
    "group norm": lambda x, w, mean: aten.native_group_norm(x, w, w, 3, 4, 16, 2, 1e-5),
    "training": lambda x, w, mean: aten.native_batch_norm(x, w, w, mean, mean, True, 0.1, 1e-5),
    "legit": lambda x, w, mean: aten._native_batch_norm_legit(x, w, w, mean, mean, True, 0.1, 1e-5),
    "functional": lambda x, w, mean: aten._native_batch_norm_legit_functional(x, w, w, mean, mean, True, 0.1, 1e-5),
    "no statistics": lambda x, w, mean: aten._native_batch_norm_legit.no_stats(x, w, w, True, 0.1, 1e-5),
    "evaluation": lambda x, w, mean: aten.native_batch_norm(x, w, w, mean, mean, False, 0.1, 1e-5),
    "stored": lambda x, w, mean: aten._native_batch_norm_legit_no_training(x, w, w, mean, mean, 0.1, 1e-5),
    "frozen": lambda x, w, mean: aten._native_batch_norm_legit_functional(x, w, w, mean, mean, False, 0.1, 1e-5),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mean", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("weight", [None, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("source", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("strides", [(64, 16, 4, 1), (64, 1, 16, 4), (64, 16, 1, 4)])
def test_norms_with_parameters_of_other_dtypes(
    strides: tuple[int, ...], source: torch.dtype, weight: torch.dtype | None, mean: torch.dtype, dynamic: bool
) -> None:
    x = torch.randn(3, 4, 4, 4, device="atalla").to(source)
    x = torch.empty_strided(x.shape, strides, dtype=source, device="atalla").copy_(x)
    w, running = (None if dtype is None else torch.ones(4, dtype=dtype, device="atalla") for dtype in (weight, mean))
    taken = []
    for name, norm in NORMS.items():
        with Compare(dynamic) as mode:
            try:
                norm(x, w, running)
            except RuntimeError as error:
                assert "mixed dtype" in str(error)
                continue
        taken.append(name)
        assert mode.differences == [], name
    assert taken or source == torch.float32


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (1, 2, 0, 3), (0, 1, 3, 2)])
def test_fused_attention(order: tuple[int, ...], dynamic: bool) -> None:
    """Whose result has the query's order of dimensions where the CPU would take its flash kernel."""
    q = torch.randn(2, 4, 6, 8).permute(order).contiguous().permute([order.index(k) for k in range(4)]).to("atalla")
    mask = torch.ones(6, 6, dtype=torch.bool, device="atalla")
    key, grouped = (torch.randn(2, heads, 6, 8, device="atalla") for heads in (4, 2))
    attention = torch.nn.functional.scaled_dot_product_attention
    with Compare(dynamic) as mode:
        for causal in (False, True):
            attention(q, key, key, is_causal=causal)
        attention(q, key, key, mask)
        attention(q, key, key[..., :5])
        attention(q, grouped, grouped, enable_gqa=True)
    assert mode.differences == []
