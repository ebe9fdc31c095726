# SPDX-License-Identifier: BSD-3-Clause
"""Builds programs whose sizes are expressions of a few symbols. Every statement runs on the CPU at several values of
the symbols: templates combine sizes freely, and a statement counts only if all values allow it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import torch

from .. import inputs
from ..program import Line, Program
from ..statements import Dtypes, Statements, registration

Size = tuple[int, ...]  # of one dimension, at each assignment of the symbols
Template = Callable[["NestedBuilder"], str | None]
TEMPLATES: dict[str, tuple[Template, float]] = {}

# Dimensions of inputs. torch.export takes linear ones of one symbol as derived; the others become symbols of their own.
_DIMENSIONS = ("n", "n", "n", "n", "m", "m", "m", "2 * n", "2 * m", "3 * n", "n + 1", "m + 2", "2 * n + 1", "n * m")
_STATIC = ("1", "2", "3", "4", "8")


template = registration(TEMPLATES)


def assignments(rng: Random) -> tuple[dict[str, int], ...]:
    """Values of the symbols. The first is the example of the export; others are equal, smallest, or reversed."""
    n, m = rng.sample([3, 4, 5, 6, 7, 8, 9, 10], 2)
    least, same, odd = rng.choice([0, 1, 1, 1, 2, 2, 2, 3]), rng.randint(2, 9), rng.choice([3, 5, 7, 11])
    rest = [{"n": same, "m": same}, {"n": least, "m": least}, {"n": m, "m": n}, {"n": odd, "m": max(least, 2)}]
    return ({"n": n, "m": m}, *rng.sample(rest, 3), {"n": n, "m": m} if rng.random() < 0.3 else rest[1])


class NestedBuilder(Statements):
    """A program whose sizes are expressions of symbols."""

    templates = TEMPLATES

    def __init__(self, rng: Random):
        super().__init__(rng, assignments(rng))
        self.dtype = rng.choice([torch.float32] * 8 + [torch.bfloat16, torch.float16, torch.float64])
        self.strange = rng.choice([0.0, 0.0, 0.3])  # share of inputs that are not contiguous
        self.expressions: dict[Size, str] = {}  # of the sizes that inputs can have
        for text in (*_STATIC, *dict.fromkeys(_DIMENSIONS)):
            self.expressions[tuple(eval(text, {}, dict(values)) for values in self.sizes)] = text
        self.dims: dict[str, tuple[str, ...]] = {}

    def shape(self, name: str) -> tuple[Size, ...]:
        return tuple(zip(*(scope[name].shape for scope in self.scopes)))

    def _dimension(self) -> str:
        return self.rng.choice(_DIMENSIONS) if self.rng.random() < 0.8 else self.rng.choice(_STATIC)

    def new_input(self, dims: tuple[str, ...], dtype: torch.dtype | None = None) -> str:
        name = self.add_input(self._tensor(dims, self.dtype if dtype is None else dtype))
        self.dims[name] = dims
        return name

    def _tensor(self, dims: tuple[str, ...], dtype: torch.dtype) -> str:
        def filled(*dims: str) -> str:
            return inputs.filled(f"({''.join(f'{dim}, ' for dim in dims).rstrip()})", dtype)

        if not dims or self.rng.random() >= self.strange:
            return filled(*dims)
        kind = self.rng.choice(["reversed", "stepped", "offset"])
        if kind == "reversed" and len(dims) > 1:
            return f"{filled(*dims[:-2], dims[-1], dims[-2])}.mT"
        if kind == "stepped":
            return f"{filled(*dims[:-1], f'2 * ({dims[-1]})')}[..., ::2]"
        return f"{filled(f'1 + {dims[0]}', *dims[1:])}[1:]"

    def operand(self, dtypes: Dtypes, least: int = 1, rank: int | None = None) -> str:
        """A floating-point tensor. "squares": its last two dimensions have the same size, whatever the symbols are."""
        squares = dtypes == "squares"

        def fits(name: str) -> bool:
            shape = self.shape(name)
            is_right = rank in (None, len(shape)) and len(shape) >= least and self.value(name).is_floating_point()
            return is_right and not (squares and shape[-1] != shape[-2])

        found = self.pick_name(fits)
        if found is not None:
            return found
        dims = [self._dimension() for _ in range(rank or self.rng.randint(least, 3 if squares else 4))]
        return self.new_input((*dims[:-1], dims[-2] if squares else dims[-1]))

    def same(self, name: str) -> str:
        """Another tensor of the same sizes and dtype, or the same tensor, changed."""
        shape, dtype = self.shape(name), self.value(name).dtype
        found = self.pick_name(lambda other: self.shape(other) == shape and self.value(other).dtype == dtype, 0.7)
        if found is not None:
            return found
        if not all(size in self.expressions for size in shape):
            return f"({name} * 0.5)"
        return self.new_input(tuple(self.expressions[size] for size in shape), dtype)

    expanding = same

    def dim(self, name: str) -> int:
        """Rather one whose size depends on a symbol."""
        shape = self.shape(name)
        moving = [d for d, size in enumerate(shape) if len(set(size)) > 1]
        return self.rng.choice(moving) if moving and self.rng.random() < 0.85 else self.rng.randrange(len(shape))

    def finish(self) -> Program:
        outputs = tuple(self.ends(0.85, 0.1)[:8])
        lines = (*self._relations(), *self.lines)
        dims = {name: self.dims[name] for name in self.inputs}
        inputs = dict(self.inputs)
        program = Program(inputs, self.parameters, {}, lines, outputs, "nested", dims=dims, sizes=self.sizes)
        return program.without_dead_code()

    def _relations(self) -> tuple[Line, ...]:
        """In half of the programs, assertions that tell the export which sizes are equal, in case that it does not take
        their symbols from the caller."""
        if self.chance(0.5):
            return ()
        first: dict[str, str] = {}
        lines = []
        for name in self.inputs:
            for k, dim in enumerate(self.dims[name]):
                if dim.isdigit():
                    continue
                place = f"{name}.shape[{k}]"
                if dim in first:
                    lines.append(Line(f"torch._check({place} == {first[dim]})", (), "relation"))
                first.setdefault(dim, place)
        return tuple(lines)
