# SPDX-License-Identifier: BSD-3-Clause
"""The second device of the tutorial: its commands, its conformance, PyTorch on it, and mistakes that it notices."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "examples/second_device/second_device.cpp"
PAGE = ROOT / "docs/tutorials/second-device.md"


def run(*command: str | Path, cwd: Path = ROOT, status: int = 0, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "TORCH_ATALLA_FALLBACK"}
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment | {"PYTHONPATH": path} | variables,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == status, f"exit status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr}"
    return done.stdout


def compiler_lines() -> list[str]:
    """The lines of the page that start with g++, as a reader types them."""
    return re.findall(r"^g\+\+ .*(?:\\\n.*)*", PAGE.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the library and the conformance test that the commands of the page build."""
    folder = tmp_path_factory.mktemp("second")
    lines = compiler_lines()
    assert len(lines) == 2
    for line in lines:
        run("sh", "-c", line.replace("build/", f"{folder}/").replace("$HEADERS", str(ROOT / "csrc/sim/abi")))
    return folder


def test_size() -> None:
    """It stays small enough to be read in one sitting."""
    lines = [line.strip() for line in SOURCE.read_text().splitlines()]
    assert sum(bool(line) and not line.startswith("//") for line in lines) <= 300


def test_conformance(built: Path) -> None:
    output = run(built / "conformance", built / "libsecond_device.so")
    passed, failed, skipped = map(int, re.findall(r"passed (\d+), failed (\d+), skipped (\d+)", output)[0])
    assert failed == 0 and passed >= 350 and skipped <= 12, output[-2000:]
    assert f"passed {passed}, failed 0, skipped {skipped}" in PAGE.read_text()


def test_conformance_notices(built: Path, tmp_path: Path) -> None:
    """Each of these mistakes in the library makes the conformance test fail."""
    source = SOURCE.read_text()
    mistakes = {
        "alignment": ("align = std::max(align, kAlign);", "align = 8;"),
        "fault": ("s.fault = status, s.text = error_text;", "(void)0;"),
        "sum": ("load<T>(a, at) + alpha * load<T>(b, at)", "load<T>(a, at) + load<T>(b, at)"),
        "handle": ("emplace(++last_handle,", "emplace(last_handle = live<decltype(object)>.size() + 1,"),
    }
    for name, (right, wrong) in mistakes.items():
        assert source.count(right) == 1, right
        broken = tmp_path / f"{name}.cpp"
        broken.write_text(source.replace(right, wrong))
        library = tmp_path / f"{name}.so"
        run(
            "g++",
            "-std=c++20",
            "-O0",
            "-shared",
            "-fPIC",
            "-fwrapv",
            f"-I{ROOT / 'csrc/sim/abi'}",
            broken,
            "-o",
            library,
        )
        assert "\nFAIL " in run(built / "conformance", library, status=1)


def test_no_library(built: Path) -> None:
    run(built / "conformance", built / "absent.so", status=2)
    run(built / "conformance", "libm.so.6", status=2)


def test_pytorch(built: Path) -> None:
    output = run(
        sys.executable,
        "examples/second_device/run_torch.py",
        ATALLA_DEVICE_LIBRARY=str(built / "libsecond_device.so"),
    )
    assert output.strip() in PAGE.read_text()
