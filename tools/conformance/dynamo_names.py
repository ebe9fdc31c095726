# SPDX-License-Identifier: BSD-3-Clause
"""docs/guides/compile-names.md: how Dynamo traces torch.cuda and torch.atalla.

The names of torch.cuda are those with a rule in the installed torch: in its tables of functions, constants, handlers,
classes and device contexts. test/device/test_dynamo_names.py compiles each name of torch.atalla.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo.convert_frame
from torch._dynamo import trace_rules
from torch._dynamo.variables import SkipFunctionVariable, TorchInGraphFunctionVariable, ctx_manager, user_defined
from torch._dynamo.variables import torch as torch_variables

from tools import pages
from torch_atalla.device import namespace as atalla
from torch_atalla.integration.dynamo import tracing

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
the same name of `torch.cuda`. The command `python -m tools.pages guides/compile-names.md` writes it, and
test/device/test_dynamo_names.py compiles each name.

- {constant}: the compiled code has the value; with a guard, it is compiled again when the value changes.
- {number}: the graph reads it when it runs, so that it may differ from call to call.
- {break_}: the code around the call is compiled as two graphs. With `fullgraph=True` it is an error, as for
  `torch.cuda`.
- {plain}: Dynamo puts the call into its graph, and breaks the graph if it returns something other than tensors.
- {into}: Dynamo compiles the Python code of the function, as it does with code of users.
- {absent}: [torch.cuda's names](../reference/cuda-names.md) gives the reason.

A graph that names the device without an ordinal (`device="atalla"`) is guarded on the current device.
"""


@dataclass(frozen=True)
class Row:
    name: str
    cuda: str
    atalla: str


def rows() -> list[Row]:
    of_cuda = dict(_cuda_rules())
    names = sorted(name for name in {*of_cuda, *tracing.NAMES} if not _is_private(name))
    functions = [Row(name, of_cuda.get(name, "no rule"), of_atalla(name)) for name in names]
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


def _cuda_rules() -> Iterator[tuple[str, str]]:
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


def page() -> str:
    head = HEAD.format(
        constant=tracing.CONSTANT.capitalize(), number=tracing.NUMBER.capitalize(), break_=tracing.BREAK.capitalize(),
        plain=PLAIN.capitalize(), into=INTO.capitalize(),
        absent=ABSENT.capitalize(),
    )  # fmt: skip
    cells = ((f"`{row.name}`", row.cuda, row.atalla) for row in rows())
    return "\n".join([head, *pages.table("name | `torch.cuda` | `torch.atalla`", cells)]) + "\n"
