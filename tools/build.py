# SPDX-License-Identifier: BSD-3-Clause
"""Generates code, writes build.ninja and runs ninja.

    python tools/build.py [sim] [runtime] [ext] [tests] [--config release|debug|asan|tsan|baseline|coverage] [-j N]

Four kinds of target, each of which brings what it needs:
  sim      libatalla_sim.so      the chip: no torch, no Python
  runtime  libatalla_runtime.so  the driver: no torch, no Python; loads the chip at run time
  ext      _C.so                 the PyTorch extension, for the torch of the Python that runs this script
  tests    executables of test/cpp and examples/c, linked to the two libraries only; test/conformance, linked to none

A release build puts libraries and headers into the package (torch_atalla/lib, torch_atalla/include); the other
configurations stay in build/<config>. `baseline` is a release build for the narrowest instruction set, which every
machine executes alike (benchmarks/instructions). The extension is built in a folder per minor version of torch
(build/<config>/torch-<version>) and put into torch_atalla/lib/torch-<version>, so that a checkout or a wheel can have
it for several versions. Environment:
  ATALLA_BUILD              the default configuration
  ATALLA_HOST_ISA_ONLY=1    compile the kernels for this machine's widest instruction set only (a third of the time)
  ATALLA_COMPILER_LAUNCHER  a program in front of the compiler, such as ccache

Every path in build.ninja is relative to the top of the repository, where ninja runs: a cache of objects serves every
checkout, and a copied checkout does not rebuild. A checkout that was never built takes the compiled files from a wheel
in dist/, if the wheel was made from the same sources (tools/prebuilt.py).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.codegen.families import instruction_sets  # noqa: E402
from tools.codegen.files import write  # noqa: E402
from tools.prebuilt import reuse, version  # noqa: E402
from tools.source_digest import digest  # noqa: E402

TORCH_VERSIONS = runpy.run_path(str(ROOT / "torch_atalla/driver/torch_versions.py"))

ISAS = {
    "baseline": "-march=x86-64-v2 -O2",
    "avx2": "-mavx2 -mfma -mf16c -mbmi2",
    "avx512": "-march=skylake-avx512 -mprefer-vector-width=512",
}
CONFIGS = {
    "release": "-O3 -DNDEBUG",
    "debug": "-O0 -g",
    "asan": "-O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined",
    "tsan": "-O1 -g1 -fno-omit-frame-pointer -fsanitize=thread",
    "baseline": "-O3 -DNDEBUG",
    "coverage": "-O1 -g1 --coverage -fprofile-update=atomic",
}
COMMON = "-std=c++20 -fPIC -fvisibility=hidden -fvisibility-inlines-hidden -pthread -Wall -Wextra -Wno-unknown-pragmas"
# Compiled once, unlike the kernels.
CHIP_FOLDERS = ("abi", "device", "dram", "energy", "host", "isa", "memory", "time")
# Folders of csrc/aten that are one unit together: the headers of ATen take longer than the code.
ONE_UNIT = (
    ("bindings", "device", "dispatch", "launch", "profiler"),
    ("copy", "fft", "image", "linalg", "random"),
    ("index", "training"),
    ("quantized", "sparse"),
    ("nested", "norm", "reduce"),
    ("pointwise", "tile"),
)
FLOAT = "-fwrapv -ffp-contract=off -fno-math-errno -fno-trapping-math -Wno-psabi"
PUBLIC_HEADERS = (
    "sim/abi/atalla.h",
    "sim/abi/atalla_isa.h",
    "sim/abi/atalla_link.h",
    "sim/abi/atalla_schedule.h",
    "runtime/c_api/atalla_runtime.h",
    "runtime/c_api/atalla_program.h",
    "runtime/c_api/atalla.hpp",
)
EXTENSION_FLAGS = "-DTORCH_EXTENSION_NAME=_C -D_GLIBCXX_USE_CXX11_ABI=1 -DAT_PER_OPERATOR_HEADERS"


def host_isa() -> dict[str, str]:
    """The widest instruction set of this machine: all that a build for debugging compiles."""
    found = runpy.run_path(str(ROOT / "torch_atalla/driver/host.py"))["supported"]()
    best = found[-1] if found else "baseline"
    return {best: ISAS[best]}


class Ninja:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def rule(self, name: str, command: str, deps: bool = False) -> None:
        self.lines += [f"rule {name}", f"  command = {command}", f"  description = {name} $out"]
        if deps:
            self.lines += ["  depfile = $out.d", "  deps = gcc"]

    def build(self, out, rule: str, inputs, implicit=(), **variables: str) -> None:
        text = f"build {out}: {rule} {' '.join(map(str, inputs))}"
        if implicit:
            text += f" | {' '.join(map(str, implicit))}"
        self.lines.append(text)
        self.lines += [f"  {key} = {value}" for key, value in variables.items()]


class Build:
    def __init__(self, config: str):
        self.config = config
        self.one_isa = config != "release" or os.environ.get("ATALLA_HOST_ISA_ONLY") == "1"
        self.launcher = os.environ.get("ATALLA_COMPILER_LAUNCHER", "")
        self.dir = Path("build") / config
        self.generated = self.dir / "generated"
        package = Path("torch_atalla")
        self.lib = package / "lib" if config == "release" else self.dir / "lib"
        self.torch = importlib.metadata.version("torch")
        self.ext_dir = self.dir / TORCH_VERSIONS["folder_name"](self.torch)
        self.ext_lib = self.lib / TORCH_VERSIONS["folder_name"](self.torch)
        self.ext = self.ext_lib / f"_C{sysconfig.get_config_var('EXT_SUFFIX')}"
        self.objects, self.tops = self.dir, [self.generated]
        self.ninja = Ninja()
        self.tool_objects: list[Path] = []
        self.flags = f"{COMMON} {CONFIGS[config]}"
        self.includes = f"-I{self.generated} -Icsrc"

    def precompiled(self, included: str, name: str, flags: str) -> dict[str, Any]:
        """A precompiled header; returns the options of the objects that use it."""
        header = self.objects / "pch" / name
        write(header, f'#include "{included}"\n')
        if self.launcher:
            flags += " -fpch-preprocess"  # lets ccache see the precompiled header
        self.ninja.build(f"{header}.gch", "pch", [header], flags=f"{self.flags} {self.includes} {flags}")
        return {"flags": f"{flags} -include {header}", "implicit": [f"{header}.gch"]}

    def object(self, source: Path, suffix: str = "", flags: str = "", rule: str = "cxx", implicit=()) -> Path:
        name = next((source.relative_to(top) for top in self.tops if source.is_relative_to(top)), source)
        out = self.objects / "obj" / f"{name}{suffix}.o"
        self.ninja.build(out, rule, [source], implicit, flags=f"{self.flags} {self.includes} {flags}")
        return out

    def folders(self, sources: list[Path], together: tuple[tuple[str, ...], ...] = (), **options: Any) -> list[Path]:
        """The files of each folder, or of those that are `together`, as one translation unit: most of the time of a
        file goes into its headers."""
        units: dict[str, list[Path]] = {}
        for source in sources:
            folder = source.parent
            names = next((group for group in together if folder.name in group), (folder.name,))
            units.setdefault(str(folder.parent / "_".join(names)), []).append(source)
        found = []
        for name, files in units.items():
            unit = self.tops[0] / "units" / f"{name}.cpp"
            unit.parent.mkdir(parents=True, exist_ok=True)
            write(unit, "".join(f'#include "{file.relative_to("csrc")}"\n' for file in files))
            found.append(self.object(unit, **options))
        return found

    def isas(self) -> dict[str, str]:
        if self.config == "baseline":
            return {"baseline": ISAS["baseline"]}
        return host_isa() if self.one_isa else ISAS

    def sim(self) -> Path:
        sim = Path("csrc/sim")
        isas = self.isas()
        one = f"-DATALLA_ONE_ISA={next(iter(isas))}" if self.one_isa else ""
        once = [f for folder in CHIP_FOLDERS for f in sorted((sim / folder).glob("*.cpp"))]
        objects = self.folders(once, flags=f"{FLOAT} {one}")
        headers: dict[str, dict[str, Any]] = {}
        families = sorted((sim / "isa/engine").glob("*.cpp")) + sorted((sim / "kernels").rglob("*.cpp"))
        families += sorted((self.generated / "sim").glob("*.cpp"))
        for source in families:
            if source.name == "kernel_table.cpp":
                objects.append(self.object(source, flags=one))
                continue
            compiled = isas if self.one_isa else instruction_sets(source)
            for isa, flags in ((isa, isas[isa]) for isa in compiled):
                flags = flags if "-O3" in CONFIGS[self.config] else flags.replace("-O2", "")
                extra = f"{FLOAT} {flags} -DATALLA_ISA={isa}"
                if isa not in headers:
                    headers[isa] = self.precompiled("sim/kernels/base/common.h", f"{isa}.h", extra)
                options = headers[isa]
                if source.parent.name == "engine":
                    # Threaded code, and scalar code that is fast as it stands; what shall be vectors says so.
                    options = {"flags": f"{extra} -fno-gcse -fno-tree-vectorize -fno-tree-reassoc -mno-stv"}
                objects.append(self.object(source, f".{isa}", **options))
        out = self.lib / "libatalla_sim.so"
        self.ninja.build(out, "link", objects, flags=f"{self.flags} -shared -Wl,--no-undefined", libs="-lmvec -lm")
        return out

    def runtime(self) -> Path:
        sources = [f for f in sorted(Path("csrc/runtime").rglob("*.cpp")) if f.parent.name != "tools"]
        objects = self.folders(sources)
        out = self.lib / "libatalla_runtime.so"
        self.ninja.build(out, "link", objects, flags=f"{self.flags} -shared -Wl,--no-undefined", libs="-ldl")
        return out

    def extension(self, runtime: Path) -> Path:
        torch_dir = Path(str(importlib.metadata.distribution("torch").locate_file("torch")))
        include = f"-isystem {torch_dir}/include -isystem {torch_dir}/include/torch/csrc/api/include"
        include += f" -isystem {torch_dir}/include/kineto -isystem {sysconfig.get_path('include')}"
        # ATen's headers dominate the compile time, not our code: -O2 without -Wextra, and one precompiled header.
        flags = f"{include} {EXTENSION_FLAGS}"
        flags += " -Wno-unused-parameter -Wno-missing-field-initializers -Wno-deprecated-declarations"
        if self.config == "release":
            flags += " -O2"
        self.objects, self.tops = self.ext_dir, [self.ext_dir / "generated", self.generated]
        self.includes = f"-I{self.tops[0]} {self.includes}"
        options = self.precompiled("aten/pch.h", "aten.h", flags)
        objects = [self.object(f, **options) for f in sorted((self.tops[0] / "aten").glob("*.cpp"))]
        objects += self.folders(sorted(Path("csrc/aten").rglob("*.cpp")), ONE_UNIT, **options)
        libs = f"-L{torch_dir}/lib -ltorch -ltorch_cpu -lc10 -ltorch_python -L{self.lib} -latalla_runtime"
        libs += " -Wl,-rpath,'$$ORIGIN/..'"
        self.ninja.build(self.ext, "link", objects, [runtime], flags=f"{self.flags} -shared", libs=libs)
        return self.ext

    def tests(self, libraries: list[Path]) -> list[Path]:
        found = []
        rpath = os.path.relpath(self.lib, self.dir / "bin")
        libs = f"-L{self.lib} -latalla_runtime -latalla_sim -lm -ldl -Wl,-rpath,'$$ORIGIN/{rpath}'"
        for source in sorted(Path("test/cpp").glob("*/test_*.cpp")):
            obj = self.object(source, flags="-Itest/cpp -O1")  # what they test is compiled as ever
            out = self.dir / "bin" / f"test_{source.parent.name}_{source.stem.removeprefix('test_')}"
            self.ninja.build(out, "link", [obj], libraries, flags=self.flags, libs=libs)
            found.append(out)
        objects = [
            self.object(f, flags="-std=c++17 -Icsrc/sim/abi -O1")
            for f in sorted(Path("test/conformance").glob("*.cpp"))
        ]
        conformance = self.dir / "bin/test_conformance"
        self.ninja.build(conformance, "link", objects, flags=self.flags, libs="-ldl")
        found.append(conformance)
        for source in sorted(Path("test/cpp").glob("*/fake_*.cpp")):
            obj = self.object(source)
            out = self.dir / "bin" / f"lib{source.stem}.so"
            self.ninja.build(out, "link", [obj], flags=f"{self.flags} -shared", libs="")
            found.append(out)
        found.append(self.tool(libraries[-1], self.dir / "bin/atalla-run"))
        fuzzer = self.dir / "bin/loadable_fuzz"
        obj = self.object(Path("test/cpp/loadable/fuzz.cpp"), flags="-Itest/cpp")
        self.ninja.build(fuzzer, "link", [obj], libraries, flags=self.flags, libs=libs)
        found.append(fuzzer)
        for source in sorted(Path("examples/c").glob("*.c")):
            out = self.dir / "bin" / source.stem
            flags = "-std=c11 -Wall -Wextra -O1 -Icsrc/runtime/c_api -Icsrc/sim/abi"
            if self.config in ("asan", "tsan"):
                flags += f" -fsanitize={'address,undefined' if self.config == 'asan' else 'thread'}"
            self.ninja.build(out, "c_program", [source], libraries, flags=flags, libs=libs)
            found.append(out)
        return found

    def tool(self, runtime: Path, out: Path) -> Path:
        """atalla-run: needs the driver's library only, which loads the chip's."""
        if not self.tool_objects:
            self.tool_objects = self.folders(sorted(Path("csrc/runtime/tools").glob("*.cpp")))
        rpath = os.path.relpath(self.lib, out.parent)
        libs = f"-L{self.lib} -latalla_runtime -ldl -Wl,-rpath,'$$ORIGIN/{rpath}'"
        self.ninja.build(out, "link", self.tool_objects, [runtime], flags=self.flags, libs=libs)
        return out

    def generate(self) -> None:
        from tools.codegen.generate import generate

        generate(self.generated, self.ext_dir / "generated", self.ext_lib / "support.json", Path("."))

    def install_headers(self) -> None:
        if self.config != "release":
            return
        target = Path("torch_atalla/include")
        target.mkdir(exist_ok=True)
        for header in PUBLIC_HEADERS:
            shutil.copy(Path("csrc") / header, target)
        for source in sorted(Path("csrc/runtime/package").iterdir()):
            folder = Path("torch_atalla/share") / ("pkgconfig" if source.suffix == ".pc" else "cmake/atalla")
            folder.mkdir(parents=True, exist_ok=True)
            write(folder / source.name, source.read_text().replace("@VERSION@", version()))

    def write_build_info(self) -> None:
        """What `python -m torch_atalla info` and `doctor` tell about the build."""
        if self.config != "release":
            return
        first_line = subprocess.run(["g++", "--version"], capture_output=True, text=True).stdout.partition("\n")[0]
        found = {
            "config": self.config,
            "compiler": first_line,
            "flags": self.flags,
            "isas": list(self.isas()),
            "extension_flags": EXTENSION_FLAGS,
            "torch": self.torch,
            "sources": digest(ROOT),
        }
        write(self.ext_lib / "build.json", json.dumps(found, indent=1) + "\n")

    def start(self, folder: Path) -> None:
        """Begin a build.ninja, whose log is in `folder`."""
        self.ninja = Ninja()
        self.ninja.lines.append(f"builddir = {folder}")
        self.ninja.rule("cxx", f"{self.launcher} g++ -MD -MF $out.d $flags -c $in -o $out", deps=True)
        self.ninja.rule("pch", "g++ -MD -MF $out.d $flags -x c++-header $in -o $out", deps=True)
        self.ninja.rule("link", "g++ $flags $in -o $out $libs")
        self.ninja.rule("c_program", f"{self.launcher} gcc -MD -MF $out.d $flags $in -o $out $libs", deps=True)

    def finish(self, folder: Path, wanted: list[Path], jobs: int) -> None:
        """Write build.ninja into `folder` and build `wanted`."""
        write(folder / "build.ninja", "\n".join(self.ninja.lines) + "\n")
        ninja = shutil.which("ninja", path=os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
        if ninja is None:
            sys.exit("tools/build.py: ninja is missing; `pip install ninja`")
        command = [ninja, "-f", str(folder / "build.ninja"), "-k", "0", "-j", str(jobs)]
        result = subprocess.run([*command, *map(str, dict.fromkeys(wanted))])
        if result.returncode:
            sys.exit(result.returncode)

    def run(self, targets: list[str], jobs: int) -> None:
        os.chdir(ROOT)
        self.generate()
        self.start(self.dir)
        sim, runtime = self.sim(), self.runtime()
        wanted = [sim] if {"sim", "ext"} & set(targets) else []
        wanted += [runtime] if {"runtime", "ext"} & set(targets) else []
        if "runtime" in targets and self.config == "release":
            wanted.append(self.tool(runtime, Path("torch_atalla/bin/atalla-run")))
        if "tests" in targets:
            wanted += self.tests([sim, runtime])
        self.finish(self.dir, wanted, jobs)
        if "ext" in targets:
            if TORCH_VERSIONS["minor"](self.torch) not in TORCH_VERSIONS["TESTED"]:
                tested = ", ".join(TORCH_VERSIONS["TESTED"])
                print(f"tools/build.py: torch {self.torch} is not among the tested versions: {tested}", file=sys.stderr)
            self.start(self.ext_dir)
            self.finish(self.ext_dir, [self.extension(runtime)], jobs)
            self.write_build_info()
        self.install_headers()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="sim, runtime, ext, tests (default: sim runtime ext)")
    parser.add_argument("--config", default=os.environ.get("ATALLA_BUILD", "release"), choices=CONFIGS)
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 2)
    args = parser.parse_args()
    unknown = set(args.targets) - {"sim", "runtime", "ext", "tests"}
    if unknown:
        parser.error(f"unknown target {', '.join(sorted(unknown))}; known: sim, runtime, ext, tests")
    from tools.codegen.kernels import ContractError
    from tools.codegen.model import EntryError

    if args.config == "release" and "tests" not in args.targets and reuse():
        return
    try:
        Build(args.config).run(args.targets or ["sim", "runtime", "ext"], args.jobs)
    except (ContractError, EntryError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
