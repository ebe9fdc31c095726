# SPDX-License-Identifier: BSD-3-Clause
"""An amount of energy, by part of the chip."""

from __future__ import annotations

import ctypes
from dataclasses import asdict, dataclass, fields

from .html_table import html_table

_FEMTO = 10**15


@dataclass(frozen=True)
class Energy:
    """Femtojoules by part of the chip, in the order of `atalla_energy` (atalla.h).

    network: links and routers between cores and memory. control: packets fetched and issued. link: bytes to and from
    other chips. standby: of the DRAM, with its refreshes. leakage: of the chip.
    """

    dram: int = 0
    bus: int = 0
    network: int = 0
    scratchpad: int = 0
    vector: int = 0
    array: int = 0
    control: int = 0
    link: int = 0
    standby: int = 0
    leakage: int = 0

    @property
    def total(self) -> int:
        """Femtojoules of all parts."""
        return sum(asdict(self).values())

    @property
    def joules(self) -> float:
        """Joules of all parts."""
        return self.total / _FEMTO

    def watts(self, cycles: int, clock_hz: float) -> float:
        """Average power over a number of cycles; 0 over none."""
        return self.joules * clock_hz / cycles if cycles else 0.0

    def __add__(self, other: Energy) -> Energy:
        return Energy(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __str__(self) -> str:
        parts = [f"{name} {amount / max(self.total, 1):.1%}" for name, amount in asdict(self).items() if amount]
        return f"{text(self.joules)}: " + ", ".join(parts)

    def _repr_html_(self) -> str:
        rows = [(name, text(amount / _FEMTO)) for name, amount in asdict(self).items()]
        return html_table([*rows, ("total", text(self.joules))], ("part", "energy"))


def energy_of(raw: ctypes.Structure) -> Energy:
    """From the C struct."""
    return Energy(*(getattr(raw, name) for name, *_ in raw._fields_))


def text(joules: float) -> str:
    """A number of joules with its prefix: "12.3 µJ"."""
    for prefix, scale in (("", 1.0), ("m", 1e-3), ("µ", 1e-6), ("n", 1e-9)):
        if joules >= scale:
            return f"{joules / scale:.3g} {prefix}J"
    return f"{joules / 1e-12:.3g} pJ"
