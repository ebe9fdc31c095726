# SPDX-License-Identifier: BSD-3-Clause
"""Compares the kernels of torchvision's own library with those of torchvision_cpu.py and with the device's.

    python torchvision_library.py FOLDER

The library of PyPI's wheels needs CUDA's libraries, of which its kernels for the CPU call nothing. This script compiles
libraries of those names into FOLDER, whose functions end the process, and loads them first. It exits with 77, and the
reason, where that is not possible.
"""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import sys
from pathlib import Path

import torch
from region_cases import all_cases

NEEDED = ("libc10_cuda.so", "libtorch_cuda.so")
DATA = "_ZN3c104cuda20CUDACachingAllocator9allocatorE"


def symbols(library: Path, kind: str) -> set[str]:
    done = subprocess.run(["nm", "-D", f"--{kind}-only", library], capture_output=True, text=True, check=True)
    return {line.split()[-1] for line in done.stdout.splitlines() if " w " not in line}


def load_stubs(folder: Path, library: Path) -> None:
    torch_libraries = [
        Path(torch.__file__).parent / "lib" / f"lib{name}.so" for name in ("c10", "torch_cpu", "torch_python")
    ]
    defined = set().union(*(symbols(path, "defined") for path in torch_libraries))
    absent = {name for name in symbols(library, "undefined") if "@" not in name} - defined
    text = [f"void* {name}[4];" if name == DATA else f"void {name}(void) {{ __builtin_trap(); }}" for name in absent]
    source = folder / "stubs.c"
    source.write_text("\n".join(sorted(text)))
    for name in NEEDED:
        command = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", folder / name]
        subprocess.run([*command, source] if name == NEEDED[0] else [*command, "-xc", "/dev/null"], check=True)
        ctypes.CDLL(str(folder / name), ctypes.RTLD_GLOBAL)


def main() -> int:
    package = Path(importlib.util.find_spec("torchvision").origin).parent  # type: ignore[union-attr, arg-type]
    library = next(iter(package.glob("_C*.so")), None)
    if library is None:
        print("torchvision has no library of its own")
        return 77
    load_stubs(Path(sys.argv[1]), library)
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        print(f"torchvision's library does not load: {error}")
        return 77
    import torchvision  # noqa: F401

    import torch_atalla
    from torch_atalla.integration.libraries import torchvision as definitions
    from torch_atalla.integration.libraries import torchvision_cpu

    assert torchvision.extension._has_ops() and not definitions._FRAGMENTS
    count = 0
    with torch.no_grad(), torch_atalla.fallback.mode("error"):
        for dtype, tolerance in ((torch.float32, 1e-4), (torch.float64, 1e-9)):
            for name, arguments in all_cases(dtype):
                op = getattr(torch.ops.torchvision, name)
                expected = op(*arguments)
                for found in (
                    getattr(torchvision_cpu, name.removeprefix("_"))(*arguments),
                    op(*(a.to("atalla") if isinstance(a, torch.Tensor) else a for a in arguments)),
                ):
                    found = torch.utils._pytree.tree_map(lambda t: t.cpu(), found)
                    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
                count += 1
    for schema in definitions.SCHEMAS:
        name = schema.partition("(")[0]
        real = str(getattr(torch.ops.torchvision, name).default._schema)
        assert real == f"torchvision::{schema}", (real, schema)
    print(f"{count} calls agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
