# SPDX-License-Identifier: BSD-3-Clause
"""Products of groups of rows, columns or of the contracted dimension: eager mode, gradients, graphs, loadables."""

import math

import pytest
import torch
from torch import nn

import torch_atalla

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture(autouse=True)
def native():
    with torch_atalla.fallback.mode("error"):
        yield


def operands(form: str, dtype: torch.dtype, total: int = 21) -> tuple[torch.Tensor, torch.Tensor]:
    """3 groups of `total` rows, columns or terms; the other sizes are 16, 24 and 32."""
    torch.manual_seed(0)
    if form == "rows":
        return torch.randn(total, 32, dtype=dtype), torch.randn(3, 32, 24, dtype=dtype)
    if form == "columns":
        return torch.randn(3, 16, 32, dtype=dtype), torch.randn(total + 3, 32, dtype=dtype).t()
    return torch.randn(16, total + 3, dtype=dtype), torch.randn(24, total + 3, dtype=dtype).t()


def on_chip(x: torch.Tensor) -> torch.Tensor:
    return x.to("atalla")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", ["rows", "columns", "contracted"])
def test_forms(form, dtype):
    a, b = operands(form, dtype)
    offs = torch.tensor([4, 4, 16], dtype=torch.int32)
    expected = torch._grouped_mm(a, b, offs=offs)
    actual = torch._grouped_mm(on_chip(a), on_chip(b), offs=on_chip(offs))
    inside = {"rows": (slice(0, 16),), "columns": (slice(None), slice(0, 16)), "contracted": ()}[form]
    torch.testing.assert_close(actual.cpu()[inside], expected[inside])
    assert actual.stride() == expected.stride()
    if form == "rows":
        assert not actual[16:].any()


def test_no_offsets_is_a_batch():
    a, b = torch.randn(2, 4, 8), torch.randn(2, 8, 12)
    torch.testing.assert_close(torch._grouped_mm(on_chip(a), on_chip(b)).cpu(), a @ b)


def test_gradients():
    a, b = operands("rows", torch.float32, total=20)
    offs = torch.tensor([4, 8, 20], dtype=torch.int32)
    gradients = {}
    for device in ("cpu", "atalla"):
        x, w = (t.detach().to(device).requires_grad_() for t in (a, b))
        torch.nn.functional.grouped_mm(x, w, offs=offs.to(device)).square().sum().backward()
        gradients[device] = x.grad.cpu(), w.grad.cpu()
    torch.testing.assert_close(gradients["atalla"], gradients["cpu"])


def test_captured_with_other_offsets():
    """The ends are read on the device: a graph follows them."""
    a, b = map(on_chip, operands("rows", torch.float32))
    offs = on_chip(torch.tensor([7, 14, 21], dtype=torch.int32))
    torch._grouped_mm(a, b, offs=offs)
    stream, graph = torch.Stream(device="atalla"), torch.accelerator.Graph()
    with stream, graph:
        out = torch._grouped_mm(a, b, offs=offs)
    offs.copy_(torch.tensor([1, 20, 21], dtype=torch.int32))
    graph.replay()
    expected = torch._grouped_mm(a.cpu(), b.cpu(), offs=offs.cpu())
    torch.testing.assert_close(out.cpu(), expected)


def test_errors():
    a, b = map(on_chip, operands("rows", torch.float32))
    with pytest.raises(RuntimeError, match="Have to provide offsets"):
        torch._grouped_mm(a, b)
    with pytest.raises(RuntimeError, match="contraction dimension"):
        torch._grouped_mm(a[:, :16].contiguous(), b, offs=on_chip(torch.tensor([1, 2, 3], dtype=torch.int32)))
    with pytest.raises((RuntimeError, IndexError), match=r"group 2 is \[2, 99\), out of range for 21"):
        torch._grouped_mm(a, b, offs=on_chip(torch.tensor([1, 2, 99], dtype=torch.int32))).cpu()


class Experts(nn.Module):
    """A mixture of experts as transformers routes it: sorted rows, counts by histc, groups, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(32, 4, bias=False)
        self.up = nn.Parameter(torch.randn(4, 64, 32) / 6)
        self.down = nn.Parameter(torch.randn(4, 32, 64) / 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, ids = torch.topk(self.router(x).float().softmax(-1), 2)
        ids, order = torch.sort(ids.reshape(-1))
        offs = torch.histc(ids.float(), 4, 0, 3).cumsum(0, dtype=torch.int32)
        hidden = torch._grouped_mm(x[order // 2], self.up.transpose(1, 2), offs=offs)
        y = torch._grouped_mm(torch.relu(hidden), self.down.transpose(1, 2), offs=offs)
        y = y * weights.reshape(-1)[order].unsqueeze(-1).to(y.dtype)
        back = torch.empty_like(order)
        back[order] = torch.arange(order.numel(), device=order.device)
        return y[back].view(-1, 2, 32).sum(1)


@pytest.mark.parametrize("dynamic", [False, True])
def test_loadable(dynamic, tmp_path):
    torch.manual_seed(0)
    model, x = Experts().bfloat16().eval(), torch.randn(7, 32).bfloat16()
    shapes = ({0: torch.export.Dim("tokens", min=2, max=16)},) if dynamic else None
    with torch.no_grad():
        exported = torch.export.export(model, (x,), dynamic_shapes=shapes)
        torch_atalla.save_loadable(exported, tmp_path / "m.atl", fallback="error")
        program = torch_atalla.load_loadable(tmp_path / "m.atl", device="atalla")
        chip = model.to("atalla")
        for rows in (7, 2, 16) if dynamic else (7,):
            x = on_chip(torch.randn(rows, 32).bfloat16())
            torch.testing.assert_close(program(x), chip(x), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_histc_in_a_loadable(dtype, tmp_path):
    class Counts(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.histc(x, 5, -2, 3)

    x = torch.randint(-4, 6, (3, 40)).to(dtype)
    expected = torch.histc(x.float(), 5, -2, 3).to(dtype)
    exported = torch.export.export(Counts(), (x,))
    torch_atalla.save_loadable(exported, tmp_path / "m.atl", fallback="error")
    assert torch.equal(torch_atalla.load_loadable(tmp_path / "m.atl")(on_chip(x)).cpu(), expected)


def test_histc_between_the_bounds_of_the_data_in_a_loadable(tmp_path):
    class Counts(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return torch.histc(x, 5), torch.histc(x, 7, 2, 2), torch.histc(x, 1)

    exported = torch.export.export(Counts(), (torch.randn(3, 40),))
    torch_atalla.save_loadable(exported, tmp_path / "m.atl", fallback="error")
    program = torch_atalla.load_loadable(tmp_path / "m.atl")
    for x in (torch.randn(3, 40), torch.ones(3, 40), torch.zeros(3, 40), torch.rand(3, 40) * 1e6):
        for found, expected in zip(program(on_chip(x)), Counts()(x)):
            assert torch.equal(found.cpu(), expected)
    for number in (math.inf, math.nan):
        x = torch.ones(3, 40)
        x[1, 2] = number
        with pytest.raises((RuntimeError, IndexError)):
            program(on_chip(x))[0].cpu()
