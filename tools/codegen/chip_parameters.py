# SPDX-License-Identifier: BSD-3-Clause
"""The numbers of chip.toml and of a DRAM preset as members of a C++ struct: parameter `a.b` is the member `a_b`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

TYPES = {int: "uint64_t", float: "double"}


def numbers(text: str) -> Iterator[tuple[str, str, str, str]]:
    """The section, name, C++ type and unit of each parameter that is a number."""
    for section, parameters in tomllib.loads(text).items():
        if isinstance(parameters, dict):
            for name, given in parameters.items():
                if kind := TYPES.get(type(given["value"])):
                    yield section, name, kind, given["unit"]


def members(text: str) -> str:
    return "".join(f"{kind} {section}_{name} = 0;  // {unit}\n" for section, name, kind, unit in numbers(text))


def integers(text: str, struct: str) -> str:
    """The key of each integer in the file, and its member."""
    rows = (
        f'{{"{section}.{name}", &{struct}::{section}_{name}}},\n'
        for section, name, kind, _ in numbers(text)
        if kind == "uint64_t"
    )
    return "".join(rows)
