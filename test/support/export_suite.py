# SPDX-License-Identifier: BSD-3-Clause
"""Functions as programs, for the tests of the compiler."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from torch_atalla.compiler import compile_program
from torch_atalla.compiler.program.ir import Launch, LinearProgram


class Fn(nn.Module):
    """``fn(self, *args)`` as a module; tensors of ``members`` are its buffers, modules its parts."""

    def __init__(self, fn: Any, **members: torch.Tensor | nn.Module):
        super().__init__()
        self.fn = fn
        for name, member in members.items():
            if isinstance(member, nn.Module):
                self.add_module(name, member)
            else:
                self.register_buffer(name, member)

    def forward(self, *args: torch.Tensor) -> Any:
        return self.fn(self, *args)


def kernels(program: LinearProgram) -> list[str]:
    return [inst.kernel for inst in program.instructions if isinstance(inst, Launch)]


def compiled(fn: Any, *args: torch.Tensor, optimize: str = "exact", **members: nn.Module) -> LinearProgram:
    return compile_program(Fn(fn, **members).eval(), args, fallback="error", optimize=optimize).program
