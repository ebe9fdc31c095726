# SPDX-License-Identifier: BSD-3-Clause
"""The lower floors without torch and Python: the C examples and atalla-run, as `tools/build.py tests` builds them."""

import re
import subprocess
from pathlib import Path

import models
import numpy as np
import pytest
import torch

import torch_atalla

BIN = Path(__file__).resolve().parents[2] / "build/release/bin"


def run(*command: object, status: int = 0) -> str:
    assert Path(str(command[0])).exists(), f"{command[0]} is missing: python tools/build.py tests"
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def mlp(tmp_path_factory):
    torch.manual_seed(0)
    model, args = models.seed_models()["mlp"]
    path = tmp_path_factory.mktemp("c") / "mlp.atl"
    torch_atalla.save_loadable(torch.export.export(model, args), path, fallback="error")
    return model, args, path


def test_no_torch_no_python():
    libraries = run("/usr/bin/ldd", BIN / "hello")
    assert "libatalla_runtime.so" in libraries
    assert "libtorch" not in libraries and "libpython" not in libraries


def test_hello_is_50_lines():
    source = BIN.parents[2] / "examples/c/hello.c"
    assert len(source.read_text().splitlines()) <= 50
    assert "0 wrong" in run(BIN / "hello")


def test_run_program(mlp):
    assert "sum" in run(BIN / "run_program", mlp[2])


def test_atalla_run(mlp, tmp_path):
    model, args, path = mlp
    inputs = []
    for i, x in enumerate(args):
        np.save(tmp_path / f"x{i}.npy", x.numpy())
        inputs += ["--input", tmp_path / f"x{i}.npy"]
    run(BIN / "atalla-run", path, *inputs, "--output", tmp_path / "y.npy")
    with torch.no_grad():
        expected = model(*args)
    torch.testing.assert_close(torch.from_numpy(np.load(tmp_path / "y.npy")), expected, rtol=1e-4, atol=1e-5)
    run(BIN / "atalla-run", path, "--check")


def test_atalla_run_refuses_bad_files(mlp, tmp_path):
    data = bytearray(mlp[2].read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "bad.atl").write_bytes(data)
    assert "is damaged: the CRC32C" in run(BIN / "atalla-run", tmp_path / "bad.atl", "--check", status=1)


def test_changed_files_never_crash_the_loader(monkeypatch):
    """A short run of what `make fuzz` does at length, with random changes: validate, describe, load, run."""
    monkeypatch.setenv("ATALLA_FUZZ_RUN", "1")
    files = sorted((Path(__file__).parents[1] / "data/loadables").glob("*.atl"))
    text = run(BIN / "loadable_fuzz", 3, 1, *files)
    inputs, accepted, ran = map(int, re.findall(r"(\d+) (?:inputs|accepted|run)", text))
    assert inputs > 100 and accepted > 0 and ran > 0, text
