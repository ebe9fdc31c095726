# SPDX-License-Identifier: BSD-3-Clause
"""Decoding by ONNX Runtime and OpenVINO, which read and write arrays that are made once: no call copies the cache, but
for the step itself, which writes the whole cache that the next one reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.decoder.sizes import CACHE, LAYERS, METHODS, PROMPT, VOCABULARY
from benchmarks.loadable.worker import size_of

# Of the prompt, and of one token at a position: the next token.
Start = Callable[[], int]
Next = Callable[[int, int], int]
Load = Callable[[], tuple[Start, Next]]


def exported(folder: Path) -> dict[str, Any]:
    from benchmarks.decoder import model

    return model.export_without_state(model.load(folder))


def save_each(folder: Path, suffix: str, save: Callable[[Any, Path], object]) -> tuple[float, int]:
    """Seconds and bytes of a file for each method; the export is not counted."""
    programs = exported(folder)
    paths = [folder / f"{method}{suffix}" for method in METHODS]
    start = time.perf_counter()
    for program, path in zip(programs.values(), paths):
        save(program, path)
    return time.perf_counter() - start, sum(map(size_of, paths))


class Arrays:
    """The arguments and results of both methods. A step reads one of two caches and writes the other."""

    def __init__(self, folder: Path) -> None:
        import numpy as np

        caches = [[np.zeros(CACHE, np.float32) for _ in range(2 * LAYERS)] for _ in range(2)]
        logits = [np.zeros((1, tokens, VOCABULARY), np.float32) for tokens in (PROMPT, 1)]
        self.token = [np.zeros((1, 1), np.int64), np.zeros(1, np.int64)]
        self.logits = logits
        # (arguments, results) of the prompt, of an even step and of an odd one
        self.calls = [
            ([np.load(folder / "prompt.npy"), np.arange(PROMPT)], [logits[0], *caches[0]]),
            ([*self.token, *caches[0]], [logits[1], *caches[1]]),
            ([*self.token, *caches[1]], [logits[1], *caches[0]]),
        ]

    def decoding(self, run: list[Callable[[], object]]) -> tuple[Start, Next]:
        """run: the calls."""

        def start() -> int:
            run[0]()
            return int(self.logits[0][0, -1].argmax())

        def following(token: int, at: int) -> int:
            self.token[0][0, 0], self.token[1][0] = token, at
            run[1 + (at - PROMPT) % 2]()
            return int(self.logits[1][0, -1].argmax())

        return start, following


def save_onnx(folder: Path) -> tuple[float, int]:
    import torch

    return save_each(
        folder, ".onnx", lambda x, path: torch.onnx.export(x, dynamo=True, external_data=False).save(str(path))
    )


def load_onnx(folder: Path, threads: int) -> Load:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1

    def load() -> tuple[Start, Next]:
        prefill, step = (
            onnxruntime.InferenceSession(folder / f"{method}.onnx", options, providers=["CPUExecutionProvider"])
            for method in METHODS
        )
        arrays, run = Arrays(folder), []
        for session, (args, results) in zip((prefill, step, step), arrays.calls):
            binding = session.io_binding()
            for bind, ports, values in (
                (binding.bind_input, session.get_inputs(), args),
                (binding.bind_output, session.get_outputs(), results),
            ):
                for port, array in zip(ports, values, strict=True):
                    bind(port.name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
            run.append(lambda session=session, binding=binding: session.run_with_iobinding(binding))
        return arrays.decoding(run)

    return load


def save_openvino(folder: Path) -> tuple[float, int]:
    import openvino

    def save(program: Any, path: Path) -> None:
        openvino.save_model(openvino.convert_model(program), path, compress_to_fp16=False)

    return save_each(folder, ".xml", save)


def load_openvino(folder: Path, threads: int) -> Load:
    import openvino

    core = openvino.Core()

    def load() -> tuple[Start, Next]:
        settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        prefill, step = (core.compile_model(folder / f"{method}.xml", "CPU", settings) for method in METHODS)
        arrays, run = Arrays(folder), []
        for compiled, (args, results) in zip((prefill, step, step), arrays.calls):
            request = compiled.create_infer_request()
            for i, array in enumerate(args):
                request.set_input_tensor(i, openvino.Tensor(array, shared_memory=True))
            for i, array in enumerate(results):
                request.set_output_tensor(i, openvino.Tensor(array, shared_memory=True))
            run.append(lambda request=request: (request.start_async(), request.wait()))
        return arrays.decoding(run)

    return load
