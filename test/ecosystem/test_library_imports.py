# SPDX-License-Identifier: BSD-3-Clause
"""Adapting other libraries when they are imported: nothing is imported for it, whatever is imported first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from torch_atalla.integration.libraries import imports, patching

LIBRARIES = ("accelerate", "transformers", "lightning", "pytorch_lightning", "lightning_fabric")


def test_no_library_is_imported() -> None:
    code = f"import sys, torch; print([m for m in sys.modules if m.partition('.')[0] in {LIBRARIES}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package `sample_library` of two modules, the second of which takes a function from the first."""
    folder = tmp_path / "sample_library"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "devices.py").write_text("def device():\n    return 'cpu'\n")
    (folder / "user.py").write_text("from .devices import device\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "sample_library"
    for name in [m for m in sys.modules if m.partition(".")[0] == "sample_library"]:
        del sys.modules[name]
    for name in [m for m in imports._waiting if m.partition(".")[0] == "sample_library"]:
        del imports._waiting[name]


def adapt(module: ModuleType) -> None:
    patching.replaces(module, "device")(lambda original: f"atalla, not {original()}")


@pytest.mark.parametrize("first", ["nothing", "devices", "user"])
def test_a_function_is_replaced_everywhere(library: str, first: str) -> None:
    import importlib

    if first != "nothing":
        importlib.import_module(f"{library}.{first}")
    imports.after_import(f"{library}.devices", adapt)
    assert first != "nothing" or library not in sys.modules
    user = importlib.import_module(f"{library}.user")
    assert user.device() == "atalla, not cpu"
    assert f"{library}.devices" not in imports._waiting


def test_a_module_whose_import_is_running(library: str, tmp_path: Path) -> None:
    (tmp_path / library / "devices.py").write_text(
        "import sample_library_adapter\n\ndef device():\n    return 'cpu'\n"  # as accelerate imports torch
    )
    sample = ModuleType("sample_library_adapter")
    sys.modules[sample.__name__] = sample
    try:
        # The adapter asks while the module's import runs; the module has no function yet.
        (tmp_path / "sample_library_adapter.py").write_text(
            "from torch_atalla.integration.libraries import imports\n"
            "import test_library_imports\n"
            "imports.after_import('sample_library.devices', test_library_imports.adapt)\n"
        )
        del sys.modules[sample.__name__]
        sys.modules["test_library_imports"] = sys.modules[__name__]
        import importlib

        assert importlib.import_module(f"{library}.devices").device() == "atalla, not cpu"
    finally:
        sys.modules.pop(sample.__name__, None)


def test_an_import_that_fails_is_watched_again(library: str, tmp_path: Path) -> None:
    import importlib

    imports.after_import(f"{library}.devices", adapt)
    source = tmp_path / library / "devices.py"
    right = source.read_text()
    source.write_text("raise ImportError('not today')\n")
    with pytest.raises(ImportError, match="not today"):
        importlib.import_module(f"{library}.devices")
    source.write_text(right + "# longer, so that no cached bytecode is taken\n")
    importlib.invalidate_caches()
    assert importlib.import_module(f"{library}.devices").device() == "atalla, not cpu"


def test_a_version_without_the_function_warns(library: str, tmp_path: Path) -> None:
    import importlib

    (tmp_path / library / "devices.py").write_text("")
    imports.after_import(f"{library}.devices", adapt)
    with pytest.warns(UserWarning, match=r"cannot adapt sample_library.devices .* has no attribute 'device'"):
        importlib.import_module(f"{library}.devices")


def test_lists_of_names() -> None:
    def supported(name: str) -> bool:
        return name in ("cpu", "cuda")

    assert not supported("atalla")
    patching.add_to_list(supported, "atalla", beside="cuda")
    assert supported("atalla") and supported("cpu") and not supported("xpu")
    with pytest.raises(ValueError, match="no list that contains 'npu'"):
        patching.add_to_list(supported, "atalla", beside="npu")
