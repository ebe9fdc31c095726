# SPDX-License-Identifier: BSD-3-Clause
"""What is checked of a case in both ways into a program: the same launches, and the same cycles."""

from __future__ import annotations

import torch
from torch._dynamo.exc import BackendCompilerFailed

from torch_atalla.loadable import ExportError

from ..same_launches import both, differences
from .checks import reason
from .paths import Context, Problem, Refused, export, quiet


def check_launches(ctx: Context) -> list[Problem]:
    if ctx.case.dynamic:
        raise Refused("dynamic sizes")  # whose hints, and no calls, decide what is compiled
    module, args = ctx.build()
    if any(isinstance(x, torch.Tensor) and x.numel() == 0 for x in args):
        raise Refused("arguments without elements")  # of which AOTAutograd takes attention apart in another way
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
