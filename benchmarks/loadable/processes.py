# SPDX-License-Identifier: BSD-3-Clause
"""The processes of benchmarks/loadable/compare.py and benchmarks/loadable/decoder.py: one for each runtime."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
PEERS = ("aoti", "onnxruntime", "openvino", "executorch")
PACKAGES = ("onnx", "onnxscript", "onnxruntime", "openvino", "executorch")


def install(peers: Path) -> list[str]:
    """Makes the environment; gives the packages that could not be installed."""
    if not (peers / "bin/python").exists():
        subprocess.run([sys.executable, "-m", "venv", peers], check=True)
    missing = []
    have = subprocess.run([peers / "bin/pip", "list", "--format=freeze"], capture_output=True, text=True).stdout
    for package in (f"torch=={torch.__version__}", *PACKAGES):
        if f"{package.partition('==')[0]}==" in have:
            continue
        done = subprocess.run([peers / "bin/pip", "install", "-q", package], capture_output=True, text=True)
        if done.returncode:
            missing.append(package)
    return missing


def environment(threads: int) -> dict[str, str]:
    number = str(threads)
    return os.environ | {
        "OMP_NUM_THREADS": number,
        "MKL_NUM_THREADS": number,
        "ATALLA_NUM_THREADS": number,
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
    }


def command(script: Path, action: str, runtime: str, folder: Path, peers: Path) -> list[str]:
    here = runtime in ("eager", "aoti") or runtime.startswith("atalla")
    python = sys.executable if here else str(peers / "bin/python")
    return [python, "-P", str(script), action, runtime, str(folder)]


def save(script: Path, runtime: str, folder: Path, peers: Path) -> dict[str, Any]:
    """What the process answers, seconds and bytes, or else the problem."""
    arguments = command(script, "save", runtime, folder, peers)
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, env=environment(2), timeout=900)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"problem": str(error)[:120] if isinstance(error, OSError) else "timeout"}
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        last = done.stderr.strip().splitlines()[-1:]
        return {"problem": (last or ["no answer"])[0][:120]}


class Worker:
    """A runtime that has loaded a model, and runs it on demand."""

    def __init__(self, script: Path, action: str, runtime: str, folder: Path, threads: int, peers: Path):
        self.process = subprocess.Popen(
            [*command(script, action, runtime, folder, peers), str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment(threads),
        )
        self.about: dict[str, Any] = {}

    def wait(self) -> str:
        """Until it has loaded the model (and run it, if it is to): nothing, or the problem."""
        try:
            self.about = self._answer()
        except (RuntimeError, ValueError) as error:
            return f"load: {error}"
        return ""

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the process ended")
        return json.loads(line)

    def ask(self, **question: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def run(self, calls: int) -> tuple[float, float]:
        """Seconds a call: on the clock, and of the CPU."""
        answer = self.ask(calls=calls)
        return answer["seconds"] / calls, answer["cpu"] / calls

    def close(self) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # of a process that ended by itself
            self.process.stdin.close()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
