# SPDX-License-Identifier: BSD-3-Clause
"""Compares how Dynamo traces torch.cuda and torch.atalla, and writes docs/guides/compile-names.md.

    python -m tools.conformance.dynamo_names            # writes the page
    python -m tools.conformance.dynamo_names --check    # writes nothing; exit status 1 if the page is stale

The names of torch.cuda are those with a rule in the installed torch: in its tables of functions, constants, handlers,
classes and device contexts. test/device/test_dynamo_names.py compiles each name of torch.atalla.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch._dynamo.convert_frame
from torch._dynamo import trace_rules
from torch._dynamo.variables import SkipFunctionVariable, TorchInGraphFunctionVariable, ctx_manager, user_defined
from torch._dynamo.variables import torch as torch_variables

from torch_atalla.device import namespace as atalla
from torch_atalla.integration.dynamo import tracing

PAGE = Path(__file__).resolve().parents[2] / "docs/guides/compile-names.md"
ABSENT = "absent"
PLAIN = "a plain call"
INTO = "traced into"
SUBMODULES = ("graphs", "memory", "random")  # their functions are names of the module itself
METHODS = {
    "Stream": ("query", "record_event", "synchronize", "wait_event", "wait_stream"),
    "Event": ("query", "record", "synchronize", "wait"),
}
HEAD = """# Names of the device module in compiled code

This page lists how torch.compile treats each function and class of `torch.atalla`, beside the rule that Dynamo has for
the same name of `torch.cuda`. The command `python -m tools.conformance.dynamo_names` writes it, and
test/device/test_dynamo_names.py compiles each name.

- {constant}: the compiled code has the value; with a guard, it is compiled again when the value changes.
- {number}: the graph reads it when it runs, so that it may differ from call to call.
- {break_}: the code around the call is compiled as two graphs. With `fullgraph=True` it is an error, as for
  `torch.cuda`.
- {plain}: Dynamo puts the call into its graph, and breaks the graph if it returns something other than tensors.
- {into}: Dynamo compiles the Python code of the function, as it does with code of users.
- {absent}: [torch.cuda's names](../reference/cuda-names.md) gives the reason.

A graph that names the device without an ordinal (`device="atalla"`) is guarded on the current device.

| name | `torch.cuda` | `torch.atalla` |
| --- | --- | --- |
"""


@dataclass(frozen=True)
class Row:
    name: str
    cuda: str
    atalla: str


def rows() -> list[Row]:
    names = sorted({*_cuda_rules(), *tracing.NAMES} - {name for name in _cuda_rules() if _is_private(name)})
    functions = [Row(name, _cuda_rules().get(name, "no rule"), of_atalla(name)) for name in names if _is_listed(name)]
    methods = [
        Row(f"{kind}.{name}", tracing.CALL, tracing.CALL) for kind, members in METHODS.items() for name in members
    ]
    return functions + methods


def of_atalla(name: str) -> str:
    if name in tracing.NAMES:
        return tracing.NAMES[name]
    holder: Any = atalla
    for part in name.split("."):
        holder = getattr(holder, part, None)
    return ABSENT if holder is None else INTO


def _is_private(name: str) -> bool:
    return any(part.startswith("_") for part in name.split("."))


def _is_listed(name: str) -> bool:
    return not _is_private(name)


def _cuda_rules() -> dict[str, str]:
    return dict(_found())


def _found() -> Iterator[tuple[str, str]]:
    handlers = TorchInGraphFunctionVariable._get_handlers()
    for table in trace_rules.torch_name_rule_map:
        for path, rule in table.items():  # type: ignore[attr-defined]
            if path.startswith("torch.cuda.") and "#" not in path:
                yield _short(path), _kind(trace_rules.load_object(path), rule, handlers)
    for function in torch_variables.constant_fold_functions:
        if getattr(function, "__module__", "").startswith("torch.cuda"):
            yield function.__name__, _kind(function, TorchInGraphFunctionVariable, handlers)
    for context in ctx_manager._device_context_manager_map:
        if context.__module__ == "torch.cuda":
            yield context.__name__, tracing.CONTEXT
    for kind in user_defined.UserDefinedClassVariable._in_graph_classes():
        if kind.__module__ == "torch.cuda.streams":
            yield kind.__name__, tracing.STREAM if issubclass(kind, torch.Stream) else tracing.CALL


def _short(path: str) -> str:
    parts = path.split(".")[2:]
    return ".".join(parts[1:] if parts[0] in SUBMODULES else parts)


def _kind(function: Any, rule: type, handlers: dict[Any, Any]) -> str:
    if rule is SkipFunctionVariable:
        return tracing.BREAK
    if function in torch_variables.constant_fold_functions_need_guards:
        return tracing.GUARDED
    if function in torch_variables.constant_fold_functions:
        return tracing.CONSTANT
    if function is torch.cuda.stream:
        return tracing.CONTEXT
    if function in handlers:
        return tracing.STREAM if function is torch.cuda.current_stream else tracing.CALL
    return PLAIN


def render() -> str:
    head = HEAD.format(
        constant=tracing.CONSTANT.capitalize(), number=tracing.NUMBER.capitalize(), break_=tracing.BREAK.capitalize(),
        plain=PLAIN.capitalize(), into=INTO.capitalize(),
        absent=ABSENT.capitalize(),
    )  # fmt: skip
    return head + "".join(f"| `{row.name}` | {row.cuda} | {row.atalla} |\n" for row in rows())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if the page is stale")
    if not parser.parse_args().check:
        PAGE.write_text(render())
        return 0
    stale = not PAGE.is_file() or PAGE.read_text() != render()
    if stale:
        print(f"{PAGE.name} is stale: run python -m tools.conformance.dynamo_names")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
