# SPDX-License-Identifier: BSD-3-Clause
"""Running Atalla code: firmware services, the debugger, cycles, launches on a device."""

import re
from pathlib import Path

import torch
from isa_kernels import CodegenTestCase, bf16
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize

import torch_atalla
from torch_atalla import isa

DATA = Path(__file__).parents[1] / "data"
ASSEMBLY = Path(__file__).parents[2] / "examples/assembly"


def after(text: str, **registers) -> isa.Machine:
    """A machine that ran the text and a halt.s, with x1=... set before."""
    machine = isa.Machine(isa.assemble(text + "\nhalt.s"), dram_bytes=1 << 16)
    for name, value in registers.items():
        getattr(machine, f"set_{name[0]}")(int(name[1:]), value)
    machine.run()
    return machine


class TestFirmware(TestCase):
    TEXT = """
        jalr.s x1, x0, -16          # scpad_alloc(x10, x11)
        addi.s x20, x10, 0
        addi.s x21, x11, 0
        { jalr.s x1, x0, -16; li.s x10, 100 }
        addi.s x22, x10, 0
        addi.s x23, x11, 0
        addi.s x10, x20, 0
        addi.s x11, x21, 0
        jalr.s x1, x0, -32          # scpad_free
        addi.s x24, x10, 0
        addi.s x10, x20, 0
        { jalr.s x1, x0, -32; addi.s x11, x21, 0 }
        halt.s
    """

    def test_services(self):
        result = isa.run(isa.assemble(self.TEXT), args=(4096, 256))
        x = result.machine.registers()[0].tolist()
        self.assertEqual((x[20] % 256, x[21]), (0, 0))
        self.assertEqual(x[23], 1)  # the emptier scratchpad; x11 was the first one's number, which is no alignment
        self.assertEqual((x[24], x[10]), (0, 0xFFFFFFFF))  # freed once, and not twice
        self.assertEqual(result.stats.services, 4)
        self.assertEqual(result.stats.stall_cycles["firmware"], 4 * 32)

    def test_failures(self):
        for size, align in ((0, 0), (1 << 21, 0), (64, 32), (64, 96), (64, 1 << 31)):
            result = isa.run(isa.assemble("jalr.s x1, x0, -16\nhalt.s"), args=(size, align))
            self.assertEqual(result.machine.x(10), 0xFFFFFFFF, msg=f"{size} {align}")


class TestDebugger(TestCase):
    TEXT = """
        li.s x2, 5
        loop: addi.s x1, x1, 1
        { blt.s x1, x2, loop; sw.s x1, 0x40(x0) }
        vreg.st v0, x0, x2, 1, 32
        halt.s
    """

    def test_steps_and_breakpoints(self):
        machine = isa.Machine(isa.assemble(self.TEXT))
        self.assertEqual((machine.step(), machine.pc, machine.x(2)), ("budget", 20, 5))
        machine.breakpoint("loop")
        stops = [machine.run() for _ in range(5)]
        self.assertEqual(stops, ["breakpoint"] * 4 + ["halted"])
        self.assertEqual((machine.x(1), machine.pc), (5, 100))
        self.assertEqual(machine.run(), "halted")
        self.assertEqual(machine.profile().tolist(), [1, 5, 5, 1, 1])
        machine = isa.Machine(isa.assemble(self.TEXT))
        machine.breakpoint(60)
        self.assertEqual((machine.run(), machine.pc), ("breakpoint", 60))
        machine.breakpoint(60, enable=False)
        self.assertEqual(machine.run(), "halted")
        with self.assertRaisesRegex(isa.ExecutionError, "which is no packet"):
            machine.breakpoint(30)

    def test_watchpoints(self):
        machine = isa.Machine(isa.assemble(self.TEXT))
        machine.watch(0x42, 1, "w")
        machine.watch(5 * 64, 64, "w", scratchpad=1)
        machine.watch(0x40, 4, "r")
        stops = []
        while machine.run() != "halted":
            stops.append((machine.stop, machine.pc))
        self.assertEqual(stops, [("watchpoint", 20)] * 4 + [("watchpoint", 60), ("watchpoint", 80)])
        with self.assertRaisesRegex(isa.ExecutionError, "a watch of space"):
            machine.watch(1 << 33, 4)

    def test_trace_and_dump(self):
        machine = isa.Machine(isa.assemble(self.TEXT))
        lines = machine.trace()
        self.assertEqual(lines[0], "00000000 li.s x2, 5  # x2=00000005")
        self.assertEqual(lines[2], "00000028 { blt.s x1, x2, -20; sw.s x1, 64(x0) }")
        self.assertEqual(len(lines), 13)
        self.assertEqual(machine.dump().splitlines(), ["pc 00000064", "x1 00000005", "x2 00000005", "m0 FFFFFFFF"])
        machine.set_x(0, 3)
        machine.set_v(0, 3)
        self.assertEqual((machine.x(0), machine.v(0)[0]), (0, 0))
        machine.pc = 0
        with self.assertRaisesRegex(isa.ExecutionError, "is no packet"):
            machine.pc = 7

    def test_stepping_changes_nothing(self):
        program = isa.read_text_image(DATA / "gemm_48x64x32.in")
        whole = isa.run(program)
        steps = isa.Machine(program)
        while steps.run(7) != "halted":
            pass
        self.assertEqual(steps.dump(), whole.machine.dump())
        self.assertEqual(steps.stats(), whole.stats)


class TestCycles(TestCase):
    def cycles(self, text: str, **registers) -> int:
        machine = after(text, **registers)
        return machine.stats().cycles

    def test_latencies(self):
        """A dependent pair is a latency apart; then halt.s, and the result of the second."""
        for first, second, latency in (
            ("addi.s x1, x2, 1", "addi.s x3, x1, 1", 1),
            ("mul.s x1, x2, x2", "addi.s x3, x1, 1", 3),
            ("divi.s x1, x2, 3", "addi.s x3, x1, 1", 66),
            ("add.bf x1, x2, x2", "addi.s x3, x1, 1", 5),
            ("mul.bf x1, x2, x2", "addi.s x3, x1, 1", 4),
            ("rcp.bf x1, x2", "addi.s x3, x1, 1", 11),
            ("lw.s x1, 0(x0)", "addi.s x3, x1, 1", 4),
            ("add.vv v1, v2, v2", "vmov.vts x3, v1, 0", 5),
            ("mul.vv v1, v2, v2", "vmov.vts x3, v1, 0", 4),
            ("expi.vi v1, v2", "vmov.vts x3, v1, 0", 6),
            ("rsum.vi v1, v2, 0", "vmov.vts x3, v1, 0", 20),
            ("gemm.vv v1, v2, v2", "vmov.vts x3, v1, 0", 45),
            ("vreg.ld v1, x0, x0, 0, 32", "vmov.vts x3, v1, 0", 15),
            ("mlt.mvv m1, v2, v2", "mv.mts x3, m1", 5),
            ("gemm.vv v1, v2, v2", "vreg.ld v1, x0, x0, 0, 32", 45),  # WAW
            ("vreg.st v1, x0, x0, 0, 32", "vreg.ld v2, x0, x0, 0, 32", 2),  # through the row
        ):
            last = 15 if "vreg.ld" in second else 1
            expected = max(latency + last, latency + 2)  # halt.s issues in the cycle after
            self.assertEqual(self.cycles(f"{first}\n{second}"), expected, msg=f"{first}; {second}")

    def test_rows_below_an_address(self):
        """A row is (rs1 >> 6) + rs2 in 32 bits, so that rs2 may be negative: as fast, and the same row."""
        text = "vreg.st v1, x1, x2, 0, 32\nvreg.ld v2, x3, x0, 0, 32"
        self.assertEqual(self.cycles(text, x1=64 * 9, x2=-4, x3=64 * 5), self.cycles(text, x1=64 * 5, x2=0, x3=64 * 5))

    def test_units(self):
        self.assertEqual(self.cycles("add.vv v1, v9, v9\nadd.vv v2, v9, v9\nadd.vv v3, v9, v9"), 4 + 5)
        self.assertEqual(self.cycles("lw.vi v1\nlw.vi v2\nlw.vi v3"), 4)
        self.assertEqual(self.cycles("{ lw.vi v1; add.vv v2, v9, v9; mul.vv v3, v9, v9; addi.s x1, x2, 1 }"), 5)
        self.assertEqual(self.cycles("divi.s x1, x2, 3\ndivi.s x3, x2, 3"), 132)
        self.assertEqual(self.cycles("jal x0, next\nnext:"), 2)
        self.assertEqual(self.cycles("beq.s x0, x0, next\nnext:"), 3)
        self.assertEqual(self.cycles("bne.s x0, x0, next\nnext:"), 2)

    def test_transfers(self):
        full = 31 << 25 | 31 << 20
        tile = "scpad.ld x1, x2, x3"
        self.assertEqual(self.cycles(tile, x3=full), 8 + 512)
        # In the background, until something touches its rows.
        self.assertEqual(self.cycles(tile + "\nlw.vi v1" * 5, x3=full), 520)
        self.assertEqual(self.cycles(tile + "\nvreg.ld v1, x0, x4, 0, 32", x3=full, x4=31), 520 + 15)
        self.assertEqual(self.cycles(tile + "\nvreg.ld v1, x0, x4, 0, 32", x3=full, x4=32), 520)
        # One engine: in turn. Two engines: setup overlaps, the bus does not.
        self.assertEqual(self.cycles(tile + "\nscpad.ld x4, x2, x3", x3=full, x4=64 * 32), 1040)
        self.assertEqual(self.cycles(tile + "\nscpad.ld x1, x2, x4", x3=full, x4=1 << 30 | full), 8 + 1024)
        # DRAM bytes: a load by the other engine waits for a store of the same bytes, not for one beside them.
        wide = full | 63
        store, load = "scpad.st x1, x2, x3\n", "scpad.ld x1, x4, x5"
        both = {"x3": wide, "x5": 1 << 30 | wide}
        self.assertEqual(self.cycles(store + load, x4=64, **both), 8 + 1024)
        self.assertEqual(self.cycles(store + load, x4=62, **both), 520 + 520)
        self.assertEqual(self.cycles(store + "lw.s x6, 0(x4)", x4=60, **both), 520 + 4)
        self.assertEqual(self.cycles(store + "lw.s x6, 0(x4)", x4=64, **both), 520)
        machine = after((tile + "\n") * 12, x3=full)
        self.assertEqual(machine.stats().stall_cycles["SDMA queue full"], 512 + 3 * 519)
        self.assertEqual(machine.stats().dram_bytes_read, 12 * 2048)

    def test_dram_timings(self):
        program = isa.assemble("lui.s x3, ((31 << 25) | (31 << 20)) >> 7\nscpad.ld x0, x0, x3\nhalt.s")
        found = {t: isa.run(program, dram_timing=t).cycles for t in ("specified", "ideal", "measured")}
        self.assertEqual(found, {"specified": 1 + 520, "ideal": 1 + 50 + 256, "measured": 1 + 8 + 2330})
        with self.assertRaisesRegex(ValueError, "DRAM timing `none`; expected one of specified, ideal, measured"):
            isa.run(program, dram_timing="none")

    def test_ten_runs(self):
        program = isa.read_text_image(DATA / "gemm_48x64x32.in")
        code = isa.Code(program)
        self.assertEqual(len({isa.run(code).cycles for _ in range(10)}), 1)
        untimed = isa.run(code, timing=False).stats
        self.assertEqual((untimed.cycles, untimed.packets), (0, 512))

    def test_stats(self):
        stats = isa.run(isa.read_text_image(DATA / "gemm_48x64x32.in")).stats
        self.assertEqual(stats.unit_instructions["gsau"], 32 + 2 * 32 + 2 * 48)
        self.assertEqual(stats.macs, 96 * 1024)
        self.assertEqual((stats.dram_bytes_read, stats.dram_bytes_written), (10240, 3072))
        self.assertEqual(sum(stats.unit_instructions.values()), stats.instructions)
        issued = stats.packets + sum(stats.stall_cycles.values())
        self.assertTrue(issued <= stats.cycles <= issued + 1000, msg=str(stats))
        self.assertIn("packets", str(stats))
        self.assertEqual(stats.to_json()["packets"], 512)


COPY = """
    lui.s x3, ((1 << 25) | (31 << 20)) >> 7
    scpad.ld x0, x10, x3
    vreg.ld v1, x0, x0, 0, 32
    add.vv v2, v1, v1
    vreg.st v2, x0, x0, 0, 32
    scpad.st x0, x11, x3
    halt.s
"""


class TestOnTheDevice(TestCase):
    def test_launch(self):
        a = torch.arange(64, dtype=torch.bfloat16, device="atalla")
        b = torch.zeros(64, dtype=torch.bfloat16, device="atalla")
        before = torch_atalla.telemetry.counters()
        stats = isa.launch(isa.assemble(COPY), args=(isa.dram_address(a), isa.dram_address(b)), tag=9)
        after = torch_atalla.telemetry.counters()
        self.assertEqual(b.cpu(), torch.cat([2 * torch.arange(32.0), torch.arange(32.0, 64)]).bfloat16())
        self.assertEqual(after.launches - before.launches, 1)
        self.assertEqual(after.cycles - before.cycles, stats.cycles + 64)
        self.assertEqual(after.dram_bytes_read - before.dram_bytes_read, 128)

    def test_faults(self):
        with self.assertRaisesRegex(
            isa.ExecutionError, r"device 0, launch \d+ \(Atalla program, tag 5\): packet 0 .*misalig"
        ):
            isa.launch(isa.assemble("lw.s x1, 1(x0)"), tag=5)
        self.assertEqual((torch.ones(3, device="atalla") + 1).sum().item(), 6)  # the device goes on
        with self.assertRaisesRegex(ValueError, ".data at fixed addresses"):
            isa.launch(isa.assemble("halt.s\n.data\n.word 1"))

    def test_machine_on_the_device(self):
        a = torch.full((64,), 3, dtype=torch.bfloat16, device="atalla")
        b = torch.zeros(64, dtype=torch.bfloat16, device="atalla")
        torch.atalla.synchronize()
        addresses = (isa.dram_address(a), isa.dram_address(b))
        machine = isa.Machine(isa.assemble(COPY), args=addresses, device=0)
        machine.watch(addresses[1], 2, "w")
        self.assertEqual(machine.run(), "watchpoint")
        self.assertEqual(b[0].item(), 6)

    def test_pages_are_taken_back(self):
        program = isa.assemble("jalr.s x1, x0, -16\nhalt.s")
        for _ in range(5):  # each asks for a whole scratchpad
            isa.launch(program, args=(1 << 20, 0))
        self.assertEqual(torch_atalla.telemetry.work()[-1].scratchpad_bytes, 1 << 20)
        endless = isa.assemble("jalr.s x1, x0, -16\nhere: beq.s x0, x0, here")
        for _ in range(5):
            with self.assertRaisesRegex(isa.ExecutionError, "has not ended after 100 packets"):
                isa.launch(endless, args=(1 << 20, 0), max_packets=100)
        isa.launch(program, args=(1 << 20, 0))


class TestAssemblySources(CodegenTestCase):
    """The programs of examples/assembly, against the CPU and the built-in kernels."""

    def run_source(self, name, equ, *args):
        """Cycles. `equ` takes the place of the same constant in the source."""
        path = ASSEMBLY / f"{name}.s"
        constant, value = equ
        text, found = re.subn(rf"(?m)^(\.equ {constant},) \d+", rf"\1 {value}", path.read_text())
        self.assertEqual(found, 1)
        arguments = [isa.dram_address(x) if isinstance(x, torch.Tensor) else x for x in args]
        return isa.launch(isa.assemble(text, str(path)), args=arguments, max_packets=1 << 20).cycles

    @parametrize("case", [(256, 1000, 257_497), (32, 1024, None), (64, 994, None)])
    def test_softmax(self, case):
        rows, columns, cycles = case
        x = bf16(rows, columns, scale=3.0)
        a, out = x.to("atalla"), torch.full((rows + 1, columns), float("nan"), dtype=x.dtype, device="atalla")
        spent = self.run_source("softmax", ("COLUMNS", columns), a, out, rows // 32)
        with torch_atalla.chip.engine("isa"):
            built_in = a.softmax(1)
        self.check(out[:rows].cpu(), x.double().softmax(1), built_in)
        self.assertTrue(out[rows].isnan().all())
        self.assertEqual(spent, cycles or spent)

    @parametrize("case", [(256, 99_826), (64, None), (512, None)])
    def test_matmul(self, case):
        size, cycles = case
        x, y = bf16(size, size), bf16(size, size, seed=1)
        a, b = x.to("atalla"), y.to("atalla")
        out = torch.full((size + 1, size), float("nan"), dtype=x.dtype, device="atalla")
        spent = self.run_source("matmul", ("SIZE", size), a, b, out)
        with torch_atalla.chip.engine("isa"):
            built_in = a @ b
        self.check(out[:size].cpu(), x.double() @ y.double(), built_in)
        self.assertTrue(out[size].isnan().all())
        self.assertEqual(spent, cycles or spent)


instantiate_parametrized_tests(TestAssemblySources)
