# SPDX-License-Identifier: BSD-3-Clause
"""Energy and area of the simulated chip. docs/concepts/energy.md has the formulas and their sources.

    with telemetry.Recording() as recording:
        model(x)
    print(energy.of(recording))

Amounts are integers of femtojoules, so that every machine gets the same digits. They follow from the events that
counters, records and statistics count, and from the sections [energy] and [area] of the chip file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Protocol

from .device.html_table import html_table
from .device.index import device_index
from .driver.extension import _C

if TYPE_CHECKING:
    from .device.work import DeviceWork, Work
    from .isa.engine import Stats

_FEMTO = 10**15
_MAC_CLASS = {15: "bf16", 5: "fp16", 6: "fp32", 7: "fp32", 9: "fp32", 10: "fp32"}  # chip dtype codes; others: int8
_CLASSES = ("bf16", "fp16", "fp32", "int8")
_REGISTERS, _REGISTER_BYTES = 256, 4  # vector registers; bytes of an element, FP32
_OPERANDS = 3  # registers that a vector instruction or a row of the array reads and writes


@dataclass(frozen=True)
class Energy:
    """Femtojoules by unit.

    control: packets fetched and issued. link: bytes to and from other chips. standby: of the DRAM, with its refreshes.
    leakage: of the chip.
    """

    dram: int = 0
    bus: int = 0
    scratchpad: int = 0
    vector: int = 0
    array: int = 0
    control: int = 0
    link: int = 0
    standby: int = 0
    leakage: int = 0

    @property
    def total(self) -> int:
        """Femtojoules of all units."""
        return sum(asdict(self).values())

    @property
    def joules(self) -> float:
        """Joules of all units."""
        return self.total / _FEMTO

    def __add__(self, other: Energy) -> Energy:
        return Energy(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def __str__(self) -> str:
        parts = [f"{name} {amount / max(self.total, 1):.1%}" for name, amount in asdict(self).items() if amount]
        return f"{text(self.joules)}: " + ", ".join(parts)

    def _repr_html_(self) -> str:
        rows = [(name, text(amount / _FEMTO)) for name, amount in asdict(self).items()]
        return html_table([*rows, ("total", text(self.joules))], ("unit", "energy"))


def text(joules: float) -> str:
    """A number of joules with its prefix: "12.3 µJ"."""
    for prefix, scale in (("", 1.0), ("m", 1e-3), ("µ", 1e-6), ("n", 1e-9)):
        if joules >= scale:
            return f"{joules / scale:.3g} {prefix}J"
    return f"{joules / 1e-12:.3g} pJ"


@dataclass(frozen=True)
class EnergyModel:
    """The prices of a chip's events, and its area. `dram`: femtojoules of its memory, as `_C.energy` gives them."""

    chip: Mapping[str, Any] = field(repr=False)
    dram: Mapping[str, int]

    def value(self, section: str, name: str) -> int:
        """A parameter of the chip file."""
        return self.chip[section][name]["value"]

    def price(self, name: str) -> int:
        """A parameter of the section [energy]."""
        return self.value("energy", name)

    def area(self) -> dict[str, float]:
        """Square millimetres by unit."""
        lanes = self.value("vector", "lanes")
        square_um = {
            "array": self.value("array", "rows") * self.value("array", "columns") * self.value("area", "multiply_add"),
            "vector": lanes * self.value("area", "lane"),
            "registers": _REGISTERS * lanes * _REGISTER_BYTES * self.value("area", "register_byte"),
            "scalar core": self.value("area", "scalar_core"),
        }
        found = {unit: amount * self.value("core", "count") / 1e6 for unit, amount in square_um.items()}
        pads = self.value("scratchpad", "count") * self.value("scratchpad", "bytes")
        if self.value("core", "scratchpads") == "own":
            pads *= self.value("core", "count")
        return found | {"scratchpads": pads * self.value("area", "sram_byte") / 1e6}

    def over(self, cycles: int) -> Energy:
        """Leakage and standby of a number of cycles, which idle units take as well."""
        clock, leaking_uw = self.value("chip", "clock_hz"), round(sum(self.area().values()) * self.price("leakage"))
        micro_to_femto = 10**9
        return Energy(
            standby=self.dram["static_uw"] * micro_to_femto * cycles // clock,
            leakage=leaking_uw * micro_to_femto * cycles // clock,
        )

    def moved(self, read: int, written: int) -> Energy:
        """Bytes of a stream between DRAM and the scratchpads."""
        row, beat = self.value("scratchpad", "row_bytes"), self.value("bus", "width_bytes")
        return Energy(
            dram=read * self.dram["read_fj"] + written * self.dram["write_fj"],
            bus=(read + written) * self.price("bus_beat") // beat,
            scratchpad=(read + written) * self.price("scratchpad_row") // row,
        )

    def computed(self, rows: int, vector: int, exps: int, array: int, packets: int, macs: Mapping[str, int]) -> Energy:
        """rows: of scratchpads, to and from registers. vector, exps, array: instructions, exponentials among the
        vector ones; rows and weights pushed through the array. macs: multiply-adds by kind ("bf16")."""
        registers = _OPERANDS * self.price("register_row")
        lanes = self.value("vector", "lanes")
        return Energy(
            scratchpad=rows * self.price("scratchpad_row"),
            vector=vector * (registers + lanes * self.price("lane"))
            + exps * lanes * (self.price("exp_lane") - self.price("lane")),
            array=array * registers + sum(n * self.price(f"mac_{kind}") for kind, n in macs.items()),
            control=packets * self.price("packet"),
        )

    def launched(
        self, read: int, written: int, vector_cycles: int, array_cycles: int, macs: Mapping[str, int]
    ) -> Energy:
        """Of kernel launches, by the counts of their records.

        Each row that DMA brings or takes is written to a scratchpad and read from it once, and each row of the array is
        read from one; each vector instruction and row of the array takes a packet. Copies pass the scratchpads, too.
        """
        vector = vector_cycles // self.value("vector", "occupancy_cycles")
        array = array_cycles // self.value("array", "row_cycles")
        rows = (read + written) // self.value("scratchpad", "row_bytes") + array
        return self.moved(read, written) + self.computed(rows, vector, 0, array, vector + array, macs)

    def of_work(self, work: Work) -> Energy:
        """Of a launch or copy, with leakage and standby in its cycles."""
        still = self.over(work.cycles)
        if work.kind != "launch":
            read, written = work.dram_bytes_read, work.dram_bytes_written
            passing = read + written if work.kind.startswith("link") else 0
            return self.launched(read, written, 0, 0, {}) + Energy(link=passing * self.price("link_byte")) + still
        return still + self.launched(
            work.dram_bytes_read,
            work.dram_bytes_written,
            work.vector_cycles,
            work.array_cycles,
            macs_of(work.dtype, work.macs),
        )

    def of_stats(self, stats: Stats) -> Energy:
        """Of a run of Atalla code, packet by packet."""
        units = stats.unit_instructions
        vector = sum(units.get(unit, 0) for unit in ("valu", "vmul", "vexp"))
        dram = stats.dram_activates * self.dram["activate_fj"] + stats.dram_reads * self.dram["read_access_fj"]
        dram += stats.dram_writes * self.dram["write_access_fj"]
        moved = self.moved(stats.dram_bytes_read, stats.dram_bytes_written)
        if dram:
            moved = Energy(dram=dram, bus=moved.bus, scratchpad=moved.scratchpad)
        computed = self.computed(
            units.get("vmem", 0),
            vector,
            units.get("vexp", 0),
            units.get("gsau", 0),
            stats.packets,
            {"bf16": stats.macs},
        )
        return moved + computed + self.over(stats.cycles)


def macs_of(dtype: int, macs: int) -> dict[str, int]:
    """Multiply-adds of a compute dtype (the chip's code) by kind."""
    return {_MAC_CLASS.get(dtype, "int8"): macs}


def model(device: Any = None) -> EnergyModel:
    """Return the prices of a device (default: the current one). Raises RuntimeError for a device library without."""
    return _model(device_index(device))


def _energy(ordinal: int) -> dict[str, Any]:
    found = _C.energy(ordinal)
    if found is None:
        raise RuntimeError("the device library has no energy model; expected one with ATALLA_SCHEDULE_ABI 1.4 or later")
    return found


def _model(ordinal: int) -> EnergyModel:
    return EnergyModel(tomllib.loads(_C.chip_config(ordinal)), _energy(ordinal))


def models(ordinals: Iterable[int]) -> dict[int, EnergyModel]:
    """Return the prices of several devices by ordinal; nothing for device libraries without."""
    return {ordinal: _model(ordinal) for ordinal in ordinals if _C.energy(ordinal) is not None}


def total(device: Any = None) -> Energy:
    """Return the energy of a device's launches and copies since its counters were reset, each as if it ran alone."""
    ordinal = device_index(device)
    prices, counts, events = _model(ordinal), _C.counters(ordinal), _energy(ordinal)
    launched = prices.launched(
        counts["dram_bytes_read"],
        counts["dram_bytes_written"],
        counts["vector_cycles"],
        counts["array_cycles"],
        dict(zip(_CLASSES, events["macs"])),
    )
    on_link = Energy(link=events["link_bytes"] * prices.price("link_byte"))
    return launched + on_link + prices.over(counts["cycles"])


class Recorded(Protocol):
    """telemetry.Recording."""

    devices: tuple[DeviceWork, ...]


def of(recording: Recorded | Sequence[DeviceWork]) -> Energy:
    """Return the energy of recorded work, on all of its devices. Leakage and standby count from the first cycle to the
    last of each device, once where streams overlap."""
    found = Energy()
    for device in recording if isinstance(recording, Sequence) else recording.devices:
        if device.work:
            prices = _model(device.ordinal)
            for work in device.work:
                part = prices.of_work(work)
                found += Energy(**(asdict(part) | {"standby": 0, "leakage": 0}))
            found += prices.over(max(w.end_cycle for w in device.work) - min(w.start_cycle for w in device.work))
    return found


def area(device: Any = None) -> dict[str, float]:
    """Return the square millimetres of a device (default: the current one) by unit."""
    return model(device).area()
