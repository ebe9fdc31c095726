# SPDX-License-Identifier: BSD-3-Clause
"""`import torch` with the device, and commands that need no torch, import only what they use."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import torch_atalla
from torch_atalla.cli import info
from torch_atalla.integration import libraries

# Each takes milliseconds, and most programs never use it.
HEAVY = (
    "torch_atalla.chip", "torch_atalla.compiler", "torch_atalla.detection", "torch_atalla.driver.c_abi",
    "torch_atalla.driver.runtime", "torch_atalla.energy", "torch_atalla.explorer", "torch_atalla.isa",
    "torch_atalla.loadable", "torch_atalla.quantization.modules", "torch_atalla.reports", "torch_atalla.telemetry",
    *(f"torch_atalla.integration.libraries.{file}" for file in libraries.PACKAGES),
    "torch_atalla.integration.libraries.torchvision_cpu", "html", "tomllib",
)  # fmt: skip


def modules_after(code: str, autoload: bool = True) -> set[str]:
    """The modules of a new interpreter that ran the code."""
    environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "1" if autoload else "0"}
    command = [sys.executable, "-c", f"{code}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_import_of_torch_imports_nothing_heavy() -> None:
    found = modules_after("import torch; assert torch.atalla.device_count()")
    assert "torch_atalla.integration.register" in found
    assert sorted(set(HEAVY) & found) == []


def test_import_of_torch_imports_no_more_of_torch() -> None:
    without = modules_after("import torch", autoload=False)
    found = {name for name in modules_after("import torch") if name not in without}
    assert {name for name in found if name.partition(".")[0] not in ("torch_atalla", "torch")} == set()
    assert {name for name in found if name.startswith("torch.") and not name.startswith("torch.atalla")} == set()


def test_a_program_loads_without_what_it_does_not_use(tmp_path: Path) -> None:
    path = tmp_path / "linear.atl"
    torch_atalla.save_loadable(torch.export.export(nn.Linear(4, 4), (torch.randn(2, 4),)), path)
    found = modules_after(f"import torch, torch_atalla; torch_atalla.load_loadable({str(path)!r}, device='atalla')")
    assert "torch_atalla.loadable.program" in found
    unused = {"torch_atalla.chip", "torch_atalla.compiler", "torch_atalla.isa", "torch_atalla.reports"}
    assert sorted(unused & found) == []


def test_a_program_may_outlive_the_interpreter(tmp_path: Path) -> None:
    path = tmp_path / "linear.atl"
    torch_atalla.save_loadable(torch.export.export(nn.Linear(4, 4), (torch.randn(2, 4),)), path)
    code = f"import sys, torch_atalla; sys.kept = torch_atalla.load_loadable({str(path)!r}, device='atalla')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_heavy_modules_exist() -> None:
    """A module that is renamed must not leave the list without effect."""
    import importlib.util

    assert [name for name in HEAVY if importlib.util.find_spec(name) is None] == []


def test_public_names_are_there_when_they_are_used() -> None:
    code = "import torch_atalla as t; print([n for n in t.__all__ if not hasattr(t, n)], t.isa.run.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] run"
    assert set(torch_atalla.__all__) <= set(dir(torch_atalla))
    with pytest.raises(AttributeError, match="'absent'"):
        torch_atalla.absent  # noqa: B018
    assert [name for name in torch_atalla.loadable.__all__ if not hasattr(torch_atalla.loadable, name)] == []
    assert [n for n in torch_atalla.quantization.__all__ if not hasattr(torch_atalla.quantization, n)] == []


def test_inspect_needs_no_torch(tmp_path: Path) -> None:
    path = tmp_path / "model.atl"
    torch_atalla.save_loadable(nn.ReLU(), path, args=(torch.randn(3),))
    arguments = [sys.executable, "-X", "importtime", "-m", "torch_atalla", "inspect", str(path)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "torch_atalla.loadable.description" in imported
    assert sorted(imported & {"torch", "numpy", "torch_atalla.driver.extension"}) == []
    assert "relu" in done.stdout


@pytest.mark.parametrize("order", ["import torch, torch_atalla", "import torch_atalla, torch", "import torch"])
def test_orders_of_import(order: str) -> None:
    code = f"{order}; print(torch.ones(2, device='atalla').sum().item())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2.0"


def test_adapted_modules_are_of_the_packages_that_are_watched() -> None:
    import importlib

    for file, packages in libraries.PACKAGES.items():
        adapted = importlib.import_module(f"torch_atalla.integration.libraries.{file}").ADAPTED
        assert {name.partition(".")[0] for name in adapted} == set(packages)


# Variable -> a wrong value, code that uses the setting, and what the process says of it.
ONES = "torch.ones(4, device='atalla')"
WRONG_SETTINGS = {
    "TORCH_ATALLA_FALLBACK": ("loud", "torch.ops.aten._test_functorch_fallback(ONES, ONES)", "silent, warn or error"),
    "ATALLA_DEVICE_COUNT": ("x", "ONES", "an integer from 0 to 64"),
    "ATALLA_DRAM_BYTES": ("-3", "ONES", "an integer from 1 to"),
    "ATALLA_CHIP_CONFIG": ("/no/file", "ONES", "No such file"),
    "ATALLA_CLOCK": ("sundial", "ONES", "code or roofline"),
    "ATALLA_NUM_THREADS": ("many", "ONES", "an integer from 1 to 256"),
    "ATALLA_ISA": ("sse", "ONES", "baseline, avx2 or avx512"),
    "ATALLA_LAPACK": ("/no/file", "torch.linalg.inv(torch.eye(2, device='atalla')).cpu()", "cannot open"),
    "ATALLA_DEVICE_LIBRARY": ("/no/file", "ONES", "cannot open"),
    "TORCH_ATALLA_ALLOC_CONF": ("split:3", "ONES", "max_split_size_mb"),
    "ATALLA_LAUNCH": ("later", "ONES", "'auto', 'inline' or 'queued'"),
    "TORCH_ATALLA_BLOCKING_WAIT": ("maybe", "torch_atalla.distributed.Options()", "0 or 1"),
    "TORCH_ATALLA_CACHE_LIMIT": ("big", "torch.compile(torch.sin)(ONES)", "a number of bytes"),
}


def test_wrong_settings_are_named(tmp_path: Path) -> None:
    """Each is named with its value and what it may be: in an error, or in a warning where it is then ignored."""
    assert set(WRONG_SETTINGS) == set(info.SETTINGS)
    # One process that has imported torch, without the device, and a child of it for each setting.
    code = (
        "import os, sys, traceback, torch\n"
        f"for name, (value, code, _) in {WRONG_SETTINGS!r}.items():\n"
        "    print('==', name, file=sys.stderr, flush=True)\n"
        "    if os.fork() == 0:\n"
        "        os.environ[name] = value\n"
        "        try:\n"
        "            import torch_atalla, torch_atalla.distributed\n"
        f"            exec(code.replace('ONES', {ONES!r}))\n"
        "        except Exception:\n"
        "            traceback.print_exc()\n"
        "        sys.stderr.flush(); os._exit(0)\n"
        "    os.wait()\n"
    )
    environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0
    said = dict(part.split("\n", 1) for part in done.stderr.split("== ")[1:])
    for name, (value, _, expected) in WRONG_SETTINGS.items():
        lines = [line for line in said[name].splitlines() if name in line and value in line and expected in line]
        assert len(lines) == 1, f"{name}={value}: {said[name]}"
