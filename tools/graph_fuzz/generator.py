# SPDX-License-Identifier: BSD-3-Clause
"""Random programs of a seed, and what their templates draw from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import torch

from . import inputs
from .nested.builder import NestedBuilder
from .program import Program
from .statements import Dtypes, Statements, registration
from .values import MOST_ELEMENTS

NESTED = 0.08  # share of the programs whose sizes are expressions of symbols
_SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33)
_NOISY_DTYPES = (torch.complex64, torch.int16, torch.int8, torch.uint8)

_REAL = (*inputs.FLOATS, *inputs.INTEGERS, torch.bool)
_DTYPES: dict[str, Sequence[torch.dtype]] = {
    "all": (*_REAL, torch.complex64, torch.complex128),
    "real": _REAL,
    "floats": inputs.FLOATS,
    "wide floats": (torch.float32, torch.float64),
    "numbers": (*inputs.FLOATS, torch.int64),
    "integers": inputs.INTEGERS,
    "complex": (torch.complex64,),
}

Template = Callable[["Builder"], str | None]
TEMPLATES: dict[str, tuple[Template, float]] = {}
template = registration(TEMPLATES)


class Builder(Statements):
    """A program whose sizes are numbers."""

    templates = TEMPLATES

    def __init__(self, rng: Random, program_dynamic: str = ""):
        super().__init__(rng)
        self.dynamic = program_dynamic
        self.batch = rng.choice([4, 5, 6, 7]) if program_dynamic else 0
        self.drawn_sizes = [rng.choice(_SIZES) for _ in range(4)] + ([0] if rng.random() < 0.03 else [])
        self.dtype = rng.choice([torch.float32] * 8 + [torch.bfloat16] * 2 + [torch.float16, torch.float64])
        self.strange = rng.choice([0.0, 0.2, 0.5])  # share of inputs that are not contiguous
        self.other_dtypes: tuple[torch.dtype, ...] = ()  # besides `dtype`, if not all
        self.may_write_inputs = rng.random() < 0.03

    def pick(self, fits: Callable[[torch.Tensor], bool] = lambda value: True, reuse: float = 0.85) -> str | None:
        return self.pick_name(lambda name: fits(self.value(name)), reuse)

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        rank = self.rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5]) if rank is None else rank
        shape = [self.rng.choice(self.drawn_sizes) for _ in range(rank)]
        if self.batch and rank:
            shape[0] = self.batch
        while len(shape) and torch.Size(shape).numel() > MOST_ELEMENTS // 4:
            shape[shape.index(max(shape))] = 2
        return tuple(shape)

    def any_dtype(self) -> torch.dtype:
        roll = self.rng.random()
        if self.other_dtypes:
            return self.dtype if roll < 0.75 else self.rng.choice(self.other_dtypes)
        if roll < 0.62:
            return self.dtype
        if roll < 0.8:
            return self.rng.choice(inputs.FLOATS)
        return self.rng.choice([torch.int64, torch.int64, torch.int32, torch.bool, *_NOISY_DTYPES])

    def new_input(self, shape: tuple[int, ...] | None = None, dtype: torch.dtype | None = None, text: str = "") -> str:
        shape = self.shape() if shape is None else shape
        text = text or inputs.tensor(shape, self.any_dtype() if dtype is None else dtype, self.rng, self.strange)
        return self.add_input(text)

    def operand(self, dtypes: Dtypes, least: int = 1, rank: int | None = None) -> str:
        allowed = _DTYPES[dtypes]
        found = self.pick(lambda v: v.dtype in allowed and v.ndim >= least and rank in (None, v.ndim))
        if found is not None:
            return found
        while (dtype := self.any_dtype()) not in allowed:
            pass
        return self.new_input(self.shape(self.rng.randint(least, 4) if rank is None else rank), dtype)

    def fields(self, x: str) -> dict[str, Callable[[], Any]]:
        fields = super().fields(x)
        shape, dtype = tuple(self.value(x).shape), self.value(x).dtype
        batch, (height, width) = shape[:-2], (1, 1, *shape)[-2:]
        outputs = self.rng.choice([1, 2, 3, 4, 5, 8, 16, 24, 32, 32, 33, 64])  # 32 and 64 can be packed
        scale = max(width, 1) ** -0.5
        tail = shape[-self.rng.randint(1, 2) :]

        def affine(*sizes: int) -> str:
            return self.parameter(sizes, dtype) if self.chance(0.65) else "None"

        def grid(*sizes: int) -> str:
            """Finite positions: of an infinite one upstream's gradient is NaN or reads other memory."""
            return self.new_input((shape[0], *sizes), dtype, f"torch.randn({(shape[0], *sizes)}).to({dtype})")

        causal = f"torch.ones({height}, {height}, dtype=torch.bool).tril()"
        fields |= self._positions(shape, fields["d"]())
        return fields | {
            "partner": lambda: self.partner(x),
            "bools": lambda: self.booleans(shape),
            "buffer": lambda: self.buffer(shape, dtype),
            "channels": lambda: self.parameter(shape[1:2] or (1,), dtype),
            "gain": lambda: affine(shape[1]),
            "offset": lambda: affine(shape[1]),
            "mean": lambda: self.buffer(shape[1:2], dtype),
            "variance": lambda: self.buffer(shape[1:2], dtype),
            "groups": lambda: self.rng.choice([k for k in range(1, shape[1] + 1) if shape[1] % k == 0]),
            "tail": lambda: tail,
            "weight_tail": lambda: affine(*tail),
            "bias_tail": lambda: affine(*tail),
            "weight": lambda: self.parameter((outputs, width), dtype, scale),
            "weight_t": lambda: self.parameter((width, outputs), dtype, scale),
            "bias": lambda: affine(outputs),
            "second_weight": lambda: self.parameter((4, outputs), dtype, 0.3),
            "bilinear": lambda: self.parameter((2, width, width), dtype, 0.3),
            "right": lambda: self.new_input((*batch, width, outputs), dtype),
            "matrix": lambda: self.new_input((width, outputs), dtype),
            "summand": lambda: self.new_input(self.rng.choice([(height, outputs), (outputs,), (1,)]), dtype),
            "vector": lambda: self.new_input((width,), dtype),
            "column": lambda: self.new_input((height,), dtype),
            "square": lambda: self.new_input((width, width), dtype),
            "others": lambda: self.new_input((3, width), dtype),
            # The CPU's gradient of pdist crashes where there are no points.
            "points": lambda: x if height else f"{x}.new_ones((2, {width}))",
            "wide": lambda: torch.promote_types(dtype, torch.float32),
            "scores": lambda: self.new_input((height, height), dtype),
            "causal": lambda: self.new_input((height, height), torch.bool, causal),
            "grid": lambda: grid(3, 2, 2),
            "volume_grid": lambda: grid(2, 1, 3, 3),
            "theta": lambda: self.new_input((shape[0], 2, 3), dtype),
        }

    def _positions(self, shape: tuple[int, ...], d: int) -> dict[str, Callable[[], Any]]:
        """The fields that are positions in an operand of this shape, of which some are along d, or in a table."""

        def positions(dim: int, *sizes: int) -> str:
            return self.indices(0 if 0 in shape else shape[dim], sizes)

        def places() -> str:
            """Of the operand's sizes, except along d."""
            sizes = list(shape)
            sizes[d] = self.rng.choice([1, min(2, shape[d]), shape[d]])
            return positions(d, *sizes)

        def distinct(dim: int) -> str:
            count = min(self.rng.choice([1, 2]), shape[dim])
            return self.new_input((count,), torch.int64, f"torch.randperm({shape[dim]})[:{count}]")

        return {
            "along": lambda: positions(d, self.rng.choice([1, 2, 4])),
            "places": places,
            "rows": lambda: positions(0, *self.rng.choice([(3,), (2, 3), ()])),
            "columns": lambda: positions(1, *self.rng.choice([(3,), (2, 1)])),
            "lasts": lambda: positions(-1, 3),
            "classes": lambda: positions(1, shape[0]),
            "distinct": lambda: distinct(d),
            "distinct_rows": lambda: distinct(0),
            "words": lambda: self.indices(5, self.shape(self.rng.choice([1, 2]))),
            "sentences": lambda: self.indices(5, (self.rng.choice([2, 3]), 4)),
            "table": lambda: self.parameter((5, self.rng.choice([1, 3, 8, 16])), self.dtype),
        }

    def booleans(self, shape: tuple[int, ...]) -> str:
        """A mask of a shape that broadcasts to `shape`."""
        found = self.pick(lambda v: v.dtype is torch.bool and broadcasts(v.shape, shape))
        if found is not None:
            return found
        other = self.pick(lambda v: v.is_floating_point() and broadcasts(v.shape, shape))
        return f"({other} > 0)" if other else self.new_input(self.broadcastable(shape), torch.bool)

    def broadcastable(self, shape: tuple[int, ...] | torch.Size) -> tuple[int, ...]:
        """A shape that broadcasts to `shape`: now and then with ones, or fewer dimensions."""
        shape = tuple(shape)
        if self.rng.random() < 0.6:
            return shape
        cut = self.rng.randint(0, len(shape))
        return tuple(1 if self.rng.random() < 0.3 else size for size in shape[cut:])

    def partner(self, name: str, dtype: torch.dtype | None = None) -> str:
        """A second operand that broadcasts with `name`."""
        shape = self.value(name).shape
        found = self.pick(
            lambda v: not v.is_complex() and compatible(v.shape, shape) and (dtype is None or v.dtype == dtype), 0.8
        )
        if found is not None:
            return found
        wanted = self.value(name).dtype if self.rng.random() < 0.8 else self.any_dtype()
        return self.new_input(self.broadcastable(shape), dtype or wanted)

    def same(self, name: str) -> str:
        value = self.value(name)
        found = self.pick(lambda v: v.shape == value.shape and v.dtype == value.dtype, 0.7)
        return found or self.new_input(tuple(value.shape), value.dtype)

    def expanding(self, name: str) -> str:
        value = self.value(name)
        found = self.pick(lambda v: v.dtype == value.dtype and broadcasts(v.shape, value.shape))
        return found or self.new_input(self.broadcastable(value.shape), value.dtype)

    def buffer(self, shape: Iterable[int], dtype: torch.dtype) -> str:
        shape = tuple(shape)
        return self._member(self.buffers, "b", shape, dtype, 0.6, lambda: inputs.values(shape, dtype, self.rng))

    def indices(self, size: int, shape: tuple[int, ...]) -> str:
        """Positions below `size`."""
        if size == 0:
            raise LookupError("no position")
        found = self.pick(
            lambda v: (
                v.dtype == torch.int64
                and tuple(v.shape) == shape
                and v.numel() > 0
                and int(v.min()) >= 0
                and int(v.max()) < size
            )
        )
        return found or self.new_input(shape, torch.int64, f"torch.randint(0, {size}, {shape})")

    def dim(self, name: str) -> int:
        rank = self.value(name).ndim
        if rank == 0:
            return self.rng.choice([0, -1])
        return self.rng.randrange(-rank, rank)

    def number(self) -> str:
        return self.rng.choice(["0.5", "2.0", "-1.5", "3", "0.1", "1", "-2", "0"])

    def finish(self) -> Program:
        """Outputs are values that nothing reads, some others, now and then one twice, an input, or a view."""
        chosen = self.ends(0.8, 0.08)
        if self.chance(0.05) and chosen:
            chosen.append(self.rng.choice(chosen))
        if self.chance(0.04) and self.inputs:
            chosen.append(self.rng.choice(list(self.inputs)))
        if self.chance(0.06) and chosen and self.value(chosen[-1]).ndim:
            chosen.append(f"{chosen[-1]}.transpose(0, -1)")
        if self.chance(0.03) and self.buffers:
            chosen.append(f"self.{self.rng.choice(list(self.buffers))}")
        self.rng.shuffle(chosen)
        program = Program(
            dict(self.inputs), self.parameters, self.buffers, tuple(self.lines), tuple(chosen[:8]), self.dynamic
        )
        return program.without_dead_code()


def broadcasts(shape: Iterable[int], target: Iterable[int]) -> bool:
    """Whether a shape expands to `target`."""
    small, large = list(shape), list(target)
    if len(small) > len(large):
        return False
    return all(a in (1, b) for a, b in zip(reversed(small), reversed(large)))


def compatible(first: Iterable[int], second: Iterable[int]) -> bool:
    return all(1 in (a, b) or a == b for a, b in zip(reversed(list(first)), reversed(list(second))))


# Ops that no loadable runs natively yet: a program with one tests eager mode alone.
_WITHOUT_LOWERING: tuple[str, ...] = (
    "cumprod",
    "cummax",
    "cummin",
    "logcumsumexp",
    "kthvalue",
    "median",
    "stable",
    "bucketize",
    "bincount",
)
_WITHOUT_LOWERING += ("searchsorted", "torch.complex", "view_as_complex", "diagonal_scatter", "one_hot", "bilinear")
_WITHOUT_LOWERING += ("conv_transpose", "renorm", "isin", "torch.cond")

# Templates for which chip code has no program: complex numbers, sizes that depend on data, and functions without code
# for the scalar core.
_NOT_CHIP = (
    *("complex", "fft", "{z}", "torch.cond", "float16", "double", "lgamma", "digamma", "polygamma", "igamma", "zeta"),
    *("special_", "erfinv", "nextafter", "gcd", "lcm", "conv_transpose", "bincount", "ldexp", "frexp", "i0"),
    *("round.decimals", "local_response_norm"),
)
# Dtypes of inputs of programs for chip code, besides the one that becomes bfloat16.
_CHIP_DTYPES = (torch.int64, torch.int64, torch.int32, torch.bool, torch.bool, torch.int16, torch.int8, torch.uint8)


class Draws:
    """Templates of one table by coverage: of a few candidates the one that earlier programs, and after the template
    before it, had least."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.pairs: Counter[tuple[str, str]] = Counter()
        self.failed: Counter[str] = Counter()

    def program(
        self, builder: Statements, names: Sequence[str], weights: Sequence[float], wanted: int
    ) -> Program | None:
        """A program of up to `wanted` statements; None if none came about."""
        last, tries = "input", 0
        while len(builder.lines) < wanted and tries < 4 * wanted:
            tries += 1
            name = self._choose(builder.rng, names, weights, last)
            if builder.add(name):
                last = name
                self.counts[name] += 1
            else:
                self.failed[name] += 1
        if not builder.lines:
            return None
        program = builder.finish()
        for line in program.lines:
            self.pairs.update((builder.made_by[used], line.template) for used in line.uses() if used in builder.made_by)
        return program

    def _choose(self, rng: Random, names: Sequence[str], weights: Sequence[float], last: str) -> str:
        def had(name: str) -> float:
            return self.counts[name] + self.failed[name] / 2 + 3 * self.pairs[last, name]

        return min(rng.choices(names, weights, k=3), key=had)


def _weights(templates: Mapping[str, tuple[Any, float]]) -> list[float]:
    """Those of templates in a program that may be a loadable."""
    return [
        weight * (0.3 if any(part in name for part in _WITHOUT_LOWERING) else 1.0)
        for name, (_, weight) in templates.items()
    ]


class Generator:
    """A sequence of programs that a seed determines. nested: share of those whose sizes are expressions of symbols."""

    def __init__(self, seed: int, nested: float = NESTED):
        self.rng = Random(seed)
        self.share = nested
        self.plain, self.nested = Draws(), Draws()
        self.names, self.weights = list(TEMPLATES), _weights(TEMPLATES)
        self.nested_names, self.nested_weights = list(NestedBuilder.templates), _weights(NestedBuilder.templates)
        self.chip_names = [name for name in self.names if not any(part in name for part in _NOT_CHIP)]
        self.chip_weights = [TEMPLATES[name][1] for name in self.chip_names]

    def next(self, number: int) -> Program:
        rng = Random(self.rng.getrandbits(64))
        torch.manual_seed(number)
        is_nested = self.share and rng.random() < self.share
        return (self._nested(rng) if is_nested else self._plain(rng)) or self.next(number)

    def _nested(self, rng: Random) -> Program | None:
        builder, wanted = NestedBuilder(rng), rng.choice([1, 2, 3, 3, 4, 4, 5, 6, 8, 10])
        return self.nested.program(builder, self.nested_names, self.nested_weights, wanted)

    def _plain(self, rng: Random) -> Program | None:
        builder = Builder(rng, rng.choice(["free", "bounded"]) if rng.random() < 0.15 else "")
        if rng.random() >= 0.25:
            wanted = rng.choice([4, 4, 5, 6, 6, 8, 8, 10, 12, 16, 24, 40])
            return self.plain.program(builder, self.names, self.weights, wanted)
        builder.dtype, builder.strange, builder.other_dtypes = torch.float32, rng.choice([0.1, 0.5]), _CHIP_DTYPES
        wanted = rng.choice([1, 2, 3, 4, 4, 5, 6, 8, 12, 16])
        program = self.plain.program(builder, self.chip_names, self.chip_weights, wanted)
        return program and replace(program, chip=True)
