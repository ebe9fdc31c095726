# SPDX-License-Identifier: BSD-3-Clause
"""A program that grows statement by statement, each of which runs on the CPU; and tables of templates, the functions
that write statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, Literal, TypeVar

import torch

from .program import Line, Program
from .values import acceptable, evaluate, execute, has_overlap

Template = TypeVar("Template", bound=Callable[..., "str | None"])
Dtypes = Literal["all", "real", "floats", "wide floats", "numbers", "integers", "complex", "squares"]
NOT_RUNNING = (
    *(LookupError, RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AssertionError),
    ZeroDivisionError,
)


def registration(templates: dict[str, tuple[Template, float]]) -> Callable[..., Callable[[Template], Template]]:
    """Create the decorator of a table: `@template(*names, weight=1.0)`.

    It registers a function that writes the right side of a statement, or gives None when it has no operands for one. A
    text that ends with ";" works in place and defines no value.
    """

    def template(*names: str, weight: float = 1.0) -> Callable[[Template], Template]:
        def register(function: Template) -> Template:
            if twice := templates.keys() & set(names):
                raise ValueError(f"templates that are registered twice: {', '.join(sorted(twice))}")
            templates.update(dict.fromkeys(names, (function, weight)))
            return function

        return register

    return template


class Statements:
    """The program so far, with the value of every name at each assignment of its symbols; a program without symbols has
    one, which is empty. A statement counts only if it runs at all of them."""

    templates: dict[str, tuple[Any, float]]

    def __init__(self, rng: Random, sizes: Sequence[dict[str, int]] = ({},)):
        self.rng = rng
        self.sizes = tuple(sizes)
        self.scopes: list[dict[str, torch.Tensor]] = [{} for _ in sizes]
        self.members = SimpleNamespace()
        self.inputs: dict[str, str] = {}
        self.parameters: dict[str, str] = {}
        self.buffers: dict[str, str] = {}
        self.lines: list[Line] = []
        self.made_by: dict[str, str] = {}  # value -> template
        self.count = 0
        self.name = ""  # of the template under way
        self.may_write_inputs = False

    # -- drawing ------------------------------------------------------------------------------------------------------
    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def value(self, name: str) -> torch.Tensor:
        """At the first assignment."""
        return getattr(self.members, name[5:]) if name.startswith("self.") else self.scopes[0][name]

    def pick_name(self, fits: Callable[[str], bool], reuse: float = 0.85) -> str | None:
        """An existing value, recent ones first."""
        found = [name for name in self.scopes[0] if fits(name)]
        if not found or self.rng.random() > reuse:
            return None
        return found[-1 - min(int(self.rng.expovariate(0.5)), len(found) - 1)]

    def operand(self, dtypes: Dtypes, least: int = 1, rank: int | None = None) -> str:
        """A tensor of `rank` dimensions, or of at least `least`; a new input if there is none."""
        raise NotImplementedError

    def same(self, name: str) -> str:
        """Another tensor of the same sizes and dtype."""
        raise NotImplementedError

    def expanding(self, name: str) -> str:
        """Another tensor of the same dtype, whose sizes expand to those of a tensor."""
        raise NotImplementedError

    def dim(self, name: str) -> int:
        """A dimension of a tensor."""
        raise NotImplementedError

    def size(self) -> str:
        """The size of some dimension of some value, as text."""
        name = self.pick_name(lambda name: self.value(name).ndim > 0, 1.0)
        if name is None:
            raise LookupError("no value has dimensions")
        return f"{name}.shape[{self.dim(name)}]"

    def fields(self, x: str) -> dict[str, Callable[[], Any]]:
        """What makes the fields of a text about the operand {x}."""
        rank, dtype = self.value(x).ndim, self.value(x).dtype
        d = self.dim(x) if rank else 0
        signs = [range(rank), range(-rank, 0)]
        least = min((scope[x].shape[d] for scope in self.scopes if rank), default=0)
        return {
            "d": lambda: d,
            "e": lambda: self.rng.choice([k for k in range(rank) if k != d % rank] or [d]),  # another dimension
            "n": lambda: f"{x}.shape[{d}]",
            "i": lambda: self.rng.randrange(max(least, 1)) - (least if self.chance(0.2) else 0),  # a place along d
            "window": lambda: self.rng.randint(1, min(max(least, 1), 3)),
            "order": lambda: self.rng.sample(range(rank), rank),
            "k": lambda: self.rng.choice([1, 1, 2, 3]),
            "step": lambda: self.rng.choice([2, 2, 3]),
            "s": self.size,
            "m": lambda: self.rng.choice([1, 2, 2, 3, self.size(), self.size(), f"{x}.shape[{d}]"]),
            "at": lambda: self.rng.choice(["", "..., "]),  # the first dimension or the last
            "dims": lambda: tuple(self.rng.sample(self.rng.choice(signs), self.rng.randint(1, rank))),
            "flag": lambda: self.chance(0.5),
            "keepdim": lambda: f"keepdim={self.chance(0.5)}",
            "number": lambda: self.rng.choice(["0.5", "2.0", "-1.5", "3"]),
            "y": lambda: self.same(x),
            "into": lambda: self.expanding(x),
            "w1": lambda: self.parameter((2, 1, 3), dtype),
            "w2": lambda: self.parameter((2, 1, 3, 3), dtype),
            "w3": lambda: self.parameter((3, 2), dtype),
        }

    def writable(self, fits: Callable[[torch.Tensor], bool] = lambda value: True) -> str | None:
        """A value that a statement may change: its memory is no input's and no parameter's, and no element is twice."""
        kept = [f"self.{name}" for name in self.parameters] + ([] if self.may_write_inputs else list(self.inputs))
        owned = {self.value(name).untyped_storage().data_ptr() for name in kept}

        def suits(name: str) -> bool:
            value = self.value(name)
            overlaps = any(has_overlap(scope[name]) for scope in self.scopes)
            return value.untyped_storage().data_ptr() not in owned and not overlaps and fits(value)

        return self.pick_name(suits, 1.0)

    def new_name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def add_input(self, text: str) -> str:
        name = self.new_name("x")
        self.inputs[name] = text
        for scope, sizes in zip(self.scopes, self.sizes):
            scope[name] = evaluate(text, dict(sizes))
        self.made_by[name] = "input"
        return name

    def parameter(self, shape: Iterable[int], dtype: torch.dtype, scale: float = 1.0) -> str:
        """A parameter; floats shrink with `scale`. Some are shared by several statements."""
        shape = tuple(shape)
        text = f"torch.randn({shape}) * {scale:.3g}" if scale != 1.0 else f"torch.randn({shape})"
        text = text if dtype is torch.float32 else f"({text}).to({dtype})"
        return self._member(self.parameters, "w", shape, dtype, 0.3, lambda: text)

    def _member(
        self, store: dict[str, str], kind: str, shape: tuple[int, ...], dtype: torch.dtype, reuse: float,
        write: Callable[[], str],
    ) -> str:  # fmt: skip
        for name in store:
            value = getattr(self.members, name)
            if value.shape == shape and value.dtype == dtype and self.rng.random() < reuse:
                return f"self.{name}"
        name = self.new_name(kind)
        store[name] = write()
        setattr(self.members, name, evaluate(store[name], {}))
        return f"self.{name}"

    # -- adding -------------------------------------------------------------------------------------------------------
    def forget(self, name: str) -> None:
        stores: tuple[dict[str, Any], ...] = (
            *(self.inputs, self.parameters, self.buffers, self.made_by),
            *self.scopes,
        )
        for store in stores:
            store.pop(name, None)

    def add(self, name: str) -> bool:
        """One more statement by that template; False if it does not come about."""
        self.name = name
        before = {*self.inputs, *self.parameters, *self.buffers}
        try:
            text = self.templates[name][0](self)
            if text is None or not self._run(text):
                raise LookupError("nothing to do")
        except NOT_RUNNING:
            for added in {*self.inputs, *self.parameters, *self.buffers} - before:
                self.forget(added)
            return False
        return True

    def _run(self, text: str) -> bool:
        if text.endswith(";"):
            for scope in self.scopes:
                execute(text[:-1], {**scope, "self": self.members})
            self.lines.append(Line(text[:-1], (), self.name))
            return True
        runs = [evaluate(text, {**scope, "self": self.members}) for scope in self.scopes]
        several = isinstance(runs[0], (tuple, list))
        results = [list(run) if several else [run] for run in runs]
        if len({len(items) for items in results}) > 1 or not results[0]:
            return False
        if not all(acceptable(item) for items in results for item in items):
            return False
        names = []
        for items in zip(*results):
            names.append(self.new_name("v"))
            self.made_by[names[-1]] = self.name
            for scope, item in zip(self.scopes, items):
                scope[names[-1]] = item
        left = ", ".join(names) + ("," if several and len(names) == 1 else "")
        self.lines.append(Line(f"{left} = {text}", tuple(names), self.name))
        return True

    def finish(self) -> Program:
        raise NotImplementedError

    def ends(self, share: float, inner: float) -> list[str]:
        """Results for outputs: of those that nothing reads with the probability `share`, of others with `inner`."""
        read = {name for line in self.lines for name in line.uses()}
        made = [name for line in self.lines for name in line.defines]
        ends = [name for name in made if name not in read]
        chosen = [name for name in ends if self.chance(share)] or ends[-1:] or made[-1:]
        return chosen + [name for name in made if name in read and self.chance(inner)]
