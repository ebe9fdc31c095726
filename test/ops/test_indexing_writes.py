# SPDX-License-Identifier: BSD-3-Clause
"""Writing through indices and selecting by masks, where OpInfo samples do not reach: duplicates and threads, faults,
layouts, masks of wrong shapes, views as targets, and all results of embedding_bag."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F

import torch_atalla  # noqa: F401
from torch_atalla import chip

DEVICE = "atalla"
DTYPES = [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.complex64]


@pytest.fixture(autouse=True)
def no_fallback() -> Iterator[None]:
    with torch_atalla.fallback.mode("error"):
        yield


def both(f: Callable[[str], torch.Tensor]) -> None:
    """f builds its inputs on the device that it is given: the same values on both."""
    torch.manual_seed(0)
    want = f("cpu")
    torch.manual_seed(0)
    got = f(DEVICE)
    assert got.dtype == want.dtype and got.shape == want.shape and got.stride() == want.stride()
    torch.testing.assert_close(got.cpu(), want, equal_nan=True)


def sample(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.testing.make_tensor(shape, dtype=dtype, device="cpu", low=None if dtype == torch.bool else 0, high=2)


# ---------------------------------------------------------------------------------------------------- duplicates
def in_threads(f: Callable[[], torch.Tensor]) -> None:
    """The same bits whatever the number of threads."""
    before, results = chip.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            chip.set_num_threads(threads)
            results.append(f().cpu())
    finally:
        chip.set_num_threads(before)
    assert all(torch.equal(results[0], r) for r in results[1:])


@pytest.mark.parametrize("shape, dim", [((7,), 0), ((5, 300), 0), ((300, 5), 0), ((64, 1000), 1)])
def test_duplicates_do_not_depend_on_threads(shape: tuple[int, ...], dim: int) -> None:
    src = torch.randn([20000 if d == dim else s for d, s in enumerate(shape)], device=DEVICE)
    index = torch.randint(0, shape[dim], src.shape, device=DEVICE)
    out = torch.zeros(shape, device=DEVICE)
    in_threads(lambda: out.scatter_add(dim, index, src))
    in_threads(lambda: out.scatter(dim, index, src))
    in_threads(lambda: out.index_add(dim, index.select(1 - dim, 0) if len(shape) > 1 else index, src))


def test_accumulating_index_put_does_not_depend_on_threads() -> None:
    out, i = torch.zeros(50, 40, device=DEVICE), torch.randint(0, 50, (30000,), device=DEVICE)
    j, v = torch.randint(0, 40, (30000,), device=DEVICE), torch.randn(30000, device=DEVICE)
    in_threads(lambda: out.index_put((i, j), v, accumulate=True))
    in_threads(lambda: out.index_put((i, j), v))
    in_threads(lambda: out.index_put((i,), v[:40], accumulate=True))


def test_last_of_equal_indices_stays() -> None:
    x = torch.zeros(3, device=DEVICE)
    x[torch.tensor([1, 1, 1], device=DEVICE)] = torch.tensor([5.0, 6.0, 7.0], device=DEVICE)
    assert x.tolist() == [0, 7, 0]


# ---------------------------------------------------------------------------------------------------- index_put
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put_forms(dtype: torch.dtype, accumulate: bool) -> None:
    i, j = torch.tensor([[0, -1, 2]]), torch.tensor([[1], [3]])
    mask = torch.tensor([True, False, True, True])

    def put(shape: tuple[int, ...], indices: list[torch.Tensor | None], values: torch.Tensor) -> None:
        def run(device: str) -> torch.Tensor:
            on = [None if x is None else x.to(device) for x in indices]
            return torch.ops.aten.index_put(sample(dtype, *shape).to(device), on, values.to(device), accumulate)

        both(run)

    put((4, 5), [i.int()], sample(dtype, 1, 3, 5))
    put((4, 5), [i, j], sample(dtype, 2, 3) if not accumulate else sample(dtype, 1))
    put((4, 5, 3), [i, None, i], sample(dtype, 5))
    put((4, 5, 4), [None, j, mask[None, :].expand(2, 4).nonzero()[:3, 1]], sample(dtype, 2, 3))
    put((2, 4, 3), [None, mask], sample(dtype, 3, 3))
    put((4, 3), [mask], sample(dtype))
    put((2, 4), [torch.ones(2, 4, dtype=torch.bool)], sample(dtype, 8))
    put((4, 5), [torch.zeros(0, dtype=torch.long)], sample(dtype, 5))


def test_views_as_targets() -> None:
    def run(device: str) -> torch.Tensor:
        x = torch.arange(48.0).reshape(6, 8).to(device)
        x[::2][:, torch.tensor([True, False] * 4, device=device)] = -1.0
        x.t()[torch.tensor([1, 3], device=device)] += 100
        x[1::2][x[1::2] > 140] = torch.tensor(7.0, device=device)
        y = x[::2, ::3]
        y[y > 20] = torch.arange(float(int((y > 20).sum())), device=device)
        x[:, 4].masked_scatter_(x[:, 4] > 10, torch.arange(6.0, device=device))
        x.t().put_(torch.tensor([0, -1, 7], device=device), torch.tensor([1.5, 2.5, 3.5], device=device), True)
        return x

    both(run)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_reductions_are_rounded_once(dtype: torch.dtype) -> None:
    """The bits of the CPU's reductions of scatter, which are formed in float32."""
    start, src = torch.ones(3, 4, dtype=dtype), (torch.randn(50, 4) * 1.1).to(dtype)
    index = torch.randint(0, 3, (50, 4))

    def on(device: str) -> list[torch.Tensor]:
        x, i, s = start.to(device), index.to(device), src.to(device)
        return [
            x.scatter_add(0, i, s),
            x.scatter(0, i, s, reduce="add"),
            x.scatter(0, i, 1.01, reduce="multiply"),
            x.scatter_reduce(0, i, s, "prod"),
            x.scatter_reduce(0, i, s, "mean", include_self=False),
        ]

    for got, want in zip(on(DEVICE), on("cpu"), strict=True):
        assert torch.equal(got.cpu(), want)


def test_complex_products_have_the_bits_of_mul() -> None:
    """No product is fused into the sum of products."""
    for dtype in (torch.complex64, torch.complex128):
        x, s = (torch.randn(200, dtype=dtype).to(DEVICE) for _ in range(2))
        index = torch.randperm(200).to(DEVICE)
        assert torch.equal(x.scatter_reduce(0, index, s, "prod"), x * s[index.argsort()])


# ---------------------------------------------------------------------------------------------------- errors
def on(*values: int, dtype: torch.dtype = torch.long) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype, device=DEVICE)


def test_unfold_backward_broadcasts() -> None:
    gradient = torch.randn(1, 3, 4)
    for sizes, dim in (((2, 8), 1), ((1, 8), 1)):
        expected = torch.ops.aten.unfold_backward(gradient, sizes, dim, 4, 2)
        assert torch.equal(torch.ops.aten.unfold_backward(gradient.to("atalla"), sizes, dim, 4, 2).cpu(), expected)


def test_indices_out_of_range_fault_before_anything_is_written() -> None:
    x = torch.zeros(3, 4, device=DEVICE)
    ones = torch.ones(2, 4, device=DEVICE)
    for f in [
        lambda: x.index_put_((on(0, 3),), ones),
        lambda: x.index_put_((on(0, -4),), ones, accumulate=True),
        lambda: x.index_add_(0, on(0, -1), ones),
        lambda: x.index_copy_(0, on(0, 3), ones),
        lambda: x.index_fill_(0, on(0, 3), 1.0),
        lambda: x.scatter_(0, on(0, 3).unsqueeze(1), ones),
        lambda: x.put_(on(0, 12), ones[0, :2]),
        lambda: x.take(on(0, -13)),
    ]:
        with pytest.raises(IndexError):
            f()
            torch.accelerator.synchronize()
        assert not x.any()


def test_errors_are_upstreams() -> None:
    x = torch.zeros(3, 4)
    for f in [
        lambda x: x.__setitem__(torch.ones(2, dtype=torch.bool, device=x.device), 1.0),
        lambda x: x[torch.ones(3, 3, dtype=torch.bool, device=x.device)],
        lambda x: x.__setitem__(torch.tensor([0, 1], device=x.device), torch.ones(3, 4, device=x.device)),
        lambda x: x.index_put_((torch.tensor([0], device=x.device),), torch.ones(4, device=x.device).double()),
        lambda x: x.index_put_((torch.tensor([0.0], device=x.device),), torch.ones(4, device=x.device)),
        lambda x: x.scatter_(0, torch.zeros(1, 5, dtype=torch.long, device=x.device), 1.0),
        lambda x: x.scatter_add_(0, torch.zeros(1, 4, device=x.device), torch.ones(1, 4, device=x.device)),
        lambda x: x.index_add_(0, torch.tensor([0], device=x.device), torch.ones(2, 4, device=x.device)),
        lambda x: x.take(torch.tensor([0], device=x.device).int()),
        lambda x: x.masked_scatter_(x == 0, torch.ones(3, device=x.device).double()),
        lambda x: torch.bincount(torch.tensor([1, -1], device=x.device)),
    ]:
        with pytest.raises(Exception) as want:
            f(x)
        with pytest.raises(want.type) as got:
            f(x.to(DEVICE))
        assert str(got.value).split("\n")[0][:40] == str(want.value).split("\n")[0][:40]


def test_masked_scatter_wants_enough_elements() -> None:
    x = torch.zeros(4, device=DEVICE)
    with pytest.raises(RuntimeError, match="Number of elements of source < number of ones in mask"):
        x.masked_scatter_(on(1, 1, 0, 1).bool(), torch.ones(2, device=DEVICE))
        torch.accelerator.synchronize()
    assert not x.any()


# ---------------------------------------------------------------------------------------------------- selection
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (9,), (4, 5), (3, 70, 50), (10000,)])
def test_nonzero_has_upstreams_layout(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    both(lambda device: sample(dtype, *shape).to(device).nonzero())
    both(lambda device: torch.nonzero_static(sample(dtype, *shape).to(device), size=7, fill_value=-3))
    both(lambda device: sample(dtype, *shape).to(device).transpose(0, -1).nonzero() if shape else torch.zeros(()))


def test_masked_select_broadcasts() -> None:
    both(lambda device: torch.randn(3, 1, 50).to(device).masked_select((torch.randn(200, 1) > 0).to(device)))
    both(lambda device: torch.randn(40, 50).to(device).t()[(torch.randn(50, 40) > 0).to(device)])
    both(lambda device: torch.randn(40, 50).to(device)[:, (torch.randn(50) > 0).to(device)])


# ---------------------------------------------------------------------------------------------------- embedding_bag
@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("include_last_offset", [False, True])
@pytest.mark.parametrize("padding_idx", [-1, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_embedding_bag_gives_upstreams_four_results(
    mode: int, include_last_offset: bool, padding_idx: int, dtype: torch.dtype
) -> None:
    weight, indices = torch.randn(10, 3, dtype=dtype), torch.tensor([1, 2, 4, 5, 4, 3, 2, 9])
    offsets = torch.tensor([0, 4, 4, 8] if include_last_offset else [0, 4, 4])
    scale = torch.rand(8, dtype=dtype) if mode == 0 else None
    for op in (torch.ops.aten._embedding_bag, torch.ops.aten._embedding_bag_forward_only):
        rest = (include_last_offset, padding_idx)
        want = op(weight, indices, offsets, False, mode, False, scale, *rest)
        on_device = None if scale is None else scale.to(DEVICE)
        got = op(weight.to(DEVICE), indices.to(DEVICE), offsets.to(DEVICE), False, mode, False, on_device, *rest)
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(g.cpu(), w)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding_idx", [None, 2])
def test_gradients_of_embedding_bag(mode: str, padding_idx: int | None) -> None:
    def run(device: str) -> torch.Tensor:
        weight = torch.randn(10, 3).to(device).requires_grad_()
        scale = torch.rand(8).to(device).requires_grad_() if mode == "sum" else None
        indices, offsets = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 4, 4])
        out = F.embedding_bag(
            indices.to(device), weight, offsets.to(device), mode=mode, per_sample_weights=scale, padding_idx=padding_idx
        )
        out.square().sum().backward()
        grads = [weight.grad.flatten(), *([] if scale is None else [scale.grad])]
        return torch.cat(grads)

    both(run)


def test_renorm_scales_a_repeated_row_once() -> None:
    def run(device: str) -> torch.Tensor:
        weight = (torch.randn(5, 4) * 3).to(device)
        F.embedding(torch.tensor([1, 3, 1]).to(device), weight, max_norm=1.0)
        return weight

    both(run)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_sums_keep_small_terms(dtype: torch.dtype) -> None:
    """2,000 terms at one place, of which a narrow sum would lose most."""
    calls = {
        "index_add": lambda out, index, terms: out.index_add(0, index, terms),
        "index_put": lambda out, index, terms: out.index_put((index,), terms, accumulate=True),
        "put_": lambda out, index, terms: out.put_(index, terms, accumulate=True),
        "index_reduce": lambda out, index, terms: out.index_reduce(0, index, terms, "mean") * 2001,
        "scatter_add": lambda out, index, terms: out.scatter_add(0, index, terms),
    }
    places = torch.zeros(2000, dtype=torch.long, device=DEVICE)
    terms = torch.rand(2000, generator=torch.Generator().manual_seed(0)).to(dtype)
    for name, call in calls.items():
        out = call(torch.zeros(2, dtype=dtype, device=DEVICE), places, terms.to(DEVICE))
        close = 2 * torch.finfo(dtype).eps
        torch.testing.assert_close(out[0].double().cpu(), terms.double().sum(), rtol=close, atol=0, msg=name)
