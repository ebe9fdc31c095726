# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla doctor [--json]`: check the installation, and say how to fix what is wrong."""

from __future__ import annotations

import argparse
import json
import os
import platform
import runpy
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from torch_atalla import chip
from torch_atalla.device import namespace as device
from torch_atalla.driver import host, runtime
from torch_atalla.driver.installation import REINSTALL, build_info, built_versions, torch_mismatch
from torch_atalla.driver.paths import PACKAGE
from torch_atalla.integration.dynamo import cache_folder
from torch_atalla.version import __version__

from .info import SETTINGS

BUILD_SETTINGS = {
    "ATALLA_BUILD", "ATALLA_HOST_ISA_ONLY", "ATALLA_COMPILER_LAUNCHER", "ATALLA_SOAK", "ATALLA_TRITON_TESTS",
    "ATALLA_UPSTREAM_TESTS",
}  # fmt: skip
MEMORY_BYTES = 2 << 30  # what the demo and the compiler need, with torch itself
DISK_BYTES = 1 << 30  # a compiled program of a large model, or a loadable of a few hundred million parameters


@dataclass(frozen=True)
class Finding:
    """Result of one check. `status` is "ok", "warn" (works, but slowly or not as set) or "fail" (does not work)."""

    check: str
    status: str
    text: str
    fix: str = ""


def versions(built: list[str], used: str) -> Finding:
    """Compare the minor versions of torch that the package was built for with the torch in use."""
    text = f"torch_atalla {__version__}, torch {used}, Python {platform.python_version()}"
    problem = torch_mismatch(built, used)
    if problem is not None:
        return Finding("versions", "fail", problem, REINSTALL)
    return Finding("versions", "ok", text)


def binary_interface() -> Finding:
    """Compare the interface of the device library with the one that the driver needs."""
    library = runtime.device_library()
    text = f"device library {library.path}, interface {library.abi[0]}.{library.abi[1]}"
    if os.environ.get("ATALLA_DEVICE_LIBRARY"):
        text += " (set by ATALLA_DEVICE_LIBRARY)"
    return Finding("library", "ok", text)


def stale_build(root: Path, built: str | None) -> Finding:
    """In a checkout at `root`, compare the digest `built` of the compiled sources with that of the present ones."""
    script = root / "tools/source_digest.py"
    if not script.is_file():
        return Finding("build", "ok", "installed from a wheel")
    if built is None or runpy.run_path(str(script))["digest"](root) != built:
        text = "the sources have changed since the libraries were built"
        return Finding("build", "warn", text, "run `make build`")
    return Finding("build", "ok", "source checkout, libraries built from the present sources")


def instruction_set(used: str | None, supported: list[str], built: list[str]) -> Finding:
    """Compare the kernels in use with the best that the host supports."""
    text = f"{used or 'not reported'} kernels in use; the host supports {', '.join(supported) or 'none that is known'}"
    best = supported[-1] if supported else used
    if not used or used == best:
        return Finding("instructions", "ok", text)
    if os.environ.get("ATALLA_ISA"):
        return Finding("instructions", "warn", text, f"unset ATALLA_ISA, or set it to {best}")
    if best not in built:
        fix = "install a wheel, or run `ATALLA_HOST_ISA_ONLY=1 make build` on this machine"
        return Finding("instructions", "warn", f"{text}; this build has {', '.join(built)} only", fix)
    return Finding("instructions", "warn", text, "report this with the output of `python -m torch_atalla info`")


def huge_pages(setting: str | None) -> Finding:
    """Look at the kernel's setting for transparent huge pages, for example "always [madvise] never"."""
    if setting is None:
        return Finding("huge pages", "ok", "not offered by this kernel")
    chosen = setting.partition("[")[2].partition("]")[0]
    if chosen in ("always", "madvise"):
        return Finding("huge pages", "ok", chosen)
    fix = "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
    return Finding("huge pages", "warn", f"{chosen or setting.strip()}: large kernels miss the TLB more often", fix)


def memory(available: int | None, devices: int, dram_bytes: int) -> Finding:
    """Compare available host memory with the needs of programs. DRAM of devices is reserved, and used when written."""
    if available is None:
        return Finding("memory", "ok", "not reported by this kernel")
    text = f"{gib(available)} available; {devices} devices of {gib(dram_bytes)} DRAM, which is used as it is written"
    if available < MEMORY_BYTES:
        return Finding("memory", "fail", text, f"free memory: at least {gib(MEMORY_BYTES)} are needed")
    if available < dram_bytes:
        return Finding("memory", "warn", text, "set ATALLA_DRAM_BYTES so that a full device fits into memory")
    return Finding("memory", "ok", text)


def threads(used: int, usable: int) -> Finding:
    """Compare the threads of the functional engine with the cores that this process may use."""
    text = f"{used} of the functional engine, {usable} usable cores"
    if used > usable:
        return Finding("threads", "warn", f"{text}: threads wait for each other", f"set ATALLA_NUM_THREADS={usable}")
    if used < usable and os.environ.get("ATALLA_NUM_THREADS"):
        return Finding("threads", "warn", text, "unset ATALLA_NUM_THREADS to use all cores")
    return Finding("threads", "ok", text)


def disk(folder: Path, purpose: str) -> Finding:
    """Look at the space where compiled programs and temporary files are written."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    text = f"{gib(free)} free for {purpose} in {folder}"
    if not os.access(existing, os.W_OK):
        return Finding(
            "disk", "fail", f"{folder} is not writable", "set TORCHINDUCTOR_CACHE_DIR or TMPDIR to another folder"
        )
    if free < DISK_BYTES:
        return Finding("disk", "warn", text, "free space; `python -m torch_atalla cache --clear` removes programs")
    return Finding("disk", "ok", text)


def settings(names: list[str]) -> Finding:
    """Find environment variables that look like settings of the package, and that nothing reads."""
    ours = sorted(name for name in names if name.startswith(("ATALLA_", "TORCH_ATALLA_")))
    unknown = [name for name in ours if name not in SETTINGS and name not in BUILD_SETTINGS]
    if unknown:
        text = f"nothing reads {', '.join(unknown)}"
        return Finding("settings", "warn", text, "`python -m torch_atalla info` lists the known variables")
    return Finding("settings", "ok", ", ".join(ours) or "no environment variables of the package are set")


def computation() -> Finding:
    """Run a matrix product on every device and compare it with the CPU."""
    x = torch.arange(256, dtype=torch.float32).reshape(16, 16) / 256
    for index in range(device.device_count()):
        found = x.to(f"atalla:{index}")
        if not torch.allclose((found @ found).cpu(), x @ x):
            fix = "report this with the output of `python -m torch_atalla info`"
            return Finding("computation", "fail", f"atalla:{index}: a matrix product is wrong", fix)
    return Finding("computation", "ok", f"a matrix product is right on {device.device_count()} devices")


def gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def read(path: str) -> str | None:
    try:
        return Path(path).read_text()
    except OSError:
        return None


def available_memory() -> int | None:
    """Return the bytes that this process can still get: of the host, or of its control group if that has fewer."""
    lines = dict(line.split(":", 1) for line in (read("/proc/meminfo") or "").splitlines() if ":" in line)
    if "MemAvailable" not in lines:
        return None
    found = int(lines["MemAvailable"].split()[0]) * 1024
    limit, used = read("/sys/fs/cgroup/memory.max"), read("/sys/fs/cgroup/memory.current")
    if limit and used and limit.strip().isdecimal():
        found = min(found, int(limit) - int(used))
    return found


def checks() -> Iterator[Callable[[], Finding]]:
    """Yield the checks in the order in which they are shown."""
    built = build_info()
    yield lambda: versions(built_versions(), torch.__version__)
    yield binary_interface
    yield lambda: stale_build(PACKAGE.parent, built.get("sources"))
    yield lambda: instruction_set(runtime.device_library().host_isa, host.supported(), built.get("isas", []))
    yield lambda: huge_pages(read("/sys/kernel/mm/transparent_hugepage/enabled"))
    yield lambda: memory(available_memory(), device.device_count(), device.get_device_properties(0).total_memory)
    yield lambda: threads(chip.get_num_threads(), len(os.sched_getaffinity(0)))
    yield lambda: disk(cache_folder.directory(), "programs of torch.compile")
    yield lambda: disk(Path(tempfile.gettempdir()), "temporary files")
    yield lambda: settings(list(os.environ))
    yield computation


def diagnose() -> list[Finding]:
    """Run all checks. A check that raises is a failure of its own."""
    found = []
    for check in checks():
        try:
            found.append(check())
        except Exception as error:  # the doctor reports whatever happens
            found.append(Finding("check", "fail", f"{type(error).__name__}: {error}", REINSTALL))
    return found


def render(findings: list[Finding]) -> str:
    lines = []
    for finding in findings:
        lines.append(f"{finding.status:<5}{finding.check:<14}{finding.text}")
        if finding.fix:
            lines.append(f"{'':<19}to fix: {finding.fix}")
    counts = {status: sum(f.status == status for f in findings) for status in ("ok", "warn", "fail")}
    return "\n".join([*lines, f"{counts['ok']} ok, {counts['warn']} warnings, {counts['fail']} failures"])


def main(argv: list[str]) -> int:
    """Print the findings. Return 1 if a check failed; warnings do not count."""
    parser = argparse.ArgumentParser(prog="python -m torch_atalla doctor", description="Check the installation.")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    args = parser.parse_args(argv)
    found = diagnose()
    print(json.dumps([asdict(finding) for finding in found], indent=1) if args.json else render(found))
    return int(any(finding.status == "fail" for finding in found))
