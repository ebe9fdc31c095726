# SPDX-License-Identifier: BSD-3-Clause
"""The printed form of a loadable.

Everything is read from the file, through the driver's validator. Neither a device nor the model is needed.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from torch_atalla.driver import runtime
from torch_atalla.driver.dtype_names import SHORT_NAMES

from .report import LoadableReport

_PREFIX = {"arena": "t", "weights": "w", "input": "i", "output": "o", "state": "s"}


def describe(path: str) -> dict[str, Any]:
    """Return all records of a file except weight bytes. Raises RuntimeLibraryError, which lists every problem."""
    with closing(runtime.Program(path)) as program:
        return program.describe()


def render(data: dict[str, Any]) -> str:
    """Return the text of a file's records. Control characters of names are escaped: they would steer a terminal."""
    estimates = _escaped(LoadableReport.of_file(data).estimates())
    data = _escaped(data)
    parts = {
        "": _header(data, estimates),
        "sections": _sections(data),
        "interface": _interface(data),
        "methods": _methods(data),
        "mutable buffers": _states(data),
        "dynamic sizes": _sizes(data),
        "graph": _graph(data),
        "linear program": _instructions(data),
        "Atalla code": _code(data),
        "memory plan": _memory(data),
        "weights": _weights(data),
        "coverage": _coverage(data),
    }
    return "\n\n".join((f"{title}\n{body}" if title else body) for title, body in parts.items() if body)


def _escaped(item: Any) -> Any:
    if isinstance(item, str):
        return item if item.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in item)
    if isinstance(item, list):
        return [_escaped(each) for each in item]
    if isinstance(item, dict):
        return {key: each if key == "ops" else _escaped(each) for key, each in item.items()}
    return item


def _header(data: dict[str, Any], estimates: list[str]) -> str:
    metadata = data["metadata"]
    rows = {
        "model": metadata.get("model") or "(unnamed)",
        "format": f"{_version(data['format'])}, needs driver {_version(data['min_runtime'])}",
        "written by": f"{metadata.get('producer', '?')}, torch {metadata.get('torch', '?')}",
        "file": f"{data['file_bytes']:,} bytes",
    }
    lines = [*rows.items(), *(("estimate", line) for line in estimates)]
    return "\n".join(f"{name:<12}{text}" for name, text in lines)


def _version(pair: list[int]) -> str:
    return ".".join(map(str, pair))


def _sections(data: dict[str, Any]) -> str:
    rows = [f"  {'kind':<14}{'offset':>12}{'bytes':>14}{'records':>9}  crc32c"]
    for section in data["sections"]:
        records = section["bytes"] // section["stride"] if section["stride"] > 1 else ""
        rows.append(
            f"  {section['name'].lower():<14}{section['offset']:>12,}{section['bytes']:>14,}{records:>9}  "
            f"{section['crc32c']:08x}"
        )
    return "\n".join(rows)


def _interface(data: dict[str, Any]) -> str:
    rows = []
    for what in ("inputs", "outputs"):
        for port in data[what]:
            value = data["values"][port["value"]]
            rows.append(f"  {what[:-1]:<8}{_storage(data, value['storage'])} {_tensor(value)}  {port['name']}")
    return "\n".join(rows)


def _methods(data: dict[str, Any]) -> str:
    """List the methods if there are several."""
    if len(data["methods"]) == 1:
        return ""
    rows = []
    for method in data["methods"]:
        inputs, outputs = (
            ", ".join(port["name"] for port in data[what][first : first + count])
            for what, (first, count) in (("inputs", method["inputs"]), ("outputs", method["outputs"]))
        )
        first, count = method["instructions"]
        rows.append(f"  {method['name']}({inputs}) -> {outputs}: instructions {first} to {first + count - 1}")
    return "\n".join(rows)


def _states(data: dict[str, Any]) -> str:
    rows = []
    for state in data["states"]:
        value = data["values"][state["value"]]
        begins = "zeros" if state["zeros"] else "stored values"
        rows.append(f"  {_storage(data, value['storage'])} {_tensor(value)}  {state['name']}, begins as {begins}")
    return "\n".join(rows)


def _sizes(data: dict[str, Any]) -> str:
    rows = []
    for symbol in data["symbols"]:
        port = data["inputs"][symbol["input"]]
        rows.append(
            f"  {symbol['name']}: dimension {symbol['dim']} of {port['name']} is {symbol['sizes']}; "
            f"planned for {symbol['multiplier'] * symbol['planned'] + symbol['offset']}"
        )
    rows += [f"  guard {guard['text']}" for guard in data["guards"]]
    return "\n".join(rows)


def _graph(data: dict[str, Any]) -> str:
    rows = []
    for segment in data["segments"]:
        first, count = segment["nodes"]
        rows.append(f"  segment {segment['name']}: {count} nodes, {segment['instructions'][1]} instructions")
        for node in data["nodes"][first : first + count]:
            flops = f"  {node['flops']:,} FLOPs" if node["flops"] else ""
            source = f"  {node['source']}" if node["source"] else ""
            reason = f"  -- {node['reason']}" if node["reason"] else ""
            rows.append(f"    {node['name']:<24}{node['op']}{flops}{source}{reason}")
    return "\n".join(rows)


def _instructions(data: dict[str, Any]) -> str:
    return "\n".join(f"  {i:>4}  {_instruction(data, inst)}" for i, inst in enumerate(data["instructions"]))


def _instruction(data: dict[str, Any], inst: dict[str, Any]) -> str:
    line = _work(data, inst)
    if inst["node"] is not None:
        node = data["nodes"][inst["node"]]
        line += f"  # {node['name']}" + (f" {node['source']}" if node["source"] else "")
    return line


def _work(data: dict[str, Any], inst: dict[str, Any]) -> str:
    if inst["kind"] == "host_call":
        call = data["host_calls"][inst["host_call"]]
        outs, ins = (", ".join(_value(data, k) for k in call[what]) for what in ("outputs", "inputs"))
        return f"{'host_call':<24}{outs} <- {ins}  ops {_escaped(', '.join(call['ops'].split()))}"
    texts = [_operand(data, operand) for operand in inst["operands"]]
    n = inst["n_outputs"]
    line = f"{data['kernels'][inst['kernel']]['name']:<24}{', '.join(texts[:n])} <- {', '.join(texts[n:])}"
    if inst["iparams"]:
        line += f"  i={inst['iparams']}"
    if inst["fparams"]:
        line += f"  f={inst['fparams']}"
    return line


def _value(data: dict[str, Any], index: int) -> str:
    value = data["values"][index]
    return f"{_storage(data, value['storage'])} {_tensor(value)}"


def _operand(data: dict[str, Any], operand: dict[str, Any] | None) -> str:
    if operand is None:
        return "-"
    if "immediate" in operand:
        return f"{operand['immediate']!r}:{_dtype(operand)}"
    return f"{_storage(data, operand['storage'])} {_tensor(operand)}"


def _storage(data: dict[str, Any], index: int) -> str:
    return f"{_PREFIX[data['storages'][index]['space']]}{index}"


def _dtype(record: dict[str, Any]) -> str:
    return SHORT_NAMES.get(record["dtype"], record["dtype"])


def _tensor(record: dict[str, Any]) -> str:
    sizes, strides = tuple(record["sizes"]), tuple(record["strides"])
    text = f"{_dtype(record)}[{', '.join(map(str, sizes))}]"
    if strides != _contiguous_strides(sizes):
        text += f"{{{', '.join(map(str, strides))}}}"
    return text + (f"+{record['byte_offset']}" if record["byte_offset"] else "")


def _contiguous_strides(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """As torch gives them: a size of 0 counts as 1."""
    strides, product = [], 1
    for size in reversed(sizes):
        strides.append(product)
        product *= max(size, 1)
    return tuple(reversed(strides))


def _code(data: dict[str, Any]) -> str:
    rows = []
    for code in data["code"]:
        name = data["methods"][code["method"]]["name"]
        counts = ", ".join(f"{code[what][1]:,} {what}" for what in ("packets", "words", "relocations"))
        rows.append(f"  {name}: {counts}, arena of {code['arena_bytes']:,} bytes")
    if rows:
        rows.append(f"  constants of {data['constant_bytes']:,} bytes")
    return "\n".join(rows)


def _memory(data: dict[str, Any]) -> str:
    rows = [f"  arena of {data['methods'][0]['arena_bytes']:,} bytes"]
    resident = {record["storage"]: record for record in data.get("residency", ())}
    arena = [(i, s) for i, s in enumerate(data["storages"]) if s["space"] == "arena" and s["bytes"]]
    for i, storage in sorted(arena, key=lambda item: (item[1]["live"][0], item[1]["offset"])):
        first, last = storage["live"]
        place = f"{storage['offset']:>12,} +{storage['bytes']:<12,}"
        pad = f"  or at {resident[i]['offset']:,} of scratchpad {resident[i]['pad']}" if i in resident else ""
        rows.append(f"  {f't{i}':<8}{place}live {first} to {last}  {storage['name']}{pad}")
    return "\n".join(rows)


def _weights(data: dict[str, Any]) -> str:
    rows = []
    for i, storage in enumerate(data["storages"]):
        if storage["space"] != "weights":
            continue
        names = dict.fromkeys(
            value["fqn"] or value["name"]
            for value in data["values"]
            if value["storage"] == i and value["kind"] in ("parameter", "buffer", "constant")
        )
        rows.append(f"  {f'w{i}':<8}{storage['offset']:>12,} +{storage['bytes']:<12,}{' = '.join(names)}")
    return "\n".join(rows)


def _coverage(data: dict[str, Any]) -> str:
    metadata = data["metadata"]
    shares = [
        f"{float(metadata[key]):.1%} of {what}"
        for key, what in (("coverage_ops", "ops"), ("coverage_flops", "FLOPs"))
        if key in metadata
    ]
    refused = [node for node in data["nodes"] if not node["native"]]
    return "  " + (", ".join(shares) or "not recorded") + f"; {len(refused)} nodes are not native"
