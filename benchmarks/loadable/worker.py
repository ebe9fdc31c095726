# SPDX-License-Identifier: BSD-3-Clause
"""One runtime in one process, which benchmarks/loadable/compare.py starts: it saves, or loads and runs on demand.

    python worker.py save RUNTIME FOLDER            -> one line of JSON: seconds, file
    python worker.py run RUNTIME FOLDER THREADS     -> a line when loaded, then one for each line {"calls": n}

FOLDER holds model.pt2 (torch.export), input-N.npy and expected.npy. Nothing of this project is imported unless the
runtime is ours: the file runs in the peers' environments too.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STARTED = time.perf_counter()

Call = Callable[[], Any]


def inputs_of(folder: Path) -> list:
    import numpy as np

    return [np.load(path) for path in sorted(folder.glob("input-*.npy"))]


def exported(folder: Path) -> Any:
    import torch

    return torch.export.load(folder / "model.pt2")


def tensors(folder: Path) -> tuple:
    import torch

    return tuple(torch.from_numpy(array) for array in inputs_of(folder))


# ---- eager PyTorch


def save_eager(folder: Path) -> Path:
    return folder / "model.pt2"


def load_eager(folder: Path, threads: int) -> Callable[[], tuple[Call, Call]]:
    import torch

    torch.set_num_threads(threads)

    def load() -> tuple[Call, Call]:
        module, args = exported(folder).module(), tensors(folder)

        def call() -> Any:
            with torch.no_grad():
                return module(*args)

        return call, lambda: call().numpy()

    return load


# ---- AOTInductor


def save_aoti(folder: Path) -> Path:
    import torch
    import torch._inductor

    program, path = exported(folder), folder / "aoti.pt2"
    with torch.no_grad():  # freezing asks for it
        torch._inductor.aoti_compile_and_package(program, package_path=str(path), inductor_configs={"freezing": True})
    return path


def load_aoti(folder: Path, threads: int) -> Callable[[], tuple[Call, Call]]:
    import torch
    import torch._inductor

    torch.set_num_threads(threads)

    def load() -> tuple[Call, Call]:
        runner, args = torch._inductor.aoti_load_package(str(folder / "aoti.pt2")), tensors(folder)

        def call() -> Any:
            with torch.no_grad():
                return runner(*args)

        return call, lambda: call().numpy()

    return load


# ---- ONNX Runtime


def save_onnx(folder: Path) -> Path:
    import torch

    path = folder / "model.onnx"
    torch.onnx.export(exported(folder), dynamo=True, external_data=False).save(str(path))
    return path


def load_onnx(folder: Path, threads: int) -> Callable[[], tuple[Call, Call]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1

    def load() -> tuple[Call, Call]:
        session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
        feed = {port.name: array for port, array in zip(session.get_inputs(), inputs_of(folder), strict=True)}
        return (lambda: session.run(None, feed)), (lambda: session.run(None, feed)[0])

    return load


# ---- OpenVINO


def save_openvino(folder: Path) -> Path:
    import openvino

    path = folder / "openvino.xml"
    openvino.save_model(openvino.convert_model(exported(folder)), path, compress_to_fp16=False)
    return path


def load_openvino(folder: Path, threads: int) -> Callable[[], tuple[Call, Call]]:
    import openvino

    core = openvino.Core()

    def load() -> tuple[Call, Call]:
        settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        compiled = core.compile_model(folder / "openvino.xml", "CPU", settings)
        request, arrays = compiled.create_infer_request(), inputs_of(folder)
        return (lambda: request.infer(arrays, share_inputs=True, share_outputs=True)), (
            lambda: request.infer(arrays)[0].copy()
        )

    return load


# ---- ExecuTorch with XNNPACK


def save_executorch(folder: Path) -> Path:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    program = to_edge_transform_and_lower(exported(folder), partitioner=[XnnpackPartitioner()]).to_executorch()
    path = folder / "model.pte"
    path.write_bytes(program.buffer)
    return path


def set_executorch_threads(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)
    try:
        from executorch.extension.pybindings.portable_lib import _threadpool_set_num_threads as set_threads

        set_threads(threads)
    except ImportError:
        pass  # the pool takes the affinity's count


def load_executorch(folder: Path, threads: int) -> Callable[[], tuple[Call, Call]]:
    from executorch.runtime import Runtime

    set_executorch_threads(threads)

    def load() -> tuple[Call, Call]:
        method, args = Runtime.get().load_program(folder / "model.pte").load_method("forward"), tensors(folder)
        return (lambda: method.execute(args)), (lambda: method.execute(args)[0].numpy())

    return load


# ---- this project


def _save_atalla(folder: Path, level: str) -> Path:
    import torch_atalla

    path = folder / f"{level}.atl"
    torch_atalla.save_loadable(exported(folder), path, fallback="error", optimize=level)
    return path


def _load_atalla(folder: Path, threads: int, level: str) -> Callable[[], tuple[Call, Call]]:
    import torch

    import torch_atalla

    torch.set_num_threads(threads)
    torch_atalla.chip.set_num_threads(threads)

    def load() -> tuple[Call, Call]:
        program = torch_atalla.load_loadable(folder / f"{level}.atl", device="atalla")
        args = tuple(x.to("atalla") for x in tensors(folder))

        def call() -> Any:
            result = program(*args)
            torch.atalla.synchronize()
            return result

        return call, lambda: call().cpu().numpy()

    return load


RUNTIMES: dict[str, tuple[Callable[[Path], Path], Callable[[Path, int], Callable[[], tuple[Call, Call]]]]] = {
    "eager": (save_eager, load_eager),
    "aoti": (save_aoti, load_aoti),
    "onnxruntime": (save_onnx, load_onnx),
    "openvino": (save_openvino, load_openvino),
    "executorch": (save_executorch, load_executorch),
    "atalla": (lambda f: _save_atalla(f, "exact"), lambda f, n: _load_atalla(f, n, "exact")),
    "atalla-fast": (lambda f: _save_atalla(f, "fast"), lambda f, n: _load_atalla(f, n, "fast")),
    "atalla-none": (lambda f: _save_atalla(f, "none"), lambda f, n: _load_atalla(f, n, "none")),
}


def size_of(path: Path) -> int:
    """The file, and the weights beside an OpenVINO file."""
    total = path.stat().st_size
    weights = path.with_suffix(".bin")
    return total + (weights.stat().st_size if path.suffix == ".xml" and weights.exists() else 0)


def peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def reply(out: Any, **numbers: Any) -> None:
    out.write(json.dumps(numbers) + "\n")
    out.flush()


def main() -> None:
    action, runtime, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    out = os.fdopen(os.dup(1), "w")  # libraries may print to what they know as stdout
    os.dup2(2, 1)
    save, load = RUNTIMES[runtime]
    if action == "save":
        start = time.perf_counter()
        path = save(folder)
        reply(out, seconds=time.perf_counter() - start, bytes=size_of(path))
        return
    prepare = load(folder, int(sys.argv[4]))
    imported = time.perf_counter()
    call, first = prepare()
    loaded = time.perf_counter()
    result = first()
    ran = time.perf_counter()
    import numpy as np

    np.save(folder / f"result-{runtime}.npy", result)
    reply(out, imports=imported - STARTED, load=loaded - imported, first=ran - loaded, peak=peak_bytes())
    for line in sys.stdin:
        calls = json.loads(line)["calls"]
        start, cpu = time.perf_counter(), time.process_time()
        for _ in range(calls):
            call()
        reply(out, seconds=time.perf_counter() - start, cpu=time.process_time() - cpu)


if __name__ == "__main__":
    main()
