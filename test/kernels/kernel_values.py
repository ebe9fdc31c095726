# SPDX-License-Identifier: BSD-3-Clause
"""Kernels against the values that their contracts give (csrc/sim/kernels.yaml), on random launches: a program, since
it opens the device itself. `python test/kernels/kernel_values.py [KERNEL ...]`

The reference is a slow loop over the elements of each output, in double precision or integers of any size. Numbers are
small, so that most results are exact; the others may differ by the rounding of sums and functions. Kernels without
such values run twice on the same numbers: their results must not depend on what memory held.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import kernel_reference
import numpy as np
import torch
from kernel_operands import Elements, Undefined, Vector

from tools.codegen import kernels
from tools.codegen.contract.chip_launches import TORCH_DTYPES, Chip, Draw, Launch
from tools.codegen.kernels import Kernel
from torch_atalla.driver import c_abi

LAUNCHES = 40  # that run, of each kernel
MORE = {"gemm": 200}  # with many forms
LONG_LAUNCHES = 10  # the same, with long dimensions
DRAWS = 1500
# Sizes that are seldom those of windows that fit, or of one tensor after another.
RARE = {"cat": 20, "pool.max": 20, "pool.average": 20}
RARE_LONG = {"triangle_indices": 0, "repeat_interleave": 0}  # whose outputs have sizes that parameters or values give
FILLS = (0x00, 0x41)  # bytes that memory holds before
UNDRAWN = {"compact.nonzero"}  # values give the sizes of its output
AS_THEY_ARE = {"conversion", "concatenation"}  # traits of kernels that convert nothing to the compute dtype


def entries() -> Iterator[tuple[str, Kernel]]:
    for kernel in kernels.load(kernels.ROOT / kernels.TABLE).kernels:
        for name in kernel.names:
            if "formula" not in kernel.traits and name not in UNDRAWN:
                yield name, kernel


def elements(kernel: Kernel, launch: Launch) -> dict[str, Elements | list[Elements]]:
    """The operands of a launch. Numbers of other dtypes are read as numbers of the compute dtype's kind."""
    compute = TORCH_DTYPES[launch.dtype]
    kind = torch.float64 if compute in (torch.float16, torch.bfloat16) else compute
    found: dict[str, Elements | list[Elements]] = {
        operand.name: [] if operand.repeat else Elements(None) for operand in kernel.operands
    }
    for k, (operand, tensor) in enumerate(launch.operands):
        dtypes = set(operand.dtypes or kernel.dtypes)
        converts = dtypes & {"any", "compute", "floating", "integer"} and not kernel.traits & AS_THEY_ARE
        if tensor is not None and tensor.dtype == torch.bool:
            converts = converts and "BOOL" not in dtypes  # named apart: a mask, not a number
        item = Elements(tensor, k in launch.immediate, kind if converts else None)
        repeated = found[operand.name]
        if isinstance(repeated, list):
            repeated.append(item)
        else:
            found[operand.name] = item
    return found


def number(value: Any) -> Any:
    """A parameter as its value has it: floating-point numbers divide by 0."""
    if isinstance(value, tuple):
        return Vector(map(number, value))
    return np.float64(value) if isinstance(value, float) else value


def differs(found: torch.Tensor, expected: torch.Tensor, compute: torch.dtype) -> torch.Tensor:
    """Where an output is not what it should be: rounded once, after an error of 64 steps of the dtype of the sums from
    the largest number or 1, or of the same kind."""
    if not found.dtype.is_floating_point and not found.is_complex():
        return found != expected
    wide = torch.complex128 if found.is_complex() else torch.float64
    a, b = found.to(wide), expected.to(wide)
    size = b.abs()[torch.isfinite(b.abs())]
    computed = torch.float64 if compute in (torch.float64, torch.complex128) else torch.float32
    step = max(torch.finfo(computed).eps, torch.finfo(found.dtype).eps if found.dtype.itemsize > 2 else 0)
    near = (a - b).abs() <= 64 * step * max([1.0, *size.tolist()]) + torch.finfo(found.dtype).eps * b.abs()
    return ~(near | (a == b) | (torch.isnan(a) & torch.isnan(b)))


def check_kernel(chip: Chip, name: str, kernel: Kernel) -> None:
    draw = Draw(name, kernel)
    ran = check_launches(chip, name, kernel, draw, MORE.get(name, LAUNCHES), long=False)
    assert ran >= RARE.get(name, LAUNCHES), f"{ran} launches ran"
    ran = check_launches(chip, name, kernel, draw, LONG_LAUNCHES, long=True)
    assert ran >= RARE_LONG.get(name, LONG_LAUNCHES), f"{ran} launches with long dimensions ran"


def check_launches(chip: Chip, name: str, kernel: Kernel, draw: Draw, most: int, long: bool) -> int:
    """Compare launches with their references until `most` ran, and return how many did."""
    ran = dict.fromkeys(chip.dtypes(name), 0)
    for k in range(DRAWS):
        dtype = min(ran, key=lambda dtype: ran[dtype]) if k % 2 else draw.random.choice(list(ran))
        ran[dtype] += check_launch(chip, name, kernel, draw.launch(dtype, long))
        if sum(ran.values()) == most:
            break
    return sum(ran.values())


def check_launch(chip: Chip, name: str, kernel: Kernel, launch: Launch) -> bool:
    """Compare a launch with its reference; return whether it ran."""
    operands = elements(kernel, launch)
    parameters = {key: number(value) for key, value in launch.parameters.items()}
    status, outputs = chip.run(name, kernel, launch)
    faulted = status >= c_abi.ATALLA_ERR_FAULT_ADDRESS
    if status != c_abi.ATALLA_OK and not faulted:
        return False
    try:
        expected = kernel_reference.outputs(kernel, name, operands, parameters, TORCH_DTYPES[launch.dtype])
    except IndexError as error:
        assert faulted, f"{error}: expected a fault of\n{launch}"
        return False
    except (Undefined, ZeroDivisionError):
        return False
    if faulted:
        return False
    written = [operand.name for operand, _ in launch.operands if operand.written]
    for output, found in zip(written, outputs):
        if found is None or output not in expected:
            continue
        wrong = differs(found, expected[output], TORCH_DTYPES[launch.dtype])
        if wrong.any():
            place = wrong.nonzero()[0].tolist()
            raise AssertionError(f"{output}{place} of\n{launch}\nis\n{found}\nexpected\n{expected[output]}")
    return True


def check_memory(chip: Chip, name: str, kernel: Kernel) -> None:
    draw = Draw(name, kernel)
    for _ in range(LAUNCHES):
        launch, runs = draw.launch(draw.random.choice(chip.dtypes(name))), []
        for fill in FILLS:
            chip.bytes.fill_(fill)
            runs.append(chip.run(name, kernel, launch))
        (status, first), (again, second) = runs
        assert status == again, f"status {status} and then {again} of\n{launch}"
        for a, b in zip(first, second):
            if status == c_abi.ATALLA_OK and a is not None and b is not None:
                same = torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))
                assert same, f"{a} and then {b} of\n{launch}"


def main() -> None:
    chip, failures = Chip(), 0
    with np.errstate(all="ignore"):
        for name, kernel in entries():
            if name not in sys.argv[1:] and len(sys.argv) > 1:
                continue
            try:
                (check_kernel if kernel.values else check_memory)(chip, name, kernel)
            except AssertionError as error:
                failures += 1
                print(f"{name}: {error}")
    chip.close()
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
