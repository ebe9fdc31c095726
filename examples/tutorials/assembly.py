# SPDX-License-Identifier: BSD-3-Clause
"""A kernel in Atalla assembly: how to add two rows of 32 bfloat16 values, step through the program, and run it.

python examples/tutorials/assembly.py

A tile of bfloat16 values moves from DRAM to a scratchpad (`scpad.ld`), a row moves to a vector register (`vreg.ld`),
and the result goes back. docs/guides/isa.md describes the language, docs/concepts/isa-engine.md the registers.
"""

import torch

import torch_atalla
from torch_atalla import isa

torch_atalla.fallback.mode("error")

# x10, x11 and x12 are the addresses of the operands and of the result. x3 is the shape of a tile: 1 row of 32 columns.
SOURCE = """
    lui.s    x3, 31 << 13            # (columns - 1) << 20
    li.s     x4, 64                  # the scratchpad's second row
    scpad.ld x0, x10, x3
    scpad.ld x4, x11, x3
    vreg.ld  v1, x0, x0, 0, 32
    vreg.ld  v2, x4, x0, 0, 32
sum:
    add.vv   v3, v1, v2
    vreg.st  v3, x0, x0, 0, 32
    scpad.st x0, x12, x3
    halt.s
"""
program = isa.assemble(SOURCE)
print("problems found by the packet checker:", isa.check(program))

# 1. Step through it, in a machine with DRAM of its own.
a = torch.arange(32, dtype=torch.bfloat16)
b = torch.full((32,), 0.5, dtype=torch.bfloat16)
bits = {address: x.view(torch.int16).numpy() for address, x in ((0x4000, a), (0x5000, b))}
machine = isa.Machine(program, bits, args=(0x4000, 0x5000, 0x6000))
machine.breakpoint("sum")
print("stopped:", machine.run(), "with v1 =", machine.v(1)[:4], "and v2 =", machine.v(2)[:4])
print("one step:", machine.step(), "with v3 =", machine.v(3)[:4])
print("\n".join(machine.trace()))

# 2. The statistics show where the cycles went.
result = isa.run(program, bits, args=(0x4000, 0x5000, 0x6000))
print(result.stats)

# 3. Run it on the device, on tensors.
x, y = a.to("atalla"), b.to("atalla")
out = torch.empty_like(x)
stats = isa.launch(program, args=[isa.dram_address(t) for t in (x, y, out)])
print("on the device:", stats.cycles, "cycles; equal to x + y:", torch.equal(out.cpu(), (x + y).cpu()))
