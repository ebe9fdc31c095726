# SPDX-License-Identifier: BSD-3-Clause
"""Installs a wheel or an sdist into a new virtual environment, and uses it there as a newcomer does.

    python tools/smoke_test.py [--sdist] [--tutorials]    what `make wheel` built with this Python

Commands run in an empty folder, without environment variables, and with a PATH on which there is no compiler. With
--tutorials the scripts of the tutorials run after the demo. An sdist is compiled for this machine's instruction set, in
the environment in which `pip install` runs.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.prebuilt import find, version  # noqa: E402
from tools.source_digest import digest  # noqa: E402

DIST = ROOT / "dist"
TORCH = importlib.metadata.version("torch").partition("+")[0]
BUILD_PACKAGES = (f"torch=={TORCH}", "numpy", "setuptools>=68", "wheel", "ninja", "pyyaml")
COMPILERS = ("g++", "gcc", "c++", "cc", "clang", "clang++", "ninja", "cmake")
DEMO_SECONDS = 60

TENSOR = """
import torch
x = torch.ones(3, device="atalla")
assert (x + x).tolist() == [2, 2, 2]
print(x + x)
"""


class Environment:
    """A new virtual environment, and an empty folder to run in."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder, self.bin, self.empty = folder, folder / "venv/bin", folder / "empty"
        self.empty.mkdir(parents=True)
        print(f"== new environment of {python}", flush=True)
        subprocess.run([python, "-m", "venv", folder / "venv"], check=True)
        # A PATH of its own: links to the programs that the smoke test needs, so that no compiler can be found.
        path = folder / "path"
        path.mkdir()
        for name in ("sh", "env"):
            (path / name).symlink_to(shutil.which(name) or sys.exit(f"smoke_test: {name} is missing"))
        self.path = f"{self.bin}:{path}"

    def pip(self, *arguments: str | Path) -> None:
        """Run pip, which keeps this process's environment: its settings say where packages come from."""
        environment = os.environ | {"PIP_NO_COMPILE": "1", "ATALLA_HOST_ISA_ONLY": "1"}
        environment["PATH"] = f"{self.bin}:{environment['PATH']}"
        environment.pop("PYTHONPATH", None)
        self.check([self.bin / "python", "-m", "pip", "-q", *arguments], environment)

    def run(self, *command: str | Path, compilers: bool = False) -> float:
        """Run a command in the empty folder; return its seconds. The smoke test ends if it fails."""
        environment = {"PATH": os.environ["PATH"] if compilers else self.path, "HOME": str(self.empty)}
        found = [name for name in COMPILERS if shutil.which(name, path=self.path)]
        if found and not compilers:
            sys.exit(f"smoke_test: expected no compiler on PATH, found {', '.join(found)}")
        start = time.perf_counter()
        self.check([*command], environment)
        return time.perf_counter() - start

    def python(self, *arguments: str | Path) -> float:
        return self.run(self.bin / "python", *arguments)

    def check(self, command: list[str | Path], environment: dict[str, str]) -> None:
        print("==", *(str(word) if "\n" not in str(word) else "..." for word in command), flush=True)
        done = subprocess.run(command, cwd=self.empty, env=environment)
        if done.returncode:
            sys.exit(f"smoke_test: the command above failed with status {done.returncode}")


def install(environment: Environment, artifact: Path) -> None:
    if artifact.suffix == ".whl":
        environment.pip("install", f"torch=={TORCH}", artifact)
        return
    environment.pip("install", *BUILD_PACKAGES)
    environment.pip("install", "--no-build-isolation", artifact)
    environment.pip("uninstall", "-y", "ninja")


def use(environment: Environment) -> None:
    """What everyone does first: a tensor, the doctor, the demo."""
    environment.python("-c", TENSOR)
    environment.python("-m", "torch_atalla", "doctor")
    seconds = environment.python("-m", "torch_atalla", "demo")
    print(f"== the demo took {seconds:.1f} s")
    if seconds > DEMO_SECONDS and os.getloadavg()[0] < (os.cpu_count() or 1):
        sys.exit(f"smoke_test: the demo took {seconds:.1f} s on an idle machine, expected at most {DEMO_SECONDS} s")


def run_tutorials(environment: Environment) -> None:
    """Run the scripts of the tutorials, except those that need an extra. The one that ships a loadable to a C++ program
    gets the compilers back."""
    for path in sorted((ROOT / "examples/tutorials").glob("*.py")):
        if "import triton" in path.read_text():
            continue
        seconds = environment.run(environment.bin / "python", path, compilers=path.stem == "ship_loadable")
        print(f"== {path.name} took {seconds:.1f} s")


def find_artifact(sdist: bool) -> Path:
    """Return the sdist of this version in dist/, or the wheel for this Python and these sources."""
    path = DIST / f"torch_atalla-{version()}.tar.gz" if sdist else find(DIST, digest())
    if path is None or not path.exists():
        sys.exit(f"smoke_test: dist/ has no {'sdist' if sdist else 'wheel'} of these sources; run `make wheel`")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sdist", action="store_true", help="test the sdist instead of the wheel; compiles it")
    parser.add_argument("--tutorials", action="store_true", help="also run the scripts of the tutorials; one needs g++")
    args = parser.parse_args()
    artifact = find_artifact(args.sdist)
    with tempfile.TemporaryDirectory(prefix="atalla_smoke_") as folder:
        environment = Environment(Path(folder), sys.executable)
        install(environment, artifact)
        use(environment)
        if args.tutorials:
            run_tutorials(environment)
    print(f"ok: {artifact.name}")


if __name__ == "__main__":
    main()
