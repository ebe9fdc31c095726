# SPDX-License-Identifier: BSD-3-Clause
"""The contracts of kernels (csrc/sim/kernels.yaml): their traits, and their parameters by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch

from .support import generated

_Slot = tuple[str, int, int]  # "i" for iparams or "f" for fparams, the first place, the number of values


@dataclass(frozen=True)
class Parameter:
    slot: _Slot
    integer: _Slot | None = None  # instead of `slot`, if the kernel computes in integers
    repeat: bool = False  # a launch may have fewer values
    bit: int | None = None  # of the slot, for a bool that shares it
    values: tuple[str, ...] = ()  # of an enum: the names of 0, 1, ...
    present: tuple[int, int] | None = None  # place in iparams and bit that say whether an optional scalar is given


@dataclass(frozen=True)
class Loop:
    """A name of the index maps, and how the kernel goes over it; `Loop` in tools/codegen/kernels.py describes it."""

    name: str
    kind: str
    condition: tuple[str, ...] = ()
    over: str = ""
    axis: int = 0
    size: str = ""


@dataclass(frozen=True)
class IndexMap:
    """Which loop each dimension of an operand follows: a name, `name@parameter` for the dimension that a parameter
    numbers, or `*group` for any number of dimensions."""

    name: str
    terms: tuple[str, ...]
    written: bool
    repeat: bool


@dataclass(frozen=True)
class Contract:
    """What a kernel takes. TRAITS in tools/codegen/kernels.py describes the traits."""

    traits: frozenset[str] = frozenset()
    inputs: tuple[str, ...] = ()  # without those of any number, and the program
    optional_outputs: frozenset[int] = frozenset()  # by position
    combined_outputs: frozenset[int] = frozenset()  # whose elements the kernel reads or keeps
    takes_program: bool = False
    program_if: str | None = None  # the parameter that says whether a launch has a program
    parameters: dict[str, Parameter] = field(default_factory=dict)
    variants: dict[str, str] = field(default_factory=dict)  # "packed" and "fused": the kernels that are so
    loops: tuple[Loop, ...] = ()  # along which a launch may be divided, better ones first
    maps: tuple[IndexMap, ...] = ()  # of a kernel with loops: of all operands but the program


@lru_cache(maxsize=1)
def _table() -> dict[str, Contract]:
    """Of this build. Raises ExportError if the package was not built."""

    def plain(value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    return {
        name: Contract(
            frozenset(row["traits"]),
            tuple(row["inputs"]),
            frozenset(row["optional_outputs"]),
            frozenset(row["combined_outputs"]),
            row["takes_program"],
            row["program_if"],
            {key: Parameter(**{name: plain(x) for name, x in p.items()}) for key, p in row["parameters"].items()},
            row["variants"],
            tuple(Loop(**{key: plain(x) for key, x in loop.items()}) for loop in row.get("loops", ())),
            tuple(IndexMap(**{key: plain(x) for key, x in row.items()}) for row in row.get("maps", ())),
        )
        for name, row in generated("kernels.json", "table of kernels").items()
    }


def contract(kernel: str) -> Contract:
    """Of a kernel. A name that is no kernel of the chip has no traits and no parameters."""
    return _table().get(kernel, Contract())


def _parameter(kernel: str, name: str) -> Parameter:
    parameters = contract(kernel).parameters
    if name not in parameters:
        raise ValueError(f"{kernel}: no parameter `{name}`; expected one of {', '.join(parameters)}")
    return parameters[name]


def _slot(parameter: Parameter, compute_dtype: torch.dtype) -> _Slot:
    real = compute_dtype.is_floating_point or compute_dtype.is_complex
    return parameter.slot if real or parameter.integer is None else parameter.integer


def pack(kernel: str, compute_dtype: torch.dtype, given: Mapping[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The iparams and fparams of a launch, up to the last given one. A parameter that is None is not given.

    An enum's value is its name, or its number where upstream's is the same. Raises ValueError for an unknown parameter
    or value, or a wrong number of values.
    """
    places: dict[str, dict[int, Any]] = {"i": {}, "f": {}}
    formula = "formula" in contract(kernel).traits
    for name, value in given.items():
        if value is None:
            continue
        parameter = _parameter(kernel, name)
        if formula:
            _place_scalar(places, parameter, value)
            continue
        bank, first, count = _slot(parameter, compute_dtype)
        if parameter.bit is not None:
            places[bank][first] = places[bank].get(first, 0) | bool(value) << parameter.bit
            continue
        values = tuple(value) if count > 1 else (_number(kernel, name, parameter, value),)
        if len(values) > count or (len(values) < count and not parameter.repeat):
            raise ValueError(f"{kernel}: parameter `{name}` has {len(values)} values; expected {count}")
        for i, item in enumerate(values):
            plain = type(item) in (bool, int)  # symbolic numbers stay as they are
            places[bank][first + i] = (int if bank == "i" else float)(item) if plain else item
    return _filled(places["i"], 0), _filled(places["f"], 0.0)


def _number(kernel: str, name: str, parameter: Parameter, value: Any) -> Any:
    if isinstance(value, str) and value in parameter.values:
        return parameter.values.index(value)
    symbolic = type(value) is not int and not isinstance(value, str)
    if not parameter.values or symbolic or value in range(len(parameter.values)):
        return value
    raise ValueError(f"{kernel}: {name} is {value!r}; expected one of {', '.join(parameter.values)}")


def _filled(places: dict[int, Any], absent: float) -> tuple[Any, ...]:
    return tuple(places.get(i, absent) for i in range(max(places, default=-1) + 1))


def _place_scalar(places: dict[str, dict[int, Any]], scalar: Parameter, value: float) -> None:
    """A scalar of a formula, as a double and as an integer: the kernel reads the one of its compute dtype."""
    assert scalar.integer is not None
    places["f"][scalar.slot[1]] = float(value)
    places["i"][scalar.integer[1]] = _as_int64(value)
    if scalar.present is not None:
        place, bit = scalar.present
        places["i"][place] = places["i"].get(place, 0) | 1 << bit


def _as_int64(value: float) -> int:
    if value != value or value in (float("inf"), float("-inf")):
        return 0  # no integer kernel is launched with it
    return max(-(1 << 63), min((1 << 63) - 1, int(value)))


def unpack(kernel: str, compute_dtype: torch.dtype, name: str, iparams: Sequence, fparams: Sequence) -> Any:
    """One parameter: a value, or a tuple of them if the parameter has several; the name of an enum's value. Those that
    a launch leaves out are 0; an optional scalar of a formula is None."""
    parameter = _parameter(kernel, name)
    if parameter.present is not None:
        place, bit = parameter.present
        if place >= len(iparams) or not iparams[place] >> bit & 1:
            return None
    bank, first, count = _slot(parameter, compute_dtype)
    given = iparams if bank == "i" else fparams
    values = tuple(given[i] if i < len(given) else 0 for i in range(first, first + count))
    if parameter.values:
        return parameter.values[values[0]]
    if parameter.bit is not None:
        return bool(values[0] >> parameter.bit & 1)
    return values if count > 1 else values[0]


def replace_parameters(
    kernel: str, compute_dtype: torch.dtype, iparams: Sequence[Any], fparams: Sequence[Any], **given: Any
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the iparams and fparams of a launch with other values for some parameters, each of which has one slot."""
    banks = {"i": list(iparams), "f": list(fparams)}
    for name, value in given.items():
        bank, place, count = _slot(_parameter(kernel, name), compute_dtype)
        if count != 1:
            raise ValueError(f"{kernel}: parameter `{name}` has {count} values; expected one")
        banks[bank] += [0] * (place + 1 - len(banks[bank]))  # those that a launch leaves out are 0
        banks[bank][place] = value
    return tuple(banks["i"]), tuple(banks["f"])
