# SPDX-License-Identifier: BSD-3-Clause
"""Every view op of native_functions.yaml aliases on the device: what is written through the view is seen in the base,
and the reverse. The list of ops is read from the schemas' alias annotations: a new one without a case fails."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.autograd.forward_ad as forward_ad

import torch_atalla
from tools.codegen.model import upstream

DEVICE = "atalla"
Tensor = torch.Tensor


@dataclass(frozen=True)
class View:
    make: Callable[[Tensor], Any]  # of a base: a view, or several
    shape: tuple[int, ...] = (4, 6)
    dtype: torch.dtype = torch.float32

    def base(self) -> Tensor:
        numbers = torch.arange(1, 1 + torch.Size(self.shape).numel()).reshape(self.shape)
        return (numbers * (1 + 2j) if self.dtype.is_complex else numbers).to(self.dtype)


COMPLEX = {"dtype": torch.complex64}
aten = torch.ops.aten

VIEWS: dict[str, View] = {
    "_autocast_to_full_precision": View(lambda x: aten._autocast_to_full_precision(x, True, True)),
    "_autocast_to_reduced_precision": View(
        lambda x: aten._autocast_to_reduced_precision(x, True, True, torch.float16, torch.bfloat16), dtype=torch.float16
    ),
    "_conj": View(lambda x: torch._conj(x), **COMPLEX),
    "_neg_view": View(lambda x: torch._neg_view(x)),
    "_reshape_alias": View(lambda x: aten._reshape_alias(x, (6, 4), (4, 1))),
    "_test_autograd_multiple_dispatch_view": View(lambda x: torch._test_autograd_multiple_dispatch_view(x)),
    "adjoint": View(lambda x: x.adjoint(), **COMPLEX),
    "alias": View(lambda x: aten.alias(x)),
    "as_strided": View(lambda x: x.as_strided((3, 2), (6, 2), 1)),
    "broadcast_to": View(lambda x: x.broadcast_to(4, 6)),
    "chunk": View(lambda x: x.chunk(3, 1)),
    "conj": View(lambda x: x.conj(), **COMPLEX),
    "contiguous": View(lambda x: x.contiguous()),
    "detach": View(lambda x: x.detach()),
    "diagonal": View(lambda x: x.diagonal(1)),
    "dsplit.array": View(lambda x: torch.dsplit(x, (1, 3)), (2, 3, 4)),
    "dsplit.int": View(lambda x: torch.dsplit(x, 2), (2, 3, 4)),
    "expand": View(lambda x: x.expand(4, 6)),
    "expand_as": View(lambda x: x.expand_as(torch.empty(4, 6, device=x.device))),
    "flatten.using_ints": View(lambda x: x.flatten(0, 1), (2, 3, 4)),
    "hsplit.array": View(lambda x: torch.hsplit(x, (1, 4))),
    "hsplit.int": View(lambda x: torch.hsplit(x, 3)),
    "imag": View(lambda x: x.imag, **COMPLEX),
    "lift_fresh": View(lambda x: aten.lift_fresh(x)),
    "linalg_diagonal": View(lambda x: torch.linalg.diagonal(x, offset=-1)),
    "mH": View(lambda x: x.mH, **COMPLEX),
    "mT": View(lambda x: x.mT, (2, 3, 4)),
    "matrix_H": View(lambda x: x.H, **COMPLEX),
    "moveaxis.int": View(lambda x: x.moveaxis(0, 2), (2, 3, 4)),
    "moveaxis.intlist": View(lambda x: x.moveaxis((0, 1), (2, 0)), (2, 3, 4)),
    "movedim.int": View(lambda x: x.movedim(2, 0), (2, 3, 4)),
    "movedim.intlist": View(lambda x: x.movedim((0, 2), (1, 0)), (2, 3, 4)),
    "narrow": View(lambda x: x.narrow(1, 2, 3)),
    "narrow.Tensor": View(lambda x: x.narrow(0, torch.tensor(1, device=x.device), 2)),
    "numpy_T": View(lambda x: x.T),
    "permute": View(lambda x: x.permute(2, 0, 1), (2, 3, 4)),
    "positive": View(lambda x: torch.positive(x)),
    "ravel": View(lambda x: x.ravel()),
    "real": View(lambda x: x.real, **COMPLEX),
    "reshape": View(lambda x: x.reshape(3, 8)),
    "reshape_as": View(lambda x: x.reshape_as(torch.empty(3, 8, device=x.device))),
    "resolve_conj": View(lambda x: x.resolve_conj(), **COMPLEX),
    "resolve_neg": View(lambda x: x.resolve_neg()),
    "select.int": View(lambda x: x.select(1, -2)),
    "slice.Tensor": View(lambda x: x[1:4:2, ::3]),
    "slice_inverse": View(lambda x: aten.slice_inverse(x[:, 1:3], x, 1, 1, 3, 1)),
    "split.Tensor": View(lambda x: x.split(4, 1)),
    "split.sizes": View(lambda x: aten.split(x, [2, 4], 1)),
    "split_with_sizes": View(lambda x: x.split_with_sizes((1, 5), 1)),
    "squeeze": View(lambda x: x.squeeze(), (1, 4, 1, 3)),
    "squeeze.dim": View(lambda x: x.squeeze(2), (1, 4, 1, 3)),
    "squeeze.dims": View(lambda x: x.squeeze((0, 2)), (1, 4, 1, 3)),
    "swapaxes": View(lambda x: x.swapaxes(0, 2), (2, 3, 4)),
    "swapdims": View(lambda x: x.swapdims(1, 2), (2, 3, 4)),
    "t": View(lambda x: x.t()),
    "tensor_split.indices": View(lambda x: x.tensor_split((1, 4), 1)),
    "tensor_split.sections": View(lambda x: x.tensor_split(4, 1)),
    "tensor_split.tensor_indices_or_sections": View(lambda x: x.tensor_split(torch.tensor([2, 3]), 1)),
    "to.device": View(lambda x: x.to(x.device, torch.float32)),
    "to.dtype": View(lambda x: x.to(torch.float32)),
    "to.dtype_layout": View(lambda x: aten.to.dtype_layout(x, dtype=torch.float32, layout=torch.strided)),
    "to.other": View(lambda x: x.to(torch.empty(1, device=x.device))),
    "transpose.int": View(lambda x: x.transpose(0, 2), (2, 3, 4)),
    "unbind.int": View(lambda x: x.unbind(1)),
    "unflatten.int": View(lambda x: x.unflatten(1, (2, 3))),
    "unfold": View(lambda x: x.unfold(1, 3, 3)),
    "unsqueeze": View(lambda x: x.unsqueeze(1)),
    "view": View(lambda x: x.view(2, 12)),
    "view.dtype": View(lambda x: x.view(torch.int32)),
    "view_as": View(lambda x: x.view_as(torch.empty(24, device=x.device))),
    "view_as_complex": View(lambda x: torch.view_as_complex(x), (4, 3, 2)),
    "view_as_real": View(lambda x: torch.view_as_real(x), **COMPLEX),
    "vsplit.array": View(lambda x: torch.vsplit(x, (1, 3))),
    "vsplit.int": View(lambda x: torch.vsplit(x, 2)),
}

_SPARSE = "about sparse layouts, which the device has not"
_NESTED = "about nested tensors: test_nested_tensors.py"
WITHOUT_CASE = {
    "_fw_primal": "forward-mode differentiation: test_dual_numbers",
    "_indices": _SPARSE,
    "_make_dual": "forward-mode differentiation: test_dual_numbers",
    "_nested_get_values": _NESTED,
    "_nested_view_from_buffer": _NESTED,
    "_nested_view_from_jagged": _NESTED,
    "_sparse_broadcast_to": _SPARSE,
    "_unpack_dual": "forward-mode differentiation: test_dual_numbers",
    "_values": _SPARSE,
    "ccol_indices": _SPARSE,
    "coalesce": _SPARSE,
    "col_indices": _SPARSE,
    "crow_indices": _SPARSE,
    "indices": _SPARSE,
    "pin_memory": "moves host tensors",
    "row_indices": _SPARSE,
    "values": _SPARSE,
}

# What changes a tensor's own sizes or strides, and leaves its memory where it is.
INPLACE_VIEWS: dict[str, Callable[[Tensor], Any]] = {
    "as_strided_": lambda x: x.as_strided_((2, 3), (1, 4), 1),
    "detach_": lambda x: x.detach_(),
    "resize_": lambda x: x.resize_(3, 4),
    "resize_as_": lambda x: x.resize_as_(torch.empty(2, 2, device=x.device)),
    "set_.source_Storage_storage_offset": lambda x: x.set_(x.untyped_storage(), 2, (2, 3), (5, 1)),
    "set_.source_Tensor": lambda x: x.set_(x[1:, 2:]),
    "set_.source_Tensor_storage_offset": lambda x: aten.set_.source_Tensor_storage_offset(x, x, 3, [2, 2], [4, 2]),
    "squeeze_": lambda x: x.unsqueeze_(0).squeeze_(),
    "squeeze_.dim": lambda x: x.unsqueeze_(1).squeeze_(1),
    "squeeze_.dims": lambda x: x.unsqueeze_(1).squeeze_((1, 2)),
    "swapaxes_": lambda x: x.swapaxes_(0, 1),
    "swapdims_": lambda x: x.swapdims_(0, 1),
    "t_": lambda x: x.t_(),
    "transpose_": lambda x: x.transpose_(0, 1),
    "unsqueeze_": lambda x: x.unsqueeze_(1),
}
WITHOUT_INPLACE_CASE = {
    "set_": "leaves no memory: test_emptied",
    "set_.source_Storage": "takes the whole memory as one dimension: test_set_storage",
}


def annotated() -> set[str]:
    """Overloads that may return an alias of an argument they do not write to."""
    functions, _ = upstream()
    return {
        name
        for name, f in functions.items()
        if any(r.annotation is not None and not r.annotation.is_write for r in f.func.returns)
    }


def tensors(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else list(value)


def write(x: Tensor, start: int) -> None:
    """Other numbers into every element, by a copy from the CPU."""
    numbers = torch.arange(start, start + x.numel()).reshape(x.shape)
    x.copy_((numbers * (2 - 1j) if x.is_complex() else numbers).to(x.dtype))


def pair(view: View) -> tuple[Tensor, Tensor]:
    x = view.base()
    return x, x.to(DEVICE)


def same(device: Tensor, host: Tensor) -> None:
    assert device.device.type == DEVICE
    torch.testing.assert_close(device.cpu(), host, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", VIEWS)
def test_layout(name: str) -> None:
    """Sizes, strides, offset and bits of conjugation as on the CPU, over the memory of the base."""
    x, d = pair(VIEWS[name])
    mine, theirs = tensors(VIEWS[name].make(d)), tensors(VIEWS[name].make(x))
    assert len(mine) == len(theirs) > 0
    for v, w in zip(mine, theirs):
        assert (v.shape, v.stride(), v.storage_offset(), v.dtype) == (w.shape, w.stride(), w.storage_offset(), w.dtype)
        assert (v.is_conj(), v.is_neg()) == (w.is_conj(), w.is_neg())
        assert v.untyped_storage().data_ptr() == d.untyped_storage().data_ptr()
        same(v, w)


@pytest.mark.parametrize("name", VIEWS)
def test_writing_through_the_view(name: str) -> None:
    x, d = pair(VIEWS[name])
    for k, (v, w) in enumerate(zip(tensors(VIEWS[name].make(d)), tensors(VIEWS[name].make(x)))):
        write(v, 100 * (k + 1))
        write(w, 100 * (k + 1))
        same(v, w)
    same(d, x)
    assert not torch.equal(d.cpu(), VIEWS[name].base())


@pytest.mark.parametrize("name", VIEWS)
def test_writing_to_the_base(name: str) -> None:
    x, d = pair(VIEWS[name])
    views, expected = tensors(VIEWS[name].make(d)), tensors(VIEWS[name].make(x))
    write(d, 1000)
    write(x, 1000)
    for v, w in zip(views, expected):
        same(v, w)


@pytest.mark.parametrize("name", VIEWS)
def test_in_place_op_on_the_view(name: str) -> None:
    x, d = pair(VIEWS[name])
    for v, w in zip(tensors(VIEWS[name].make(d)), tensors(VIEWS[name].make(x))):
        for t in (v, w):
            t.zero_()
            t.fill_(7)
            if not t.is_complex():
                t.add_(3).mul_(t)
        same(v, w)
    same(d, x)


CHAINS = {
    "transpose": lambda x: x.transpose(0, -1),
    "slice": lambda x: x[1::2],
    "narrow": lambda x: x.narrow(-1, 1, 2),
    "unfold": lambda x: x.unfold(0, 2, 2),
    "diagonal": lambda x: x.diagonal(0, 0, -1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "int view": lambda x: x.view(torch.int32),
    "neg": lambda x: torch._neg_view(x),
}


@pytest.mark.parametrize("first, second", itertools.product(CHAINS, CHAINS), ids="-".join)
def test_views_of_views(first: str, second: str) -> None:
    x = torch.arange(48.0).reshape(4, 3, 4)
    d = x.to(DEVICE)
    try:
        w = CHAINS[second](CHAINS[first](x))
    except RuntimeError as error:
        with pytest.raises(type(error)):
            CHAINS[second](CHAINS[first](d))
        return
    v = CHAINS[second](CHAINS[first](d))
    assert (v.shape, v.stride(), v.storage_offset()) == (w.shape, w.stride(), w.storage_offset())
    write(v, 50)
    write(w, 50)
    same(d, x)
    d.mul_(2)
    x.mul_(2)
    same(v, w)


@pytest.mark.parametrize("name", INPLACE_VIEWS)
def test_in_place_view(name: str) -> None:
    """The tensor's shape changes; an alias that was there before still sees its writes."""
    x = torch.arange(24.0).reshape(4, 6).clone()
    d = x.to(DEVICE)
    alias, host_alias = d.view(-1), x.view(-1)
    INPLACE_VIEWS[name](d)
    INPLACE_VIEWS[name](x)
    assert (d.shape, d.stride(), d.storage_offset()) == (x.shape, x.stride(), x.storage_offset())
    write(d, 60)
    write(x, 60)
    same(alias, host_alias)


def test_set_storage() -> None:
    x = torch.arange(6.0)
    d = x.to(DEVICE)
    e = torch.empty(0, device=DEVICE).set_(d.untyped_storage())
    assert e.shape == torch.empty(0).set_(x.untyped_storage()).shape
    e.fill_(2)
    same(d, torch.full((6,), 2.0))


def test_emptied() -> None:
    d = torch.ones(3, device=DEVICE)
    d.set_()
    assert d.shape == (0,) and d.device.type == DEVICE


def test_dual_numbers() -> None:
    """Forward-mode differentiation: primal and tangent alias what they were made of."""
    d, tangent = torch.ones(3, device=DEVICE), torch.full((3,), 2.0, device=DEVICE)
    with forward_ad.dual_level():
        primal, found = forward_ad.unpack_dual(forward_ad.make_dual(d, tangent) * 3)
        same(primal, torch.full((3,), 3.0))
        same(found, torch.full((3,), 6.0))
        alias = forward_ad.unpack_dual(forward_ad.make_dual(d, tangent)).primal
    assert alias.untyped_storage().data_ptr() == d.untyped_storage().data_ptr()


def test_autograd_through_views() -> None:
    """A write through a view of a graph's tensor is differentiated."""
    grads = []
    for device in ("cpu", DEVICE):
        leaf = torch.arange(12.0).reshape(3, 4).to(device).requires_grad_()
        y = leaf * 2
        y[1].mul_(3)
        y.t()[0].add_(y[:, 1])
        y.sum().backward()
        grads.append(leaf.grad.cpu())
    torch.testing.assert_close(*grads)


def test_a_fallback_does_not_break_aliasing() -> None:
    """An in-place op that runs on the CPU writes into the memory of the view's base."""
    x = torch.rand(4, 6) + 1
    d = x.to(DEVICE)
    with torch_atalla.fallback.mode("silent"):
        d[:, 1::2].lgamma_()
        d.t()[0].digamma_()
    x[:, 1::2].lgamma_()
    x.t()[0].digamma_()
    torch.testing.assert_close(d.cpu(), x)


def test_every_view_op_has_a_case() -> None:
    assert annotated() == set(VIEWS) | set(WITHOUT_CASE)
    assert not set(VIEWS) & set(WITHOUT_CASE)
    assert len(VIEWS) >= 74


def test_every_in_place_view_op_has_a_case() -> None:
    functions, _ = upstream()
    tagged = {name for name, f in functions.items() if "inplace_view" in f.tags}
    assert tagged == set(INPLACE_VIEWS) | set(WITHOUT_INPLACE_CASE)
