# SPDX-License-Identifier: BSD-3-Clause
"""Sparse gradients of embeddings, and the optimizers that take them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import torch_atalla


@pytest.fixture(autouse=True)
def native():
    with torch_atalla.fallback.mode("error"):
        yield


def pair(make) -> tuple[nn.Module, nn.Module]:
    cpu, mine = make(), make()
    mine.load_state_dict(cpu.state_dict())
    return cpu, mine.to("atalla")


def same_gradients(cpu: nn.Module, mine: nn.Module) -> None:
    """Equal sums; the CPU merges some elements when it adds two gradients."""
    expected, found = cpu.weight.grad, mine.weight.grad
    assert found.layout == torch.sparse_coo and found.device.type == "atalla"
    torch.testing.assert_close(found.coalesce().cpu(), expected.coalesce())


ROWS = torch.tensor([[7, 1, 3, 1], [0, 9, 1, 7]])


@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}, {"scale_grad_by_freq": False, "max_norm": 1.0}], ids=str)
def test_embedding(options: dict) -> None:
    cpu, mine = pair(lambda: nn.Embedding(10, 3, sparse=True, **options))
    for module, device in ((cpu, "cpu"), (mine, "atalla")):
        (module(ROWS.to(device)) ** 2).sum().backward()
    same_gradients(cpu, mine)
    for module, device in ((cpu, "cpu"), (mine, "atalla")):  # a second gradient is added
        module(ROWS[0].to(device)).sum().backward()
    same_gradients(cpu, mine)


def test_empty_embeddings() -> None:
    for rows, width, names in ((0, 0, torch.empty(0, dtype=torch.int64)), (10, 0, ROWS)):
        module = nn.Embedding(rows, width, sparse=True, device="atalla")
        module(names.to("atalla")).sum().backward()
        assert module.weight.grad.is_sparse and module.weight.grad.shape == (rows, width)


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("weighted", [False, True])
def test_embedding_bag(mode: str, weighted: bool) -> None:
    if weighted and mode == "mean":
        return
    cpu, mine = pair(lambda: nn.EmbeddingBag(10, 3, mode=mode, sparse=True))
    weights = torch.rand(8) if weighted else None
    for module, device in ((cpu, "cpu"), (mine, "atalla")):
        out = module(ROWS.flatten().to(device), torch.tensor([0, 3, 3, 6], device=device),
                     None if weights is None else weights.to(device))  # fmt: skip
        (out**2).sum().backward()
    same_gradients(cpu, mine)


OPTIMIZERS = [
    lambda p: torch.optim.SparseAdam(p, lr=0.1),
    lambda p: torch.optim.SGD(p, lr=0.1),
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    lambda p: torch.optim.Adagrad(p, lr=0.1),
]


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_optimizers(make) -> None:
    cpu, mine = pair(lambda: nn.Embedding(10, 3, sparse=True))
    for module, device in ((cpu, "cpu"), (mine, "atalla")):
        optimizer = make(list(module.parameters()))
        for step in range(4):
            optimizer.zero_grad()
            (module(ROWS[:, step:].to(device)) ** 2).sum().backward()
            module(ROWS[0].to(device)).sin().sum().backward()
            optimizer.step()
    torch.testing.assert_close(mine.weight.cpu(), cpu.weight, rtol=1e-5, atol=1e-6)


def test_clipping() -> None:
    """The CPU has no norm of sparse gradients: a dense gradient is the reference."""
    mine = nn.Embedding(10, 3, sparse=True).to("atalla")
    reference = nn.Embedding(10, 3, _weight=mine.weight.detach().cpu())
    norms = []
    for module, device in ((reference, "cpu"), (mine, "atalla")):
        (module(ROWS.to(device)) ** 2).sum().backward()
        norms.append(nn.utils.clip_grad_norm_(module.parameters(), 0.7).cpu())
    torch.testing.assert_close(norms[1], norms[0])
    torch.testing.assert_close(mine.weight.grad.cpu().to_dense(), reference.weight.grad)


def test_backward_places() -> None:
    """A gradient names the rows in the order of the indices; a second one is appended."""
    module = nn.Embedding(10, 3, sparse=True, device="atalla")
    rows = torch.tensor([7, 1, 3], device="atalla")
    module(rows).sum().backward()
    assert module.weight.grad._indices().tolist() == [[7, 1, 3]]
    module(rows).sum().backward()
    assert module.weight.grad._indices().tolist() == [[7, 1, 3, 7, 1, 3]]
    assert module.weight.grad._values().eq(1).all()


def test_gradient_of_gather() -> None:
    gradients = []
    for device in ("cpu", "atalla"):
        x = torch.arange(12.0, device=device).view(3, 4).requires_grad_()
        torch.gather(x, 1, torch.tensor([[0, 1], [2, 2], [3, 0]], device=device), sparse_grad=True).sum().backward()
        gradients.append(x.grad.cpu().to_dense())
    assert torch.equal(*gradients)
