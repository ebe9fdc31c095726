# SPDX-License-Identifier: BSD-3-Clause
"""How each runtime saves the decoder of benchmarks/loadable/decoder.py, loads it and decodes with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.decoder import arrays
from benchmarks.decoder.arrays import Load, Next, Start, exported, save_each
from benchmarks.decoder.sizes import METHODS, PROMPT
from benchmarks.loadable.worker import set_executorch_threads


def with_tensors(prefill: Callable, step: Callable, folder: Path, device: str) -> tuple[Start, Next]:
    """prefill and step: ids, position -> logits."""
    import numpy as np
    import torch

    torch.set_grad_enabled(False)  # this process does nothing else
    prompt, positions = torch.from_numpy(np.load(folder / "prompt.npy")), torch.arange(PROMPT)

    def start() -> int:
        return int(prefill(prompt.to(device), positions.to(device))[0, -1].argmax())

    def following(token: int, at: int) -> int:
        return int(step(torch.tensor([[token]]).to(device), torch.tensor([at]).to(device))[0, -1].argmax())

    return start, following


def with_results(prefill: Callable, step: Callable, folder: Path) -> tuple[Start, Next]:
    """prefill: ids, position -> logits and the cache. step: those and the cache -> the same."""
    cache: list = []

    def keep(results: Any) -> Any:
        logits, *cache[:] = results
        return logits

    return with_tensors(lambda *args: keep(prefill(*args)), lambda *args: keep(step(*args, *cache)), folder, "cpu")


# ---- eager PyTorch


def save_eager(folder: Path) -> tuple[float, int]:
    return 0.0, (folder / "decoder.pt").stat().st_size


def load_eager(folder: Path, threads: int) -> Load:
    import torch

    from benchmarks.decoder import model

    torch.set_num_threads(threads)

    def load() -> tuple[Start, Next]:
        decoder = model.load(folder)
        return with_tensors(decoder, decoder, folder, "cpu")

    return load


# ---- AOTInductor


def save_aoti(folder: Path) -> tuple[float, int]:
    import torch
    import torch._inductor

    def save(program: Any, path: Path) -> None:
        with torch.no_grad():  # freezing asks for it
            torch._inductor.aoti_compile_and_package(
                program, package_path=str(path), inductor_configs={"freezing": True}
            )

    return save_each(folder, ".pt2", save)


def load_aoti(folder: Path, threads: int) -> Load:
    import torch
    import torch._inductor

    torch.set_num_threads(threads)

    def load() -> tuple[Start, Next]:
        runners = [torch._inductor.aoti_load_package(str(folder / f"{method}.pt2")) for method in METHODS]
        return with_results(*runners, folder)

    return load


# ---- ExecuTorch with XNNPACK


def save_executorch(folder: Path) -> tuple[float, int]:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    programs, path = exported(folder), folder / "model.pte"
    start = time.perf_counter()
    program = to_edge_transform_and_lower(programs, partitioner=[XnnpackPartitioner()]).to_executorch()
    path.write_bytes(program.buffer)
    return time.perf_counter() - start, path.stat().st_size


def load_executorch(folder: Path, threads: int) -> Load:
    from executorch.runtime import Runtime

    set_executorch_threads(threads)

    def load() -> tuple[Start, Next]:
        program = Runtime.get().load_program(folder / "model.pte")
        methods = [program.load_method(method) for method in METHODS]
        return with_results(*(lambda *args, method=method: method.execute(args) for method in methods), folder)

    return load


# ---- this project


def _save_atalla(folder: Path, level: str) -> tuple[float, int]:
    import torch_atalla
    from benchmarks.decoder import model

    programs = model.export_with_state(model.load(folder))
    path = folder / f"{level}.atl"
    start = time.perf_counter()
    # Golden inputs are random: of positions that occur twice, anyone may stay in the cache.
    torch_atalla.save_loadable(programs, path, fallback="error", golden=False, optimize=level)
    return time.perf_counter() - start, path.stat().st_size


def _load_atalla(folder: Path, threads: int, level: str) -> Load:
    import torch

    import torch_atalla

    torch.set_num_threads(threads)
    torch_atalla.chip.set_num_threads(threads)

    def load() -> tuple[Start, Next]:
        program = torch_atalla.load_loadable(folder / f"{level}.atl", device="atalla")
        return with_tensors(program["prefill"], program["decode"], folder, "atalla")

    return load


RUNTIMES: dict[str, tuple[Callable[[Path], tuple[float, int]], Callable[[Path, int], Load]]] = {
    "eager": (save_eager, load_eager),
    "aoti": (save_aoti, load_aoti),
    "onnxruntime": (arrays.save_onnx, arrays.load_onnx),
    "openvino": (arrays.save_openvino, arrays.load_openvino),
    "executorch": (save_executorch, load_executorch),
    "atalla": (lambda f: _save_atalla(f, "exact"), lambda f, n: _load_atalla(f, n, "exact")),
    "atalla-fast": (lambda f: _save_atalla(f, "fast"), lambda f, n: _load_atalla(f, n, "fast")),
}
