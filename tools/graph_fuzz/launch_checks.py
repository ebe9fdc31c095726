# SPDX-License-Identifier: BSD-3-Clause
"""What is checked of a case in both ways into a program: the same launches, and the same cycles."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.exc import BackendCompilerFailed
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from torch_atalla.loadable import ExportError

from ..same_launches import both, differences
from .checks import reason
from .paths import Context, Problem, Refused, export, quiet


class _Empty(TorchDispatchMode):
    """Sees whether an op gives a tensor without elements."""

    seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.seen |= any(isinstance(x, torch.Tensor) and x.numel() == 0 for x in tree_leaves(result))
        return result


def _has_empty_values(module: torch.nn.Module, args: tuple[Any, ...]) -> bool:
    with _Empty() as mode, torch.no_grad():
        module(*args)
    return mode.seen


def check_launches(ctx: Context) -> list[Problem]:
    if ctx.case.dynamic:
        raise Refused("dynamic sizes")  # whose hints, and no calls, decide what is compiled
    module, args = ctx.build()
    if any(isinstance(x, torch.Tensor) and x.numel() == 0 for x in args):
        raise Refused("arguments without elements")  # of which AOTAutograd takes attention apart in another way
    if "scaled_dot_product" in ctx.case.text and _has_empty_values(module, args):
        raise Refused("attention in a program with values without elements")
    try:
        with quiet():
            found, expected = both(module, args, {}, export)
    except BackendCompilerFailed as error:
        raise Refused(f"torch.compile: {reason(error.inner_exception)}") from None
    except ExportError as error:
        raise Refused(reason(error)) from None
    if found.strides != expected.strides:
        raise Refused("torch.export and AOTAutograd give the results other strides")
    if found.work == expected.work:
        return []
    same = [kernel for kernel, *_ in found.work] == [kernel for kernel, *_ in expected.work]
    return [Problem("launches", "cycles" if same else "kernels", "; ".join(differences(found, expected)))]
