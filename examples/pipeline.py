# SPDX-License-Identifier: BSD-3-Clause
"""From a module to the chip
=========================

From a module to the chip, stage by stage: relu, matmul, softmax on [4, 8] x [8, 16].

Usage::

    python examples/pipeline.py

Capture, segments, linear program, memory plan, file, placement in DRAM, then three runs of the one file: as a Python
callable, through the driver's C interface, and from a C program without Python and PyTorch. After that the same with a
custom operator, for which the chip has no kernel, in both fallback modes.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

import torch_atalla
from torch_atalla.compiler import UnsupportedOpsError, compile_program
from torch_atalla.driver import c_abi
from torch_atalla.loadable import description as inspect

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(torch_atalla.__file__).parent
TOTAL = 4.0  # four rows of a softmax, each of which sums to 1


class Native(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.relu(x) @ self.weight, dim=-1)


@torch.library.custom_op("mylib::add_relu", mutates_args=(), device_types="cpu")
def add_relu(x: torch.Tensor, value: float) -> torch.Tensor:
    """An operator of your own, with a kernel for the CPU only."""
    return torch.relu(x + value)


@add_relu.register_fake
def _(x: torch.Tensor, value: float) -> torch.Tensor:
    return torch.empty_like(x)


class WithAddRelu(Native):
    """The same with a custom operator between matmul and softmax."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(add_relu(torch.relu(x) @ self.weight, 0.1), dim=-1)


def title(text: str) -> None:
    print(f"\n== {text}")


def check_sum(where: str, total: float) -> None:
    print(f"{where}: output sum {total:.6f}")
    assert abs(total - TOTAL) < 1e-5, f"{where}: expected an output sum of {TOTAL}, got {total}"


def show_stages(model: nn.Module, x: torch.Tensor) -> None:
    exported = torch.export.export(model, (x,))
    compiled = compile_program(exported, fallback="error")
    title("1. capture: ATen ops after decomposition and passes")
    print(compiled.captured)
    title("2. segments")
    print(compiled.partition)
    assert [segment.native for segment in compiled.partition.segments] == [True]
    title("3. linear program: launches over buffers (i input, o output, w weight, t temporary)")
    print(compiled.program)
    assert [launch.kernel for launch in compiled.program.instructions] == ["pointwise.relu", "gemm", "softmax"]
    title("4. memory plan")
    print(compiled.plan)


def save(model: nn.Module, x: torch.Tensor, path: Path) -> torch_atalla.loadable.LoadableReport:
    title("5. file")
    report = torch_atalla.save_loadable(torch.export.export(model, (x,)), path, fallback="error")
    print(report)
    sections = ", ".join(f"{s['name'].lower()} {s['bytes']}" for s in inspect.describe(str(path))["sections"])
    print(f"sections    {sections} bytes")
    print(f"starts with {path.read_bytes()[:8]!r}")
    assert path.stat().st_size == report.file_bytes and report.coverage_ops == 1.0
    return report


def place_and_run(path: Path, x: torch.Tensor, expected: torch.Tensor) -> None:
    title("6. placement in DRAM")
    before = torch.atalla.memory_allocated()
    program = torch_atalla.load_loadable(path, device="atalla")
    placed = torch.atalla.memory_allocated() - before
    for storage in inspect.describe(str(path))["storages"]:
        place = f"+{storage['offset']}" if storage["space"] in ("arena", "weights") else "the caller's"
        print(f"  {storage['name']:<10} {storage['bytes']:>4} bytes  {storage['space']:<8} {place}")
    print(f"  weights {program.report.weight_bytes} + arena {program.report.arena_bytes} bytes take {placed} of DRAM")
    assert placed >= program.report.weight_bytes + program.report.arena_bytes

    title("7. run")
    on_device = x.to("atalla")
    torch.atalla.synchronize()
    torch_atalla.telemetry.reset()
    found = program(on_device)
    torch.atalla.synchronize()
    counters = torch_atalla.telemetry.counters()
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-5)
    check_sum("as a callable", found.sum().item())
    energy = torch_atalla.energy.text(counters.energy.joules)
    print(f"{counters.launches} launches, {counters.cycles} cycles, {counters.macs} MACs, {energy}")
    assert counters.cycles == program.report.estimate_cycles and counters.macs == 4 * 8 * 16


def run_through_c_interface(path: Path, x: torch.Tensor, expected: torch.Tensor) -> None:
    """The calls of a C program, by ctypes: host memory in, host memory out, no tensor of the device in sight."""
    lib = c_abi.bind(ctypes.CDLL(str(PACKAGE / "lib" / "libatalla_runtime.so")))

    def call(name: str, *arguments: Any) -> None:
        status = getattr(lib, name)(*arguments)
        assert status == 0, f"{name}: status {status}, {lib.atalla_rt_last_error().decode()}"

    program, given, wanted, out = ctypes.c_void_p(), c_abi.atalla_tensor(), c_abi.atalla_tensor(), torch.zeros(4, 16)
    call("atalla_program_open_file", str(path).encode(), ctypes.byref(program))
    call("atalla_program_load", program, 0)
    call("atalla_program_input", program, 0, 0, None, ctypes.byref(given))
    call("atalla_program_output", program, 0, 0, None, ctypes.byref(wanted))
    assert list(given.sizes[: given.ndim]) == [4, 8] and list(wanted.sizes[: wanted.ndim]) == [4, 16]
    given.addr, wanted.addr = x.data_ptr(), out.data_ptr()
    params = c_abi.atalla_run_params(
        struct_size=ctypes.sizeof(c_abi.atalla_run_params),
        flags=c_abi.ATALLA_RUN_HOST,
        inputs=ctypes.pointer(given),
        n_inputs=1,
        outputs=ctypes.pointer(wanted),
        n_outputs=1,
    )
    call("atalla_program_run", program, ctypes.byref(params))
    lib.atalla_program_close(program)
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
    check_sum("through the C interface", out.sum().item())


def build_c_program(folder: Path) -> Path:
    """examples/c/run_program.c with the C compiler, against the installed headers and libraries."""
    binary, lib = folder / "run_program", PACKAGE / "lib"
    command = ["gcc", "-std=c11", str(ROOT / "examples/c/run_program.c"), f"-I{PACKAGE / 'include'}", f"-L{lib}"]
    command += ["-latalla_runtime", "-lm", f"-Wl,-rpath,{lib}", "-o", str(binary)]
    subprocess.run(command, check=True)
    return binary


def run_from_c(binary: Path, path: Path, x: torch.Tensor) -> None:
    data = path.with_suffix(".bin")
    data.write_bytes(x.numpy().tobytes())
    done = subprocess.run([binary, path, data], capture_output=True, text=True, check=True)
    print("  " + done.stdout.strip().replace("\n", "\n  ").replace(str(path.parent), "..."))
    match = re.search(r"sum ([0-9.]+)", done.stdout)
    assert match, f"run_program printed no sum: {done.stdout}"
    check_sum("from C", float(match[1]))


def with_a_fallback(binary: Path, path: Path, x: torch.Tensor) -> None:
    model = WithAddRelu().eval()
    expected = model(x)
    title('8. an op that is not native, fallback="error"')
    try:
        torch_atalla.save_loadable(torch.export.export(model, (x,)), path, fallback="error")
        raise AssertionError("an op without a kernel was accepted")
    except UnsupportedOpsError as error:
        print(error)
        assert [op.op for op in error.ops] == ["mylib::add_relu"] and not path.exists()

    title('9. the same, fallback="cpu"')
    report = torch_atalla.save_loadable(torch.export.export(model, (x,)), path, fallback="cpu")
    print("\n".join(f"  {segment.name}: {segment.nodes} nodes" for segment in report.segments))
    assert [segment.native for segment in report.segments] == [True, False, True]
    # This process saved the file. Others import the operator's library and name the operator, as this call does.
    found = torch_atalla.load_loadable(path, operators=report.operators)(x.to("atalla"))
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-5)
    check_sum("as a callable", found.sum().item())
    done = subprocess.run([binary, path], capture_output=True, text=True)
    print(f"from C, where no torch is: exit status {done.returncode}, {done.stderr.strip()}")
    assert done.returncode == 1 and "mylib::add_relu" in done.stderr


@torch.no_grad()
def main() -> None:
    warnings.filterwarnings("ignore", category=FutureWarning, module="copyreg")  # torch.export copying its own trees
    torch.manual_seed(0)
    torch_atalla.fallback.mode("error")
    model, x = Native().eval(), torch.randn(4, 8)
    expected = model(x)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pipeline.atl"
        show_stages(model, x)
        save(model, x, path)
        place_and_run(path, x, expected)
        run_through_c_interface(path, x, expected)
        binary = build_c_program(Path(folder))
        run_from_c(binary, path, x)
        with_a_fallback(binary, Path(folder) / "add_relu.atl", x)
    print("\nok")


if __name__ == "__main__":
    main()
