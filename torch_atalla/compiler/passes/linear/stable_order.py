# SPDX-License-Identifier: BSD-3-Clause
"""Programs with Atalla code are stable: where PyTorch leaves the order of equal elements open, it is that of their
positions. The code and the launches of a file then give the same results."""

from __future__ import annotations

from dataclasses import replace

from ...program.ir import Instruction, Launch, LinearProgram
from ...program.kernels import replace_parameters
from ..pass_result import PassResult
from .rewrite import rewritten

_STABLE = {"stable": True, "any_order": False}  # parameters of kernels that sort and select


def keep_order_of_equals(program: LinearProgram) -> tuple[LinearProgram, PassResult]:
    instructions = [_stable(inst) for inst in program.instructions]
    changed = [new.node for new, old in zip(instructions, program.instructions) if new is not old]
    return rewritten(program, instructions), PassResult("keep_order_of_equals", tuple(changed))


def _stable(inst: Instruction) -> Instruction:
    if not isinstance(inst, Launch):
        return inst
    wanted = {name: value for name, value in _STABLE.items() if name in inst.contract.parameters}
    if not wanted:
        return inst
    iparams, fparams = replace_parameters(inst.kernel, inst.compute_dtype, inst.iparams, inst.fparams, **wanted)
    return replace(inst, iparams=iparams, fparams=fparams)
