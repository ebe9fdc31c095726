# SPDX-License-Identifier: BSD-3-Clause
"""How each runtime saves the decoder of benchmarks/loadable_decoder.py, loads it and decodes with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import decoder_arrays
from benchmarks.decoder_arrays import Load, Next, Start, save_each
from benchmarks.decoder_sizes import METHODS, PROMPT


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


# ---- eager PyTorch


def save_eager(folder: Path) -> tuple[float, int]:
    return 0.0, (folder / "decoder.pt").stat().st_size


def load_eager(folder: Path, threads: int) -> Load:
    import torch

    from benchmarks import decoder_model

    torch.set_num_threads(threads)

    def load() -> tuple[Start, Next]:
        decoder = decoder_model.load(folder)
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
        cache: list = []

        def prefill(*args: Any) -> Any:
            logits, *cache[:] = runners[0](*args)
            return logits

        def step(*args: Any) -> Any:
            logits, *cache[:] = runners[1](*args, *cache)
            return logits

        return with_tensors(prefill, step, folder, "cpu")

    return load


# ---- this project


def _save_atalla(folder: Path, level: str) -> tuple[float, int]:
    import torch_atalla
    from benchmarks import decoder_model

    programs = decoder_model.export_with_state(decoder_model.load(folder))
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
    "onnxruntime": (decoder_arrays.save_onnx, decoder_arrays.load_onnx),
    "openvino": (decoder_arrays.save_openvino, decoder_arrays.load_openvino),
    "atalla": (lambda f: _save_atalla(f, "exact"), lambda f, n: _load_atalla(f, n, "exact")),
    "atalla-fast": (lambda f: _save_atalla(f, "fast"), lambda f, n: _load_atalla(f, n, "fast")),
}
