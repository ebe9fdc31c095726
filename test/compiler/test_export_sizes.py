# SPDX-License-Identifier: BSD-3-Clause
"""Ops in loadables at other sizes than the exported ones, and in programs with states and views."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import sympy
import torch
from op_cases import Fn
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils import _pytree as pytree
from torch.utils._sympy.functions import FloorDiv

import torch_atalla
from torch_atalla.compiler.program.layouts import dense_meta, exact_meta
from torch_atalla.compiler.program.sizes import normal_form
from torch_atalla.loadable.errors import UnsupportedOpsError
from torch_atalla.testing.opinfo import to_device

X = torch.randn(3, 4)


def load(module: nn.Module, args: tuple, path: Path, dynamic_shapes: Any = None, **options: Any) -> Any:
    with torch.no_grad():
        exported = torch.export.export(module, args, dynamic_shapes=dynamic_shapes)
    torch_atalla.save_loadable(exported, path / "m.atl", fallback="error", **options)
    return torch_atalla.load_loadable(path / "m.atl", device="atalla")


def check(program: Any, module: nn.Module, args: tuple, *, rtol: float = 0) -> None:
    """Bit for bit as eager mode on the device, and near the CPU's."""
    on_chip = to_device(args, "atalla")
    found = pytree.tree_leaves(program(*on_chip))
    with torch_atalla.fallback.mode("error"), torch.no_grad():
        eager = pytree.tree_leaves(module(*on_chip))
    expected = pytree.tree_leaves(module(*args))
    assert len(found) == len(eager) == len(expected)
    for mine, chip, cpu in zip(found, eager, expected):
        if not isinstance(mine, torch.Tensor):
            assert mine == chip == cpu
            continue
        torch.testing.assert_close(mine.cpu(), chip.cpu(), rtol=rtol, atol=rtol, equal_nan=True)
        narrow = {torch.float16: 2e-3, torch.bfloat16: 2e-2}.get(mine.dtype, 1e-5)
        torch.testing.assert_close(mine.cpu(), cpu.cpu(), rtol=narrow, atol=narrow, equal_nan=True)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}, {"include_last_offset": True}], ids=str)
def test_embedding_bag(mode: str, options: dict[str, Any], tmp_path: Path) -> None:
    module = Fn(lambda w, i, o: nn.functional.embedding_bag(i, w, o, mode=mode, **options))
    args = (X, torch.tensor([1, 2, 0, 1, 1]), torch.tensor([0, 2, 2, 5]))
    check(load(module, args, tmp_path, golden=False), module, args)


def test_group_norm_of_any_batch(tmp_path: Path) -> None:
    module = nn.Sequential(nn.GroupNorm(2, 4), nn.Flatten(), nn.LazyLinear(3)).eval()
    image = torch.randn(2, 4, 8, 8)
    module(image)
    program = load(module, (image,), tmp_path, ({0: Dim("n", min=1, max=9)},))
    reference = module.to("atalla")
    for n in (1, 2, 9):
        x = torch.randn(n, 4, 8, 8)
        torch.testing.assert_close(program(x.to("atalla")), reference(x.to("atalla")), rtol=0, atol=0)


ANY_SIZE = {
    "flip": (lambda x: x.flip(0, 1), lambda n: (torch.randn(n, 4),)),
    "roll": (lambda x: x.roll(3, 0), lambda n: (torch.randn(n, 4),)),
    "scatter": (lambda x, i: x.scatter(0, i, x[:, :2]), lambda n: (torch.randn(n, 4), torch.randint(n, (n, 2)))),
    "scatter_add": (lambda x, i: x.scatter_add(0, i, x), lambda n: (torch.randn(n, 4), torch.randint(n, (n, 2)))),
    "mean": (
        lambda x, i: x.scatter_reduce(0, i, x * 2, "mean", include_self=False),
        lambda n: (torch.randn(n, 4).half(), torch.randint(n, (n, 4))),
    ),
    "masked_scatter": (lambda x, y: x.masked_scatter(x > 0, y), lambda n: (torch.randn(n, 4), torch.randn(n, 4))),
    "pow": (lambda x: 2**x, lambda n: (torch.randn(n, 4),)),
    "replicate": (lambda x: nn.functional.pad(x, (1, 2), "replicate"), lambda n: (torch.randn(n, 3, 4),)),
    "unfold": (lambda x: nn.functional.unfold(x, 2), lambda n: (torch.randn(n, 2, 4, 5),)),
    "volumes": (lambda x: nn.functional.avg_pool3d(x, 2), lambda n: (torch.randn(n, 2, 4, 4, 4),)),
    "cdist": (lambda x: torch.cdist(x, x, p=1), lambda n: (torch.randn(n, 4),)),
    "spectra": (lambda x: torch.fft.rfft(x, norm="ortho").abs(), lambda n: (torch.randn(n, 9),)),
    "nearest": (
        lambda x: nn.functional.interpolate(x[None, None], (2 * x.shape[0], 70)),
        lambda n: (torch.randn(n, 40),),
    ),
    "nearest of a batch": (
        lambda x: nn.functional.interpolate(x, scale_factor=2),
        lambda n: (torch.randn(n, 1, 3, 4),),
    ),
}


@pytest.mark.parametrize("bounded", [True, False], ids=["bounded", "unbounded"])
@pytest.mark.parametrize("name", ANY_SIZE)
def test_any_size(name: str, bounded: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    fn, inputs = ANY_SIZE[name]
    n = Dim("n", min=2, max=40) if bounded else Dim("n", min=2)
    module, args = Fn(fn), inputs(5)
    shapes = tuple({0: n} for _ in args)
    program = load(module, args, tmp_path, (shapes,), golden=False)
    for size in (5, 2, 40):
        check(program, module, inputs(size))


def test_running_statistics(tmp_path: Path) -> None:
    """They are states of the program, which eager mode updates in place."""
    module = nn.BatchNorm3d(2)
    x = torch.randn(1, 2, 4, 6, 6)
    program = load(module, (x,), tmp_path)
    reference = module.to("atalla")
    x = x.to("atalla")
    for _ in range(3):
        torch.testing.assert_close(program(x), reference(x), rtol=0, atol=0)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        torch.testing.assert_close(program.read_state(name), getattr(reference, name).cpu(), rtol=0, atol=0)


@pytest.mark.parametrize(
    "fn", [lambda z: z.conj() * z, lambda z: z.conj(), lambda z: z.conj().imag, lambda z: z.abs() + z.angle()]
)
def test_complex_numbers(fn: Any, tmp_path: Path) -> None:
    module, args = Fn(fn), (torch.randn(3, 4, dtype=torch.complex64),)
    found = load(module, args, tmp_path)(args[0].to("atalla")).cpu()
    torch.testing.assert_close(found, module(*args).resolve_conj().resolve_neg())


def test_combination_in_a_program(tmp_path: Path) -> None:
    """The copy of the input is not joined with what is written over it."""

    def steps(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        y = (x * 2).scatter(0, i, x + 1)
        z = y.exp().scatter_reduce(0, i, y, "mean", include_self=False)
        return z.flip(0) - y + x.index_add(0, i[:, 0], z)

    module, args = Fn(steps), (X, torch.arange(12).view(3, 4) % 3)
    for optimize in ("none", "exact", "fast"):
        check(load(module, args, tmp_path, optimize=optimize), module, args)


def test_meta_tensor_of_a_size_that_a_guard_has_fixed() -> None:
    """A tensor keeps the SymInts that it was made with, also where a condition has made them numbers."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.STATIC, DimDynamic.DYNAMIC])
    given = mode.from_tensor(torch.empty(2, 6), symbolic_context=context)
    stride = given.stride()[0]
    assert isinstance(stride, torch.SymInt)
    assert given.shape[1] == 6  # from here on it is
    for meta in (exact_meta(given), dense_meta(given)):
        assert all(type(number) is int for number in (*meta.shape, *meta.stride()))
        assert meta.expand(2, 6).stride() == (6, 1)


def test_size_with_one_value_in_its_range(tmp_path: Path) -> None:
    """The meta function of layer_norm replaces `n // 2` by 1, since n is 2 or 3."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        torch._check(x.shape[0] == x.shape[1])
        half = x.split(x.shape[0] // 2, 0)[0]
        return nn.functional.layer_norm(half, half.shape[-2:])

    module, sizes = Fn(forward), {0: Dim.AUTO, 1: Dim.AUTO, 2: Dim.AUTO}
    program = load(module, (torch.randn(3, 3, 5),), tmp_path, ((sizes,),), golden=False)
    check(program, module, (torch.randn(3, 3, 4),))


F = nn.functional
EVERY_SIZE = {  # whose strides, formats and factors are no reason to take sizes alone for which a comparison holds
    "slices": lambda x: (x[..., 1::3], x[::2]),
    "pairs": lambda x: x.reshape(x.shape[0] // 2, 2, *x.shape[1:]).unfold(0, 2, 2),
    "images": lambda x: F.interpolate(x[None], (5, 7), mode="nearest"),
    "channels innermost": lambda x: F.interpolate(x.movedim(-1, 0)[None], (5, 7), mode="nearest"),
    "factors": lambda x: [F.interpolate(x[None], scale_factor=s, mode="bicubic") for s in (0.5, 1.5, 2.0)],
    "parts": lambda x: x.chunk(3, 1)[1][..., 1:],
}


@pytest.mark.parametrize("name", EVERY_SIZE)
def test_no_size_is_left_out(name: str, tmp_path: Path) -> None:
    """On one side of the example's sizes and on the other."""
    module = Fn(EVERY_SIZE[name])
    program = load(module, (torch.randn(8, 9, 12),), tmp_path, (({k: Dim.AUTO for k in range(3)},),), golden=False)
    for sizes in ((8, 9, 12), (12, 9, 8), (4, 40, 7), (20, 12, 6), (4, 9, 30)):
        check(program, module, (torch.randn(sizes),))


SMALL = {  # name -> (function, numbers of columns that the program does not take)
    "select": (lambda x: x[:, 1] * 2, (0, 1)),
    "squeeze": (lambda x: x.squeeze(1), (1,)),
    "maximum": (lambda x: x.amax(1), (0,)),
    "place of the maximum": (lambda x: x.argmax(1), (0,)),
    "first": (lambda x: x.unbind(0)[3][0] * 2, (0,)),
    "sum": (lambda x: x.sum(1), ()),
    "view": (lambda x: x.T.reshape(-1) + 1, ()),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_sizes_that_have_another_form(name: str, tmp_path: Path) -> None:
    """PyTorch exports for two or more, and says so nowhere: 0 and 1 are in the range."""
    function, refused = SMALL[name]
    module = Fn(function)
    program = load(module, (torch.randn(5, 6),), tmp_path, (({1: Dim("n", min=0, max=64)},),), golden=False)
    for count in (0, 1, 2, 64):
        args = (torch.randn(5, count),)
        if count not in refused:
            check(program, module, args)
            continue
        with pytest.raises(ValueError, match=rf"with s\d+ = {count}: expected Ne\(s\d+, {count}\)"):
            program(to_device(args[0], "atalla"))


def test_normal_form_of_divisions_keeps_their_values() -> None:
    n, m = sympy.symbols("n m", integer=True, positive=True)
    rng = random.Random(0)

    def expression(depth: int) -> sympy.Basic:
        kind = rng.random()
        if depth == 0 or kind < 0.2:
            return rng.choice([n, m, 2 * n, n * m, sympy.Integer(rng.randint(1, 5))])
        if kind < 0.55:
            return expression(depth - 1) + rng.choice([1, -1, 2]) * expression(depth - 1) + rng.randint(-2, 3)
        return FloorDiv(expression(depth - 1), sympy.Integer(rng.randint(1, 5)))

    changed = 0
    for _ in range(600):
        given = sympy.sympify(expression(3))
        found = normal_form(given)
        changed += found != given
        values = {symbol: sympy.Integer(rng.randint(1, 40)) for symbol in (n, m)}
        assert given.xreplace(values) == found.xreplace(values), (given, found, values)
    assert changed > 50


class Quotients(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        pairs = x.unfold(0, 2, 2)
        return pairs[::2].sum(0), torch.nn.functional.interpolate(pairs, scale_factor=2, mode="linear")


class SizeOfQuotient(nn.Module):
    """Group norm of a single group fixes the number of channels, m // 2, at 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.group_norm(x.topk(x.shape[1] // 2, 1)[0], 1)


@pytest.mark.parametrize(
    "module, shape, other, dims",
    [(Quotients(), (10, 4), (7, 4), (0,)), (SizeOfQuotient(), (5, 3, 5), (4, 2, 4), (0, 1, 2))],
)
def test_sizes_in_two_forms(
    module: nn.Module, shape: tuple[int, ...], other: tuple[int, ...], dims: tuple[int, ...], tmp_path: Path
) -> None:
    """Upstream's meta functions write one size as ((n + 1) // 2 + 1) // 2 or (n + 3) // 4, as m // 2 or 1."""
    program = load(module, (torch.randn(shape),), tmp_path, [{dim: Dim.DYNAMIC for dim in dims}])
    for sizes in (shape, other):
        x = torch.randn(sizes)
        torch.testing.assert_close(
            tuple(y.cpu() for y in pytree.tree_leaves(program(x.to("atalla")))), tuple(pytree.tree_leaves(module(x)))
        )


class Attention(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(x, x, x)


def test_scale_of_attention_that_depends_on_a_dynamic_size(tmp_path: Path) -> None:
    """Its number would fix the size. With the fallback, the host runs it at any size."""
    x, dims = torch.randn(2, 3, 6, 13), [{3: Dim.DYNAMIC}]
    with pytest.raises(UnsupportedOpsError, match="the scale, a floating-point number, depends on a dynamic size"):
        load(Attention(), (x,), tmp_path, dims)
