# SPDX-License-Identifier: BSD-3-Clause
"""The hot paths whose instructions are counted; run under callgrind by benchmarks/instructions/__main__.py.

python -m benchmarks.instructions.workload REQUESTS.so DEVICE     DEVICE: atalla or cpu

Each case dumps the counts of its calls under its name.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

Call = Callable[[], object]
WARM_UP = 8


@dataclass(frozen=True)
class Case:
    name: str
    calls: int  # that are counted
    make: Callable[[str], Call]  # device -> what is counted
    on_cpu: bool = True  # exists there too


def _add(device: str) -> Call:
    x, y = torch.ones(8, device=device), torch.ones(8, device=device)
    return lambda: torch.add(x, y)


def _empty(device: str) -> Call:
    return lambda: torch.empty(8, device=device)


def _copy(device: str) -> Call:
    source, target = torch.ones(8, device=device), torch.empty(8, device=device)
    return lambda: target.copy_(source)


def _item(device: str) -> Call:
    return torch.ones((), device=device).item


def _view(device: str) -> Call:
    x = torch.ones(8, device=device)
    return lambda: x.view(2, 4)


def _slice(device: str) -> Call:
    x = torch.ones(8, device=device)
    return lambda: x.narrow(0, 2, 4)


def _transpose(device: str) -> Call:
    x = torch.ones(2, 4, device=device)
    return lambda: x.transpose(0, 1)


def _replay(device: str) -> Call:
    """Of 16 launches."""
    x = torch.ones(8, device=device)
    graph = torch.atalla.Graph()
    with torch.atalla.graph(graph):
        y = x
        for _ in range(16):
            y = y + 1
    return graph.replay


def _seed(device: str) -> Call:
    """A loadable of three launches."""
    from ..loadable.models import seed

    return _loadable(*seed(), device)


def _mlp(device: str) -> Call:
    from ..loadable.models import mlp

    return _loadable(*mlp(), device)


def _loadable(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], device: str) -> Call:
    import torch_atalla

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.atl"
        torch_atalla.save_loadable(module.eval(), path, args=inputs, fallback="error")
        program = torch_atalla.load_loadable(path)
    given = [x.to(device) for x in inputs]
    return lambda: program(*given)


def _isa(_device: str) -> Call:
    """The loop of benchmarks/isa.py: 100 times 32 packets."""
    import numpy as np

    from torch_atalla import isa

    from ..isa import gemm_loop

    code = isa.Code(gemm_loop(100))
    machine = isa.Machine(code)
    for sid in (0, 1):
        machine.write_scratchpad(sid, 0, np.ones((2048, 32), np.float32))
    machines = [machine, *(isa.Machine(code) for _ in range(WARM_UP + 1))]
    return lambda: machines.pop().run()


CASES = (
    Case("add", 200, _add),
    Case("empty", 200, _empty),
    Case("copy_", 200, _copy),
    Case("item", 200, _item),
    Case("view", 200, _view),
    Case("narrow", 200, _slice),
    Case("transpose", 200, _transpose),
    Case("replay of 16 launches", 50, _replay, on_cpu=False),
    Case("call of seed", 50, _seed, on_cpu=False),
    Case("call of mlp", 1, _mlp, on_cpu=False),
    Case("ISA engine, 3200 packets", 1, _isa, on_cpu=False),
)


def main() -> None:
    requests, device = ctypes.CDLL(sys.argv[1]), sys.argv[2]
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    gc.disable()
    chosen = [case for case in CASES if case.on_cpu or device == "atalla"]
    calls = [case.make(device) for case in chosen]
    requests.start_instrumentation()
    for case, call in zip(chosen, calls, strict=True):
        for _ in range(WARM_UP):
            call()
        requests.zero_counts()
        requests.toggle_collection()
        for _ in range(case.calls):
            call()
        requests.toggle_collection()
        requests.dump_counts(case.name.encode())


if __name__ == "__main__":
    main()
