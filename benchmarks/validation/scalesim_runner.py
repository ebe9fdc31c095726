# SPDX-License-Identifier: BSD-3-Clause
"""SCALE-Sim in an environment of its own, build/scalesim, which this module installs when it is run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from .cases import Layer

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/scalesim"
PYTHON = FOLDER / "venv/bin/python"
MISSING = "SCALE-Sim is missing; python -m benchmarks.validation.scalesim_runner"


def installed() -> bool:
    """Return whether SCALE-Sim's environment exists."""
    return PYTHON.exists() and subprocess.run([PYTHON, "-c", "import scalesim"], capture_output=True).returncode == 0


def install() -> None:
    """Make SCALE-Sim's environment."""
    if installed():
        return
    subprocess.run([sys.executable, "-m", "venv", FOLDER / "venv"], check=True)
    command = [PYTHON, "-m", "pip", "install", "-q", "--no-deps", "-r", ROOT / "requirements-validate.txt"]
    subprocess.run(command, check=True)


def run(layers: list[Layer], chip: dict[str, int]) -> dict[Layer, dict[str, Any]]:
    """SCALE-Sim's figures, by scalesim_worker.py. Those of an earlier run are taken from build/scalesim."""
    store = FOLDER / "results.json"
    known: dict[str, Any] = json.loads(store.read_text()) if store.exists() else {}
    keys = {layer: json.dumps([chip, layer.scale_sim]) for layer in layers}
    missing = [layer for layer in layers if keys[layer] not in known]
    request = json.dumps({"chip": chip, "layers": [layer.scale_sim for layer in missing]})
    command = [PYTHON, "-W", "ignore", ROOT / "benchmarks/validation/scalesim_worker.py"]
    if missing:
        FOLDER.mkdir(parents=True, exist_ok=True)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdin is not None and worker.stdout is not None
            worker.stdin.write(request)
            worker.stdin.close()
            for layer, line in zip(missing, worker.stdout):
                known[keys[layer]] = json.loads(line)
                store.write_text(json.dumps(known, indent=1))
        if worker.returncode:
            raise RuntimeError(f"SCALE-Sim ended with exit code {worker.returncode}")
    return {layer: known[keys[layer]] for layer in layers}


if __name__ == "__main__":
    install()
