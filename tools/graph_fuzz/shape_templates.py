# SPDX-License-Identifier: BSD-3-Clause
"""Statements for views, copies and factories."""

from __future__ import annotations

import torch

from .generator import Builder, template
from .values import has_overlap

VIEWS = (
    "{x}.t()",
    "{x}.mT",
    "{x}.transpose({d}, {e})",
    "{x}.swapaxes({d}, {e})",
    "{x}.permute({order})",
    "{x}.movedim({d}, {e})",
    "{x}.select({d}, {i})",
    "{x}.narrow({d}, {i}, 1)",
    "{x}[..., ::2]",
    "{x}[..., 1:]",
    "{x}[..., :-1]",
    "{x}[:2]",
    "{x}[None]",
    "{x}.unsqueeze({d})",
    "{x}.squeeze()",
    "{x}.squeeze({d})",
    "{x}.flatten()",
    "{x}.flatten(0, 1)",
    "{x}.unflatten(-1, ({last}, 1))",
    "{x}.unfold({d}, {window}, 1)",
    "{x}.diagonal(0, {d}, {e})",
    "{x}.expand((2, *{x}.shape))",
    "{x}.broadcast_to((3, *{x}.shape))",
    "{x}.unbind({d})",
    "{x}.split(2, {d})",
    "{x}.chunk(2, {d})",
    "torch.tensor_split({x}, 2, {d})",
    "{x}.view_as({x})",
    "{x}.detach()",
    "torch.ops.aten.alias({x})",
    "{x}.as_strided({x}.shape, {x}.stride())",
)


@template(*VIEWS, weight=0.5)
def view(g: Builder) -> str | None:
    rank = 2 if g.name.endswith(".t()") else None
    least = 2 if any(part in g.name for part in ("{e}", "mT", "flatten(0", "permute")) else 1
    x = g.tensor(lambda v: v.ndim >= least and 0 not in v.shape, rank)
    shape = g.value(x).shape
    d = g.rng.randrange(len(shape))
    e = g.rng.choice([k for k in range(len(shape)) if k != d] or [d])
    if "unbind" in g.name and shape[d] > 4:
        return f"{x}.unbind({d})[-1]"
    if "split(2" in g.name and shape[d] > 6:
        return f"{x}.split({shape[d] - 2}, {d})"
    order = g.rng.sample(range(len(shape)), len(shape))
    window, i = g.rng.randint(1, min(3, shape[d])), g.rng.randrange(shape[d])
    if "select" in g.name and g.chance(0.3):
        i -= shape[d]
    return g.name.format(x=x, d=d, e=e, order=order, window=window, i=i, last=shape[-1])


@template("reshape", "view", "flatten reshape", weight=0.8)
def reshape(g: Builder) -> str:
    x = g.tensor(lambda v: v.numel() > 0)
    value = g.value(x)
    shape: list[int] = []
    left = value.numel()
    while left > 1 and len(shape) < 3:
        factor = g.rng.choice([k for k in range(1, min(left, 36) + 1) if left % k == 0])
        shape.append(factor)
        left //= factor
    shape.append(left)
    g.rng.shuffle(shape)
    if g.chance(0.2):
        shape[g.rng.randrange(len(shape))] = -1
    if g.name == "flatten reshape":
        return f"{x}.reshape({x}.shape[0], -1)" if value.ndim > 1 else f"{x}.reshape(-1)"
    if g.name == "view" and value.is_contiguous():
        return f"{x}.view({tuple(shape)})"
    return f"{x}.reshape({tuple(shape)})"


COPIES = (
    "{x}.clone()",
    "{x}.contiguous()",
    "{x}.clone(memory_format=torch.contiguous_format)",
    "torch.cat([{x}, {x}], {d})",
    "torch.cat([{x}, {y}], {d})",
    "torch.stack([{x}, {y}], {d})",
    "torch.stack([{x}, {x} * 2], 0)",
    "torch.hstack([{x}, {y}])",
    "{x}.repeat(2, *[1] * ({x}.ndim - 1))",
    "{x}.repeat(*[2] * {x}.ndim)",
    "{x}.repeat_interleave(2, {d})",
    "torch.tile({x}, (2,))",
    "torch.roll({x}, 1, {d})",
    "torch.roll({x}, (1, -1), (0, -1))",
    "torch.flip({x}, ({d},))",
    "{x}.flip(-1)",
    "torch.rot90({x}, 1, (0, 1))",
    "torch.tril({x})",
    "torch.triu({x}, 1)",
    "torch.diag_embed({x})",
    "torch.diag({x}.flatten()[:5])",
    "F.pad({x}, (1, 2))",
    "F.pad({x}, (1, -1), value=0.5)",
    "F.pad({x}, (0, 1, 2, 0), value=-1.0)",
    "torch.meshgrid({x}.flatten()[:3], {y}.flatten()[:4], indexing='ij')",
    "torch.slice_scatter({x}, {x}[:1] * 2, 0, 0, 1)",
    "torch.select_scatter({x}, {x}.select({d}, 0) * 2, {d}, 0)",
    "torch.diagonal_scatter({x}, {x}.diagonal() * 2)",
    "{x}.expand_copy((2, *{x}.shape))"
    if hasattr(torch.Tensor, "expand_copy")
    else "torch.expand_copy({x}, (2, *{x}.shape))",
    "torch.ops.aten.copy({x}, {y})",
    "{x}.type_as({y})",
)


@template(*COPIES, weight=0.4)
def copy(g: Builder) -> str:
    least = 2 if any(part in g.name for part in ("tri", "rot90", "diagonal", "(0, 1, 2", "hstack")) else 1
    x = g.tensor(lambda v: v.ndim >= least and v.ndim < 5 and not v.is_complex())
    y, rank = g.same(x), g.value(x).ndim
    if "_scatter" in g.name and has_overlap(g.value(x)):  # the CPU writes to a copy whose elements share memory, too
        x = f"{x}.contiguous()"
    if "stack([" in g.name or "cat([{x}, {y}" in g.name:
        y = f"{y}.to({g.value(x).dtype})" if g.chance(0.1) else y
    return g.name.format(x=x, y=y, d=g.rng.randrange(rank))


@template("channels_last", "channels_last to", "channels_last_3d", weight=0.8)
def memory_format(g: Builder) -> str:
    rank = 5 if g.name.endswith("3d") else 4
    x = g.floats(rank)
    how = g.rng.choice(["contiguous", "clone", "to"]) if g.name != "channels_last to" else "to"
    kind = "channels_last_3d" if rank == 5 else "channels_last"
    return f"{x}.{how}(memory_format=torch.{kind})"


FACTORIES = (
    "{x} + torch.arange({x}.shape[-1], device={x}.device, dtype={x}.dtype)",
    "{x} * torch.linspace(0, 1, {x}.shape[-1], device={x}.device).to({x}.dtype)",
    "torch.zeros_like({x}) + {x}",
    "torch.ones_like({x}) * {x}",
    "torch.full_like({x}, 0.5) - {x}",
    "{x}.new_zeros((3, *{x}.shape)) + {x}",
    "{x}.new_ones({x}.shape) * {x}",
    "{x}.new_full({x}.shape, 2) + {x}",
    "{x} + torch.zeros({x}.shape, device={x}.device)",
    "{x} * torch.ones({x}.shape[-1], device={x}.device)",
    "{x} - torch.full({x}.shape, 0.25, device={x}.device)",
    "{x} + torch.eye({x}.shape[-1], device={x}.device)[0]",
    "{x} + torch.tensor(0.5, device={x}.device)",
    "{x} + torch.tensor([1.0], device={x}.device)",
    "{x} * torch.arange(0.5, 0.5 + {x}.shape[-1], device={x}.device)",
    "{x} + torch.arange(2, 2 + 3 * {x}.shape[-1], 3, device={x}.device)",
    "torch.bucketize({x}, torch.tensor([-1.0, 0.0, 1.0], device={x}.device, dtype={x}.dtype))",
    "{x} + torch.scalar_tensor(2.0, device={x}.device)",
)


@template(*FACTORIES, weight=0.3)
def factory(g: Builder) -> str:
    return g.name.format(x=g.floats(least=1))


COMPLEX = (
    "torch.complex({x}, {x} * 2)",
    "torch.view_as_complex(torch.stack([{x}, {x} * 2], -1).contiguous())",
    "torch.view_as_real(torch.complex({x}, {x}))",
    "torch.complex({x}, {x}).abs()",
    "torch.complex({x}, {x}).conj() * torch.complex({x}, {x} + 1)",
    "torch.complex({x}, {x}).real + torch.complex({x}, {x}).imag",
    "torch.fft.fft({x}).real",
    "torch.fft.rfft({x}, dim=-1).abs()",
    "torch.fft.ifft(torch.fft.fft({x})).real",
    "torch.fft.irfft(torch.fft.rfft({x}), n={x}.shape[-1])",
    "torch.fft.fft2({x}).imag",
)


@template(*COMPLEX, weight=0.15)
def complex_numbers(g: Builder) -> str:
    least = 2 if "fft2" in g.name else 1
    x = g.tensor(lambda v: v.dtype in (torch.float32, torch.float64) and v.ndim >= least and v.numel() > 0)
    return g.name.format(x=x)


CONJUGATES = (
    "{z}.conj() * {z}",
    "{z}.conj().imag + 1",
    "torch.view_as_real({z}.conj().resolve_conj())",
    "{z}.conj().imag.resolve_neg() * 2",
    "{z}.abs()",
    "{z}.real - {z}.imag",
    "{z} * 0.5 + {z}",
    "torch.fft.fft({z})",
    "torch.view_as_real({z}).sum(-1)",
    "{z}.transpose(0, -1).conj().abs()",
)


@template(*CONJUGATES, weight=0.12)
def conjugates(g: Builder) -> str:
    z = g.pick(lambda v: v.dtype == torch.complex64 and v.ndim > 0 and v.numel() > 0)
    return g.name.format(z=z or g.new_input(g.shape(g.rng.choice([1, 2, 3])), torch.complex64))


@template("torch.cond", weight=0.03)
def branch(g: Builder) -> str:
    x = g.floats(least=1)
    return f"torch.cond({x}.sum() > 0, lambda a: a * 2, lambda a: a - 1, ({x},))"
