# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla demo`, and the wheel's files that a checkout reuses."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from tools import prebuilt

ROOT = Path(__file__).resolve().parents[2]


def test_demo(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "torch_atalla", "demo", "-o", str(tmp_path), "--steps", "20", "--no-chip-code"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    lines = done.stdout.splitlines()
    names = [
        "device",
        "model",
        "training",
        "eager mode",
        "torch.compile",
        "loadable",
        "native",
        "against CPU",
        "report",
    ]
    assert [line[:14].strip() for line in lines] == names
    assert done.stdout.count(": ok") == 5 and "FAILED" not in done.stdout
    loss = re.search(r"20 steps in [\d.]+ s, loss from ([\d.]+) to ([\d.]+)", done.stdout)
    assert loss and float(loss[2]) < 0.8 * float(loss[1])
    cycles = [int(text.replace(",", "")) for text in re.findall(r"launches, ([\d,]+) cycles", done.stdout)]
    eager, compiled, loadable = cycles
    # Both programs keep temporaries in the scratchpads. The loadable has packed weights and fewer launches.
    assert 0 < loadable < compiled < eager
    assert "train: 100%" in done.stderr and "5/5" in done.stderr  # tqdm's bars
    assert "<title>" in Path(lines[-1].split()[-1]).read_text()


def test_demo_refuses_no_steps(tmp_path: Path) -> None:
    from torch_atalla.cli import demo

    with pytest.raises(SystemExit, match="2"):
        demo.main(["--steps", "0", "-o", str(tmp_path)])


BUILD_INFO = f"torch_atalla/lib/{prebuilt.folder_name(torch.__version__)}/build.json"


def make_wheel(folder: Path, sources: str) -> Path:
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    path = folder / f"torch_atalla-{prebuilt.version()}-{tag}-{tag}-manylinux_2_35_x86_64.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(BUILD_INFO, json.dumps({"sources": sources}))
        wheel.writestr("torch_atalla/__init__.py", "raise SystemExit")
        program = zipfile.ZipInfo("torch_atalla/bin/atalla-run")
        program.external_attr = 0o100755 << 16
        wheel.writestr(program, "program")
    return path


def test_a_checkout_uses_the_wheel_of_its_sources_only(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, "0123")
    assert prebuilt.find(tmp_path, "4567") is None
    assert prebuilt.find(tmp_path, "0123") == path
    root = tmp_path / "checkout"
    prebuilt.unpack(path, root)
    assert (root / "torch_atalla/bin/atalla-run").stat().st_mode & 0o777 == 0o755
    assert (root / BUILD_INFO).is_file()
    assert not (root / "torch_atalla/__init__.py").exists()  # Python code is the checkout's
