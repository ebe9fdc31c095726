# SPDX-License-Identifier: BSD-3-Clause
"""Sizes that depend on data: loadables give the CPU's values for every count within the bound."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torch_atalla import load_loadable, save_loadable
from torch_atalla.compiler.capture.capture import capture
from torch_atalla.driver.runtime import RuntimeLibraryError
from torch_atalla.loadable.errors import UnsupportedOpsError

ROWS, WIDTH = 6, 4
TABLE = torch.linspace(-1, 1, 16).view(4, WIDTH)
KERNEL = torch.linspace(-1, 1, 6).view(2, 1, 3)
Case = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any]  # of x [6, 4], a mask [6] and indices [6]


def put(x: torch.Tensor, m: torch.Tensor, value: Any) -> torch.Tensor:
    y = x.clone()
    y[m] = value
    return y


def put_at(x: torch.Tensor, i: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[i] = value
    return y


def checked(x: torch.Tensor, least: int) -> torch.Tensor:
    torch._check(x.shape[0] >= least)
    return x


def number(m: torch.Tensor) -> Any:
    n = m.sum().item()
    torch._check(n >= 0)
    torch._check(n <= ROWS)
    return n


def split(x: torch.Tensor, m: torch.Tensor) -> Any:
    n = number(m)
    k = (ROWS - m.sum()).item()
    torch._check(k >= 0)
    torch._check(k <= ROWS)
    torch._check(n + k == ROWS)
    return x.split_with_sizes([n, k])


def largest_at(i: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(4).scatter_reduce(0, i, x, "amax", include_self=False)


def attention(rows: torch.Tensor, **options: Any) -> torch.Tensor:
    rows = rows.view(1, 1, -1, WIDTH)
    return F.scaled_dot_product_attention(rows, rows, rows, **options)


def rows_of_equal_numbers(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    several = [x[m], x[~m]]
    y = x.new_zeros(2, max(rows.shape[0] for rows in several), WIDTH)
    for k, rows in enumerate(several):
        y[k, : rows.shape[0]] = rows
    return y


def with_nan(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0.9, torch.nan, x)


def in_bytes(x: torch.Tensor) -> torch.Tensor:
    return (x * 40).clamp(-128, 127).to(torch.int8)


def heads(r: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(r.view(-1, 1, 2, 2), r.view(-1, 1, 2, 2), r.view(-1, 1, 2, 2))


CASES: dict[str, Case] = {
    "rows": lambda x, m, i: x[m] * 2,
    "rows of rows": lambda x, m, i: x[m][x[m][:, 0] > 0],
    "columns": lambda x, m, i: x.t()[:, m],
    "places": lambda x, m, i: (x > 0).nonzero(),
    "places of numbers": lambda x, m, i: x.clamp(min=0).nonzero(),
    "elements": lambda x, m, i: x.masked_select(x > 0.5),
    "linear": lambda x, m, i: F.linear(x[m], TABLE),
    "norm": lambda x, m, i: F.layer_norm(x[m], (WIDTH,)),
    "sum": lambda x, m, i: (x[m].sum(0), x[m].sum(), x[m].sum(1)),
    "mean": lambda x, m, i: x[m].mean(0),
    "deviation": lambda x, m, i: (x[m].std(0), x[m].var(1), x[m].var(0, correction=0)),
    "logic": lambda x, m, i: ((x[m] > 0).any(0), (x[m] > 0).all(0)),
    "softmax": lambda x, m, i: x[m].softmax(0),
    "cumsum": lambda x, m, i: x[m].cumsum(0),
    "sort": lambda x, m, i: (*x[m].sort(0, descending=True), *x[m].sort(0), x[m].argsort(0)),
    "products of those before": lambda x, m, i: (x[m].cumprod(0), x[m].logcumsumexp(0)),
    "median of all": lambda x, m, i: (x[m].median(), with_nan(x[m]).median(), with_nan(x[m]).nanmedian()),
    "cat": lambda x, m, i: torch.cat([x[m], x[~m], x[:2]]),
    "cat of columns": lambda x, m, i: torch.cat([x[m], x[m] + 1], 1),
    "view": lambda x, m, i: (x[m].reshape(-1), x[m].view(-1, 2, 2).transpose(1, 2)),
    "masked_scatter": lambda x, m, i: x.masked_scatter(m[:, None], x[m] * 2),
    "rows that are written": lambda x, m, i: put(x, m, x[m] * 2),
    "a value that is written": lambda x, m, i: put(x[m], x[m][:, 0] > 0, 7.0),
    "a row that is written": lambda x, m, i: (put(x, m, TABLE[0]), put(x, m, TABLE[:1])),
    "rows at indices": lambda x, m, i: put_at(torch.zeros(ROWS, WIDTH), torch.arange(ROWS)[m], x[m]),
    "sums at indices": lambda x, m, i: torch.zeros(4).index_put((i[m],), x[m][:, 0], accumulate=True),
    "index_add": lambda x, m, i: torch.zeros(4, WIDTH).index_add(0, i[m], x[m]),
    "scatter_add": lambda x, m, i: torch.zeros(4).scatter_add(0, i[m], x[m][:, 0]),
    "largest at indices": lambda x, m, i: torch.zeros(4).scatter_reduce(
        0, i[m], x[m][:, 0], "amax", include_self=False
    ),
    "embedding": lambda x, m, i: F.embedding(i[m], TABLE),
    "indices": lambda x, m, i: TABLE[i[m]],
    "images": lambda x, m, i: F.conv1d(x[m][:, None], KERNEL, padding=1),
    "a signal": lambda x, m, i: F.conv1d(x.reshape(-1)[x.reshape(-1) > -0.5][None, None], KERNEL, padding=1),
    "of a number": lambda x, m, i: (x[m].sum().median(), *torch.unique(x[m].sum(), return_counts=True)),
    "product": lambda x, m, i: x[m].t() @ x[m],
    "product of bytes": lambda x, m, i: torch._int_mm(in_bytes(x[m]), in_bytes(TABLE)),
    "images of bytes": lambda x, m, i: torch.ops.atalla.int_convolution(
        in_bytes(x[m])[:, None], in_bytes(KERNEL), None, i[0], [1], [2], [1], False, [0], 1
    ),
    "attention": lambda x, m, i: heads(x[m]),
    "arange": lambda x, m, i: torch.arange(x[m].shape[0]) + torch.ones(x[m].shape[0]),
    "the count": lambda x, m, i: x * x[m].shape[0],
    "a number": lambda x, m, i: (torch.arange(number(m)), x + number(m)),
    "a number with a fraction": lambda x, m, i: (x * x[0, 0].item(), x + (1.5 - x.max().item())),
    "split": lambda x, m, i: split(x, m),
    "pad": lambda x, m, i: F.pad(x[m], (0, 0, 0, 2), value=7.0),
    "slice": lambda x, m, i: x[m][1:3],
    "flip": lambda x, m, i: (x[m].flip(0, 1), x[m].flip(1)),
    "places in an image": lambda x, m, i: F.grid_sample(
        x[None, None], x[m].tanh().view(1, 1, -1, 2), align_corners=True
    ),
    "rows of equal numbers": lambda x, m, i: rows_of_equal_numbers(x, m),
    "length": lambda x, m, i: x[m].norm(dim=0),
    "repeat": lambda x, m, i: x[m].repeat(1, 2),
}
# Those that take at least two rows.
NONEMPTY: dict[str, Case] = {
    "largest": lambda x, m, i: (checked(x[m], 2).amax(0), x[m].min(0)[0], x[m].argmax(0)),
    "best": lambda x, m, i: (*checked(x[m], 2).topk(2, 0), *x[m].topk(2, 0, largest=False)),
    "largest so far": lambda x, m, i: (*checked(x[m], 2).cummax(0), *x[m].cummin(0)),
    "median": lambda x, m, i: (*checked(x[m], 2).median(0), *(x[m] * 4).long().median(0, keepdim=True)),
    "median with NaN": lambda x, m, i: (*with_nan(checked(x[m], 2)).median(0), *with_nan(x[m]).nanmedian(0)),
    "median of all integers": lambda x, m, i: (checked(x[m], 2) * 4).long().median(),
    "first": lambda x, m, i: checked(x[m], 2)[1],
    "attention among rows": lambda x, m, i: attention(checked(x[m], 2)),
    "attention to rows before": lambda x, m, i: attention(checked(x[m], 2), is_causal=True),
    "attention with a mask": lambda x, m, i: attention(checked(x[m], 2), attn_mask=x[m][None, None, :, :1] < 9),
    "attention with a bias": lambda x, m, i: attention(checked(x[m], 2), attn_mask=x[m][:, 0][None, None, None]),
}


class Module(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case

    def forward(self, x: torch.Tensor, m: torch.Tensor, i: torch.Tensor) -> Any:
        return self.case(x, m, i)


def inputs(bits: str) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(len(bits) + bits.count("1"))
    return torch.randn(ROWS, WIDTH), torch.tensor([bit == "1" for bit in bits]), torch.randint(0, 4, (ROWS,))


def loaded(case: Case, path: Path) -> tuple[nn.Module, Any]:
    module = Module(case)
    program = torch.export.export(module, inputs("101101"), strict=False)
    save_loadable(program, path / "m.atl", fallback="error")
    return module, load_loadable(path / "m.atl", device="atalla")


def on_chip(args: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    return [arg.to("atalla") for arg in args]


@pytest.mark.filterwarnings("ignore:the file gets no golden outputs")
@pytest.mark.parametrize("name", [*CASES, *NONEMPTY])
def test_values(name: str, tmp_path: Path) -> None:
    module, program = loaded((CASES | NONEMPTY)[name], tmp_path)
    for bits in ("101101", "111111", "010001", *(["000000", "100000"] if name in CASES else [])):
        args = inputs(bits)
        expected, found = module(*args), program(*on_chip(args))
        pairs = zip(expected, found) if isinstance(expected, tuple) else [(expected, found)]
        for right, mine in pairs:
            torch.testing.assert_close(mine.cpu(), right, equal_nan=True)


@pytest.mark.filterwarnings("ignore:the file gets no golden outputs")
@pytest.mark.parametrize("name", NONEMPTY)
def test_too_few_elements_stop_the_program(name: str, tmp_path: Path) -> None:
    _, program = loaded(NONEMPTY[name], tmp_path)
    with pytest.raises(RuntimeLibraryError, match="_assert_async_msg"):
        program(*on_chip(inputs("000000")))
        torch.atalla.synchronize()


def at_most_three(x: torch.Tensor, m: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    rows = x[m]
    torch._check(rows.shape[0] <= 3)
    return rows


@pytest.mark.filterwarnings("ignore:the file gets no golden outputs")
def test_a_count_above_the_declared_bound_stops_the_program(tmp_path: Path) -> None:
    module = Module(at_most_three)
    program = torch.export.export(module, inputs("100001"))
    save_loadable(program, tmp_path / "m.atl", fallback="error")
    program = load_loadable(tmp_path / "m.atl", device="atalla")
    assert program.outputs[0].shape == (3, WIDTH)
    for bits in ("100001", "110001", "000000"):
        assert torch.equal(program(*on_chip(inputs(bits))).cpu(), module(*inputs(bits)))
    with pytest.raises(RuntimeLibraryError, match="_assert_async_msg"):
        program(*on_chip(inputs("111100")))
        torch.atalla.synchronize()


def scatter_of_others(x: torch.Tensor, m: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return x.masked_scatter((i == 0)[:, None], x[m])


def test_masked_scatter_does_not_take_padding(tmp_path: Path) -> None:
    module, program = loaded(scatter_of_others, tmp_path)
    x, m, i = inputs("100101")
    enough, few = torch.tensor([0, 1, 1, 0, 1, 1]), torch.zeros(ROWS, dtype=torch.int64)
    assert torch.equal(program(*on_chip((x, m, enough))).cpu(), module(x, m, enough))
    with pytest.raises(RuntimeLibraryError, match="_assert_async_msg"):
        program(*on_chip((x, m, few)))
        torch.atalla.synchronize()


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (lambda x, m, i: x[m].t().reshape(-1) * 2, "not the first that it joins"),
        (lambda x, m, i: x[m].kthvalue(1, 0)[0], "no rule keeps aten.kthvalue.default"),
        (lambda x, m, i: torch.unique_consecutive(x, dim=0), "distinct slices; expected distinct elements"),
        (lambda x, m, i: torch.unique(x, dim=0), "distinct slices; expected distinct elements"),
        (lambda x, m, i: torch.unique(x.t()[:, m]), "dimension 1 has a count, which is not the first"),
        (lambda x, m, i: torch.full((3,), number(m)), "the number fill_value depends on data"),
        (lambda x, m, i: checked(x[m], 2).t().argmax(), "of which the places are numbered"),
        (lambda x, m, i: x[:, m[:WIDTH]].reshape(-1, ROWS), "elements become|not the first that it joins"),
        (lambda x, m, i: torch.arange(i.max().item()), "has no bound"),
    ],
)
def test_refusals(case: Case, reason: str, tmp_path: Path) -> None:
    program = torch.export.export(Module(case), inputs("101101"))
    with pytest.raises(UnsupportedOpsError, match=reason):
        save_loadable(program, tmp_path / "m.atl", fallback="error")


def test_a_refused_program_keeps_its_graph() -> None:
    program = torch.export.export(Module(lambda x, m, i: x[m].kthvalue(1, 0)[0]), inputs("101101"))
    targets = [str(node.target) for node in capture(program).graph.nodes if node.op == "call_function"]
    assert "aten.index.Tensor" in targets and "aten.nonzero_static.default" not in targets


EVERYTHING = {"return_inverse": True, "return_counts": True}


def whole(x: torch.Tensor) -> torch.Tensor:
    return x.nan_to_num().round()


DISTINCT: dict[str, Case] = {
    "elements": lambda x, m, i: torch.unique(whole(x)),
    "with places": lambda x, m, i: torch.unique(whole(x), return_inverse=True),
    "with numbers": lambda x, m, i: torch.unique(whole(x), return_counts=True),
    "with both": lambda x, m, i: torch.unique(whole(x), **EVERYTHING),
    "integers": lambda x, m, i: torch.unique(whole(x).long(), **EVERYTHING),
    "largest integers": lambda x, m, i: torch.unique((whole(x) * 200).clamp(-128, 127).to(torch.int8), **EVERYTHING),
    "truth values": lambda x, m, i: torch.unique(m, **EVERYTHING),
    "NaN": lambda x, m, i: torch.unique(x, return_counts=True),
    "of rows": lambda x, m, i: torch.unique(whole(x[m]), **EVERYTHING),
    "NaN of rows": lambda x, m, i: torch.unique(x[m], return_counts=True),
    "transposed": lambda x, m, i: torch.unique(whole(x).t(), **EVERYTHING),
    "runs": lambda x, m, i: torch.unique_consecutive(whole(x), **EVERYTHING),
    "runs of rows": lambda x, m, i: torch.unique_consecutive(whole(x[m])[:, 0], **EVERYTHING),
    "rows of distinct elements": lambda x, m, i: whole(x).flatten()[torch.unique(whole(x).abs().long())] * 2,
}


def of_distinct(bits: str) -> tuple[torch.Tensor, ...]:
    x, m, i = inputs(bits)
    return torch.where(x > 1, torch.nan, x), m, i


@pytest.mark.filterwarnings("ignore:the file gets no golden outputs")
@pytest.mark.parametrize("name", DISTINCT)
def test_distinct_elements(name: str, tmp_path: Path) -> None:
    """Those of the CPU, and those of eager mode on the device."""
    module = Module(DISTINCT[name])
    program = torch.export.export(module, of_distinct("101101"))
    save_loadable(program, tmp_path / "m.atl", fallback="error")
    loaded = load_loadable(tmp_path / "m.atl", device="atalla")
    for bits in ("101101", "111111", "010001", "000000"):
        args = of_distinct(bits)
        given = on_chip(args)
        results = [function(*several) for function, several in ((module, args), (module, given), (loaded, given))]
        cpu, eager, found = (result if isinstance(result, tuple) else (result,) for result in results)
        for right, other, mine in zip(cpu, eager, found, strict=True):
            torch.testing.assert_close(mine.cpu(), right, rtol=0, atol=0, equal_nan=True)
            torch.testing.assert_close(mine, other, rtol=0, atol=0, equal_nan=True)


@pytest.mark.filterwarnings("ignore:the file gets no golden outputs")
def test_places_of_nan(tmp_path: Path) -> None:
    """Each NaN has a place of its own. Upstream leaves their order open; eager mode has that of the elements."""
    module = Module(lambda x, m, i: torch.unique(x, return_inverse=True)[1])
    save_loadable(torch.export.export(module, of_distinct("101101")), tmp_path / "m.atl", fallback="error")
    given = on_chip(of_distinct("111011"))
    assert torch.equal(load_loadable(tmp_path / "m.atl", device="atalla")(*given), module(*given))


def at_most_three_distinct(x: torch.Tensor, m: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    found = torch.unique(x)
    torch._check(found.shape[0] <= 3)
    return found


@pytest.mark.filterwarnings("ignore:the file gets no golden outputs")
def test_a_declared_bound_of_distinct_elements(tmp_path: Path) -> None:
    x, m, i = torch.zeros(6, 4), *inputs("111111")[1:]
    save_loadable(torch.export.export(Module(at_most_three_distinct), (x, m, i)), tmp_path / "m.atl", fallback="error")
    loaded = load_loadable(tmp_path / "m.atl", device="atalla")
    assert loaded.outputs[0].shape == (3,)
    x[2, 1], x[3, 3] = 5, -1
    assert loaded(*on_chip((x, m, i))).tolist() == [-1, 0, 5]
    x[0, 0] = 9
    with pytest.raises(RuntimeLibraryError, match="_assert_async_msg"):
        loaded(*on_chip((x, m, i)))
        torch.atalla.synchronize()
