# SPDX-License-Identifier: BSD-3-Clause
"""What varies: parameters of the chip file, and options of the compiler."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

OPTIONS = {
    "compile.optimize": ("none", "exact", "fast"),
    "compile.weights": ("float32", "bfloat16", "int8"),
    "compile.engine": ("functional", "isa"),
}


@dataclass(frozen=True)
class Variant:
    """One point of the space: values by parameter, those of the chip ("array.rows") and those of OPTIONS."""

    values: Mapping[str, Any]

    def chip_text(self, default: str) -> str:
        """The chip file `default` with this variant's values."""
        return with_values(default, {key: value for key, value in self.values.items() if key not in OPTIONS})

    def options(self) -> dict[str, Any]:
        """Of the compiler."""
        found = {key.partition(".")[2]: value for key, value in self.values.items() if key in OPTIONS}
        if found.get("weights") == "float32":
            found["weights"] = None
        return found

    def __str__(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self.values.items())


def with_values(text: str, values: Mapping[str, Any]) -> str:
    """A chip file with other values for parameters "section.name". Raises ValueError for one that the file lacks."""
    for key, value in values.items():
        section, _, name = key.partition(".")
        literal = f'"{value}"' if isinstance(value, str) else str(value)
        pattern = rf"(^\[{re.escape(section)}\]\n(?:(?!\[).*\n)*?{re.escape(name)} = {{ value = )(\"[^\"]*\"|[^,]+)"
        text, count = re.subn(pattern, lambda found: found[1] + literal, text, flags=re.MULTILINE)  # noqa: B023
        if count != 1:
            raise ValueError(f"no chip parameter {key!r}; expected section.name as in `python -m torch_atalla info`")
    return text


def parse(text: str) -> tuple[str, list[Any]]:
    """ "array.rows=16,32,64" -> ("array.rows", [16, 32, 64]). Raises ValueError."""
    key, found, values = text.partition("=")
    if not found or "." not in key or not values:
        raise ValueError(f"--vary {text}: expected section.name=value,value,...")
    return key.strip(), [_value(item.strip()) for item in values.split(",")]


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def checked(vary: Mapping[str, Iterable[Any]], default: str) -> dict[str, list[Any]]:
    """The space with lists of distinct values. Raises ValueError for what cannot vary."""
    space = {key: list(dict.fromkeys(values)) for key, values in vary.items()}
    if not space:
        raise ValueError("nothing varies; expected a parameter and its values, as array.rows=16,32,64")
    for key, values in space.items():
        if not values:
            raise ValueError(f"{key} has no values")
        if key in OPTIONS:
            unknown = [value for value in values if value not in OPTIONS[key]]
            if unknown:
                raise ValueError(f"{key} is {unknown[0]!r}; expected one of {', '.join(OPTIONS[key])}")
        else:
            with_values(default, {key: values[0]})
    return space


@dataclass(frozen=True)
class Constraint:
    """A bound of a parameter or of a measured number."""

    name: str
    upper: bool
    bound: float

    @staticmethod
    def parse(text: str) -> Constraint:
        """Of "cycles<=200000" or "array.rows>=16". Raises ValueError."""
        found = re.fullmatch(r"\s*([\w.]+)\s*(<=|>=)\s*([-+.\deE_]+)\s*", text)
        if found is None:
            raise ValueError(f"constraint {text!r}: expected name<=number or name>=number")
        return Constraint(found[1], found[2] == "<=", float(found[3]))

    def excess(self, known: Mapping[str, Any]) -> float | None:
        """By how much a number is beyond the bound (at most 0: it is not); None if it is not known."""
        if self.name not in known:
            return None
        return (float(known[self.name]) - self.bound) * (1 if self.upper else -1)

    def __str__(self) -> str:
        return f"{self.name}{'<=' if self.upper else '>='}{self.bound:g}"
