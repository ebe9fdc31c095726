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

aten = torch.ops.aten
DTYPES = (torch.bfloat16, torch.float32, torch.int64)  # of each op the first one that it takes
SKIPPED_TAGS = {torch.Tag.dynamic_output_shape, torch.Tag.inplace_view, torch.Tag.data_dependent_output}
EXCUSED = {"aten._embedding_bag.default"}  # of half precision, upstream's fake one for the CPU has more elements


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

    def fake(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func.namespace != "aten" or SKIPPED_TAGS & set(func.tags) or str(func) in EXCUSED:
            return None
        if any(isinstance(x, torch.Tensor) and x.layout != torch.strided for x in tree_leaves((args, kwargs))):
            return None
        try:
            with FakeTensorMode(shape_env=ShapeEnv() if self.dynamic else None) as mode:
                fakes = tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs))
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
        for a, b in zip(tree_leaves(real), tree_leaves(fake)):
            if isinstance(a, torch.Tensor) and a.layout == torch.strided and facts(a) != facts(b):
                self.differences.append(f"{func}: {facts(a)}, the fake one {facts(b)}")
        return real


def calls(op: Any) -> Iterator[Callable[[], Any]]:
    dtype = next((dtype for dtype in DTYPES if dtype in op.dtypes), None)
    if dtype is None:
        return
    grad = op.supports_autograd and dtype in op.backward_dtypes
    for sample in op.sample_inputs("cpu", dtype):

        def moved(x: Any) -> Any:
            if not isinstance(x, torch.Tensor):
                return x
            return x.detach().to("atalla").requires_grad_(grad and x.is_floating_point())

        given = tree_map(moved, (sample.input, sample.args, sample.kwargs))

        def call(given: Any = given) -> None:
            results = op(given[0], *given[1], **given[2])
            ends = [x for x in tree_leaves(results) if isinstance(x, torch.Tensor) and x.requires_grad]
            inputs = [x for x in tree_leaves(given) if isinstance(x, torch.Tensor) and x.requires_grad]
            if ends and inputs:
                torch.autograd.grad(ends, inputs, [torch.ones_like(x) for x in ends], allow_unused=True)

        yield call


@pytest.mark.filterwarnings("ignore")
def test_operators() -> None:
    torch.manual_seed(0)
    found, compared = {}, 0
    for op in op_db:
        for call in islice(calls(op), 1):
            with Compare() as mode:
                try:
                    call()
                    compared += 1
                except (RuntimeError, AssertionError):
                    pass  # test_ops.py sees to it; what ran before is compared
            if mode.differences:
                found[op.name] = mode.differences[0]
    assert compared > 600
    assert found == {}


NORMS: dict[str, Callable[..., Any]] = {
    "layer norm": lambda x, w, mean: aten.native_layer_norm(x, [4], w, w, 1e-5),
    "group norm": lambda x, w, mean: aten.native_group_norm(x, w, w, 3, 4, 4, 2, 1e-5),
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
def test_norms_with_parameters_of_other_dtypes(
    source: torch.dtype, weight: torch.dtype | None, mean: torch.dtype, dynamic: bool
) -> None:
    x = torch.randn(3, 4, 4, device="atalla").to(source)
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
