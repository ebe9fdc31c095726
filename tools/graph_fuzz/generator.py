# SPDX-License-Identifier: BSD-3-Clause
"""Random programs of a seed, and what their templates draw from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random

import torch

from . import inputs
from .nested.builder import NestedBuilder
from .program import Program
from .statements import Statements, registration
from .values import MOST_ELEMENTS

NESTED = 0.08  # share of the programs whose sizes are expressions of symbols
_SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33)
_NOISY_DTYPES = (torch.complex64, torch.int16, torch.int8, torch.uint8)

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

    def tensor(self, fits: Callable[[torch.Tensor], bool] = lambda value: True, rank: int | None = None) -> str:
        """Any tensor that fits; a new input if there is none."""

        def suits(value: torch.Tensor) -> bool:
            return (rank is None or value.ndim == rank) and fits(value)

        found = self.pick(suits)
        if found is not None:
            return found
        for _ in range(30):
            name = self.new_input(self.shape(rank))
            if suits(self.value(name)):
                return name
            self.forget(name)
        raise LookupError("no value fits")

    def floats(self, rank: int | None = None, least: int = 0) -> str:
        """A real floating-point tensor of at least `least` dimensions; a new input if there is none."""
        found = self.pick(lambda v: v.is_floating_point() and v.ndim >= least and (rank is None or v.ndim == rank))
        if found is not None:
            return found
        rank = self.rng.randint(least, 4) if rank is None else rank
        dtype = self.dtype if self.rng.random() < 0.9 else self.rng.choice(inputs.FLOATS)
        return self.new_input(self.shape(rank), dtype)

    def integers(self) -> str:
        found = self.pick(lambda v: v.dtype in inputs.INTEGERS)
        return found or self.new_input(None, self.rng.choice([torch.int64, torch.int64, torch.int32, torch.uint8]))

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
        """Another tensor of the same shape and dtype."""
        value = self.value(name)
        found = self.pick(lambda v: v.shape == value.shape and v.dtype == value.dtype, 0.7)
        return found or self.new_input(tuple(value.shape), value.dtype)

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

    def dims(self, name: str) -> tuple[int, ...]:
        rank = self.value(name).ndim
        chosen = self.rng.sample(range(rank), self.rng.randint(1, rank)) if rank else []
        return tuple(d - rank if self.rng.random() < 0.3 else d for d in chosen)

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
    "unique",
)
_WITHOUT_LOWERING += ("searchsorted", "torch.complex", "view_as_complex", "diagonal_scatter", "one_hot", "bilinear")
_WITHOUT_LOWERING += ("conv_transpose", "renorm", "isin", "torch.cond")

# Templates for which chip code has no program: complex numbers, sizes that depend on data, and functions without code
# for the scalar core.
_NOT_CHIP = (
    *("complex", "fft", "{z}", "torch.cond", "float16", "double", "lgamma", "digamma", "polygamma", "igamma", "zeta"),
    *("special_", "erfinv", "nextafter", "gcd", "lcm", "conv_transpose", "unique counts", "ldexp", "frexp", "i0"),
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


class Generator:
    """A sequence of programs that a seed determines. nested: share of those whose sizes are expressions of symbols."""

    def __init__(self, seed: int, nested: float = NESTED):
        self.rng = Random(seed)
        self.share = nested
        self.plain, self.nested = Draws(), Draws()
        self.names = list(TEMPLATES)
        self.weights = [
            TEMPLATES[name][1] * (0.3 if any(part in name for part in _WITHOUT_LOWERING) else 1.0)
            for name in self.names
        ]
        self.chip_names = [name for name in self.names if not any(part in name for part in _NOT_CHIP)]
        self.chip_weights = [TEMPLATES[name][1] for name in self.chip_names]

    def next(self, number: int) -> Program:
        rng = Random(self.rng.getrandbits(64))
        torch.manual_seed(number)
        is_nested = self.share and rng.random() < self.share
        return (self._nested(rng) if is_nested else self._plain(rng)) or self.next(number)

    def _nested(self, rng: Random) -> Program | None:
        templates = NestedBuilder.templates
        builder, wanted = NestedBuilder(rng), rng.choice([1, 2, 3, 3, 4, 4, 5, 6, 8, 10])
        return self.nested.program(builder, list(templates), [weight for _, weight in templates.values()], wanted)

    def _plain(self, rng: Random) -> Program | None:
        builder = Builder(rng, rng.choice(["free", "bounded"]) if rng.random() < 0.15 else "")
        if rng.random() >= 0.25:
            wanted = rng.choice([4, 4, 5, 6, 6, 8, 8, 10, 12, 16, 24, 40])
            return self.plain.program(builder, self.names, self.weights, wanted)
        builder.dtype, builder.strange, builder.other_dtypes = torch.float32, rng.choice([0.1, 0.5]), _CHIP_DTYPES
        wanted = rng.choice([1, 2, 3, 4, 4, 5, 6, 8, 12, 16])
        program = self.plain.program(builder, self.chip_names, self.chip_weights, wanted)
        return program and replace(program, chip=True)
