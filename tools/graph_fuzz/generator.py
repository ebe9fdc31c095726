# SPDX-License-Identifier: BSD-3-Clause
"""Builds a random program statement by statement, and runs each on the CPU to know what it gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import torch

from . import inputs
from .nested.generator import NestedGenerator
from .program import Line, Program
from .registration import registration
from .values import MOST_ELEMENTS, acceptable, evaluate, execute, has_overlap

NESTED = 0.08  # share of the programs whose sizes are expressions of symbols
_SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33)
_NOISY_DTYPES = (torch.complex64, torch.int16, torch.int8, torch.uint8)

Template = Callable[["Builder"], str | None]
TEMPLATES: dict[str, tuple[Template, float]] = {}
template = registration(TEMPLATES)


class Builder:
    """The program so far, with the value of every name, and what templates draw from."""

    def __init__(self, rng: Random, program_dynamic: str = ""):
        self.rng = rng
        self.dynamic = program_dynamic
        self.batch = rng.choice([4, 5, 6, 7]) if program_dynamic else 0
        self.sizes = [rng.choice(_SIZES) for _ in range(4)] + ([0] if rng.random() < 0.03 else [])
        self.dtype = rng.choice([torch.float32] * 8 + [torch.bfloat16] * 2 + [torch.float16, torch.float64])
        self.strange = rng.choice([0.0, 0.2, 0.5])  # share of inputs that are not contiguous
        self.other_dtypes: tuple[torch.dtype, ...] = ()  # besides `dtype`, if not all
        self.may_write_inputs = rng.random() < 0.03
        self.environment: dict[str, Any] = {}
        self.members = SimpleNamespace()
        self.program_inputs: dict[str, str] = {}
        self.parameters: dict[str, str] = {}
        self.buffers: dict[str, str] = {}
        self.lines: list[Line] = []
        self.made_by: dict[str, str] = {}  # value -> template
        self.count = 0
        self.name = ""  # of the template under way

    # -- drawing ------------------------------------------------------------------------------------------------------
    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        for name, value in self.environment.items():
            if isinstance(value, torch.Tensor):
                yield name, value

    def pick(self, fits: Callable[[torch.Tensor], bool] = lambda value: True, reuse: float = 0.85) -> str | None:
        """An existing value, recent ones first."""
        found = [name for name, value in self.tensors() if fits(value)]
        if not found or self.rng.random() > reuse:
            return None
        return found[-1 - min(int(self.rng.expovariate(0.5)), len(found) - 1)]

    def value(self, name: str) -> torch.Tensor:
        if name.startswith("self."):
            return getattr(self.members, name[5:])
        return self.environment[name]

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        rank = self.rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5]) if rank is None else rank
        shape = [self.rng.choice(self.sizes) for _ in range(rank)]
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
        self.count += 1
        name = f"x{self.count}"
        self.program_inputs[name] = text
        self.environment[name] = evaluate(text, {})
        self.made_by[name] = "input"
        return name

    def tensor(self, fits: Callable[[torch.Tensor], bool] = lambda value: True, rank: int | None = None) -> str:
        """Any tensor that fits; a new input if there is none."""

        def suits(value: torch.Tensor) -> bool:
            return (rank is None or value.ndim == rank) and fits(value)

        found = self.pick(suits)
        if found is not None:
            return found
        for _ in range(30):
            name = self.new_input(self.shape(rank))
            if suits(self.environment[name]):
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

    def parameter(self, shape: Iterable[int], dtype: torch.dtype, scale: float = 1.0) -> str:
        """A parameter; floats shrink with `scale`. Some are shared by several statements."""
        shape = tuple(shape)
        for name in self.parameters:
            value = getattr(self.members, name)
            if value.shape == shape and value.dtype == dtype and self.rng.random() < 0.3:
                return f"self.{name}"
        self.count += 1
        name = f"w{self.count}"
        text = f"torch.randn({shape}) * {scale:.3g}" if scale != 1.0 else f"torch.randn({shape})"
        self.parameters[name] = text if dtype is torch.float32 else f"({text}).to({dtype})"
        setattr(self.members, name, evaluate(self.parameters[name], {}))
        return f"self.{name}"

    def buffer(self, shape: Iterable[int], dtype: torch.dtype) -> str:
        shape = tuple(shape)
        for name in self.buffers:
            value = getattr(self.members, name)
            if value.shape == shape and value.dtype == dtype and self.rng.random() < 0.6:
                return f"self.{name}"
        self.count += 1
        name = f"b{self.count}"
        self.buffers[name] = inputs.values(shape, dtype, self.rng)
        setattr(self.members, name, evaluate(self.buffers[name], {}))
        return f"self.{name}"

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

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def number(self) -> str:
        return self.rng.choice(["0.5", "2.0", "-1.5", "3", "0.1", "1", "-2", "0"])

    def writable(self, fits: Callable[[torch.Tensor], bool] = lambda value: True) -> str | None:
        """A value that a statement may change: its memory is no input's and no parameter's, and no element is twice."""
        owned = {self.environment[name].untyped_storage().data_ptr() for name in self.program_inputs}
        if self.may_write_inputs:
            owned = set()
        owned |= {getattr(self.members, name).untyped_storage().data_ptr() for name in self.parameters}

        def suits(value: torch.Tensor) -> bool:
            return value.untyped_storage().data_ptr() not in owned and not has_overlap(value) and fits(value)

        return self.pick(suits, 1.0)

    # -- adding -------------------------------------------------------------------------------------------------------
    def forget(self, name: str) -> None:
        self.program_inputs.pop(name, None)
        self.environment.pop(name, None)
        self.made_by.pop(name, None)

    def add(self, name: str) -> bool:
        """One more statement by that template; False if it does not come about."""
        self.name = name
        before = set(self.program_inputs), set(self.parameters), set(self.buffers)
        try:
            text = TEMPLATES[name][0](self)
            if text is None or not self._run(text):
                raise LookupError("nothing to do")
        except (LookupError, RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AssertionError):
            for store, kept in zip((self.program_inputs, self.parameters, self.buffers), before):
                for added in set(store) - kept:
                    del store[added]
                    self.environment.pop(added, None)
                    self.made_by.pop(added, None)
            return False
        return True

    def _run(self, text: str) -> bool:
        if text.endswith(";"):
            line = Line(text[:-1], (), self.name)
            execute(line.text, self._scope())
            self.lines.append(line)
            return True
        result = evaluate(text, self._scope())
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        if not results or not all(acceptable(item) for item in results):
            return False
        names = []
        for item in results:
            self.count += 1
            names.append(f"v{self.count}")
            self.environment[names[-1]] = item
            self.made_by[names[-1]] = self.name
        left = ", ".join(names) + ("," if isinstance(result, (tuple, list)) and len(names) == 1 else "")
        self.lines.append(Line(f"{left} = {text}", tuple(names), self.name))
        return True

    def _scope(self) -> dict[str, Any]:
        return {**self.environment, "self": self.members}

    def finish(self) -> Program:
        outputs = self._outputs()
        program = Program(
            dict(self.program_inputs), self.parameters, self.buffers, tuple(self.lines), outputs, self.dynamic
        )
        return program.without_dead_code()

    def _outputs(self) -> tuple[str, ...]:
        """Values that nothing reads, some others, now and then one twice, an input, or a view."""
        read = {name for line in self.lines for name in line.uses()}
        made = [name for line in self.lines for name in line.defines]
        ends = [name for name in made if name not in read]
        chosen = [name for name in ends if self.chance(0.8)] or ends[-1:] or made[-1:]
        chosen += [name for name in made if name in read and self.chance(0.08)]
        if self.chance(0.05) and chosen:
            chosen.append(self.rng.choice(chosen))
        if self.chance(0.04) and self.program_inputs:
            chosen.append(self.rng.choice(list(self.program_inputs)))
        if self.chance(0.06) and chosen and self.environment[chosen[-1]].ndim:
            chosen.append(f"{chosen[-1]}.transpose(0, -1)")
        if self.chance(0.03) and self.buffers:
            chosen.append(f"self.{self.rng.choice(list(self.buffers))}")
        self.rng.shuffle(chosen)
        return tuple(chosen[:8])


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
    *("logaddexp2", "logit_backward", "round.decimals", "local_response_norm"),
)
# Dtypes of inputs of programs for chip code, besides the one that becomes bfloat16.
_CHIP_DTYPES = (torch.int64, torch.int64, torch.int32, torch.bool, torch.bool, torch.int16, torch.int8, torch.uint8)


class Generator:
    """A sequence of programs that a seed determines. Draws by coverage: of a few candidates it takes the template, and
    the pair with the template before it, that earlier programs had least."""

    def __init__(self, seed: int, nested: float = NESTED):
        self.rng = Random(seed)
        self.nested = NestedGenerator(nested)
        self.counts: Counter[str] = Counter()
        self.pairs: Counter[tuple[str, str]] = Counter()
        self.failed: Counter[str] = Counter()
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
        if self.nested.share and rng.random() < self.nested.share:
            return self.nested.next(rng)
        dynamic = rng.choice(["free", "bounded"]) if rng.random() < 0.15 else ""
        builder = Builder(rng, dynamic)
        chip = rng.random() < 0.25
        if chip:
            builder.dtype, builder.strange, builder.other_dtypes = torch.float32, rng.choice([0.1, 0.5]), _CHIP_DTYPES
        wanted = rng.choice([1, 2, 3, 4, 4, 5, 6, 8, 12, 16] if chip else [4, 4, 5, 6, 6, 8, 8, 10, 12, 16, 24, 40])
        last, tries = "input", 0
        while len(builder.lines) < wanted and tries < 4 * wanted:
            tries += 1
            name = self._choose(rng, last, chip)
            if builder.add(name):
                last = name
                self.counts[name] += 1
            else:
                self.failed[name] += 1
        if not builder.lines:
            return self.next(number)
        program = replace(builder.finish(), chip=chip)
        for line in program.lines:
            for used in line.uses():
                if used in builder.made_by:
                    self.pairs[builder.made_by[used], line.template] += 1
        return program

    def _choose(self, rng: Random, last: str, chip: bool) -> str:
        names, weights = (self.chip_names, self.chip_weights) if chip else (self.names, self.weights)
        candidates = rng.choices(names, weights, k=3)
        return min(
            candidates, key=lambda name: (self.counts[name] + self.failed[name] / 2) + 3 * self.pairs[last, name]
        )
