# SPDX-License-Identifier: BSD-3-Clause
"""Programs of Atalla code as text images for other simulators: no firmware, no arguments, data and results included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.isa_cases import image, tensor
from torch_atalla import isa
from torch_atalla.compiler.targets.chip.build import CompiledNetwork, compile_model
from torch_atalla.compiler.targets.chip.network import Port
from torch_atalla.compiler.targets.chip.place import place_network

README = """# Programs for other simulators

Each `.in` file is a text image of code and data (docs/guides/isa.md). The `.out` file beside it holds what the program
leaves at its result's address. To run one:

1. Widen both scratchpads to 1 MiB (16,384 rows of 64 bytes). The programs use them from row 0 and ask no firmware.
2. Load instructions and data into their address spaces. Registers start as 0, m0 as all ones, the weight buffer empty.
3. Start at instruction address 0 and run to `halt.s`. There are no arguments and no input.
4. Compare the result's bytes with the `.out` file. They are the `simulator` profile's: stores to DRAM truncate.

Results are BF16. Strides are in elements.

| program | shape | strides | address | bytes | packets of code |
| --- | --- | --- | --- | --- | --- |
"""


class Op(nn.Module):
    """A function of its arguments as a module."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.function(*args)


class Micro(nn.Module):
    """One pre-norm block: 32 tokens of width 32, hidden width 64, GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.q, self.k, self.v, self.out = (nn.Linear(32, 32) for _ in range(4))
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        q, k, v = (layer(y).unsqueeze(1) for layer in (self.q, self.k, self.v))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).squeeze(1))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def _layer(layer: nn.Module, seed: int = 0) -> nn.Module:
    """The layer with reproducible parameters."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in layer.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) / max(parameter[0].numel(), 1) ** 0.5
    return layer.bfloat16().eval()


EXPORTS: dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]] = {
    "gemm": lambda: (Op(torch.matmul), (tensor(48, 64), tensor(64, 32))),
    "softmax": lambda: (nn.Softmax(1), (tensor(40, 70),)),
    "layer_norm": lambda: (_layer(nn.LayerNorm(64)), (tensor(33, 64),)),
    "attention": lambda: (Op(F.scaled_dot_product_attention), (tensor(1, 2, 40, 32),) * 3),
    "convolution": lambda: (_layer(nn.Conv2d(32, 48, 3, padding=1)), (image(1, 32, 12, 10),)),
    "max_pooling": lambda: (nn.MaxPool2d(3, 2, 1), (image(1, 40, 13, 11),)),
    "average_pooling": lambda: (nn.AvgPool2d(2), (image(1, 40, 12, 10),)),
    "gelu": lambda: (nn.GELU(), (tensor(40, 70),)),
    "vit_micro": lambda: (_layer(Micro()), (tensor(1, 32, 32),)),
}


@dataclass
class Export:
    """A self-contained program, the network from which it is made, its inputs, and the place of its result."""

    program: isa.Program
    compiled: CompiledNetwork
    inputs: tuple[torch.Tensor, ...]
    result: Port
    address: int

    def expected(self) -> bytes:
        """The bytes of the result after a run as the package runs networks: with firmware and arguments."""
        run = self.compiled.run(self.inputs, timing=False)
        place = place_network(self.compiled.network, self.inputs).regions[self.result.region]
        return run.result.memory(place, self.result.nbytes).tobytes()


def make(name: str) -> Export:
    module, inputs = EXPORTS[name]()
    compiled = compile_model(module, inputs)
    network = compiled.network
    table = place_network(network, inputs).table
    program = network.image.link(standalone_table=table)
    placed = place_network(network, inputs)  # again: the table has the addresses of functions after linking
    program.data = dict(placed.memory)
    (result,) = network.outputs
    network.image.link()
    return Export(program, compiled, inputs, result, placed.regions[result.region])


def write(directory: Path) -> str:
    """Write each program as a text image, with the bytes of its result and a README, whose text is returned."""
    directory.mkdir(parents=True, exist_ok=True)
    text = README
    for name in EXPORTS:
        export = make(name)
        isa.write_text_image(export.program, directory / f"{name}.in")
        (directory / f"{name}.out").write_bytes(export.expected())
        port = export.result
        numbers = f"{list(port.sizes)} | {list(port.strides)} | {export.address:#x} | {port.nbytes}"
        text += f"| {name}.in | {numbers} | {len(export.program)} |\n"
    (directory / "README.md").write_text(text)
    return text
