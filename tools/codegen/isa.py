# SPDX-License-Identifier: BSD-3-Clause
"""The instruction table csrc/sim/isa/isa.yaml, checked and resolved, and what is generated from it.

    python -m tools.codegen.isa     writes torch_atalla/_generated/isa.json without a build

The resolved form says for each operand which bits of the slot it fills, so that encoders and decoders, in Python and
in C++, know nothing of formats.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import yaml

from .files import write

ROOT = Path(__file__).resolve().parents[2]
TABLE = "csrc/sim/isa/isa.yaml"
KINDS = ("s", "u", "e", "b", "j", "n")
KEYS = {"name", "opcode", "format", "operands", "pairs", "merges", "unit", "latency", "faults", "memory", "text"}


class TableError(ValueError):
    """A mistake in the table, with the instruction that has it."""


def _operand(text: str, fields: dict[str, list[int]], registers: dict[str, Any]) -> dict[str, Any]:
    name, _, kind = text.partition(":")
    optional = kind.endswith("?")
    kind = kind.rstrip("?")
    found: dict[str, Any] = {"name": name, "optional": optional, "access": "", "scale": 0, "bias": 0}
    if kind[:1] in registers and kind[1:] in ("r", "w", "rw"):
        lo, width = fields[name]
        found |= {"kind": kind[0], "access": kind[1:], "parts": [[0, lo, width]]}
        found |= {"min": 0, "max": registers[kind[0]]["count"] - 1}
        return found
    if kind not in KINDS:
        raise TableError(f"operand `{text}` has kind `{kind}`; expected a register or one of {', '.join(KINDS)}")
    found["kind"] = {"b": "branch", "j": "jump"}.get(kind, "imm")
    if kind == "b":
        found |= {"parts": [[0, *fields["imm9"]], [9, *fields["imm1"]]], "scale": 2}
    elif kind == "j":
        found |= {"parts": [[0, *fields["imm25"]]]}
    else:
        found |= {"parts": [[0, *fields[name]]]}
    width = sum(part[2] for part in found["parts"])
    signed = kind in "sbj"
    low = -(1 << (width - 1)) if kind in "sbje" else 0
    high = (1 << (width - 1)) - 1 if signed else (1 << width) - 1
    if kind == "n":
        low, high, found["bias"] = 1, 1 << width, 1
    return found | {"min": low << found["scale"], "max": high << found["scale"], "signed": signed}


def _instruction(entry: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    if unknown := set(entry) - KEYS:
        raise TableError(f"unknown keys {', '.join(sorted(unknown))}")
    fields = table["formats"][entry["format"]]
    operands = [_operand(text, fields, table["registers"]) for text in entry["operands"].split()]
    used = table["opcode_bits"]
    taken = (1 << used) - 1
    for operand in operands:
        operand.setdefault("signed", False)
        operand["pair"] = entry.get("pairs", {}).get(operand["name"], 0)
        for _, lo, width in operand["parts"]:
            bits = ((1 << width) - 1) << lo
            if bits & taken or lo + width > table["slot_bits"]:
                raise TableError(f"operand `{operand['name']}` overlaps another or leaves the slot")
            taken |= bits
    for key, known in (("unit", table["units"]), ("latency", table["latencies"])):
        if entry[key] not in known:
            raise TableError(f"{key} `{entry[key]}` is not in the table's list")
    return {
        "name": entry["name"],
        "opcode": entry["opcode"],
        "format": entry["format"],
        "operands": operands,
        "used_bits": taken,
        "unit": entry["unit"],
        "latency": entry["latency"],
        "merges": entry.get("merges", False),
        "faults": entry.get("faults", False),
        "reads": entry.get("memory", {}).get("reads", ""),
        "writes": entry.get("memory", {}).get("writes", ""),
        "text": entry["text"],
    }


def load(path: Path) -> dict[str, Any]:
    """The resolved table; TableError names the instruction whose entry is wrong."""
    table = yaml.safe_load(path.read_text())
    instructions = []
    for entry in table["instructions"]:
        try:
            instructions.append(_instruction(entry, table))
        except (TableError, KeyError) as error:
            raise TableError(f"{path.name}: {entry.get('name', '?')}: {error}") from error
    for key in ("name", "opcode"):
        values = [i[key] for i in instructions]
        if len(set(values)) != len(values):
            raise TableError(f"{path.name}: two instructions have the same {key}")
    return table | {"instructions": instructions}


def write_python(table: dict[str, Any], root: Path) -> None:
    """What torch_atalla.isa reads. `cycles`: of the built-in chip, to the result and of the unit, by latency class."""
    chip = tomllib.loads((root / "csrc/sim/chip.toml").read_text())

    def cycles(parameter: str | None) -> int:
        section, _, name = (parameter or "").partition(".")
        return chip[section][name]["value"] if parameter else 1

    classes = {name: [cycles(c["latency"]), cycles(c.get("occupancy"))] for name, c in table["latencies"].items()}
    text = json.dumps(table | {"cycles": classes}, indent=None, separators=(",", ":")) + "\n"
    write(root / "torch_atalla/_generated/isa.json", text)


if __name__ == "__main__":
    write_python(load(ROOT / TABLE), ROOT)
