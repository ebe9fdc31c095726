# SPDX-License-Identifier: BSD-3-Clause
"""The ISA engine: against the reference interpreter, known answers, faults, the debugger, cycles."""

import random
from pathlib import Path

import isa_reference
import numpy as np
from torch.testing._internal.common_utils import TestCase, slowTest

from tools.codegen import isa_random
from torch_atalla import isa
from torch_atalla.isa import ops

DATA = Path(__file__).parents[1] / "data"


def run(text: str, memory=None, **options) -> isa.Result:
    return isa.run(isa.assemble(text), memory, **options)


def final_x(text: str, memory=None, **options) -> list[int]:
    return isa.run(isa.assemble(text + "\nhalt.s"), memory, **options).machine.registers()[0].tolist()


def compare_with_reference(
    seed: int, packets: int, profile: str = "simulator", groups: int = 0
) -> tuple[str, set[str]]:
    """Runs one random program on both; returns how it ended, and the instructions that ran. AssertionError at the
    first difference. groups: of registers, which the array of device 0's chip has to take."""
    rng = random.Random(seed)
    program = isa_random.program(rng, packets, groups)
    start = isa_random.state(rng)
    dram = bytearray(start["dram"].tobytes())
    slow = isa_reference.Machine(program, dram, profile=profile)
    slow.x, slow.m = start["x"].tolist(), start["m"].tolist()
    slow.v = start["v"].tolist()
    slow.pads = [dict(enumerate(pad.tolist())) for pad in start["pads"]]
    chip = 0 if groups else None
    fast = isa.Machine(program, {0: start["dram"]}, profile=profile, dram_bytes=isa_random.DRAM_BYTES, chip=chip)
    for i, value in enumerate(start["x"].tolist()):
        if value:
            fast.set_x(i, value)
    for i, value in enumerate(start["m"].tolist()):
        fast.set_m(i, value)
    for i in range(1, 256):
        fast.set_v(i, start["v"][i].view(np.float32))
    for sid, pad in enumerate(start["pads"]):
        fast.write_scratchpad(sid, 0, pad.view(np.float32))
    end, found = "halted", "halted"
    try:
        slow.run()
    except isa_reference.Fault as fault:
        end = f"packet {fault.packet} "
    try:
        fast.run()
    except isa.ExecutionError as error:
        found = str(error)
    assert end in found, f"seed {seed}: {end} and {found}"
    x, v, m = fast.registers()
    assert x.tolist() == slow.x, f"seed {seed}: x {[i for i in range(256) if x[i] != slow.x[i]]}"
    assert m.tolist() == slow.m, f"seed {seed}: m"
    bits = v.view(np.uint32)
    assert bits.tolist() == slow.v, f"seed {seed}: v {[i for i in range(256) if bits[i].tolist() != slow.v[i]]}"
    assert fast.dram(0, len(dram)).tobytes() == bytes(dram), f"seed {seed}: DRAM"
    for sid in range(isa_random.PADS):
        rows = fast.scratchpad(sid, 0, isa_random.PAD_ROWS).view(np.uint32).tolist()
        for r, row in enumerate(rows):
            assert row == slow.row(sid, r), f"seed {seed}: scratchpad {sid}, row {r}"
    weights = fast.weights().T.copy().view(np.uint32).tolist()
    shown = [column[: len(weights[0])] for column in slow.columns[: len(weights)]]
    assert weights == shown, f"seed {seed}: weights"
    stats = fast.stats()
    assert (stats.packets, stats.instructions) == (slow.packets, slow.instructions), f"seed {seed}: counts"
    ran = {i.mnemonic for p, count in zip(program, fast.profile()) if count for i in p if i is not None}
    return "halted" if end == "halted" else "fault", ran


class TestAgainstReference(TestCase):
    def sweep(self, seeds: range, packets: int) -> None:
        runs = [compare_with_reference(seed, packets, "rne" if seed % 3 == 0 else "simulator") for seed in seeds]
        ends = [end for end, _ in runs]
        self.assertEqual(set().union(*(ran for _, ran in runs)), set(isa.table().by_name))
        self.assertGreater(ends.count("halted"), len(ends) // 4)
        self.assertGreater(ends.count("fault"), 0)

    def test_random_programs(self):
        self.sweep(range(90), 40)

    @slowTest
    def test_many_random_programs(self):
        self.sweep(range(1000, 2500), 60)

    def test_known_answer(self):
        """The chip team's product of 48 x 64 and 64 x 32, and its counting loop."""
        program = isa.read_text_image(DATA / "gemm_48x64x32.in")
        result = isa.run(program)
        self.assertEqual(result.memory(0xC000, 3072).tobytes(), (DATA / "gemm_48x64x32.out").read_bytes())
        self.assertEqual(result.memory(0x100, 1, np.uint32).item(), 5)
        self.assertEqual(result.stats.packets, 512)


def bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


# Instruction, values of x1 and x2, expected x3.
SCALAR = [
    ("add.s x3, x1, x2", 0xFFFFFFFF, 2, 1),
    ("sub.s x3, x1, x2", 1, 2, 0xFFFFFFFF),
    ("mul.s x3, x1, x2", 0x10001, 0x10001, 0x20001),
    ("div.s x3, x1, x2", -7, 2, -3),
    ("div.s x3, x1, x2", -(1 << 31), -1, -(1 << 31)),
    ("mod.s x3, x1, x2", -7, 2, 1),
    ("mod.s x3, x1, x2", 7, -2, -1),
    ("mod.s x3, x1, x2", -(1 << 31), -1, 0),
    ("or.s x3, x1, x2", 5, 10, 15),
    ("and.s x3, x1, x2", 7, 10, 2),
    ("xor.s x3, x1, x2", 7, 10, 13),
    ("sll.s x3, x1, x2", 3, 33, 6),
    ("srl.s x3, x1, x2", -8, 1, 0x7FFFFFFC),
    ("sra.s x3, x1, x2", -8, 1, -4),
    ("slt.s x3, x1, x2", -1, 0, 1),
    ("sltu.s x3, x1, x2", -1, 0, 0),
    ("bfts.s x3, x1", bits(-2.75), 0, -2),
    ("bfts.s x3, x1", bits(3e9), 0, 0x7FFFFFFF),
    ("bfts.s x3, x1", 0x7FC00000, 0, 0),
    ("stbf.s x3, x1", 257, 0, bits(256)),
    ("stbf.s x3, x1", -3, 0, bits(-3)),
    ("add.bf x3, x1, x2", bits(1.5), bits(1e-3), bits(np.float32(1.5) + np.float32(1e-3))),
    ("add.bf x3, x1, x2", 0x3FC0, bits(1), bits(2.5)),
    ("sub.bf x3, x1, x2", 0x3FC0, 0x3F80, bits(0.5)),
    ("mul.bf x3, x1, x2", bits(3), 0x4000, bits(6)),
    ("rcp.bf x3, x1", bits(4), 0, bits(0.25)),
    ("rcp.bf x3, x1", 1 << 31, 0, bits(-np.inf)),
    ("sqrt.bf x3, x1", bits(2), 0, bits(np.sqrt(np.float32(2)))),
    ("sqrt.bf x3, x1", bits(-2), 0, 0x7FC00000),
    ("slt.bf x3, x1, x2", bits(-1), bits(1), 1),
    ("slt.bf x3, x1, x2", 0x7FC00000, bits(1), 0),
    ("addi.s x3, x1, -3", 1, 0, -2),
    ("subi.s x3, x1, -3", 1, 0, 4),
    ("muli.s x3, x1, -3", 5, 0, -15),
    ("divi.s x3, x1, -2", 7, 0, -3),
    ("modi.s x3, x1, -2", 7, 0, -1),
    ("ori.s x3, x1, -2048", 1, 0, -2047),
    ("andi.s x3, x1, -2", 7, 0, 6),
    ("xori.s x3, x1, -1", 7, 0, -8),
    ("slli.s x3, x1, 33", 3, 0, 6),
    ("srli.s x3, x1, 1", -8, 0, 0x7FFFFFFC),
    ("srai.s x3, x1, 1", -8, 0, -4),
    ("slti.s x3, x1, -1", -2, 0, 1),
    ("sltui.s x3, x1, -1", 5, 0, 1),
    ("li.s x3, -5", 0, 0, -5),
    ("lui.s x3, 0x1FFFFFF", 0, 0, 0xFFFFFF80),
]


def with_registers(text: str, memory=None, dram_bytes: int = 1 << 16, **registers) -> isa.Machine:
    """A machine before its first packet: x1=..., v2=..., m3=... set."""
    machine = isa.Machine(isa.assemble(text + "\nhalt.s"), memory, dram_bytes=dram_bytes)
    for name, value in registers.items():
        getattr(machine, f"set_{name[0]}")(int(name[1:]), value)
    return machine


def after(text: str, memory=None, **registers) -> isa.Machine:
    machine = with_registers(text, memory, **registers)
    machine.run()
    return machine


class TestInstructions(TestCase):
    """Expected values by hand, from the table's text and nobody's implementation."""

    def test_scalar(self):
        for text, a, b, expected in SCALAR:
            machine = after(text, x1=a, x2=b)
            self.assertEqual(machine.x(3), expected & 0xFFFFFFFF, msg=f"{text} of {a}, {b}")
        self.assertEqual(after("addi.s x0, x1, 5", x1=1).x(0), 0)

    def test_branches(self):
        for name, holds in {
            "beq": lambda a, b: a == b,
            "bne": lambda a, b: a != b,
            "blt": lambda a, b: a < b,
            "bge": lambda a, b: a >= b,
            "bgt": lambda a, b: a > b,
            "ble": lambda a, b: a <= b,
        }.items():
            for a, b in ((1, 1), (-1, 1), (1, -1)):
                text = f"{{ {name}.s x1, x2, skip, 100; li.s x4, 7 }}\n li.s x3, 1\nskip:"
                machine = after(text, x1=a, x2=b)
                self.assertEqual(machine.x(3), 0 if holds(a, b) else 1, msg=f"{name} {a} {b}")
                self.assertEqual((machine.x(1), machine.x(4)), ((a + 100) & 0xFFFFFFFF, 7))
        # Another slot may write what the branch reads; the branch sees the old value.
        machine = after("{ beq.s x1, x2, skip; li.s x1, 9 }\nli.s x3, 1\nskip:", x1=4, x2=4)
        self.assertEqual((machine.x(1), machine.x(3)), (9, 0))
        self.assertEqual(after("{ beq.s x0, x0, skip, 5 }\nli.s x3, 1\nskip:").x(3), 0)

    def test_jumps(self):
        machine = after("jal x1, f\nli.s x2, 5\njal x0, end\nf: li.s x3, 6\n{ jalr.s x4, x1, 0; li.s x1, 0 }\nend:")
        self.assertEqual([machine.x(i) for i in range(1, 5)], [0, 5, 6, 100])

    def test_memory(self):
        memory = {64: np.array([0x11223344, 0xAABBCCDD], np.uint32)}
        machine = after("lw.s x1, 4(x9)\nlhw.s x2, 2(x9)\nsw.s x2, 8(x9)\nshw.s x1, 14(x9)", memory, x9=64)
        self.assertEqual((machine.x(1), machine.x(2)), (0xAABBCCDD, 0x11220000))
        self.assertEqual(machine.dram(72, 8).view(np.uint32).tolist(), [0x11220000, 0xAABB0000])
        packed = np.arange(64, dtype=np.float32).view(np.uint32) >> 16
        text = "scpad.ld x1, x2, x3\nvreg.ld v1, x1, x4, 1, 5\nvreg.st v1, x1, x5, 1, 32\nscpad.st x1, x6, x7"
        shape = 1 << 30 | 1 << 25 | 7 << 20 | 31
        machine = after(text, {128: packed.astype(np.uint16)}, x1=640, x2=128, x3=shape, x4=1, x5=3, x6=512, x7=shape)
        self.assertEqual(machine.v(1).tolist(), [32, 33, 34, 35, 36] + [0] * 27)
        self.assertEqual(machine.scratchpad(1, 13)[0].tolist(), machine.v(1).tolist())
        stored = machine.dram(512, 128).view(np.uint16)
        self.assertEqual(stored[:8].tolist(), packed[:8].tolist())
        self.assertEqual(stored[32:40].tolist(), packed[32:40].tolist())
        self.assertEqual((stored[8:32].any(), stored[40:].any()), (False, False))

    def test_profiles(self):
        """scpad.st: 1 + 2^-8 is truncated to 1; to nearest even is a tie, and 1 + 3 * 2^-9 goes up."""
        values = np.array([1 + 2**-8, 1 + 3 * 2**-9] * 16, np.float32)
        for profile, expected in (("simulator", [0x3F80, 0x3F80]), ("rne", [0x3F80, 0x3F81])):
            program = isa.assemble("lui.s x3, 31 << 13\nscpad.st x0, x0, x3\nhalt.s")
            machine = isa.Machine(program, profile=profile)
            machine.write_scratchpad(0, 0, values)
            machine.run()
            self.assertEqual(machine.dram(0, 4).view(np.uint16).tolist(), expected)
        with self.assertRaisesRegex(ValueError, "profile `fast`; expected one of simulator, rne"):
            isa.Machine(program, profile="fast")

    def test_vectors(self):
        a = np.arange(32, dtype=np.float32) - 16
        machine = after(
            "add.vv v3, v1, v2, m1\nmul.vs v4, v1, x5\nsub.vs v5, v1, x5", v1=a, v2=1 + 2**-9, m1=3, x5=bits(3)
        )
        self.assertEqual(machine.v(3).tolist(), [-15, -14] + [0] * 30)  # 1 + 2^-9 rounds to 1 before
        self.assertEqual(machine.v(4).tolist(), (a * 3).tolist())
        self.assertEqual(machine.v(5).tolist(), (a - 3).tolist())
        machine = after("mgt.mvv m1, v1, v2, m2\nmneq.mvs m3, v1, x5", v1=a, v2=0, m1=1, m2=0xFFFFFFFE, x5=bits(-16))
        self.assertEqual((machine.m(1), machine.m(3)), (0xFFFE0001, 0xFFFFFFFE))
        machine = after("vmov.vts x1, v1, 30\nmv.stm m1, x2\nmv.mts x3, m1", v1=a, x2=77)
        self.assertEqual((machine.x(1), machine.x(3)), (bits(14), 77))

    def test_reductions(self):
        a = np.arange(32, dtype=np.float32)
        machine = after("rsum.vi v2, v1, 64\nrmax.vi v3, v1, 37\nrmin.vi v4, v1, 3, m1", v1=a, m1=0xF0)
        self.assertEqual(machine.v(2).tolist(), [496] * 32)
        self.assertEqual(machine.v(3).tolist(), [31 if i == 5 else 0 for i in range(32)])
        self.assertEqual(machine.v(4).tolist(), [4 if i == 3 else i for i in range(32)])
        machine = after("rsum.vi v2, v1, 64, m1\nrmax.vi v3, v1, 64, m1\nrmin.vi v4, v1, 64, m1", v1=a, m1=0)
        self.assertEqual([machine.v(i)[0] for i in (2, 3, 4)], [0, -np.inf, np.inf])

    def test_exponential(self):
        """All BF16 values, against numpy in float64."""
        x = (np.arange(65536, dtype=np.uint32) << 16).view(np.float32)
        loop = "loop: vreg.ld v1, x1, x0, 0, 32\nexpi.vi v2, v1\nvreg.st v2, x1, x0, 1, 32\nblt.s x1, x2, loop, 64"
        program = isa.assemble(loop + "\nhalt.s")
        machine = isa.Machine(program)
        machine.set_x(2, 2047 * 64)
        machine.write_scratchpad(0, 0, x.reshape(2048, 32))
        machine.run()
        found = machine.scratchpad(1, 0, 2048).reshape(-1)
        with np.errstate(all="ignore"):
            exact = np.exp(x.astype(np.float64)).astype(np.float32)
        nan = np.isnan(x)
        self.assertTrue(np.isnan(found[nan]).all())
        raw = exact[~nan].view(np.uint32)
        rounded = (raw + 0x7FFF + (raw >> 16 & 1)) & 0xFFFF0000
        self.assertTrue((found[~nan].view(np.uint32) == rounded).all())

    def test_weights(self):
        """The first 32 pushes fill columns 0 to 31; a further one enters at column 0."""
        columns = np.arange(34 * 32, dtype=np.float32).reshape(34, 32) % 61
        program = isa.Program()
        for i in range(34):
            program.append(ops.lw_vi(1 + i))
        program.append(ops.gemm_vv(100, 101, 102))
        program.append(ops.halt_s())
        machine = isa.Machine(program)
        for i in range(34):
            machine.set_v(1 + i, columns[i])
        inputs = np.arange(32, dtype=np.float32) % 5
        machine.set_v(101, inputs)
        machine.set_v(102, 0.25)
        machine.run()
        expected = np.stack([columns[33], columns[32], *columns[:30]], axis=1)
        self.assertEqual(machine.weights().tolist(), expected.tolist())
        product = (inputs @ expected).view(np.uint32)
        product = ((product + 0x7FFF + (product >> 16 & 1)) & 0xFFFF0000).view(np.float32)
        self.assertEqual(machine.v(100).tolist(), (product + np.float32(0.25)).tolist())

    def test_rows_together(self):
        """Rows that the engine computes in groups: every way in which they may depend on each other."""
        rng = random.Random(5)
        for _ in range(30):
            program = isa.Program()
            for i in range(32):
                program.append(ops.lw_vi(1 + i % 9))
            for _ in range(24):
                one = [ops.gemm_vv(*(rng.randrange(10) for _ in range(3)))]
                others = (ops.add_vv, ops.sub_vv, lambda *r: ops.vreg_st(r[0], 0, 0, 0, 32), lambda *r: ops.lw_vi(r[0]))
                other = rng.choice(others)(*(rng.randrange(10) for _ in range(3)))
                packet = [one[0], other] if rng.random() < 0.3 else [rng.choice((one[0], one[0], one[0], other))]
                program.append(*(packet if not isa.check_packet(packet) else one))
            program.append(ops.halt_s())
            state = [np.array([rng.gauss(0, 1) for _ in range(32)], np.float32) for _ in range(10)]
            machines = [isa.Machine(program), isa.Machine(program)]
            for machine in machines:
                for i in range(1, 10):
                    machine.set_v(i, state[i])
            machines[0].run()
            while machines[1].step() != "halted":  # rows one by one
                pass
            self.assertEqual(machines[0].dump(), machines[1].dump())

    def test_rows_together_of_any_values(self):
        """Groups of eight and four rows of values at the limits of what host instructions compute exactly: tiny, large,
        zeros of both signs, sums that cancel, and now and then what is no number."""
        rng = np.random.default_rng(7)

        def values(low: int, high: int, odd: float) -> np.ndarray:
            x = np.ldexp(1 + rng.integers(0, 128, 32) / 128, rng.integers(low, high, 32)) * rng.choice([-1.0, 1.0], 32)
            x = np.where(rng.random(32) < 0.2, rng.choice([0.0, -0.0], 32), x)
            x[16:] = np.where(rng.random(16) < 0.5, -x[:16], x[16:])
            special = rng.choice([np.nan, np.inf, -np.inf, 1e-40, 3e38], 32)
            return np.where(rng.random(32) < odd, special, x).astype(np.float32)

        program = isa.Program()
        for i in range(32):
            program.append(ops.lw_vi(1 + i))
        for i in range(28):  # three groups of eight, one of four
            program.append(ops.gemm_vv(100 + i, 40 + i, 70 + i))
        program.append(ops.halt_s())
        code, together = isa.Code(program), 0
        for low, high, odd in ((-8, 8, 0.0), (-56, -54, 0.0), (-62, -59, 0.0), (-70, 0, 0.0), (50, 64, 0.0)) * 3 + (
            (-8, 8, 0.01),
        ):
            machines = [isa.Machine(code), isa.Machine(code)]
            for i in range(1, 100):
                row = values(low, high, odd)
                if i >= 40 and i % 2 == 0:  # with weights of opposite signs, halves that cancel
                    row[16:] = row[:16]
                for machine in machines:
                    machine.set_v(i, row)
            machines[0].run()
            while machines[1].step() != "halted":  # rows one by one
                pass
            self.assertEqual(machines[0].dump(), machines[1].dump())
            together += np.isfinite(machines[0].registers()[1][100:128]).all()
        self.assertGreater(together, 9)


# Text, registers, what the error says.
FAULTS = [
    ("div.s x3, x1, x2", {}, r"slot 0, div.s x3, x1, x2: division by zero"),
    ("modi.s x3, x1, 0", {}, r"division by zero"),
    ("lw.s x3, 2(x1)", {}, r"address 0x00000002 is misaligned"),
    ("shw.s x3, -1(x1)", {}, r"0xFFFFFFFF is misaligned"),
    ("sw.s x3, 0(x1)", {"x1": 1 << 16}, r"the access at 0x00010000 leaves the 65536 bytes of DRAM"),
    ("lw.s x3, -4(x1)", {}, r"0xFFFFFFFC leaves"),
    ("vreg.ld v1, x1, x2, 0, 32", {"x2": 16384}, r"leaves the scratchpads"),
    ("vreg.st v1, x1, x2, 2, 32", {}, r"leaves the scratchpads"),
    ("scpad.ld x1, x2, x3", {"x1": 32}, r"0x00000020 is misaligned"),
    ("scpad.ld x1, x2, x3", {"x2": 1}, r"0x00000001 is misaligned"),
    ("scpad.st x1, x2, x3", {"x3": 2 << 30}, r"leaves the scratchpads"),
    ("scpad.ld x1, x2, x3", {"x1": (1 << 20) - 64, "x3": 1 << 25}, r"leaves the scratchpads"),
    ("scpad.st x1, x2, x3", {"x2": (1 << 16) - 2, "x3": 1 << 20}, r"0x0000FFFE leaves"),
    ("jalr.s x1, x1, 8", {}, r"jalr.s x1, x1, 8: 0x00000008 is no packet"),
    ("jalr.s x1, x1, 0", {"x1": 4000}, r"0x00000FA0 is no packet"),
    ("jal x1, 4", {}, r"is no packet"),
    ("jalr.s x1, x0, -48", {"x10": 2, "x11": -97, "x12": 64}, r"index -97 out of range for 64 rows"),
    ("jalr.s x1, x0, -48", {"x10": 3, "x11": 7, "x12": 1}, r"the integer 4294967303 does not fit in 32 bits"),
    ("jalr.s x1, x0, -48", {"x10": 4}, r"the result of an integer operation does not fit in 32 bits"),
    ("jalr.s x1, x0, -48", {"x10": 5}, r"an element does not meet the requirements of the op"),
    ("jalr.s x1, x0, -48", {"x10": 9, "x11": 1, "x12": 2}, r"reports error 9, values 1 and 2"),
    ("beq.s x0, x0, 2040", {}, r"is no packet"),
    (".word40 0", {}, r"0000000000 is no instruction"),
    ("{ nop.s; .word40 0x7F }", {}, r"slot 1: 000000007F is no instruction"),
]


class TestFaults(TestCase):
    def check(self, text: str, registers: dict, pattern: str) -> None:
        machine = with_registers(f"li.s x9, 77\n{text}\nli.s x9, 78", {8: b"12345678"}, **registers)
        with self.assertRaisesRegex(isa.ExecutionError, pattern) as caught:
            machine.run()
        self.assertIn("packet 1 (0x00000014)", str(caught.exception))
        self.assertTrue(caught.exception.status.startswith("ATALLA_ERR_FAULT_"))
        self.assertEqual((machine.pc, machine.x(9), machine.stop), (20, 77, "fault"))
        with self.assertRaisesRegex(isa.ExecutionError, pattern):  # it stays
            machine.step()

    def test_faults(self):
        for text, registers, pattern in FAULTS:
            self.check(text, registers, pattern)

    def test_nothing_of_the_packet_is_done(self):
        """Whichever slot faults: memories and registers are as before."""
        bad = "{ sw.s x3, 0(x0); vreg.st v1, x0, x0, 0, 32; vreg.ld v2, x1, x1, 3, 32; add.s x4, x3, x3 }"
        machine = with_registers(bad, {0: b"abcd"}, x3=5, v1=3.0)
        with self.assertRaisesRegex(isa.ExecutionError, "slot 2, vreg.ld"):
            machine.run()
        self.assertEqual(machine.dram(0, 4).tobytes(), b"abcd")
        self.assertFalse(machine.scratchpad(0, 0).any())
        self.assertEqual((machine.x(4), machine.stats().packets), (0, 0))
        # Nor is a branch whose target is bad.
        machine = with_registers("{ beq.s x0, x0, 2040; li.s x5, 1 }")
        with self.assertRaises(isa.ExecutionError):
            machine.run()
        self.assertEqual(machine.x(5), 0)

    def test_illegal_packets(self):
        for packet, pattern in (
            ([ops.add_s(1, 2, 3), ops.sub_s(4, 5, 6)], "slot 1: illegal packet: one too many for unit salu"),
            ([ops.mul_s(1, 2, 3), ops.sub_s(4, 1, 6)], "reads x1, which an earlier slot writes"),
            ([ops.mul_s(1, 2, 3), ops.sub_s(1, 5, 6)], "writes x1, and so does an earlier slot"),
            ([None, ops.halt_s()], "stands outside of slot 0"),
            ([ops.add_vv(1, 2, 3), ops.mul_vv(4, 5, 6), ops.lw_vi(7)], "reads v7, one register too many"),
        ):
            with self.assertRaisesRegex(isa.ExecutionError, pattern):
                isa.run(isa.Program([packet]))

    def test_the_checkers_agree(self):
        """The engine's and Python's packet checker, on random packets."""
        rng = random.Random(11)
        specs = list(isa.table())
        legal = 0
        for _ in range(3000):
            slots = [isa_random.instruction(rng, rng.choice(specs), 0, 9) for _ in range(rng.randint(2, 4))]
            problems = isa.check_packet(slots)
            machine = isa.Machine(isa.Program([slots, [ops.halt_s()]]), timing=False, dram_bytes=1 << 16)
            try:
                machine.step()
                text = ""
            except isa.ExecutionError as error:
                text = str(error)
            self.assertEqual("illegal packet" in text, bool(problems), msg=f"{slots} {text} {problems}")
            if problems:
                self.assertIn(f"slot {problems[0].slot}:", text)
            legal += not problems
        self.assertTrue(200 < legal < 2500, msg=str(legal))

    def test_end_of_program(self):
        with self.assertRaisesRegex(isa.ExecutionError, "ran past its end, to packet 1"):
            isa.run(isa.assemble("nop.s"))
        with self.assertRaisesRegex(isa.ExecutionError, "not ended after 1000 packets"):
            isa.run(isa.assemble("loop: beq.s x0, x0, loop"), max_packets=1000)
        with self.assertRaisesRegex(isa.ExecutionError, "entry 0x28 is no packet"):
            isa.run(isa.assemble("halt.s"), entry=40)
        with self.assertRaisesRegex(ValueError, "at most 8"):
            isa.run(isa.assemble("halt.s"), args=range(9))

    def test_random_code(self):
        """Any bytes are a program that ends or faults."""
        rng = random.Random(17)
        for _ in range(300):
            program = isa.Program(packets=[[rng.getrandbits(40) & ~0x60 for _ in range(4)] for _ in range(20)])
            machine = isa.Machine(program, dram_bytes=1 << 16)
            try:
                machine.run(1000)
            except isa.ExecutionError as error:
                self.assertIn("packet", str(error))
