# SPDX-License-Identifier: BSD-3-Clause
"""Random arguments: tensors of all layouts, with lazy bits and shared memory, and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import torch

from tools.graph_fuzz import inputs
from torch_atalla.testing.opinfo import to_device

SIZES = (1, 2, 2, 3, 3, 4, 4, 5, 6)
RANKS = {"v": (1,), "m": (2,), "b": (3,), "t": (0, 1, 1, 2, 2, 3), "c": (1, 2), "n": (1, 2)}
DTYPES = (torch.float32,) * 6 + (torch.float64, torch.bfloat16, torch.float16)


def expressions(kinds: Sequence[str], rng: Random) -> list[str]:
    """Return one expression per argument; those of tensors make them on the CPU. `a` is the list of earlier ones."""
    made: list[str] = []
    shape: tuple[int, ...] = ()
    dtype = torch.float32
    for number, kind in enumerate(kinds):
        if kind in RANKS:
            shape = tuple(rng.choice(SIZES) for _ in range(rng.choice(RANKS[kind])))
            if shape and rng.random() < 0.04:
                shape = (0, *shape[1:])
            dtype = {"c": torch.complex64, "n": rng.choice(inputs.INTEGERS)}.get(kind) or rng.choice(DTYPES)
            if kind == "m" and number and rng.random() < 0.5:
                made.append(_related(rng))
                continue
        if kind in RANKS:
            made.append(_tensor(shape, dtype, rng))
        elif kind == "like":
            made.append(_related(rng) if rng.random() < 0.4 else _tensor(shape, dtype, rng))
        elif kind == "row":
            made.append(_tensor(shape[-1:], dtype, rng))
        else:
            made.append(str(_number(kind, rng)))
    return made


def _number(kind: str, rng: Random) -> Any:
    if kind == "int":
        return rng.choice((0, 1, 2, 3, -1, -2))
    if kind == "size":
        return rng.choice((1, 2, 3, 4))
    return rng.random() < 0.5 if kind == "flag" else rng.choice((0.0, 0.5, 1.0, -2.5, 3.0))


def _tensor(shape: tuple[int, ...], dtype: torch.dtype, rng: Random) -> str:
    text = inputs.tensor(shape, dtype, rng, strange=0.5)
    bits = rng.random()
    if dtype.is_complex and bits < 0.5:
        return f"{text}.conj()"
    if dtype is torch.float32 and bits < 0.06:
        return f"torch.complex({text}, {text}).conj().imag"
    return text


def _related(rng: Random) -> str:
    """A view of the first argument, with its sizes where possible."""
    return rng.choice(("a[0]", "a[0].view_as(a[0])", "a[0].flip(0)", "a[0].t() if a[0].dim() == 2 else a[0]"))


def build(texts: Sequence[str], device: str, seed: int, grads: Sequence[bool]) -> list[Any]:
    """Evaluate expressions, and move the tensors to the device with their strides and shared memory."""
    generator_state, default_dtype = torch.get_rng_state(), torch.get_default_dtype()
    torch.manual_seed(seed)
    torch.set_default_dtype(torch.float32)
    try:
        made: list[Any] = []
        for text in texts:
            made.append(eval(text, {"torch": torch, "a": made}))
    finally:
        torch.set_rng_state(generator_state)
        torch.set_default_dtype(default_dtype)
    tensors = [item if isinstance(item, torch.Tensor) else None for item in made]
    moved = moved_together(tensors, device)
    result = [item if moved[k] is None else moved[k] for k, item in enumerate(made)]
    for item, grad in zip(result, grads):
        if grad and isinstance(item, torch.Tensor) and (item.is_floating_point() or item.is_complex()):
            item.requires_grad_()
    return result


def moved_together(tensors: Sequence[torch.Tensor | None], device: str) -> list[torch.Tensor | None]:
    """Copies on a device that share memory with each other as the originals do."""
    originals = {id(tensor): tensor for tensor in tensors if tensor is not None}
    copies = to_device([_without_bits(tensor) for tensor in originals.values()], device)
    moved = {key: _with_bits(copy, original) for copy, (key, original) in zip(copies, originals.items())}
    return [moved.get(id(tensor)) for tensor in tensors]


def _without_bits(tensor: torch.Tensor) -> torch.Tensor:
    """The stored elements of a tensor whose conjugation or negation may be pending."""
    stored = tensor.detach()
    stored = stored.conj() if stored.is_conj() else stored
    return torch._neg_view(stored) if stored.is_neg() else stored


def _with_bits(stored: torch.Tensor, original: torch.Tensor) -> torch.Tensor:
    stored = torch._neg_view(stored) if original.is_neg() else stored
    return stored.conj() if original.is_conj() else stored
