# SPDX-License-Identifier: BSD-3-Clause
"""What each kind of misuse of an artifact gives, for loadables and their peers: python tools/misuse.py [--write].

The model is linear(x) with x [4, 8] float32. Every case runs in a process of its own, so that a crash is seen as one.
AOTInductor runs where torch is; --peers names a Python of an environment with torch, onnx, onnxruntime and openvino,
which get the model as ONNX, and executorch with XNNPACK (benchmarks/loadable/compare.py makes one). --write makes
docs/reference/misuse.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.pages import DOCS, table  # noqa: E402

PAGE = DOCS / "reference/misuse.md"

CASES = {
    "right": "the right call",
    "shape": "wrong shape: [4, 7]",
    "batch": "wrong shape: [5, 8]",
    "dtype": "wrong dtype: float64",
    "device": "a tensor of another device",
    "fewer": "no argument",
    "more": "two arguments",
    "strides": "not contiguous",
    "truncated": "truncated by a byte",
    "half": "truncated to a half",
    "weight": "a flipped byte of a weight",
    "metadata": "a flipped byte of the metadata",
    "foreign": "a foreign file",
    "newer": "a newer major version",
}

# Prints one line: "right", "wrong values", or "<exception type>: <text>". Reads the artifact; {load} makes `call`.
WORKER = """
import sys
path, case = sys.argv[1:3]
try:
    import numpy as np
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    expected = np.load(path + ".expected.npy")
    given = {{
        "shape": (x[:, :7].copy(),), "batch": (np.concatenate([x, x[:1]]),), "dtype": (x.astype(np.float64),),
        "fewer": (),
        "more": (x, x), "strides": (np.asfortranarray(x),),
    }}.get(case, (x,))
{load}
    found = np.asarray(call(given, case))
    want = expected if case != "batch" else None
    if want is None:
        print("ran, output", list(found.shape))
    else:
        good = found.shape == want.shape and np.allclose(found, want, rtol=1e-3, atol=1e-4)
        print("right" if good else "wrong values")
except Exception as error:
    text = " ".join(str(error).split())
    print(type(error).__name__ + ": " + text)
"""

ATALLA = """
    import torch
    import torch_atalla
    program = torch_atalla.load_loadable(path)
    def call(given, case):
        device = "cpu" if case == "device" else "atalla"
        return program(*(torch.from_numpy(a).to(device) for a in given)).cpu()
"""
AOTI = """
    import torch
    program = torch._inductor.aoti_load_package(path)
    def call(given, case):
        device = "meta" if case == "device" else "cpu"
        return program(*(torch.from_numpy(a).to(device) for a in given))
"""
ORT = """
    import onnxruntime
    session = onnxruntime.InferenceSession(path)
    def call(given, case):
        names = [i.name for i in session.get_inputs()] + ["extra"]
        return session.run(None, dict(zip(names, given)))[0]
"""
OPENVINO = """
    import openvino
    # In float32, as the others: some machines would compute in bfloat16.
    program = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    def call(given, case):
        return program(list(given))[0]
"""
EXECUTORCH = """
    import torch
    from executorch.runtime import Runtime
    method = Runtime.get().load_program(path).load_method("forward")
    def call(given, case):
        device = "meta" if case == "device" else "cpu"
        return method.execute([torch.from_numpy(a).to(device) for a in given])[0]
"""
# Peers are alone: an import of torch must not bring this project with it.
ALONE = {"PYTHONPATH": "", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
ARRAYS = (ORT, OPENVINO)  # take NumPy's arrays, which have no device


def run(python: str, load: str, path: Path, case: str) -> str:
    worker = WORKER.format(load=load)
    env = {"PYTHONPATH": str(ROOT)} if load == ATALLA else ALONE
    done = subprocess.run(
        [python, "-c", worker, str(path), case], capture_output=True, text=True, timeout=300, env=os.environ | env
    )
    if done.returncode < 0:
        return f"**crash** (signal {-done.returncode})"
    lines = done.stdout.replace(f"{path.parent}/", "").strip().splitlines()
    return lines[-1] if lines else f"**ended** with code {done.returncode} and no exception"


def damaged(data: bytes, case: str, weight: bytes, newer: int | None) -> bytes | None:
    changed = bytearray(data)
    if case == "truncated":
        return data[:-1]
    if case == "half":
        return data[: len(data) // 2]
    if case == "weight":
        at = data.find(weight)
        if at < 0:
            return None
        changed[at + 2] ^= 0x40
    elif case == "metadata":
        changed[len(data) // 64 if newer is None else 200] ^= 0x10
    elif case == "foreign":
        return b"GIF89a" + bytes(5000)
    elif case == "newer":
        if newer is None:
            return None
        changed[newer] += 1
    return bytes(changed)


def reactions(python: str, load: str, artifact: Path, weight: bytes, newer: int | None = None) -> dict[str, str]:
    found = {}
    original = artifact.read_bytes()
    expected = Path(f"{artifact}.expected.npy").read_bytes()
    for case in CASES:
        path = artifact
        data = damaged(original, case, weight, newer)
        if data is None or (case == "device" and load in ARRAYS):
            found[case] = "not applicable"
            continue
        if data != original:
            path = artifact.with_name(f"{case}-{artifact.name}")
            path.write_bytes(data)
            Path(f"{path}.expected.npy").write_bytes(expected)
        found[case] = run(python, load, path, case)
        print(f"{artifact.suffix}  {case}: {found[case]}", file=sys.stderr)
    return found


def measure(peers: str | None, folder: Path, aoti: bool) -> dict[str, dict[str, str]]:
    import numpy as np
    import torch
    from torch import nn

    import torch_atalla

    torch.manual_seed(0)
    model = nn.Linear(8, 4).eval()
    x = torch.linspace(-1, 1, 32).reshape(4, 8)
    with torch.no_grad():
        expected = model(x).numpy()
    weight = model.weight.detach().numpy().tobytes()[16:32]
    exported = torch.export.export(model, (x,))
    results = {}

    def prepare(name: str) -> Path:
        np.save(folder / f"{name}.expected.npy", expected)
        return folder / name

    artifact = prepare("model.atl")
    torch_atalla.save_loadable(exported, artifact, fallback="error")
    results["loadable"] = reactions(sys.executable, ATALLA, artifact, weight, newer=8)
    if aoti:
        artifact = prepare("model.pt2")
        torch._inductor.aoti_compile_and_package(exported, package_path=str(artifact))
        results["AOTInductor"] = reactions(sys.executable, AOTI, artifact, weight)
    if peers is not None:
        artifact = prepare("model.onnx")
        np.savez(folder / "weights.npz", weight=model.weight.detach().numpy(), bias=model.bias.detach().numpy())
        script = """
import sys, numpy as np, onnx
from onnx import TensorProto as T, helper as h, numpy_helper as n
w = np.load(sys.argv[1])
graph = h.make_graph(
    [h.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)], "g",
    [h.make_tensor_value_info("x", T.FLOAT, [4, 8])], [h.make_tensor_value_info("y", T.FLOAT, [4, 4])],
    [n.from_array(w["weight"], "w"), n.from_array(w["bias"], "b")])
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), sys.argv[2])
"""
        subprocess.run([peers, "-c", script, folder / "weights.npz", artifact], check=True)
        results["ONNX Runtime"] = reactions(peers, ORT, artifact, weight)
        results["OpenVINO"] = reactions(peers, OPENVINO, artifact, weight)
        artifact = prepare("model.pte")
        torch.export.save(exported, folder / "exported.pt2")
        script = """
import sys, torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
program = to_edge_transform_and_lower(torch.export.load(sys.argv[1]), partitioner=[XnnpackPartitioner()])
open(sys.argv[2], "wb").write(program.to_executorch().buffer)
"""
        subprocess.run([peers, "-c", script, folder / "exported.pt2", artifact], check=True, env=os.environ | ALONE)
        results["ExecuTorch"] = reactions(peers, EXECUTORCH, artifact, weight)
    return results


def page(results: dict[str, dict[str, str]]) -> str:
    def cell(text: str) -> str:
        text = text.replace("|", "\\|").replace("<", "&lt;")
        return text if len(text) <= 170 else text[:167] + "..."

    names = list(results)
    rows = ([title, *(cell(results[n][case]) for n in names)] for case, title in CASES.items())
    lines = [
        "# Results of misuse",
        "",
        "`python tools/misuse.py --peers PYTHON --write` makes this page. The model is a linear layer on x [4, 8];",
        "each case runs in a process of its own.",
        "A crash, wrong values, and a damaged file that runs are what a loadable must never give.",
        "",
        *table(" | ".join(["", *names]), rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="a Python with onnx, onnxruntime, openvino and executorch")
    parser.add_argument("--no-aoti", action="store_true", help="leave out AOTInductor, which runs a compiler")
    parser.add_argument("--write", action="store_true", help="write docs/reference/misuse.md")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = measure(args.peers, Path(folder), not args.no_aoti)
    print(json.dumps(results, indent=1) if args.json else page(results))
    if args.write:
        PAGE.write_text(page(results))


if __name__ == "__main__":
    main()
