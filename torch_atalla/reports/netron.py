# SPDX-License-Identifier: BSD-3-Clause
"""The graphs of a loadable as JSON for the viewer Netron (https://netron.app).

Netron reads JSON whose first key is `signature`, with a value that begins with "netron:" (source/message.js). It holds
modules with inputs, outputs and nodes, whose arguments name values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .program import Program, accesses, read_program


def netron(data: dict[str, Any]) -> dict[str, Any]:
    """Return the model for Netron, given a file's description (loadable.description.describe).

    Each method has a module with its launches and host calls, and one with its ATen nodes if the file has their edges.
    """
    modules = []
    for number in range(len(data["methods"])):
        program = read_program(data, number)
        modules.append(_launches(data, number, program))
        if any(node.inputs for node in program.nodes):
            modules.append(_nodes(program))
    metadata = data["metadata"]
    shown = ("torch", "coverage_ops", "coverage_flops")
    return {
        "signature": "netron:atalla",
        "format": f"Atalla loadable v{data['format'][0]}.{data['format'][1]}",
        "producer": metadata.get("producer", ""),
        "description": metadata.get("model", ""),
        "metadata": [{"name": key, "value": metadata[key]} for key in shown if key in metadata],
        "modules": modules,
    }


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in values.items() if value not in ("", None, [], {})]


def _arguments(values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "value": [value]} for name, value in values.items()]


def _type(value: dict[str, Any]) -> dict[str, Any]:
    return {"dataType": value["dtype"], "shape": {"dimensions": value["sizes"]}}


def _launches(data: dict[str, Any], number: int, program: Program) -> dict[str, Any]:
    """Storages are written again and again, so each write is a value of its own: `storage@instruction`."""
    method = data["methods"][number]
    values: dict[str, dict[str, Any]] = {}
    latest: dict[int, str] = {}

    def value(operand: dict[str, Any], written_at: int | None) -> str:
        storage = operand["storage"]
        if written_at is not None:
            latest[storage] = f"{data['storages'][storage]['name']}@{written_at}"
        name = latest.setdefault(storage, data["storages"][storage]["name"])
        if name not in values:
            constant = data["storages"][storage]["space"] == "weights"
            values[name] = {"name": name, "type": _type(operand)}
            values[name] |= {"initializer": {"type": _type(operand)}} if constant else {}
        return name

    def ports(which: str) -> list[dict[str, Any]]:
        first, count = method[which]
        found = data[which][first : first + count]
        return [{"name": port["name"], "value": [value(data["values"][port["value"]], None)]} for port in found]

    inputs, nodes = ports("inputs"), []
    begin, count = method["instructions"]
    for i, row in enumerate(data["instructions"][begin : begin + count]):
        inst = program.instructions[i]
        written, read = accesses(data, row)
        names = {f"input {k}": value(operand, None) for k, operand in enumerate(read)}
        results = {f"output {k}": value(operand, i) for k, operand in enumerate(written)}
        own = None if inst.node is None else program.nodes[inst.node]
        facts = {
            "computes": ", ".join(program.nodes[k].name for k in inst.nodes),
            "module": own.module if own else "",
            "source": own.source if own else "",
            "segment": program.segments[inst.segment],
            "cores": inst.cores if inst.cores > 1 else None,
        }
        nodes.append(_node(f"{i}", inst.kernel, names, results, facts))
    return {
        "name": f"{program.method}: launches",
        "inputs": inputs,
        "outputs": ports("outputs"),
        "arguments": list(values.values()),
        "nodes": nodes,
    }


def _nodes(program: Program) -> dict[str, Any]:
    nodes = []
    for node in program.nodes:
        names = {f"input {k}": program.nodes[i].name for k, i in enumerate(node.inputs)}
        facts = {
            "module": node.module,
            "source": node.source,
            "segment": program.segments[node.segment],
            "launch": node.instruction,
            "FLOPs": node.flops or None,
            "on the host, because": node.reason,
        }
        nodes.append(_node(node.name, node.op, names, {"output": node.name}, facts))
    arguments = [{"name": node.name} for node in program.nodes]
    return {"name": f"{program.method}: ATen", "inputs": [], "outputs": [], "arguments": arguments, "nodes": nodes}


def _node(
    name: str, op: str, inputs: Mapping[str, str], outputs: Mapping[str, str], facts: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "name": name,
        "type": {"name": op},
        "inputs": _arguments(inputs),
        "outputs": _arguments(outputs),
        "attributes": _attributes(facts),
    }
