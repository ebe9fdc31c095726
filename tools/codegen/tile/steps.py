# SPDX-License-Identifier: BSD-3-Clause
"""The words of tile programs, from csrc/sim/tile_steps.yaml."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from ..kernels import ContractError

TABLE = "csrc/sim/tile_steps.yaml"
MOST_ELEMENTS = 1 << 20
KEYS = {"names", "words", "forms", "bodies", "repeats", "pure", "pointwise", "meaning"}
KINDS = {"out", "value", "state", "optional", "mask", "text", "dtype", "number"}
_NAME = re.compile(r"(\w+)(?:\[(\w*)\])?")
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")


@dataclass(frozen=True)
class Word:
    """A word, or several: `repeat` is the word that counts them, "" for all that are left, None for a single one.

    `kind` is one of KINDS; of a number, `low` and `high` are the smallest and the largest one, if it has a range, and
    `enum` is the enum that it belongs to.
    """

    name: str
    kind: str
    repeat: str | None = None
    low: int | None = None
    high: int | None = None
    enum: str | None = None


@dataclass(frozen=True)
class Table:
    mark: int
    version: int
    records: dict[str, list[str]]
    steps: list[Step]


@dataclass(frozen=True)
class Step:
    names: tuple[str, ...]
    words: tuple[Word, ...]
    forms: dict[str, tuple[Word, ...]]
    bodies: tuple[str, ...]
    repeats: bool
    pure: bool
    pointwise: bool
    meaning: str

    @property
    def counts(self) -> dict[str, str]:
        """Words that count others, and the first that they count."""
        found: dict[str, str] = {}
        for word in self.words:
            if word.repeat:
                found.setdefault(word.repeat, word.name)
        return found


def _word(text: str, kind: str, enums: dict[str, tuple[str, ...]]) -> Word:
    match = _NAME.fullmatch(text)
    if match is None:
        raise ContractError(f"{TABLE}: got the word {text!r}; expected a name, name[] or name[count]")
    name, repeat = match.groups()
    if kind in KINDS:
        return Word(name, kind, repeat)
    if kind == "count":
        return Word(name, "number", repeat, 1, MOST_ELEMENTS)
    if kind in enums:
        return Word(name, "number", repeat, 0, len(enums[kind]) - 1, kind)
    span = _RANGE.fullmatch(str(kind))
    if span is None:
        raise ContractError(
            f"{TABLE}: got the kind {kind!r} of {name}; expected one of {', '.join(sorted(KINDS))}, count, a range "
            "or an enum of kernels.yaml"
        )
    return Word(name, "number", repeat, int(span[1]), int(span[2]))


def load(path: Path, enums: dict[str, tuple[str, ...]]) -> Table:
    """Read the table. Raises ContractError for unknown keys, kinds and counts."""
    raw = yaml.safe_load(path.read_text())
    steps = []
    for row in raw["steps"]:
        if set(row) - KEYS or not {"names", "words", "meaning"} <= set(row):
            raise ContractError(f"{TABLE}: got a step with the keys {sorted(row)}; expected those of the file's head")
        words = tuple(_word(name, kind, enums) for name, kind in row["words"].items())
        for k, word in enumerate(words):
            if word.repeat and word.repeat not in {w.name for w in words[:k]}:
                raise ContractError(
                    f"{TABLE}: {row['names'][0]}: {word.name} is counted by {word.repeat!r}, no word before it"
                )
        forms = {
            form: tuple(_word(name, kind, enums) for name, kind in group.items())
            for form, group in row.get("forms", {}).items()
        }
        steps.append(
            Step(
                tuple(row["names"]), words, forms, tuple(row.get("bodies", ())), row.get("repeats", False),
                row.get("pure", False), row.get("pointwise", False), " ".join(row["meaning"].split()),
            )
        )  # fmt: skip
    return Table(raw["mark"], raw["version"], raw["records"], steps)
