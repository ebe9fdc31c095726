# SPDX-License-Identifier: BSD-3-Clause
"""Code blocks of the documentation, and what test_blocks.py needs to run them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]


@dataclass(frozen=True)
class Block:
    page: str
    line: int  # of the first line of the code
    language: str  # "" if the fence names none
    text: str


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    begin, language = 0, None
    lines = (ROOT / page).read_text().splitlines()
    for number, line in enumerate(lines, 1):
        fence = re.fullmatch(r" *```(\S*).*", line)
        if fence is None:
            continue
        if language is None:
            begin, language = number + 1, fence[1]
        else:
            found.append(Block(page, begin, language, "\n".join(lines[begin - 1 : number - 1]) + "\n"))
            language = None
    assert language is None, f"{page}:{begin}: the fence is not closed"
    return found


# Pages whose Python blocks run in another test.
RUN_ELSEWHERE = {
    **{f"docs/tutorials/{name}.md": "test/docs/test_tutorials.py" for name in (
        "assembly", "compile", "first-tensor", "fx-pass", "port-cuda", "profile", "several-devices", "ship-loadable",
        "triton-kernel",
    )},
    "docs/guides/adding-an-instruction.md": "test/docs/test_chip_guides.py",
    "docs/guides/writing-a-chip-kernel.md": "test/docs/test_chip_guides.py",
}  # fmt: skip

# (page, beginning of a Python block, "" for all) -> why test_blocks.py does not run it. It must still compile.
NOT_RUN = {
    ("docs/guides/libraries.md", ""): "needs models and libraries of test/ecosystem, whose tests make the same calls",
    (
        "docs/concepts/isa-engine.md",
        "from tools.rtl import",
    ): "needs Verilator; test/isa/test_rtl.py runs such programs",
    ("docs/concepts/network.md", "import torch_atalla"): "starts processes; test/explorer runs such studies",
    ("docs/guides/explore.md", "study = torch_atalla.explore"): "starts processes; test/explorer runs such studies",
}

# Packages without which no block of a page runs. A block that imports another package that is not there only compiles.
NEEDED = {
    "docs/guides/interop.md": "safetensors",
    "docs/guides/triton.md": "triton",
}

SMALL = """
import torch, torch_atalla
model, x = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU()).eval(), torch.randn(4, 32)
"""
ON_DEVICE = SMALL + "model, x = model.to('atalla'), x.to('atalla')\n"
CACHED = """
class Cached(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(8, 8)
        self.register_buffer("k", torch.zeros(16, 8))

    def forward(self, ids, positions):
        self.k.index_copy_(0, positions, self.head.weight[ids[0]])
        return self.head(self.k)

model, n = Cached().eval(), torch.export.Dim("n", min=2, max=8)
ids, positions, weight = torch.tensor([[1, 2, 3, 4]]), torch.arange(4), torch.ones(8, 8)
"""

# Page -> number of a Python block of the page, from 0 -> code before it: the names that the block takes as given.
SETUP: dict[str, dict[int, str]] = {
    "docs/concepts/aot.md": {
        0: SMALL,
        1: """
from torch_atalla.compiler.lower.registry import RULES, lowers
FLOATING = INTEGER = frozenset({torch.float32})
RULES = dict(RULES)
""",
        2: CACHED,
    },
    "docs/concepts/energy.md": {0: ON_DEVICE},
    "docs/concepts/isa-codegen.md": {
        0: SMALL,
        1: "from torch_atalla.compiler.targets.chip.scalar_core.routine import Context",
    },
    "docs/concepts/isa-engine.md": {
        0: """
import torch
from torch_atalla import isa
program = isa.assemble("loop: sw.s x10, 0(x11)\\nhalt.s")
a = w = torch.ones(4)
t, memory = torch.ones(64, device="atalla"), {}
"""
    },
    "docs/concepts/memory.md": {
        0: ON_DEVICE + "train_step = lambda: model(x).sum().backward()\n",
    },
    "docs/concepts/trust.md": {
        0: SMALL + 'torch_atalla.save_loadable(torch.export.export(model, (x,)), "model.atl")\n'
    },
    "docs/guides/amp.md": {
        0: ON_DEVICE
        + """
data, criterion = [(x, x)], torch.nn.functional.mse_loss
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
    },
    "docs/guides/compile.md": {2: ON_DEVICE + "batch = x\n"},
    "docs/guides/distributed.md": {
        0: """
import os, socket
import torch.distributed as distributed

class dist:
    @staticmethod
    def init_process_group(*backend):
        with socket.socket() as probe:
            probe.bind(("localhost", 0))
            port = probe.getsockname()[1]
        os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "RANK": "0", "WORLD_SIZE": "1"}
        distributed.init_process_group(*backend)
        distributed.destroy_process_group()
"""
    },
    "docs/guides/graphs.md": {0: "import torch\nbatch = torch.randn(64, 64)\n"},
    "docs/guides/interop.md": {0: SMALL},
    "docs/guides/profiler.md": {
        0: ON_DEVICE,
        2: """
model, x = torch.nn.Linear(32, 32).bfloat16(), torch.randn(4, 32).bfloat16()
torch_atalla.save_loadable(model, "model.atl", args=(x,), engine="isa")
""",
    },
    "docs/guides/report.md": {
        0: SMALL
        + """
torch_atalla.save_loadable(torch.export.export(model, (x,)), "model.atl")
model, x = model.to("atalla"), x.to("atalla")
"""
    },
    "docs/guides/triton.md": {
        1: "import torch_atalla\n",
        2: "x, y, out = x.bfloat16(), y.bfloat16(), out.bfloat16()\n",
    },
}
