# SPDX-License-Identifier: BSD-3-Clause
"""Write a kernel for Atalla in Triton: a softmax from Python to packets, with its cycles by line.

python examples/tutorials/triton_kernel.py

Triton compiles the kernel to a tile program. The functional engine runs it as one launch; with `engine("isa")` it
becomes Atalla code: loads and stores are SDMA tiles, arithmetic is vector instructions in bfloat16, sums go through the
array in FP32. docs/guides/triton.md says what Atalla code can express. The example needs `torch_atalla[triton]`.
"""

import linecache

import torch
import triton
import triton.language as tl

import torch_atalla

torch_atalla.fallback.mode("error")


@triton.jit
def softmax(out, x, rows, columns, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    inside = column < columns
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        values = tl.load(x + row * columns + column, mask=inside, other=-float("inf"))
        largest = tl.max(values, axis=0)
        powers = tl.exp(values - largest)
        total = tl.sum(powers, axis=0)
        shares = powers / total
        tl.store(out + row * columns + column, shares, mask=inside)


# 1. On the functional engine, in the dtypes of the kernel.
x = torch.randn(64, 1000, dtype=torch.bfloat16, device="atalla")
out = torch.empty_like(x)
softmax[(1,)](out, x, 64, 1000, BLOCK=1024)
print("close to the CPU:", torch.allclose(out.cpu(), x.cpu().softmax(1), atol=1e-3))

# 2. As Atalla code, on the ISA engine. The rows of the next pass come in while one is computed.
found = torch.empty_like(x)
with torch_atalla.chip.engine("isa") as mode:
    softmax[(1,)](found, x, 64, 1000, BLOCK=1024)
    print(mode.stats)
    cycles = mode.stats.cycles
    x.softmax(1)
print("the engines agree:", torch.allclose(found.cpu(), out.cpu(), atol=1e-3))
print(f"{cycles} cycles, of the built-in kernel {mode.stats.cycles}")

# 3. The packets, each with its line of this file.
text = softmax.warmup(out, x, 64, 1000, grid=(1,), BLOCK=1024, code=True).asm["atalla"].splitlines()
first = next(i for i, line in enumerate(text) if "expi.vi" in line)
print("\n".join(line.strip() for line in text[first : first + 4]))

# 4. Packets and cycles by line. Cycles of waiting count for the line that waits.
with torch_atalla.chip.engine("isa") as mode:
    mode.lines = {}
    softmax[(1,)](found, x, 64, 1000, BLOCK=1024)
for line, (packets, spent) in sorted(mode.lines.items()):
    code = linecache.getline(__file__, line).strip() or "(driver, last transfers)"
    print(f"{packets:7} packets {spent:7} cycles  {code}")

# 5. What Atalla code cannot express is an error with its line.
try:
    softmax.warmup(out.float(), x.float(), 64, 1000, grid=(1,), BLOCK=1024, code=True)
except triton.CompilationError as error:
    print(str(error).splitlines()[-1].rpartition("/")[2])
