# SPDX-License-Identifier: BSD-3-Clause
"""Sizes that depend on data, of inputs whose sizes are dynamic: the bounds are expressions of the sizes of inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from torch_atalla import load_loadable, save_loadable
from torch_atalla.driver.runtime import RuntimeLibraryError
from torch_atalla.loadable.errors import UnsupportedOpsError

WIDTH = 4
TABLE = torch.linspace(-1, 1, 16).view(4, WIDTH)


def checked(x: torch.Tensor) -> torch.Tensor:
    torch._check(x.shape[0] >= 1)
    return x


def put(x: torch.Tensor, m: torch.Tensor, value: Any) -> torch.Tensor:
    y = x.clone()
    y[m] = value
    return y


def put_at(x: torch.Tensor, i: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[i] = value
    return y


def attention(rows: torch.Tensor) -> torch.Tensor:
    rows = rows.view(1, 1, -1, WIDTH)
    return F.scaled_dot_product_attention(rows, rows, rows)


CASES: dict[str, Any] = {
    "rows": lambda x, m, i: x[m] * 2,
    "rows of rows": lambda x, m, i: x[m][x[m][:, 0] > 0],
    "columns": lambda x, m, i: x.t()[:, m],
    "places": lambda x, m, i: (x > 0).nonzero(),
    "elements": lambda x, m, i: x.masked_select(x > 0.5),
    "linear": lambda x, m, i: F.linear(x[m], TABLE),
    "norm": lambda x, m, i: F.layer_norm(x[m], (WIDTH,)),
    "sums": lambda x, m, i: (x[m].sum(0), x[m].sum(), x[m].mean(0), x[m].std(0)),
    "softmax": lambda x, m, i: x[m].softmax(0),
    "scans": lambda x, m, i: (x[m].cumsum(0), x[m].cumprod(0), x[m].logcumsumexp(0), *checked(x[m]).cummax(0)),
    "order": lambda x, m, i: (*x[m].sort(0), x[m].argsort(0, descending=True), *checked(x[m]).topk(1, 0)),
    "median": lambda x, m, i: (*checked(x[m]).median(0), x[m].median()),
    "distinct elements": lambda x, m, i: torch.unique(x.round(), return_inverse=True, return_counts=True),
    "runs": lambda x, m, i: torch.unique_consecutive(i, return_inverse=True, return_counts=True),
    "distinct elements of rows": lambda x, m, i: torch.unique(x[m].round(), return_counts=True),
    "cat": lambda x, m, i: torch.cat([x[m], x[~m], x[:2]]),
    "view": lambda x, m, i: (x[m].reshape(-1), x[m].view(-1, 2, 2).transpose(1, 2)),
    "masked_scatter": lambda x, m, i: x.masked_scatter(m[:, None], x[m] * 2),
    "rows that are written": lambda x, m, i: put(x, m, x[m] * 2),
    "rows at indices": lambda x, m, i: put_at(torch.zeros_like(x), torch.arange(x.shape[0])[m], x[m]),
    "index_add": lambda x, m, i: torch.zeros(4, WIDTH).index_add(0, i[m], x[m]),
    "embedding": lambda x, m, i: F.embedding(i[m], TABLE),
    "product": lambda x, m, i: x[m].t() @ x[m],
    "attention": lambda x, m, i: attention(checked(x[m])),
    "the count": lambda x, m, i: x * x[m].shape[0] / x.shape[0],
    "the rest": lambda x, m, i: torch.arange(x.shape[0] - x[m].shape[0] + x[~m].shape[0]),
    "slice": lambda x, m, i: x[m][1:3],
    "flip": lambda x, m, i: x[m].flip(0),
    "pad": lambda x, m, i: F.pad(x[m], (0, 0, 0, 2), value=7.0),
}


class Module(nn.Module):
    def __init__(self, case: Any) -> None:
        super().__init__()
        self.case = case

    def forward(self, x: torch.Tensor, m: torch.Tensor, i: torch.Tensor) -> Any:
        return self.case(x, m, i)


def inputs(bits: str) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(len(bits) + bits.count("1"))
    return torch.randn(len(bits), WIDTH), torch.tensor([bit == "1" for bit in bits]), torch.randint(0, 4, (len(bits),))


def exported(case: Any, **limits: int) -> torch.export.ExportedProgram:
    rows = {0: Dim("n", **limits)}
    return torch.export.export(Module(case), inputs("101101"), dynamic_shapes=(rows, rows, rows), strict=False)


def check(case: Any, path: Path, several: tuple[str, ...], **limits: int) -> None:
    check_program(exported(case, **limits), case, path, several)


def check_program(program: torch.export.ExportedProgram, case: Any, path: Path, several: tuple[str, ...]) -> None:
    save_loadable(program, path, fallback="error")
    loaded = load_loadable(path, device="atalla")
    for bits in several:
        args = inputs(bits)
        expected, found = case(*args), loaded(*[arg.to("atalla") for arg in args])
        pairs = zip(expected, found, strict=True) if isinstance(expected, tuple) else [(expected, found)]
        for right, mine in pairs:
            torch.testing.assert_close(mine.cpu(), right, equal_nan=True)


@pytest.mark.filterwarnings("ignore:the file gets no golden outputs")
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, tmp_path: Path) -> None:
    if name == "the rest":  # smaller if the mask has more
        with pytest.raises(UnsupportedOpsError, match="may become smaller when a count grows"):
            save_loadable(exported(CASES[name], min=3, max=12), tmp_path / "m.atl", fallback="error")
        return
    check(CASES[name], tmp_path / "m.atl", ("101101", "111", "01000101", "111111111111"), min=3, max=12)


@pytest.mark.filterwarnings("ignore:the file gets no golden outputs")
@pytest.mark.parametrize("name", ["rows", "sums", "order", "median", "distinct elements", "cat", "masked_scatter"])
def test_sizes_without_a_bound(name: str, tmp_path: Path) -> None:
    check(CASES[name], tmp_path / "m.atl", ("101101", "111", "0100" * 20), min=3)


@pytest.mark.filterwarnings("ignore:the file gets no golden outputs")
@pytest.mark.parametrize("name", ["rows", "view", "order", "distinct elements", "flip", "pad", "masked_scatter"])
def test_sizes_from_one_on(name: str, tmp_path: Path) -> None:
    check(CASES[name], tmp_path / "m.atl", ("101101", "11", "1", "1000100010"), min=1, max=10)


@pytest.mark.filterwarnings("ignore:the file gets no golden outputs")
@pytest.mark.parametrize("name", ["rows", "cat", "softmax", "rows that are written"])
def test_multiples(name: str, tmp_path: Path) -> None:
    rows = {0: 4 * Dim("blocks", min=1, max=5)}
    module, args = Module(CASES[name]), inputs("10110111")
    program = torch.export.export(module, args, dynamic_shapes=(rows, rows, rows), strict=False)
    check_program(program, CASES[name], tmp_path / "m.atl", ("01001110", "000111010111", "0001" * 5))


def two_sizes(x: torch.Tensor, m: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[m], x.new_ones(i.shape[0], WIDTH)[i > 1]])


@pytest.mark.filterwarnings("ignore:the file gets no golden outputs")
def test_two_dynamic_sizes(tmp_path: Path) -> None:
    x, m, _ = inputs("101101")
    shapes = {0: Dim("n", min=2, max=9)}, {0: Dim("n", min=2, max=9)}, {0: Dim("k", min=2, max=9)}
    args = x, m, torch.randint(0, 4, (5,))
    program = torch.export.export(Module(two_sizes), args, dynamic_shapes=shapes)
    save_loadable(program, tmp_path / "m.atl", fallback="error")
    loaded = load_loadable(tmp_path / "m.atl", device="atalla")
    for n, k in ((6, 5), (2, 9), (9, 3)):
        x, m, _ = inputs(("10110" * 2)[:n])
        args = x, m, torch.randint(0, 4, (k,))
        assert torch.equal(loaded(*[arg.to("atalla") for arg in args]).cpu(), two_sizes(*args))


def at_most_three(x: torch.Tensor, m: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    rows = x[m]
    torch._check(rows.shape[0] <= 3)
    return rows


@pytest.mark.filterwarnings("ignore:the file gets no golden outputs")
def test_a_declared_bound(tmp_path: Path) -> None:
    """Of the results the size is fixed, whatever the sizes of inputs."""
    check(at_most_three, tmp_path / "m.atl", ("001", "1010", "0001000100"), min=3, max=12)
    loaded = load_loadable(tmp_path / "m.atl", device="atalla")
    assert loaded.outputs[0].shape == (3, WIDTH)
    with pytest.raises(RuntimeLibraryError, match="_assert_async_msg"):
        loaded(*[arg.to("atalla") for arg in inputs("11011")])
        torch.atalla.synchronize()


def test_a_decision_for_some_sizes(tmp_path: Path) -> None:
    """A rule does not decide what holds for the sizes of the example alone."""

    def split(x: torch.Tensor, m: torch.Tensor, i: torch.Tensor) -> Any:
        n, k = m.sum().item(), (~m).sum().item()
        for number in (n, k):
            torch._check(number >= 0)
            torch._check(number <= 6)
        torch._check(n + k == x.shape[0])
        return x.split_with_sizes([n, k])

    with pytest.raises(UnsupportedOpsError, match="split_with_sizes"):
        save_loadable(exported(split, min=3, max=12), tmp_path / "m.atl", fallback="error")
