# SPDX-License-Identifier: BSD-3-Clause
"""What all steps of a tile program have: words, the values among them, bodies. step_types.py has a class for each."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, TypeVar

from ..program.support import generated

Kind = tuple[str, str, "str | None"]  # of a word: name, kind (tile_steps.yaml), what counts it
_VALUES = ("out", "value", "state", "optional", "mask")
_PLAIN = (*_VALUES, "text", "dtype", "number")
_Changed = TypeVar("_Changed", bound="Step")


@functools.cache
def code(enum: str, name: str) -> int:
    """The number of a value of an enum of csrc/sim/kernels.yaml."""
    return int(generated("kernel_enums.json", "table of enums")[enum].index(name))


@functools.cache
def _name(enum: str, number: int) -> str:
    return str(generated("kernel_enums.json", "table of enums")[enum][number])


class Form:
    """Words in their order, each a field: numbers, lists of them, and names of enumerators."""

    kinds: ClassVar[tuple[Kind, ...]] = ()
    counts: ClassVar[dict[str, str]] = {}  # words that are no fields: the field whose length they are

    def numbers(self, places: Sequence[int] = ()) -> Iterator[int]:
        """Its words. `places`: where each text stands."""
        for name, kind, _ in self.kinds:
            value = getattr(self, self.counts.get(name, name))
            if name in self.counts:
                yield len(value)
            elif kind == "text":
                yield places[value]
            elif kind not in _PLAIN:
                yield code(kind, value)
            else:
                yield from value if isinstance(value, list) else (value,)

    def ids(self, *chosen: str) -> list[int]:
        """The values among its words, of the kinds `chosen` (default: all), in their order."""
        found: list[int] = []
        for name, kind, _ in self.kinds:
            if kind in (chosen or _VALUES):
                value = getattr(self, name)
                found += value if isinstance(value, list) else [value]
        return [v for v in found if v >= 0]

    @classmethod
    def fields(cls, words: Sequence[int]) -> tuple[dict[str, Any], int]:
        """The fields that some words stand for, texts as numbers, and how many words they are."""
        found: dict[str, Any] = {}
        counted: dict[str, int] = {}
        at = 0
        for name, kind, repeat in cls.kinds:
            if repeat is not None:
                n = counted[repeat] if repeat else len(words) - at
                found[name] = list(words[at : at + n])
                at += n
                continue
            if name in cls.counts:
                counted[name] = words[at]
            else:
                found[name] = words[at] if kind in _PLAIN else _name(kind, words[at])
            at += 1
        return found, at


class Step(Form):
    """An operation on values, which are given by their ids, and the steps inside of it."""

    op: ClassVar[str]
    number: ClassVar[int]
    body_names: ClassVar[tuple[str, ...]] = ()
    forms: ClassVar[dict[str, type[Form]]] = {}
    repeats: ClassVar[bool] = False  # the bodies run more than once
    pure: ClassVar[bool] = False  # it writes all of its first value, and does nothing else

    @property
    def bodies(self) -> list[list[Step]]:
        return [getattr(self, name) for name in self.body_names]

    def with_bodies(self: _Changed, bodies: Sequence[list[Step]]) -> _Changed:
        changed: Any = self
        return dataclasses.replace(changed, **dict(zip(self.body_names, bodies, strict=True)))

    def numbers(self, places: Sequence[int] = ()) -> Iterator[int]:
        yield from super().numbers(places)
        for form in self.forms:
            group = getattr(self, form)
            if group is not None:
                yield from group.numbers(places)

    def ids(self, *chosen: str) -> list[int]:
        groups = [getattr(self, form) for form in self.forms]
        return super().ids(*chosen) + [v for group in groups if group is not None for v in group.ids(*chosen)]

    @property
    def values(self) -> list[int]:
        """All values that it reads or writes."""
        return self.ids()

    @property
    def read(self) -> list[int]:
        return self.ids("value", "state", "optional", "mask")

    def steps(self) -> int:
        """How many steps it is with those inside of it."""
        return 1 + sum(step.steps() for body in self.bodies for step in body)

    @classmethod
    def build(cls, words: Sequence[int], bodies: Sequence[list[Step]]) -> Step:
        """The step of this class with some words, texts as numbers. Raises ValueError for words of another number."""
        found, at = cls.fields(words)
        for form, group in cls.forms.items():
            if at < len(words) and at + len(group.kinds) == len(words):
                found[form] = group(**group.fields(words[at:])[0])
                at = len(words)
        if at != len(words):
            raise ValueError(f"{cls.op}: got {len(words)} words, expected {at}")
        return cls(**found, **dict(zip(cls.body_names, bodies, strict=True)))
