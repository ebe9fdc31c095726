# SPDX-License-Identifier: BSD-3-Clause
"""Loadables with Atalla code: saved, inspected, and run on the device by both engines."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import warnings
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch import nn
from torch.testing._internal.common_utils import TestCase

import torch_atalla
from torch_atalla.cli.inspect import main as inspect
from torch_atalla.cli.verify import verify
from torch_atalla.compiler import ExportError
from torch_atalla.compiler.file import code
from torch_atalla.compiler.targets.chip import check
from torch_atalla.compiler.targets.chip.network import NoProgramError
from torch_atalla.compiler.targets.chip.section import method_code
from torch_atalla.driver import runtime
from torch_atalla.loadable.code import listing
from torch_atalla.loadable.code_machine import CodeMachine
from torch_atalla.loadable.description import describe, render
from torch_atalla.loadable.errors import LoadableError
from torch_atalla.loadable.file import code_section as section
from torch_atalla.loadable.file.container import Container
from torch_atalla.loadable.file.format import Region, Section
from torch_atalla.loadable.file.signature import verify_signature

warnings.filterwarnings("ignore", category=FutureWarning)


def without_code(data: bytes) -> bytes:
    container = Container.read(data)
    container.sections = [
        part for part in container.sections if part.kind < Section.CODE or part.kind > Section.CONSTANTS
    ]
    return container.pack(runtime.crc32c)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(40, 70), nn.GELU(), nn.LayerNorm(70), nn.Linear(70, 10)).eval()


class TestCodeInLoadables(TestCase):
    def setUp(self):
        super().setUp()
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = os.path.join(self.directory.name, "model.atl")

    def save(self, **options):
        x = torch.randn(5, 40)
        report = torch_atalla.save_loadable(
            model(), self.path, args=(x,), engine="isa", convert="bfloat16", fallback="error", **options
        )
        return x, report

    def test_both_engines(self):
        x, report = self.save()
        self.assertEqual(report.engine, "isa")
        self.assertGreater(report.code["cosine"], 0.999)
        self.assertGreater(report.code["packets"], 100)
        self.assertIn("cosine", str(report))
        given = x.bfloat16().to("atalla")
        functional = torch_atalla.load_loadable(self.path)(given)
        program = torch_atalla.load_loadable(self.path, engine="isa")
        for _ in range(2):
            found = program(given)
            self.assertEqual(found.device.type, "atalla")
            self.assertEqual(found, functional, atol=0.03, rtol=0.03)
        self.assertEqual(found.cpu().float(), model()(x), atol=0.05, rtol=0.05)
        self.assertGreater(program.stats.cycles, 0)
        with self.assertRaisesRegex(ValueError, "expected dtype bfloat16, found float32"):
            program(x.to("atalla"))
        with self.assertRaisesRegex(TypeError, "structure"):
            program(given, given)

    def test_launches_take_what_their_code_takes(self):
        x, report = self.save()
        given = x.bfloat16().to("atalla")
        profile = CodeMachine(self.path, [x.bfloat16()]).profile()
        by_node: dict[str, int] = {}
        for call in profile.calls[1:-1]:
            by_node[call.site.node] = by_node.get(call.site.node, 0) + call.cycles
        first, last = profile.calls[1].site.node, profile.calls[-2].site.node
        by_node[first] += profile.calls[0].cycles
        by_node[last] += profile.calls[-1].cycles
        charged: dict[str, int] = {}
        for item in report.launch_cycles:
            charged[item.node] = charged.get(item.node, 0) + item.cycles
        self.assertEqual(charged, by_node)
        self.assertEqual(report.estimate_cycles, profile.stats.cycles)
        self.assertAlmostEqual(report.method_joules[0] / profile.stats.energy.joules, 1, delta=1e-9)
        program = torch_atalla.load_loadable(self.path)
        graph = torch.atalla.Graph()
        program(given)
        with torch.atalla.graph(graph):
            program(given)
        for run in (lambda: program(given), graph.replay):
            before = torch_atalla._C.counters(0)
            run()
            torch.atalla.synchronize()
            spent = {key: n - before[key] for key, n in torch_atalla._C.counters(0).items() if isinstance(n, int)}
            self.assertEqual(spent["cycles"], profile.stats.cycles)
            self.assertEqual(spent["macs"], profile.stats.macs)
            self.assertEqual(spent["dram_bytes_read"], profile.stats.dram_bytes_read)
            self.assertEqual(spent["array_cycles"], profile.stats.unit_cycles["gsau"])

    def test_files_that_do_not_name_their_calls(self):
        """Format 1.4: each launch takes what it takes alone."""
        with mock.patch.object(code, "method_code", lambda *args, program, **places: method_code(*args, **places)):
            _, report = self.save()
        self.assertNotEqual(report.estimate_cycles, report.code["cycles"])

    def test_code_that_does_not_end(self):
        """Each launch takes what it takes alone."""
        _, report = self.save(golden=False)
        container = Container.read(Path(self.path).read_bytes())
        packets = next(part for part in container.sections if part.kind == Section.PACKETS)
        again = torch_atalla.isa.assemble("again:\njal x0, again\nhalt.s").encode().tobytes()[:20]
        packets.content, packets.crc = again + bytes(packets.content)[20:], None
        Path(self.path).write_bytes(container.pack(runtime.crc32c))
        with contextlib.closing(runtime.Program(Path(self.path).read_bytes())) as program:
            program.load(0)
            found = program.estimate_each(0, len(report.launch_cycles))
        self.assertNotEqual(sum(found), report.estimate_cycles)

    def test_one_run_serves_the_check_the_profile_and_the_error(self):
        with mock.patch.object(check, "Machine", wraps=check.Machine) as machine:
            x, report = self.save(golden=False, verify=False)
        self.assertEqual(machine.call_count, 1)
        profile = CodeMachine(self.path, [x.bfloat16()]).profile()
        self.assertEqual(report.code["cycles"], profile.stats.cycles)
        with torch.no_grad():
            exact, found = model()(x), torch_atalla.load_loadable(self.path, engine="isa")(x.bfloat16().to("atalla"))
        expected = torch.nn.functional.cosine_similarity(found.cpu().double().flatten(), exact.double().flatten(), 0)
        self.assertAlmostEqual(report.code["cosine"], expected.item(), places=12)
        self.assertIn('"cosine"', describe(self.path)["metadata"]["report"])

    def test_error_for_inputs_whose_elements_are_equal(self):
        """The check replaces them; the float32 model is then asked with the same numbers."""
        x = torch.ones(5, 40)
        report = torch_atalla.save_loadable(
            model(), self.path, args=(x,), engine="isa", convert="bfloat16", golden=False, verify=False
        )
        self.assertGreater(report.code["cosine"], 0.999)

    def test_arguments_that_are_no_tensors_are_checked(self):
        class Scaled(nn.Module):
            def forward(self, x: torch.Tensor, *, factor: float, shift: float) -> torch.Tensor:
                return x * factor + shift

        x = torch.randn(4, 32, dtype=torch.bfloat16)
        given = {"factor": 2.0, "shift": 1.0}
        torch_atalla.save_loadable(Scaled(), self.path, args=(x,), kwargs=given, engine="isa")
        for engine in ("functional", "isa"):
            program = torch_atalla.load_loadable(self.path, engine=engine)
            self.assertEqual(program(x.to("atalla"), shift=1.0, factor=2.0).cpu(), x * 2 + 1)
            with self.assertRaisesRegex(ValueError, "expected the value 2.0 of the export, found 3.0"):
                program(x.to("atalla"), factor=3.0, shift=1.0)

    def test_signed(self):
        pytest.importorskip("cryptography")
        x, _ = self.save(sign=bytes(range(32)))
        with open(self.path, "rb") as file:
            data = bytearray(file.read())
        verify_signature(bytes(data))
        torch_atalla.load_loadable(self.path, engine="isa")(x.bfloat16().to("atalla"))
        code = section.find(bytes(data)).methods[0].code
        data[data.index(code)] ^= 1
        with self.assertRaisesRegex(ExportError, "the signature does not fit"):
            verify_signature(bytes(data))

    def test_wrong_code_is_refused(self):
        """A kernel that computes something else: nothing is written, and the first node that differs is named."""
        from torch_atalla.compiler.targets.chip.kernels import rows

        plan = rows.plan

        def wrong(kind, m, n, *more):
            calls = plan(kind, m, n, *more)
            for _, words, _ in calls:
                words["eps"] = 0x3F800000
            return calls

        with mock.patch.object(rows, "plan", wrong):
            with self.assertRaisesRegex(ExportError, "differ from the program's: node layer_norm: .* expected"):
                self.save()
        self.assertEqual(os.listdir(self.directory.name), [])

    def test_goldens(self):
        self.save()
        for engine in ("functional", "isa"):
            self.assertEqual(torch_atalla.load_loadable(self.path, engine=engine).verify(), 1)
            self.assertIn("1 golden output as expected", verify(self.path, engine=engine))
        with open(self.path, "rb") as file:
            data = file.read()
        found = section.find(data)
        constants = bytes(len(found.constants))
        others = section.attach(without_code(data), section.CodeSection(found.methods, constants), runtime.crc32c)
        with open(self.path, "wb") as file:
            file.write(others)
        self.assertEqual(torch_atalla.load_loadable(self.path).verify(), 1)
        with self.assertRaisesRegex(LoadableError, "golden 0, method 'forward', output 0, element 0: 0, "):
            torch_atalla.load_loadable(self.path, engine="isa").verify()

    def test_damaged_constants(self):
        """Their checksum is compared when they are read: also by the functional engine, whose clock is the code's."""
        self.save()
        with open(self.path, "rb") as file:
            data = bytearray(file.read())
        data[data.index(section.find(bytes(data)).constants)] ^= 1
        with open(self.path, "wb") as file:
            file.write(data)
        for engine in ("functional", "isa"):
            with self.assertRaisesRegex(LoadableError, r"CONSTANTS 29\) is damaged"):
                torch_atalla.load_loadable(self.path, engine=engine)
        with self.assertRaisesRegex(runtime.RuntimeLibraryError, r"CONSTANTS 29\) is damaged"):
            describe(self.path)

    def test_listing(self):
        dump = os.path.join(self.directory.name, "dump")
        self.save(dump=dump)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(inspect([self.path, "--asm"]), 0)
        self.assertIn("gemm.vv", out.getvalue())
        self.assertEqual(len(torch_atalla.isa.assemble(out.getvalue())), self.packets())
        with open(os.path.join(dump, "listing.s")) as file:
            self.assertEqual(file.read(), out.getvalue().removesuffix("\n"))

    def packets(self):
        with open(self.path, "rb") as file:
            return len(section.find(file.read()).methods[0].code) // 20

    def test_without_code(self):
        torch_atalla.save_loadable(model(), self.path, args=(torch.randn(5, 40),))
        with self.assertRaisesRegex(ValueError, "no Atalla code"):
            torch_atalla.load_loadable(self.path, engine="isa")
        error = io.StringIO()
        with contextlib.redirect_stderr(error):
            self.assertEqual(inspect([self.path, "--asm"]), 1)
        self.assertIn("no Atalla code", error.getvalue())

    def test_refused(self):
        class Sums(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.lgamma(x) + torch.special.i0(x)

        x = torch.randn(4, 4).bfloat16()
        with self.assertRaisesRegex(NoProgramError, "(?s)pointwise.lgamma.*pointwise.i0"):
            torch_atalla.save_loadable(Sums(), self.path, args=(x,), engine="isa")
        self.assertFalse(os.path.exists(self.path))
        with self.assertRaisesRegex(NoProgramError, "bfloat16"):
            torch_atalla.save_loadable(nn.ReLU(), self.path, args=(x.float(),), engine="isa")
        with self.assertRaisesRegex(ExportError, "convert"):
            torch_atalla.save_loadable(nn.ReLU(), self.path, args=(x.float(),), engine="isa", convert="float16")


class Total(nn.Module):
    """Adds to a buffer (step), or only reads it (peek)."""

    total: torch.Tensor

    def __init__(self, stores: bool, buffer: torch.Tensor) -> None:
        super().__init__()
        self.stores = stores
        self.register_buffer("total", buffer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.stores:
            self.total.add_(x)
            return self.total.clone()
        return self.total + x


TOTAL = """
        lw.s x1, 0(x10)
        lw.s x2, 4(x10)
        lw.s x3, 8(x10)
        lw.s x4, 12(x10)
        li.s x5, 4
loop:   lw.s x6, 0(x1)
        lw.s x7, 0(x2)
        add.bf x7, x7, x6
        sw.s x7, 0(x3)
        sw.s x7, 0(x4)
        addi.s x1, x1, 4
        addi.s x2, x2, 4
        addi.s x3, x3, 4
        addi.s x4, x4, 4
        subi.s x5, x5, 1
        bne.s x5, x0, loop
        halt.s
"""


class TestMethods(TestCase):
    """Two methods with code, written by hand, over one mutable buffer."""

    def setUp(self):
        super().setUp()
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = os.path.join(self.directory.name, "total.atl")
        buffer, x = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.ones(4)
        methods = {name: torch.export.export(Total(name == "step", buffer), (x,)) for name in ("step", "peek")}
        torch_atalla.save_loadable(methods, self.path, fallback="error")
        self.attach(2)

    def attach(self, count: int) -> None:
        code = torch_atalla.isa.assemble(TOTAL).encode().tobytes()
        ports = [(0, Region.INPUT, 0, 0), (1, Region.STATE, 0, 0), (3, Region.OUTPUT, 0, 0)]
        sums = [(2, Region.STATE, 0, 0), (2, Region.ARENA, 0, 0)]
        methods = [section.MethodCode(i, code, [0] * 4, [*ports, sums[i]], 16 * i) for i in range(count)]
        with open(self.path, "rb") as file:
            data = file.read()
        with open(self.path, "wb") as file:
            file.write(section.attach(data, section.CodeSection(methods, b""), runtime.crc32c))

    def test_states_persist(self):
        x = torch.tensor([1.0, 10.0, 100.0, 1000.0], device="atalla")
        results = {}
        for engine in ("functional", "isa"):
            program = torch_atalla.load_loadable(self.path, engine=engine)
            found = [program["peek"](x), program(x), program["step"](x), program["peek"](x)]
            program.load_state_dict({"total": torch.zeros(4)})
            found += [program["step"](x)]
            found += [program.read_state("total"), program.verify(), program.read_state("total")]
            results[engine] = [item.cpu() if isinstance(item, torch.Tensor) else item for item in found]
        self.assertEqual(results["isa"], results["functional"], rtol=0, atol=0)
        self.assertEqual(program.stats.packets, 5 + 4 * 11 + 1)
        self.assertRegex(repr(program), "1 inputs, 1 outputs, methods step, peek, engine isa>")

    def test_machine_of_its_own(self):
        """Without a device: mutable buffers have their initial values, and the profile has no calls."""
        x = torch.tensor([1.0, 10.0, 100.0, 1000.0])
        for name in ("step", "peek"):
            run = CodeMachine(self.path, [x], method=name)
            profile = run.profile()
            self.assertEqual(run.outputs(), [x + torch.tensor([1.0, 2.0, 3.0, 4.0])])
            self.assertEqual(sum(call.cycles for call in profile.calls), profile.stats.cycles)
        with self.assertRaisesRegex(ValueError, "method 'other' has no Atalla code"):
            CodeMachine(self.path, [x], method="other")

    def test_other_strides_are_copied(self):
        x = torch.arange(8.0).to("atalla")[::2]
        found = [torch_atalla.load_loadable(self.path, engine=engine)(x).cpu() for engine in ("functional", "isa")]
        self.assertEqual(found[0], found[1])

    def test_inspection(self):
        data = describe(self.path)
        self.assertEqual([record["method"] for record in data["code"]], [0, 1])
        self.assertIn("  peek: 17 packets, 4 words, 4 relocations, arena of 16 bytes", render(data))
        self.assertIn("# method 1\n", listing(self.path))
        with open(self.path, "rb") as file:
            found = section.find(file.read())
        self.assertEqual([method.method for method in found.methods], [0, 1])
        self.assertEqual(found.methods[1].relocations[3], (2, Region.ARENA, 0, 0))

    def test_streams(self):
        """Code runs after the work of its stream, and work of the stream after the code."""
        program = torch_atalla.load_loadable(self.path, engine="isa")
        stream = torch.Stream("atalla")
        with stream:
            x = torch.ones(4, device="atalla")
            for _ in range(4):
                x = program["step"](x) * 2
        stream.synchronize()
        functional = torch_atalla.load_loadable(self.path)
        y = torch.ones(4, device="atalla")
        for _ in range(4):
            y = functional["step"](y) * 2
        self.assertEqual(x, y)

    def test_capture_is_refused(self):
        program = torch_atalla.load_loadable(self.path, engine="isa")
        x = torch.ones(4, device="atalla")
        with self.assertRaisesRegex(RuntimeError, "previous error during capture"):
            with torch.atalla.graph(torch.atalla.Graph()):
                with self.assertRaisesRegex(ValueError, "method 'step': operation not permitted"):
                    program(x)
        self.assertEqual(program["peek"](x).cpu(), torch.tensor([2.0, 3.0, 4.0, 5.0]))


def test_ops_without_bfloat16_are_named(tmp_path: Path) -> None:
    class Rotation(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.view_as_real(torch.view_as_complex(x) * 1j)

    with pytest.raises(ExportError, match=r"aten.view_as_complex.default cannot be converted: view_as_complex is only"):
        save = torch_atalla.save_loadable
        save(Rotation(), tmp_path / "m.atl", args=(torch.randn(3, 2),), engine="isa", convert="bfloat16")
