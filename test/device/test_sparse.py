# SPDX-License-Identifier: BSD-3-Clause
"""Sparse tensors on the device against the CPU: construction, conversions, arithmetic and products."""

from __future__ import annotations

import copy
import functools
import io
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map

import torch_atalla

LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)
BLOCK_LAYOUTS = (torch.sparse_bsr, torch.sparse_bsc)


def to(device: str, value: Any) -> Any:
    return tree_map(lambda x: x.detach().to(device) if isinstance(x, torch.Tensor) else x, value)


@pytest.fixture(autouse=True)
def native():
    with torch_atalla.fallback.mode("error"):
        yield


def example(layout: torch.layout = torch.sparse_coo, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    x = torch.tensor([[0, 1.5, 0, 2], [0, 0, 0, 0], [3, 0, -4, 5]]).to(dtype)
    return x.to_sparse(layout=layout)


def uncoalesced(sizes: tuple[int, ...] = (4, 5), dense_sizes: tuple[int, ...] = (), nnz: int = 12) -> torch.Tensor:
    indices = torch.stack([torch.randint(0, n, (nnz,)) for n in sizes])
    return torch.sparse_coo_tensor(indices, torch.randn(nnz, *dense_sizes), (*sizes, *dense_sizes))


def same(mine: torch.Tensor, cpu: torch.Tensor, tolerance: float = 1e-5) -> None:
    assert mine.device.type == "atalla"
    assert (mine.layout, mine.dtype, mine.shape) == (cpu.layout, cpu.dtype, cpu.shape)
    if cpu.layout == torch.sparse_coo:
        assert mine._nnz() == cpu._nnz()
        if mine.is_coalesced() == cpu.is_coalesced():
            assert torch.equal(mine._indices().cpu(), cpu._indices())
        else:  # the CPU forgets that some results are
            assert mine.is_coalesced()
            mine, cpu = mine.coalesce(), cpu.coalesce()
        torch.testing.assert_close(mine._values().cpu(), cpu._values(), rtol=tolerance, atol=tolerance)
        return
    torch.testing.assert_close(mine.cpu(), cpu, rtol=tolerance, atol=tolerance)


def both(f: Callable[..., torch.Tensor], *arguments: Any) -> None:
    same(f(*to("atalla", arguments)), f(*arguments))


HYBRIDS = [((4, 5), ()), ((7,), (3,)), ((2, 3, 4), ()), ((3, 4), (2, 2)), ((), ())]


@pytest.mark.parametrize("sizes, dense_sizes", HYBRIDS[:-1])
def test_coalesce(sizes: tuple[int, ...], dense_sizes: tuple[int, ...]) -> None:
    x = uncoalesced(sizes, dense_sizes)
    both(lambda t: t, x)
    both(torch.Tensor.coalesce, x)
    both(torch.Tensor.to_dense, x)
    both(torch.clone, x)
    both(lambda t: t.coalesce().indices(), x)
    both(lambda t: t.coalesce().values(), x)
    both(lambda t: t.transpose(0, len(sizes) - 1), x)
    assert repr(x.to("atalla").coalesce()).count("atalla") >= 1


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.float16, torch.complex64], ids=str)
def test_coalesce_dtypes(dtype: torch.dtype) -> None:
    x = torch.sparse_coo_tensor([[0, 2, 0, 2]], torch.tensor([1, 0, 1, 1]).to(dtype), (3,))
    both(torch.Tensor.coalesce, x)


def test_construction() -> None:
    indices, values = torch.tensor([[0, 1, 1], [2, 0, 2]]), torch.tensor([3.0, 4, 5])
    on = indices.to("atalla"), values.to("atalla")
    same(torch.sparse_coo_tensor(*on, (2, 4)), torch.sparse_coo_tensor(indices, values, (2, 4)))
    same(torch.sparse_coo_tensor(*on), torch.sparse_coo_tensor(indices, values))
    same(torch.sparse_coo_tensor(indices, values, (2, 4), device="atalla"),
         torch.sparse_coo_tensor(indices, values, (2, 4)))  # fmt: skip
    same(torch.sparse_coo_tensor((2, 4), device="atalla"), torch.sparse_coo_tensor((2, 4)))
    same(torch.zeros(2, 4, layout=torch.sparse_coo, device="atalla"), torch.zeros(2, 4, layout=torch.sparse_coo))
    ends, columns = torch.tensor([0, 1, 3]), torch.tensor([2, 0, 2])
    mine = torch.sparse_csr_tensor(ends.to("atalla"), columns.to("atalla"), values.to("atalla"), (2, 4))
    same(mine, torch.sparse_csr_tensor(ends, columns, values, (2, 4)))
    assert torch.empty(2, 4, layout=torch.sparse_csr, device="atalla").crow_indices().device.type == "atalla"


@pytest.mark.parametrize("indices, sizes", [
    ([[0, 5]], (3,)), ([[0, -1]], (3,)), ([0, 1], (3,)), ([[0, 1], [0, 1]], (3,)), ([[0, 1, 2]], (3,)),
])  # fmt: skip
def test_construction_errors(indices: list, sizes: tuple[int, ...]) -> None:
    def make(device: str) -> str:
        with pytest.raises((RuntimeError, IndexError)) as error:
            torch.sparse_coo_tensor(torch.tensor(indices, device=device), torch.ones(2, device=device), sizes,
                                    check_invariants=True)  # fmt: skip
        return str(error.value).partition("\n")[0].replace("privateuseone", "cpu").replace("atalla:0", "cpu")

    assert make("atalla") == make("cpu")


CSR_ERRORS = [
    ([1, 2, 3], [0, 1, 0]), ([0, 2, 2], [0, 1, 0]), ([0, 4, 3], [0, 1, 0]), ([0, 2, 3], [0, 7, 0]),
    ([0, 2, 3], [1, 0, 0]), ([0, 2, 3], [1, 1, 0]), ([0, 2], [0, 1, 0]), ([0, 2, 3], [0, 1]),
]  # fmt: skip


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc], ids=str)
@pytest.mark.parametrize("ends, places", CSR_ERRORS)
def test_compressed_errors(ends: list[int], places: list[int], layout: torch.layout) -> None:
    sizes = (2, 3) if layout == torch.sparse_csr else (3, 2)

    def make(device: str) -> str:
        with pytest.raises(RuntimeError) as error:
            torch.sparse_compressed_tensor(torch.tensor(ends, device=device), torch.tensor(places, device=device),
                                           torch.ones(3, device=device), sizes, layout=layout,
                                           check_invariants=True)  # fmt: skip
        return str(error.value).partition("\n")[0]

    assert make("atalla") == make("cpu")


@pytest.mark.parametrize("source", LAYOUTS, ids=str)
@pytest.mark.parametrize("target", [*LAYOUTS, torch.strided], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex64, torch.bool], ids=str)
def test_conversions(source: torch.layout, target: torch.layout, dtype: torch.dtype) -> None:
    x = example(source, dtype)
    both(lambda t: t.to_dense() if target == torch.strided else t.to_sparse(layout=target), x)
    both(lambda t: t.to_dense().to_sparse(layout=source), x)
    assert torch.equal(x.to("atalla").cpu().to_dense(), x.to_dense())
    assert x.to("atalla")._nnz() == x._nnz()


def test_batches() -> None:
    x = torch.randn(2, 3, 4)
    x[:, :, 1] = 0
    both(lambda t: t.to_sparse_csr(), x)
    both(lambda t: t.to_sparse_csr().to_dense(), x)
    both(lambda t: t.to_sparse_csr().to_sparse(), x)


def test_to_sparse_dims() -> None:
    x = torch.randn(3, 4, 2)
    x[1] = 0
    for dims in (1, 2, 3):
        both(lambda t, dims=dims: t.to_sparse(dims), x)


def test_copies_and_sizes() -> None:
    x = uncoalesced().coalesce()
    for source, target in itertools.product(("cpu", "atalla"), repeat=2):
        out = torch.zeros(4, 5, layout=torch.sparse_coo, device=target)
        out.copy_(x.to(source))
        assert torch.equal(out.cpu().to_dense(), x.to_dense())
    both(lambda t: t.clone().zero_(), x)
    both(lambda t: t.clone().sparse_resize_and_clear_((7, 3), 2, 0), x)
    both(lambda t: t.clone().sparse_resize_((9, 9), 2, 0), x)
    both(torch.zeros_like, x)
    both(lambda t: t.clone().resize_as_sparse_(uncoalesced((6, 6)).to(t.device)), torch.zeros_like(x))
    csr = x.to_sparse_csr()
    both(lambda t: t.clone().zero_(), csr)
    both(torch.clone, csr)
    both(lambda t: t.transpose(0, 1), csr)
    both(lambda t: t[1], csr)


def test_arithmetic() -> None:
    x, y = uncoalesced((4, 8)), uncoalesced((4, 8))
    a, b, d = x.coalesce(), y.coalesce(), torch.randn(4, 8)
    for f in (torch.add, torch.sub, lambda p, q: torch.add(p, q, alpha=3)):
        both(lambda p, q, f=f: f(p, q).coalesce(), x, y)
        both(f, a, b)
        both(f, d, a)
        both(f, d.t().contiguous().t(), x)
    both(torch.mul, a, b)
    both(torch.mul, a, d)
    both(torch.mul, d, a)
    both(torch.mul, x, d)
    both(torch.mul, a, torch.randn(8))
    both(lambda p: p * 2.5, x)
    both(lambda p: p / 2, a)
    both(lambda p: p.clone().mul_(3), a)
    both(lambda p: p.clone().div_(3), a)
    both(lambda p, q: p.clone().add_(q), a, b)
    both(lambda p, q: p.clone().sub_(q), a, b)
    both(lambda p, q: p.clone().add_(q, alpha=2), d, x)
    both(lambda p: -p, a)
    both(lambda p: p.pow(2), a)
    both(lambda p, q: torch.cat([p, q]), x, y)
    both(lambda p, q: torch.cat([p, q], 1), x, y)
    both(lambda p: p.abs().sqrt(), a)
    both(lambda p: p.norm(), a)
    both(lambda p: p.to(torch.float64), x)
    both(lambda p: p.unsqueeze(0), x)
    both(lambda p: p.permute(1, 0), x)
    both(lambda p: p.narrow_copy(1, 1, 3), x)


def test_arithmetic_of_dtypes() -> None:
    i = torch.tensor([[0, 2, 0], [1, 0, 3]]).to_sparse()
    both(torch.add, i, i.to(torch.float64))
    both(torch.add, i.to_dense().to(torch.float32), i)
    both(torch.mul, i, i.to(torch.float32))
    both(torch.add, i, i)
    both(torch.mul, i, i)
    both(lambda p: p * 2, i)
    several = torch.sparse_coo_tensor(torch.zeros(0, 3, dtype=torch.long), torch.tensor([1, 2, 3]), ())
    for scalar in (torch.tensor(2).to_sparse(), torch.tensor(2.0).to_sparse(), several * 2, i):
        both(torch.mul, several, scalar)
        both(torch.mul, scalar, several)
    for x, y in ((i.to_dense(), i.float()), (i, i.to_dense().float()), (i, i.float())):
        with pytest.raises(RuntimeError, match=r"result type Float .*to (the desired )?output"):
            x.to("atalla").mul_(y.to("atalla"))


def test_narrow_sums_are_rounded_once() -> None:
    values = torch.randn(300).bfloat16()
    ones = torch.sparse_coo_tensor(torch.zeros(1, 300, dtype=torch.int64), values, (2,)).to("atalla").coalesce()
    assert ones.values().item() == values.float().sum().bfloat16().item()


@pytest.mark.parametrize("sizes, dense_sizes", [((4, 5), ()), ((3, 4), (2,))])
def test_sums(sizes: tuple[int, ...], dense_sizes: tuple[int, ...]) -> None:
    x = uncoalesced(sizes, dense_sizes)
    both(torch.sum, x)
    both(torch.sparse.sum, x)
    for dim in (0, 1, (0, 1), -1):
        both(lambda t, dim=dim: torch.sparse.sum(t, dim).to_dense(), x)
        for given in (x, x.coalesce()):  # a place that has several values has the gradient once
            gradients = []
            for device in ("cpu", "atalla"):
                leaf = given.to(device).detach().requires_grad_()
                out = torch.sparse.sum(leaf, dim)
                (out.to_dense() ** 2).sum().backward()
                gradients.append(leaf.grad.cpu().to_dense())
            torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_products(layout: torch.layout, dtype: torch.dtype) -> None:
    a, b, c = example(layout, dtype), torch.randn(4, 5, dtype=dtype), torch.randn(3, 5, dtype=dtype)
    v = torch.randn(4, dtype=dtype)
    both(torch.sparse.mm, a, b)
    both(torch.matmul, a, b)
    both(torch.mv, a, v)
    both(torch.addmm, c, a, b)
    both(lambda p, q, r: torch.addmm(p, q, r, beta=0.5, alpha=2), c, a, b)
    if layout != torch.sparse_coo:
        both(torch.matmul, b.t(), a.to_dense().t().to_sparse(layout=layout))
        both(torch.addmv, c[:, 0].contiguous(), a, v)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr], ids=str)
def test_sparse_products(layout: torch.layout) -> None:
    a, b = example(layout), (torch.randn(4, 6) * (torch.rand(4, 6) < 0.4)).to_sparse(layout=layout)
    for factor in (b, torch.zeros(4, 6).to_sparse(layout=layout)):
        found, expected = torch.sparse.mm(a.to("atalla"), factor.to("atalla")), torch.sparse.mm(a, factor)
        assert found.layout == expected.layout
        torch.testing.assert_close(found.cpu().to_dense(), expected.to_dense())  # the CPU leaves columns unsorted


def test_integer_and_empty_products() -> None:
    a = uncoalesced()
    both(torch.sparse.mm, torch.zeros(3, 4).to_sparse(), torch.randn(4, 2))
    both(torch.sparse.mm, a, torch.randn(5, 0))
    both(torch.hspmm, a, torch.randn(5, 2))
    both(torch.bmm, uncoalesced((3, 4, 5), nnz=20), torch.randn(3, 5, 2))


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr], ids=str)
def test_product_gradients(layout: torch.layout) -> None:
    found = []
    b, weight = torch.randn(4, 5), torch.randn(3, 5)
    for device in ("cpu", "atalla"):
        a, d = example(layout).to(device).requires_grad_(), b.detach().to(device).requires_grad_()
        (torch.sparse.mm(a, d) * weight.to(device)).sum().backward()
        found.append((a.grad.cpu().to_dense(), d.grad.cpu()))
        assert a.grad.layout == layout
    torch.testing.assert_close(found[1], found[0])


def test_csr_arithmetic() -> None:
    a, b, d = (
        example(torch.sparse_csr),
        (torch.randn(3, 4) * (torch.rand(3, 4) < 0.5)).to_sparse_csr(),
        torch.randn(3, 4),
    )
    both(torch.add, a, b)
    both(torch.add, d, a)
    both(torch.add, a, d)
    both(lambda p, q: torch.add(p, q, alpha=-2), a, b)
    both(lambda p: p * 3, a)
    both(torch.mul, a, d)
    both(torch.mul, a, b)
    both(torch.sin, a)
    both(torch.sum, a)
    both(lambda p: p.sum(0, keepdim=True), a)
    both(lambda p: p.sum(1, keepdim=True), a)
    both(lambda p: torch._sparse_csr_prod(p, 1, keepdim=True), a)
    both(
        lambda p, m, n: torch.sparse.sampled_addmm(p, m, n, beta=0.5, alpha=2), a, torch.randn(3, 6), torch.randn(6, 4)
    )


@pytest.mark.parametrize("target", BLOCK_LAYOUTS, ids=str)
@pytest.mark.parametrize("source", [torch.strided, *LAYOUTS, *BLOCK_LAYOUTS], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64], ids=str)
def test_blocks(source: torch.layout, target: torch.layout, dtype: torch.dtype) -> None:
    dense = (torch.randn(4, 6) * (torch.rand(4, 6) < 0.3)).to(dtype)
    for size in ((2, 3), (1, 6), (4, 1), (2, 2)):
        blocks = size if source in BLOCK_LAYOUTS else None
        x = dense if source == torch.strided else dense.to_sparse(layout=source, blocksize=blocks)
        both(lambda t, size=size: t.to_sparse(layout=target, blocksize=size), x)
        both(lambda t, size=size: t.to_sparse(layout=target, blocksize=size).to_dense(), x)
        both(lambda t, size=size: t.to_sparse(layout=target, blocksize=size).to_sparse(), x)
    empty = torch.zeros(4, 6, dtype=dtype).to_sparse(layout=source, blocksize=blocks) if blocks is None else x
    both(lambda t: t.to_sparse(layout=target, blocksize=(2, 2)), empty)


@pytest.mark.parametrize("target", BLOCK_LAYOUTS, ids=str)
@pytest.mark.parametrize("size", [(3, 3), (0, 2), (2,), (2, 2, 2)])
def test_block_errors(target: torch.layout, size: tuple[int, ...]) -> None:
    def convert(device: str, x: torch.Tensor) -> str:
        with pytest.raises(RuntimeError) as error:
            x.to(device).to_sparse(layout=target, blocksize=size)
        return str(error.value).partition("\n")[0]

    x = torch.eye(4)
    assert convert("atalla", x) == convert("cpu", x)
    if len(size) == 2 and size[0]:  # the CPU divides by other sizes
        assert convert("atalla", x.to_sparse_csr()) == convert("cpu", x.to_sparse_csr())
    for batch in (torch.stack([x, x]).to_sparse_csr(), torch.stack([x, x]).to_sparse_csc()):
        for method in ("to_sparse_bsr", "to_sparse_bsc"):
            with pytest.raises(RuntimeError, match="for batched inputs is not supported"):
                getattr(batch.to("atalla"), method)((2, 2))


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc, *BLOCK_LAYOUTS], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
def test_products_of_layouts(layout: torch.layout, dtype: torch.dtype) -> None:
    """Against dense matrices, because the CPU lacks some of them."""
    blocks = (2, 3) if layout in BLOCK_LAYOUTS else None
    a = torch.randn(4, 6, dtype=dtype) * (torch.rand(4, 6) < 0.4)
    b, c, v = torch.randn(6, 5, dtype=dtype), torch.randn(4, 5, dtype=dtype), torch.randn(6, dtype=dtype)
    sparse = a.to("atalla").to_sparse(layout=layout, blocksize=blocks)
    mine = [t.to("atalla") for t in (b, c, v)]
    close = functools.partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)
    close((sparse @ mine[0]).cpu(), a @ b)
    close(torch.addmm(mine[1], sparse, mine[0], beta=0.5, alpha=2).cpu(), torch.addmm(c, a, b, beta=0.5, alpha=2))
    close(torch.addmv(mine[1][:, 0], sparse, mine[2]).cpu(), torch.addmv(c[:, 0], a, v))
    close((mine[1].t() @ sparse).cpu(), c.t() @ a)
    close((sparse @ mine[0][:, :0]).cpu(), a @ b[:, :0])
    if layout in (torch.sparse_csc, torch.sparse_bsc):
        return  # PyTorch's triangular_solve refuses them on each device
    square = torch.randn(6, 6, dtype=dtype) + 6 * torch.eye(6, dtype=dtype)
    triangle = square.to("atalla").to_sparse(layout=layout, blocksize=blocks)
    for upper, transpose, unit in itertools.product((True, False), repeat=3):
        expected = torch.triangular_solve(b, square, upper, transpose, unit).solution
        close(torch.triangular_solve(mine[0], triangle, upper, transpose, unit).solution.cpu(), expected)


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc, *BLOCK_LAYOUTS], ids=str)
def test_empty_has_valid_indices(layout: torch.layout) -> None:
    """Of memory that held other values before."""
    if layout in BLOCK_LAYOUTS:
        with pytest.raises(RuntimeError, match=r"expected sparse compressed \(non-block\) tensor layout"):
            torch.empty(2, 3, layout=layout, device="atalla")
        return
    for sizes in ((0, 0), (2, 3), (4, 2, 3)):
        used = [torch.full((n,), 7, device="atalla") for n in range(1, 9)]
        del used
        x = torch.empty(sizes, layout=layout, device="atalla")
        assert torch.equal(x.to_dense().cpu(), torch.zeros(sizes))


def test_masks() -> None:
    x, mask = uncoalesced(), uncoalesced()
    d = torch.randn(4, 5)
    both(lambda t, m: t.sparse_mask(m), d, mask.coalesce())
    both(lambda t, m: t.sparse_mask(m), d, mask)
    both(lambda t, m: t.sparse_mask(m), x, mask.coalesce())
    both(lambda t, m: t.sparse_mask(m), x.coalesce(), mask.coalesce())
    hybrid = uncoalesced((4,), (3,)), uncoalesced((4,), (3,), nnz=2).coalesce()
    both(lambda t, m: t.sparse_mask(m), *hybrid)
    both(lambda t, m: t.sparse_mask(m), d[:3, :4], example(torch.sparse_csr))


@pytest.mark.parametrize("logarithm", [False, True])
@pytest.mark.parametrize(
    "sizes, dense_sizes, dim", [((4, 5), (), 0), ((4, 5), (), 1), ((5,), (), 0), ((4, 3), (3,), 2)]
)
def test_softmax(sizes: tuple[int, ...], dense_sizes: tuple[int, ...], dim: int, logarithm: bool) -> None:
    f = torch.sparse.log_softmax if logarithm else torch.sparse.softmax
    x = uncoalesced(sizes, dense_sizes)
    found = []
    for device in ("cpu", "atalla"):
        leaf = x.to(device).coalesce().requires_grad_()
        out = f(leaf, dim)
        (out.to_dense() ** 3).sum().backward()
        found.append((out.detach().cpu().to_dense(), leaf.grad.cpu().to_dense()))
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


def test_selection() -> None:
    x = uncoalesced((4, 5), (2,)).coalesce()
    index = torch.tensor([2, 0, 2])
    for dim in (0, 1):
        both(lambda t, i, dim=dim: t.index_select(dim, i).to_dense(), x, index)
    both(lambda t, i: t.index_select(2, i), x, torch.tensor([1, 1, 0]))
    both(lambda t: t[1].to_dense(), x)
    with pytest.raises(IndexError, match="out of range"):
        x.to("atalla").index_select(0, torch.tensor([4], device="atalla"))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_saving(layout: torch.layout) -> None:
    file = io.BytesIO()
    x = example(layout)
    torch.save(x.to("atalla"), file)
    file.seek(0)
    loaded = torch.load(file)
    same(loaded, x)
    same(copy.deepcopy(x.to("atalla")), x)


def test_product_traffic() -> None:
    """A product of a sparse matrix reads one row of the table per element, and the elements."""
    table, a = torch.randn(4000, 64).to("atalla"), torch.eye(10, 4000).to_sparse_csr().to("atalla")
    with torch_atalla.chip.clock("code"):
        torch_atalla.telemetry.reset()
        torch.sparse.mm(a, table)
        torch.atalla.synchronize()
        assert 10 * 64 * 4 <= torch_atalla.telemetry.counters().dram_bytes_read < table.nbytes // 10


@pytest.mark.parametrize("layout", LAYOUTS[1:])
def test_empty_compressed_tensors_are_valid(layout: torch.layout) -> None:
    """Also in memory that other tensors left full of numbers."""
    for size in ((0, 0), (3, 2), (2, 3, 4)):
        used = [torch.full((n,), 77, device="atalla") for n in range(1, 9)]
        del used
        x = torch.empty(size, layout=layout, device="atalla")
        assert x._nnz() == 0 and not x.to_dense().any()
        with torch.sparse.check_sparse_tensor_invariants():
            torch.empty(size, layout=layout, device="atalla")
    with torch.sparse.check_sparse_tensor_invariants():
        for dtype in (torch.bool, torch.int8, torch.float32, torch.complex64):
            x = example(layout, dtype).to("atalla")
            if layout == torch.sparse_csr:  # PyTorch multiplies no others
                assert torch.equal((x * x).to_dense().cpu(), x.cpu().to_dense() * x.cpu().to_dense())
    for device in ("cpu", "atalla"):
        with pytest.raises(RuntimeError, match="Only batched sparse compressed"):
            torch.empty(3, layout=layout, device=device)
        with pytest.raises(RuntimeError, match="negative dimension -1"):
            torch.empty((3, -1), layout=layout, device=device)


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_reduced_product(reduce: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(6, 5) * (torch.rand(6, 5) < 0.5)
    x[2], x[3, :2] = 0, 1.5
    tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-5

    def run(device: str, sparse: torch.Tensor, dense: torch.Tensor) -> list[torch.Tensor]:
        a, b = sparse.to(dtype).to_sparse_csr().to(device).requires_grad_(), dense.to(dtype).to(device).requires_grad_()
        out = torch.sparse.mm(a, b, reduce)
        out.backward(torch.linspace(-1, 2, out.numel()).view_as(out).to(dtype).to(device))
        return [out.detach(), a.grad, b.grad]

    for sparse, dense in ((x, torch.randn(5, 7)), (x, torch.ones(5, 3)), (torch.zeros(4, 5), torch.randn(5, 2))):
        for mine, cpu in zip(run("atalla", sparse, dense), run("cpu", sparse, dense), strict=True):
            assert (mine.layout, mine.dtype) == (cpu.layout, cpu.dtype)
            torch.testing.assert_close(mine.cpu(), cpu, rtol=tolerance, atol=tolerance)
    a, b = x.to_sparse_csr(), torch.randn(5, 2)
    for device in ("cpu", "atalla"):
        for wrong in ((b[:3], "sum"), (b.double(), "sum"), (b, "median")):
            with pytest.raises(RuntimeError):
                torch.sparse.mm(a.to(device), wrong[0].to(device), wrong[1])


@pytest.mark.parametrize("options", [{}, {"upper": False}, {"transpose": True}, {"unitriangular": True}], ids=str)
@pytest.mark.filterwarnings("ignore:torch.triangular_solve is deprecated")
def test_triangular_solve(options: dict[str, bool]) -> None:
    torch.manual_seed(0)
    matrix = (torch.randn(4, 4) * (torch.rand(4, 4) < 0.6) + 3 * torch.eye(4)).to_sparse_csr()
    right = torch.randn(4, 2)
    found = torch.triangular_solve(right.to("atalla"), matrix.to("atalla"), **options)[0]
    expected = torch.triangular_solve(right, matrix.to_dense(), **options)[0]
    torch.testing.assert_close(found.cpu(), expected)
    without_elements = torch.zeros(4, 4).to_sparse_csr().to("atalla")
    assert torch.triangular_solve(right.to("atalla"), without_elements, **options)[0].isnan().all()


def test_sampled_batches() -> None:
    """One pattern or a batch of patterns for a batch of factors; batches of other sizes are refused."""
    pattern, a, b = torch.tensor([[1.0, 0, 2], [0, 3, 0]]), torch.randn(2, 2, 4), torch.randn(2, 4, 3)

    def sample(device: str, *operands: torch.Tensor) -> torch.Tensor | str:
        c, m, n = (operand.to(device) for operand in operands)
        try:
            return torch.sparse.sampled_addmm(c.to_sparse_csr(), m, n, alpha=0.5, beta=0.25).to_dense().cpu()
        except RuntimeError as error:
            return str(error).partition("\n")[0]

    for c in (pattern, pattern.expand(1, 2, 3), pattern.expand(2, 2, 3)):
        for m, n in ((a, b), (a[0], b[0]), (a[:1], b), (a[0], b)):
            mine, cpu = sample("atalla", c, m, n), sample("cpu", c, m, n)
            if isinstance(mine, torch.Tensor) and isinstance(cpu, torch.Tensor):
                torch.testing.assert_close(mine, cpu)
            else:
                assert mine == cpu


def test_diagonals() -> None:
    values, offsets = torch.arange(1.0, 10).view(3, 3), torch.tensor([0, -1, 2])
    for shape in ((3, 4), (4, 3), (2, 3), (5, 3)):
        both(lambda v, o, s=shape: torch.sparse.spdiags(v, o, s), values, offsets)
        for layout in LAYOUTS[1:]:
            both(lambda v, o, s=shape, k=layout: torch.sparse.spdiags(v, o, s, k), values, offsets)
    both(lambda v, o: torch.sparse.spdiags(v, o, (3, 3)), values[0], offsets[1])
    for device in ("cpu", "atalla"):
        for wrong, match in (((offsets[:2], (3, 4)), "number of offsets"), ((offsets * 0, (3, 4)), "duplicate"),
                             ((offsets, (3,)), "2d"), ((offsets.int(), (3, 4)), "Long")):  # fmt: skip
            with pytest.raises(RuntimeError, match=match):
                torch.sparse.spdiags(values.detach().to(device), wrong[0].to(device), wrong[1])


def test_sspaddmm() -> None:
    torch.manual_seed(0)
    m = (torch.randn(3, 4) * (torch.rand(3, 4) < 0.5)).to_sparse()
    s, d = (torch.randn(3, 2) * (torch.rand(3, 2) < 0.5)).to_sparse(), torch.randn(4, 2)
    both(lambda s, m, d: torch.sspaddmm(s, m, d, beta=2, alpha=3).to_dense(), s, m, d)
    for device in ("cpu", "atalla"):
        for wrong in ((s, m.to_dense(), d), (s, m, d[:2]), (s, m, d.to_sparse()), (s.to_dense(), m.to_dense(), d)):
            with pytest.raises(RuntimeError):
                torch.sspaddmm(*to(device, wrong))
