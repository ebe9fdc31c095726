# SPDX-License-Identifier: BSD-3-Clause
"""Indexing by integers, slices, tensors, masks and ellipses, reading and writing, against the CPU."""

from __future__ import annotations

import itertools

import pytest
import torch

DEVICE = "atalla"
DTYPES = [torch.bool, torch.uint8, torch.int64, torch.float16, torch.float32, torch.complex64]
L = torch.tensor


def base(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    x = torch.arange(120).reshape(4, 5, 6)
    return (x % 3 == 0) if dtype == torch.bool else x.to(dtype)


# What stands between the brackets.
KEYS = {
    "integer": (2,),
    "negative integer": (-1, 3),
    "slice": (slice(1, 4, 2), slice(None), slice(-4, -1)),
    "empty slice": (slice(3, 1),),
    "ellipsis": (..., 2),
    "new dimension": (None, slice(None), None, 1),
    "index": (L([3, 0, 0, 1]),),
    "negative index": (L([-1, -4, 2]),),
    "0-d index": (L(2),),
    "int32 index": (L([1, 3], dtype=torch.int32),),
    "empty index": (torch.empty(0, dtype=torch.long),),
    "second dimension": (slice(None), L([4, 0])),
    "two indices": (L([0, 3, 1]), L([4, 4, 0])),
    "two indices broadcast": (L([[0], [3]]), L([1, 2, 3])),
    "indices apart": (L([0, 2]), slice(None), L([5, 1])),
    "indices apart with slice": (slice(0, 3), L([0, 2]), L([5, 1])),
    "index and integer": (1, L([0, 2]), 3),
    "three indices": (L([0, 3]), L([4, 0]), L([5, 5])),
    "index after ellipsis": (..., L([0, 5, 2])),
    "mask of the first dimension": (L([True, False, True, True]),),
    "mask of two dimensions": (torch.arange(20).reshape(4, 5) % 3 == 1,),
    "full mask": (torch.arange(120).reshape(4, 5, 6) % 7 == 2,),
    "empty mask": (torch.zeros(4, dtype=torch.bool),),
    "mask and index": (L([True, False, True, False]), L([0, 2])),
    "list": ([0, 2],),
    "range of bytes": (L([1, 0, 1, 0], dtype=torch.uint8),),
}


def moved(key: tuple) -> tuple:
    return tuple(k.to(DEVICE) if isinstance(k, torch.Tensor) else k for k in key)


def same(got: torch.Tensor, want: torch.Tensor) -> None:
    assert got.device.type == DEVICE
    torch.testing.assert_close(got.cpu(), want, rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", KEYS)
def test_read(name: str, dtype: torch.dtype) -> None:
    x, key = base(dtype), KEYS[name]
    want = x[key]
    same(x.to(DEVICE)[moved(key)], want)
    same(x.to(DEVICE)[key], want)  # indices on the CPU are taken too


@pytest.mark.parametrize("name", KEYS)
def test_read_of_a_view(name: str) -> None:
    x = base().flip(0).transpose(0, 1).contiguous().transpose(0, 1)
    same(x.to(DEVICE).clone().transpose(0, 2).contiguous().transpose(0, 2)[moved(KEYS[name])], x[KEYS[name]])


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", KEYS)
def test_write_a_number(name: str, dtype: torch.dtype) -> None:
    x = base(dtype)
    d = x.to(DEVICE)
    if name == "range of bytes":  # a number goes through masked_fill_, which upstream keeps to boolean masks
        for target, key in ((x, KEYS[name]), (d, moved(KEYS[name]))):
            with pytest.raises(RuntimeError, match="only supports boolean masks"):
                target[key] = 1
        return
    x[KEYS[name]] = 1
    d[moved(KEYS[name])] = 1
    same(d, x)


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
@pytest.mark.parametrize("name", KEYS)
def test_write_a_tensor(name: str) -> None:
    """A place that is named twice gets the same number twice, so that the order says nothing."""
    x = base()
    d = x.to(DEVICE)
    key = KEYS[name]
    numbers = torch.arange(120).reshape(4, 5, 6)[key]
    source = -(numbers.float() + 1)  # a place always gets the same value
    x[key] = source
    d[moved(key)] = source.to(DEVICE)
    same(d, x)
    x.transpose(0, 2)[1] = 7
    d.transpose(0, 2)[1] = 7
    same(d, x)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32], ids=str)
def test_accumulate(dtype: torch.dtype) -> None:
    """Every contribution to a place counts, the same bits every time."""
    index = torch.arange(1000) * 7 % 13
    results = []
    for _ in range(2):
        d = torch.zeros(13, 3, dtype=dtype, device=DEVICE)
        values = torch.arange(3000).reshape(1000, 3).to(dtype)
        d.index_put_((index.to(DEVICE),), values.to(DEVICE), accumulate=True)
        results.append(d.cpu())
    same(d, torch.zeros(13, 3, dtype=dtype).index_put_((index,), values, accumulate=True))
    assert torch.equal(*results)


@pytest.mark.parametrize(
    "key", [(4,), (0, -6), (0, 0, 6), (L([0, 4]),), (slice(None), L([-6])), (L([True] * 5),)], ids=str
)
def test_out_of_range(key: tuple) -> None:
    x = base()
    with pytest.raises(IndexError):
        x[key]
    d = x.to(DEVICE)
    with pytest.raises(IndexError):
        d[moved(key)].cpu()
    with pytest.raises(IndexError):
        d[moved(key)] = 1
        torch.accelerator.synchronize()
    same(d, x)  # nothing was written


@pytest.mark.parametrize("steps", itertools.product((1, 2, 3), (1, 4)), ids=str)
def test_slices_with_steps(steps: tuple[int, int]) -> None:
    x = base()
    d = x.to(DEVICE)
    same(d[:: steps[0], 1 :: steps[1]], x[:: steps[0], 1 :: steps[1]])
    d[:: steps[0], 1 :: steps[1]] += 100
    x[:: steps[0], 1 :: steps[1]] += 100
    same(d, x)


def test_take_put_and_their_like() -> None:
    x, d = base(), base().to(DEVICE)
    index = L([[0, 119], [-1, 60]])
    same(d.take(index.to(DEVICE)), x.take(index))
    same(d.index_fill(1, L([0, 3]).to(DEVICE), -1), x.index_fill(1, L([0, 3]), -1))
    same(d.index_copy(0, L([2, 0]).to(DEVICE), d[:2]), x.index_copy(0, L([2, 0]), x[:2]))
    same(torch.take_along_dim(d, L([[[1]]]).to(DEVICE), 1), torch.take_along_dim(x, L([[[1]]]), 1))


def test_gradient_of_indexing() -> None:
    grads = []
    for device in ("cpu", DEVICE):
        leaf = base().to(device).requires_grad_()
        index = L([0, 2, 2]).to(device)
        (leaf[index] * leaf[:, index].sum()).sum().backward()
        grads.append(leaf.grad.cpu())
    torch.testing.assert_close(*grads)


def test_enough_keys() -> None:
    assert len(KEYS) >= 25
