# SPDX-License-Identifier: BSD-3-Clause
"""Eager mode's launches for an op, recorded, give eager mode's bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import models
import pytest
import torch
from op_cases import Fn
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

import torch_atalla
from torch_atalla.compiler import UnsupportedOpsError, compile_program
from torch_atalla.compiler.lower import recorded_sizes

aten = torch.ops.aten
X = torch.randn(4, 5)
MATRIX = X @ X.t() + 4 * torch.eye(4)

RECORDED = {
    "stable sort": (lambda x: torch.sort(x, stable=True, descending=True), (X,)),
    "mode": (lambda x: torch.mode(torch.floor(x), 0), (X,)),
    "median": (lambda x: torch.median(x, 1, keepdim=True), (X,)),
    "median of all": (lambda x: torch.median(x) + x.t(), (X,)),
    "complex product": (lambda x: x @ x.t() * 2, (torch.randn(3, 4, dtype=torch.complex64),)),
    "factors": (lambda x: torch.linalg.qr(x), (X,)),
    "inverse": (lambda x: torch.linalg.inv_ex(x).inverse * 2, (MATRIX,)),
    "positions": (lambda x, y: torch.searchsorted(x.sort(1)[0], y, right=True), (X, X[:, :2] + 1)),
    "views": (lambda x: torch.sort(x[1:, ::2].t(), dim=0, stable=True)[0] + 1, (X,)),
    "gradient": (lambda x, g: aten.grid_sampler_2d_backward(x[:, :1], x, g, 0, 0, False, [True, True])[1],
                 (torch.randn(1, 1, 3, 4), torch.rand(1, 3, 4, 2))),
    "nothing": (lambda x: torch.sort(x[:0], stable=True)[0], (X,)),
}  # fmt: skip


def check(module: nn.Module, args: tuple, path: Path, **options: Any) -> None:
    for optimize in ("none", "exact", "fast"):
        torch_atalla.save_loadable(module, path, args=args, fallback="error", optimize=optimize, **options)
        program = torch_atalla.load_loadable(path, device="atalla")
        given = [arg.to("atalla") for arg in args]
        with torch_atalla.fallback.mode("error"), torch.no_grad():
            eager = pytree.tree_leaves(module(*given))
        for mine, chip in zip(pytree.tree_leaves(program(*given)), eager, strict=True):
            torch.testing.assert_close(mine.cpu(), chip.cpu(), rtol=0, atol=0)


@pytest.mark.parametrize("name", RECORDED)
def test_eager_modes_bits(name: str, tmp_path: Path) -> None:
    fn, args = RECORDED[name]
    check(Fn(fn), args, tmp_path / "m.atl")


def test_reasons() -> None:
    """What a program cannot hold is refused, with the reason."""

    def ops(x: torch.Tensor) -> tuple:
        return torch.linalg.eigvals(x), torch.rand(3), models.add_relu(x, 0.1)

    with pytest.raises(UnsupportedOpsError) as caught:
        compile_program(Fn(ops), (MATRIX,), fallback="error")
    assert [op.reason for op in caught.value.ops] == [
        "a copy between host and device, which a program cannot hold",
        "no native kernel",
    ]


N = Dim("n", min=2, max=9)
INTEGERS = torch.arange(20).reshape(4, 5) % 7
IMAGE = torch.randn(4, 4, 5, 6)

OF_ALL_SIZES = {
    "stable sort": (lambda x: torch.sort(x, stable=True)[0], (X,)),
    "polar": (lambda x, y: torch.view_as_real(torch.polar(x, y)), (X, X * 2)),
    "all": (lambda x: aten._is_all_true(x > -9), (X,)),
    "trilinear": (nn.Bilinear(5, 5, 3), (X, X + 1)),
    "bucket of a number": (lambda x: torch.bucketize(0.3, x[:, 0].sort()[0]), (X,)),
    "positions": (lambda x, y: torch.searchsorted(x.sort(1)[0], y), (X, X + 1)),
    "positions by order": (lambda x, y: torch.searchsorted(x, y, sorter=x.argsort(1)), (X, X + 1)),
    "shifts": (lambda x: (x << 2, x >> 1, torch.bitwise_left_shift(1, x), torch.bitwise_right_shift(x, 1)),
               (INTEGERS,)),
    "transposed convolution of lines": (nn.ConvTranspose1d(5, 6, 4, 2, 1), (torch.randn(4, 5, 9),)),
    "transposed convolution": (nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1, groups=2), (IMAGE,)),
    "transposed convolution, channels last": (
        nn.ConvTranspose2d(4, 6, 3, 2, 1).to(memory_format=torch.channels_last),
        (IMAGE.to(memory_format=torch.channels_last),),
    ),
    "transposed convolution of volumes": (nn.ConvTranspose3d(4, 3, 3, 2), (IMAGE.unsqueeze(2),)),
    "draws": (lambda x: (torch.randn_like(x), x.shape[0] + torch.bernoulli(x.sigmoid())), (X,)),
    "normal of deviations": (lambda x: torch.normal(x, x.abs()), (X,)),
    "multinomial": (lambda x: torch.multinomial(x.abs() + 0.1, 2), (X,)),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_ALL_SIZES)
def test_all_sizes_have_eager_modes_bits(name: str, tmp_path: Path) -> None:
    fn, args = OF_ALL_SIZES[name]
    module = (fn if isinstance(fn, nn.Module) else Fn(fn)).eval()
    with torch.no_grad():
        shapes = tuple({0: N} for _ in args)
        exported = torch.export.export(module, args, dynamic_shapes=shapes if isinstance(fn, nn.Module) else (shapes,))
        torch_atalla.save_loadable(exported, tmp_path / "m.atl", fallback="error")
        program, on_chip = torch_atalla.load_loadable(tmp_path / "m.atl", device="atalla"), module.to("atalla")
        for n in (2, 3, 7, 9):
            given = [torch.cat([arg, arg + 1, arg])[:n].to("atalla") for arg in args]
            torch.atalla.manual_seed(n)
            with torch_atalla.fallback.mode("error"):
                eager = pytree.tree_leaves(on_chip(*given))
            torch.atalla.manual_seed(n)
            found = pytree.tree_leaves(program(*given))
            for mine, chip in zip(found[:1] if name == "draws" else found, eager):  # later draws begin elsewhere
                torch.testing.assert_close(mine.cpu(), chip.cpu(), rtol=0, atol=0)
    module.to("cpu")


def test_sizes_without_a_bound(tmp_path: Path) -> None:
    module = nn.ConvTranspose2d(4, 6, 3, 2, 1).eval()
    shapes = ({0: Dim("n"), 2: Dim("h", max=40), 3: Dim("w")},)
    torch_atalla.save_loadable(
        torch.export.export(module, (IMAGE,), dynamic_shapes=shapes), tmp_path / "m.atl", fallback="error"
    )
    program = torch_atalla.load_loadable(tmp_path / "m.atl", device="atalla")
    for sizes in ((2, 4, 3, 50), (11, 4, 40, 2)):
        x = torch.randn(sizes)
        torch.testing.assert_close(program(x.to("atalla")).cpu(), module(x))


def test_sizes_that_change_the_launches_are_refused() -> None:
    """A size is a number of a launch, or the op stays out of the program."""

    def reason(fn: Any, bound: int | None) -> str:
        shapes = (({0: Dim("n", max=bound)},),)
        with pytest.raises(UnsupportedOpsError) as caught:
            compile_program(torch.export.export(Fn(fn), (X,), dynamic_shapes=shapes), fallback="error")
        return caught.value.ops[0].reason

    assert "without upper bound" in reason(torch.randn_like, None)
    with mock.patch.object(recorded_sizes, "record", side_effect=_launches_by_size(recorded_sizes.record)):
        assert reason(lambda x: torch.sort(x, stable=True)[0], 40) == (
            "eager mode launches other kernels for other sizes"
        )


def _launches_by_size(record: Any) -> Any:
    def one_more_from_20_rows_on(target: Any, arguments: Any, number: Any) -> Any:
        trace = record(target, arguments, number)
        return trace._replace(launches=trace.launches * (1 + (trace.results[0].sizes[0] >= 20)))

    return one_more_from_20_rows_on


EMPTY = {  # name -> (function, whether the program takes an empty input)
    "loops": (lambda x: aten._is_all_true(x > 0), True),
    "no loops": (lambda x: torch.zeros(5).index_add(0, x[:, 0].long(), x[:, 1]), False),
}


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_input_whose_results_are_not_empty(name: str, tmp_path: Path) -> None:
    fn, is_taken = EMPTY[name]
    given = torch.rand(4, 5) + 1
    exported = torch.export.export(Fn(fn), (given,), dynamic_shapes=(({0: Dim("n")},),))
    torch_atalla.save_loadable(exported, tmp_path / "m.atl", fallback="error")
    program = torch_atalla.load_loadable(tmp_path / "m.atl", device="atalla")
    torch.testing.assert_close(program(given.to("atalla")).cpu(), fn(given))
    if is_taken:
        assert torch.equal(program(given[:0].to("atalla")).cpu(), fn(given[:0]))
    else:
        with pytest.raises(ValueError, match="dimension 0 is 0, expected at least 1"):
            program(given[:0].to("atalla"))


def test_generators_are_left_alone() -> None:
    torch.atalla.manual_seed(3)
    before = torch.atalla.get_rng_state()
    compile_program(Fn(lambda x: torch.nn.functional.dropout(x, 0.5)), (X,))
    assert torch.equal(torch.atalla.get_rng_state(), before)
