# SPDX-License-Identifier: BSD-3-Clause
"""Statements for views, copies and factories."""

from __future__ import annotations

import torch

from .generator import Builder, template
from .texts import PLAIN, each, texts

texts(
    *each("{x}[{at}{op}]", ":{k}", "{k}:", ":-{k}", "-{k}:", "1:-1", ":{s}", "{s}:", ":{s} // 2", "{i}::{step}"),
    "{x}[-{s}:]",
    "{x}[None]",
    *each("{x}.{op}()", "squeeze", "flatten", "detach"),
    *each("{x}.{op}({d})", "squeeze", "unsqueeze"),
    *each("{x}.select({d}, {op})", "{i}", "{n} // 2"),
    *each("{x}.narrow({d}, {op})", "{i}, 1", "0, {s}", "1, {n} - 1", "{n} // 2, {n} - {n} // 2"),
    *each("{x}.chunk({op}, {d})", "2", "3"),
    *each("{x}.split({op}, {d})", "{n} - 2", "[{n} // 2, {n} - {n} // 2]", "[1, {n} - 1]"),
    *each("{x}.tensor_split({op}, {d})", "2", "[1]"),
    "{x}.unbind({d})[-4:]",
    "{x}.split(2, {d})[-3:]",
    "{x}.split({n} // 2, {d})[0]",
    "{x}.unfold({d}, {window}, {k})",
    *each("{x}.reshape({op})", "-1", "-1, {m}", "{m}, -1", "{x}.shape[::-1]"),
    "{x}.reshape({x}.shape[0] // 2, 2, *{x}.shape[1:])",
    "{x}.reshape(*{x}.shape[:-1], {x}.shape[-1] // 2, 2)",
    *each("{x}.contiguous().view({op})", "{x}.shape[0], -1", "-1, {x}.shape[-1] // 2"),
    *each("{x}.unflatten({d}, ({op}))", "-1, {m}", "{m}, -1"),
    *each("{x}.{op}(({m}, *{x}.shape))", "expand", "broadcast_to"),
    "{x}.unsqueeze(-1).expand(*{x}.shape, {s})",
    "{x}.view_as({x})",
    "torch.ops.aten.alias({x})",
    "{x}.as_strided({x}.shape, {x}.stride())",
    dtypes="all",
)
texts(
    "{x}.mT",
    *each("{x}.{op}({d}, {e})", "transpose", "swapaxes", "movedim"),
    "{x}.permute({order})",
    *each("{x}.diagonal({op}, {d}, {e})", "0", "1"),
    *each("{x}.flatten({op})", "0, 1", "-2"),
    "{x}.reshape({x}.shape[0] * {x}.shape[1], *{x}.shape[2:])",
    dtypes="all",
    least=2,
)
texts("{x}.t()", dtypes="all", rank=2)


@template("reshape", "view", weight=0.8)
def reshape(g: Builder) -> str:
    x = g.operand("all", 0)
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
    if g.name == "view" and value.is_contiguous():
        return f"{x}.view({tuple(shape)})"
    return f"{x}.reshape({tuple(shape)})"


texts(
    *each("{x}.{op}()", "clone", "contiguous"),
    "{x}.clone(memory_format=torch.contiguous_format)",
    *each("torch.cat([{x}, {op}], {d})", "{x}", "{y}", "{x}.narrow({d}, 0, 1)"),
    "torch.cat([{x}[1:], {x}[:1]])",
    "torch.cat([{x}, {y}.new_zeros({s}, *{x}.shape[1:])])",
    *each("torch.stack([{x}, {op}], {d})", "{y}", "{x} * 2"),
    *each("{x}.repeat({op})", "{m}, *[1] * ({x}.ndim - 1)", "2, *[1] * {x}.ndim", "*[2] * {x}.ndim"),
    "{x}.repeat_interleave(2, {d})",
    "{x}.repeat_interleave({n}, 0)",
    "torch.tile({x}, (2,))",
    *each("torch.roll({x}, {op})", "1, {d}", "{n} // 2, {d}", "(1, -1), (0, -1)"),
    "torch.flip({x}, ({d},))",
    "torch.diag_embed({x})",
    "torch.diag({x}.flatten()[:5])",
    *each("F.pad({x}, ({op}))", "1, 2", "0, {s}", "-1, {n} - 1"),
    "F.pad({x}, (1, -1), value=0.5)",
    "torch.meshgrid({x}.flatten()[:{s}], {y}.flatten()[:3], indexing='ij')",
    *each("torch.slice_scatter({x}, {x}{op})", "[:1] * 2, 0, 0, 1", "[1:] * 2, 0, 1, {x}.shape[0]"),
    "torch.select_scatter({x}, {x}.select({d}, 0) * 2, {d}, {i})",
    "{x}.expand_copy((2, *{x}.shape))"
    if hasattr(torch.Tensor, "expand_copy")
    else "torch.expand_copy({x}, (2, *{x}.shape))",
    "torch.ops.aten.copy({x}, {y})",
    "{x}.type_as({y})",
    dtypes="real",
)
texts(
    "torch.hstack([{x}, {y}])",
    "torch.rot90({x}, 1, (0, 1))",
    "torch.tril({x})",
    "torch.triu({x}, 1)",
    "F.pad({x}, (0, 1, 2, 0), value=-1.0)",
    "torch.diagonal_scatter({x}, {x}.diagonal() * 2)",
    dtypes="real",
    least=2,
)


@template("channels_last", "channels_last to", "channels_last_3d", weight=0.8)
def memory_format(g: Builder) -> str:
    rank = 5 if g.name.endswith("3d") else 4
    x = g.operand("floats", rank=rank)
    how = g.rng.choice(["contiguous", "clone", "to"]) if g.name != "channels_last to" else "to"
    kind = "channels_last_3d" if rank == 5 else "channels_last"
    return f"{x}.{how}(memory_format=torch.{kind})"


texts(
    "{x} + torch.arange({x}.shape[-1], device={x}.device, dtype={x}.dtype)",
    "{x} + torch.arange({x}.shape[-1] - 1, -1, -1, device={x}.device, dtype={x}.dtype)",
    *each("{x} * torch.arange({op}, device={x}.device)", "0.5, 0.5 + {x}.shape[-1]", "2, 2 + 3 * {x}.shape[-1], 3"),
    "{x} * torch.arange(1, 1 + {x}.shape[-1], device={x}.device).to({x}.dtype)",
    "{x} * torch.linspace(0, 1, {x}.shape[-1], device={x}.device).to({x}.dtype)",
    "{x} + torch.ones({x}.shape[-1], device={x}.device, dtype={x}.dtype)",
    "{x} * torch.ones({x}.shape[-1], device={x}.device)",
    "{x} + torch.zeros({x}.shape, device={x}.device)",
    "{x} - torch.full({x}.shape, 0.25, device={x}.device, dtype={x}.dtype)",
    "{x} - torch.full({x}.shape, 0.25, device={x}.device)",
    "{x} + torch.eye({x}.shape[-1], device={x}.device, dtype={x}.dtype)[0]",
    "{x} + torch.eye({x}.shape[-1], device={x}.device)[0]",
    *each("{x} + torch.tensor({op}, device={x}.device)", "0.5", "[1.0]"),
    "{x} + torch.scalar_tensor(2.0, device={x}.device)",
    "torch.bucketize({x}, torch.tensor([-1.0, 0.0, 1.0], device={x}.device, dtype={x}.dtype))",
    *each("torch.zeros_like({x}) + {op}", "{x}", "{x}.sum() / max({n}, 1)"),
    "torch.ones_like({x}) * {x}",
    "torch.full_like({x}, 0.5) - {x}",
    "{x}.new_zeros((3, *{x}.shape)) + {x}",
    "{x}.new_zeros({s}, {n}) + {n}",
    "{x}.new_ones({x}.shape) * {x}",
    "{x}.new_full({x}.shape, 2) + {x}",
    "{x}.new_full(({n} * 2, {s}), 0.5)",
    *each("{x} {op}", "* {n}", "/ {n}", "+ {s} * 2 - {n}", "* ({n} // 2) + {n} % 3", "/ ({n} * {s} + 1) ** 0.5"),
    "{x}.masked_fill(torch.arange({x}.shape[-1], device={x}.device) < {s} // 2, 0.5)",
    "torch.where(torch.arange({x}.shape[-1], device={x}.device) % 2 == 0, {x}, -{x})",
    "torch.arange({n}, device={x}.device) + {s}",
)

texts(
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
    weight=0.15,
    dtypes="wide floats",
    tables=PLAIN,
)
texts(
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
    weight=0.12,
    dtypes="complex",
    tables=PLAIN,
)
texts(
    "torch.cond({x}.sum() > 0, lambda a: a * 2, lambda a: a - 1, ({x},))",
    weight=0.03,
    tables=PLAIN,
)
