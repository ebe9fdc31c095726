# SPDX-License-Identifier: BSD-3-Clause
"""Atalla code as text and bits: encodings, assembler, disassembler, packet checker, text images."""

import contextlib
import io
import random
from pathlib import Path

from torch.testing._internal.common_utils import TemporaryFileName, TestCase, slowTest

from tools.codegen import isa_random
from torch_atalla import isa
from torch_atalla.cli import asm, disasm
from torch_atalla.isa import ops

# Written out by hand from the formats: every field of every format has a value of its own.
KNOWN = {
    "add.s x1, x2, x3": 0x0001810081,
    "sub.s x255, x254, x253": 0x007EFF7F82,
    "mul.s x1, x2, x3": 0x0001810083,
    "div.s x1, x2, x3": 0x0001810084,
    "mod.s x1, x2, x3": 0x0001810085,
    "or.s x1, x2, x3": 0x0001810086,
    "and.s x1, x2, x3": 0x0001810087,
    "xor.s x1, x2, x3": 0x0001810088,
    "sll.s x1, x2, x3": 0x0001810089,
    "srl.s x1, x2, x3": 0x000181008A,
    "sra.s x1, x2, x3": 0x000181008B,
    "slt.s x1, x2, x3": 0x000181008C,
    "sltu.s x1, x2, x3": 0x000181008D,
    "bfts.s x1, x2": 0x000001008E,
    "add.bf x1, x2, x3": 0x000181008F,
    "sub.bf x1, x2, x3": 0x0001810090,
    "mul.bf x1, x2, x3": 0x0001810091,
    "rcp.bf x1, x2": 0x0000010092,
    "slt.bf x1, x2, x3": 0x0001810093,
    "sqrt.bf x1, x2": 0x0000010094,
    "stbf.s x1, x2": 0x0000010095,
    "addi.s x1, x2, 5": 0x0002810096,
    "subi.s x1, x2, -1": 0x07FF810097,
    "muli.s x1, x2, 5": 0x0002810098,
    "divi.s x1, x2, 5": 0x0002810099,
    "modi.s x1, x2, 5": 0x000281009A,
    "ori.s x1, x2, 5": 0x000281009B,
    "andi.s x1, x2, 5": 0x000281009C,
    "xori.s x1, x2, 5": 0x000281009D,
    "slli.s x1, x2, 5": 0x000281009E,
    "srli.s x1, x2, 5": 0x000281009F,
    "srai.s x1, x2, 5": 0x00028100A0,
    "slti.s x1, x2, 5": 0x00028100A1,
    "sltui.s x1, x2, -2048": 0x04000100A2,
    "beq.s x2, x3, 20, 1": 0x02818100A3,
    "bne.s x2, x3, -20": 0xFD81814024,
    "blt.s x2, x3, 20, 127": 0x0281813FA5,
    "bge.s x2, x3, 20, 1": 0x02818100A6,
    "bgt.s x2, x3, 2040, 1": 0xFF018100A7,
    "ble.s x2, x3, -2040, 1": 0x01018140A8,
    "lw.s x1, 4(x2)": 0x00020100A9,
    "sw.s x1, 4(x2)": 0x00020100AA,
    "lhw.s x1, -2(x2)": 0x07FF0100AB,
    "shw.s x1, 4(x2)": 0x00020100AC,
    "jal x1, 40": 0x00001400AD,
    "jalr.s x1, x2, 5": 0x00028100AE,
    "li.s x1, -1": 0xFFFFFF80AF,
    "lui.s x1, 128": 0x00004000B0,
    "nop.s": 0x0000000031,
    "halt.s": 0x0000000032,
    "add.vv v1, v2, v3, m4": 0x02018100B3,
    "sub.vv v1, v2, v3": 0x00018100B4,
    "mul.vv v1, v2, v3, m15": 0x07818100B5,
    "gemm.vv v1, v2, v3": 0x00018100B6,
    "expi.vi v1, v2, m4": 0x02000100B7,
    "lw.vi v2": 0x0000010038,
    "rsum.vi v1, v2, 64, m4": 0x02200100B9,
    "rmin.vi v1, v2, 64": 0x00200100BA,
    "rmax.vi v1, v2, 64": 0x00200100BB,
    "mgt.mvv m1, v2, v3, m4": 0x02018100BC,
    "mlt.mvv m1, v2, v3": 0x00018100BD,
    "meq.mvv m1, v2, v3": 0x00018100BE,
    "mneq.mvv m15, v2, v3": 0x00018107BF,
    "mgt.mvs m1, v2, x3, m4": 0x02018100C0,
    "mlt.mvs m1, v2, x3": 0x00018100C1,
    "meq.mvs m1, v2, x3": 0x00018100C2,
    "mneq.mvs m1, v2, x3": 0x00018100C3,
    "vreg.ld v1, x2, x3, 1, 32": 0x1F818100C4,
    "vreg.st v1, x2, x3, 0, 1": 0x00018100C5,
    "scpad.ld x1, x2, x3": 0x00018100C6,
    "scpad.st x1, x2, x3": 0x00018100C7,
    "vmov.vts x1, v2, 31": 0x000F8100C8,
    "mv.mts x1, m2": 0x00000100C9,
    "mv.stm m1, x2": 0x00000100CA,
    "add.vs v1, v2, x3, m4": 0x02018100CB,
    "sub.vs v1, v2, x3": 0x00018100CC,
    "mul.vs v1, v2, x3": 0x00018100CD,
}

GEMM = Path(__file__).parents[1] / "data/gemm_48x64x32.in"


class TestEncoding(TestCase):
    def test_known_answers(self):
        """All 77 instructions, both ways."""
        self.assertEqual({text.split()[0] for text in KNOWN}, {spec.name for spec in isa.table()})
        self.assertEqual([spec.opcode for spec in isa.table()], list(range(1, 78)))
        for text, word in KNOWN.items():
            program = isa.assemble(text, check=False)
            self.assertEqual(int(program.slots()[0, 0]), word, msg=text)
            decoded = isa.decode(word)
            self.assertEqual(isa.format_instruction(decoded), text)
            self.assertEqual(decoded, program.packets[0][0])
            self.assertEqual(decoded.encode(), word)

    def test_every_field_value(self):
        """Each value of each operand (the ends and a sample of wide ones) survives, and the ones beside are refused."""
        for spec in isa.table():
            middle = [max(o.low, 0) // o.step * o.step if not o.bias else o.low for o in spec.operands]
            for i, operand in enumerate(spec.operands):
                values = range(operand.low, operand.high + 1, operand.step)
                for value in {*values[:20], *values[-20:], *values[:: max(1, len(values) // 99)]}:
                    given = (*middle[:i], value, *middle[i + 1 :])
                    found = isa.decode(isa.Instruction.of(spec, given).encode()).values
                    if operand.name == "imm25" and not operand.signed and value < 0:
                        value += 1 << 25
                    self.assertTrue(found == (*middle[:i], value, *middle[i + 1 :]), msg=f"{spec.name} {value}")
                for bad in (
                    operand.low - operand.step,
                    operand.high + 1,
                    "nowhere",
                    *([1] if operand.step > 1 else []),
                ):
                    with self.assertRaises(isa.EncodingError, msg=f"{spec.name} {operand.name} {bad}"):
                        isa.Instruction.of(spec, (*middle[:i], bad, *middle[i + 1 :])).encode()

    def test_no_instruction(self):
        for word in (0, 78, 127, 1 << 39 | 1, 0x0000000031 | 1 << 7, 1 << 40):
            with self.assertRaises(isa.EncodingError):
                isa.decode(word)

    def test_building(self):
        a = isa.Instruction("blt.s", rs1=5, rs2=6, offset="loop")
        self.assertEqual(a, ops.blt_s(5, 6, "loop"))
        self.assertEqual((a.rs1, a.incr7, a.mnemonic), (5, 0, "blt.s"))
        self.assertEqual((a.reads(), a.writes()), ((5, 6), ()))
        self.assertEqual(ops.blt_s(5, 6, 0, 1).writes(), (5,))
        masked = ops.add_vv(1, 0, 3, 2)
        self.assertEqual((masked.reads(), masked.writes()), ((259, 514, 257), (257,)))
        self.assertEqual(ops.add_vv(1, 0, 3).reads(), (259, 512))
        self.assertEqual(ops.sw_s(4, 0, 0).reads(), (4,))
        for build in (
            lambda: isa.Instruction("blt.s", rs1=5),
            lambda: isa.Instruction("nothing"),
            lambda: ops.add_s(1),
            lambda: isa.Packet([]),
            lambda: isa.Packet([None] * 5),
        ):
            with self.assertRaises(isa.EncodingError):
                build()
        with self.assertRaisesRegex(KeyError, "its operands: rs1, rs2, offset, incr7"):
            isa.Instruction("blt.s", rs1=1, rs2=2, offset=0, color=3)

    def test_program(self):
        inner = isa.Program()
        inner.label("again")
        inner.append(ops.bne_s(1, 2, "again"), ops.addi_s(3, 3, "STEP"))
        inner.symbols["STEP"] = 7
        program = isa.Program()
        program.append(ops.jal(1, "f.again"))
        self.assertEqual(program.extend(inner, "f."), 1)
        program.extend(inner, "g.")
        program.append(ops.li_s(1, "g.again"))
        slots = program.slots()
        self.assertEqual(slots.shape, (4, 4))
        self.assertEqual(isa.decode(int(slots[0, 0])).offset, 20)
        self.assertEqual(isa.decode(int(slots[2, 0])).offset, 0)
        self.assertEqual(isa.decode(int(slots[2, 1])).imm12, 7)
        self.assertEqual(isa.decode(int(slots[3, 0])).imm25, 40)
        self.assertEqual(program.entry("g.again"), 40)
        self.assertEqual(isa.Program.decode(program.encode().tobytes()).slots(), slots)
        program.append(None, ops.jal(1, "nowhere"))
        with self.assertRaisesRegex(isa.EncodingError, "packet 4, slot 1: `nowhere` is neither"):
            program.encode()
        with self.assertRaisesRegex(ValueError, "defined twice"):
            program.extend(inner, "f.")
        with self.assertRaisesRegex(isa.EncodingError, "multiple of 20"):
            isa.Program.decode(b"1234")


class TestRoundTrip(TestCase):
    def round_trip(self, packets: int, seed: int) -> None:
        program = isa_random.encodable(random.Random(seed), packets)
        code = program.encode()
        decoded = isa.Program.decode(code)
        self.assertTrue((decoded.encode() == code).all())
        for given, found in zip(program, decoded):
            self.assertTrue(tuple(given) + (isa.decode(49),) * (4 - len(given)) == tuple(found))
        text = isa.disassemble(decoded)
        self.assertTrue((isa.assemble(text, check=False).encode() == code).all())

    def test_random_packets(self):
        self.round_trip(5000, seed=0)

    @slowTest
    def test_a_million_random_packets(self):
        for seed in range(50):
            self.round_trip(20_000, seed)

    def test_random_bits(self):
        """Any 40 bits: an instruction that encodes to them, or `.word40`."""
        rng = random.Random(3)
        words = [[rng.getrandbits(40) for _ in range(4)] for _ in range(3000)]
        program = isa.Program(packets=words)
        again = isa.Program.decode(program.encode())
        kinds = {type(slot) for packet in again for slot in packet}
        self.assertEqual(kinds, {int, isa.Instruction})
        self.assertTrue(isa.assemble(isa.disassemble(again), check=False).slots().tolist() == words)


SOURCE = """
.equ ROWS, 4 * 8            # a comment
.equ MASK = ~0 & 0xFF       // another
start:
{ nop.s; li.s x1, ROWS
  lw.s x2, (x3) }           # an address without offset
loop: addi.s x4, x4, -1; { blt.s x4, x5, loop, 1 }
jal x0, start
li.s x6, loop
lui.s x7, (1 << 20) >> 7
{}
.data
.org 0x100
a: .word 1, -2, loop, a + 4
.half 0xFFFF, -1
.bf16 1.5, -2.0
.float 1e10
.space 4
.align 64
.word ROWS / -3 % 4, 7 | 8 ^ 1
.text
halt.s
"""


class TestAssembler(TestCase):
    def test_source(self):
        program = isa.assemble(SOURCE)
        self.assertEqual(program.labels, {"start": 0, "loop": 1})
        self.assertEqual(program.symbols, {"ROWS": 32, "MASK": 255})
        self.assertEqual(len(program), 8)
        self.assertEqual(program.packets[0], (ops.nop_s(), ops.li_s(1, 32), ops.lw_s(2, 0, 3)))
        self.assertEqual(program.packets[2], (ops.blt_s(4, 5, -20, 1),))
        self.assertEqual(program.packets[3], (ops.jal(0, -60),))
        self.assertEqual(program.packets[4], (ops.li_s(6, 20),))
        self.assertEqual(program.packets[5], (ops.lui_s(7, 8192),))
        first = b"".join(v.to_bytes(4, "little") for v in (1, 0xFFFFFFFE, 20, 0x104))
        first += bytes.fromhex("ffffffff c03f00c0 f9021550 00000000")
        last = (0xFFFFFFFE).to_bytes(4, "little") + (7 | (8 ^ 1)).to_bytes(4, "little")
        self.assertEqual(program.data, {0x100: first, 0x140: last})

    def test_errors(self):
        """Each mistake is told with its line and column."""
        mistakes = {
            "add.s x1, x2": (1, 13, "expected `,`, found the end of the line"),
            "\n  foo x1": (2, 3, "there is no instruction `foo`"),
            "{ add.s x1, x2, x3": (1, 1, "not closed"),
            "nop.s\n{ nop.s; nop.s; nop.s; nop.s; nop.s }": (2, 31, "4 slots"),
            "lw.s x1, 4(v2)": (1, 12, "expected a register x0 to x255, found `v2`"),
            "add.vv v1, v2, v256": (1, 16, "v0 to v255"),
            "mv.stm m16, x1": (1, 8, "m0 to m15"),
            "li.s x1, 1 << 30": (1, 10, "`imm25` is 1073741824"),
            "beq.s x1, x2, nowhere": (1, 15, "`nowhere` is not defined"),
            "beq.s x1, x2, 6": (1, 15, "in steps of 4"),
            "a: nop.s\na: nop.s": (2, 1, "defined twice"),
            "x1: nop.s": (1, 1, "cannot be a name"),
            "{ nop.s; jal x0, 0 }": (1, 10, "must stand in slot 0"),
            "{ addi.s x1, x2, 1; sub.s x3, x3, x1 }": (1, 21, "unit salu"),
            "{ mul.s x1, x2, x3; sub.s x3, x3, x1 }": (1, 21, "reads x1, which slot 0 writes"),
            "{ mul.s x1, x2, x3; sub.s x1, x3, x3 }": (1, 21, "writes x1, and so does slot 0"),
            "{ beq.s x1, x2, 0, 1; addi.s x3, x1, 0 }": (1, 23, "reads x1"),
            "{ beq.s x1, x2, 0; sw.s x3, 0(x4); add.s x5, x6, x7 }": (1, 36, "more than 4 different x registers"),
            "x: .word 3": (1, 4, "needs .data before it"),
            ".data\n.half 99999": (2, 7, "does not fit into 2 bytes"),
            ".data\n.org -1": (2, 1, "32-bit address space"),
            ".data\n.word 1,": (2, 9, "expected a value"),
            ".data\n.word 1\n.org 0\n.word 2": (4, 7, "given twice"),
            ".data\nnop.s": (2, 1, "in .data"),
            ".equ A, B": (1, 9, "`B` is not defined"),
            ".equ A, 1 / 0": (1, 11, "division by zero"),
            ".equ A, 1 << 65": (1, 11, "shift by 65"),
            ".equ A, 1.5 & 1": (1, 13, "takes integers"),
            ".equ A, (((1)": (1, 14, "expected `)`"),
            "li.s x1, 1.5": (1, 10, "expected an integer"),
            "li.s x1, 3 4": (1, 12, "the end of the instruction"),
            "{ a: nop.s }": (1, 3, "inside a packet"),
            "nop.s @": (1, 7, "unexpected character `@`"),
            ".nothing": (1, 1, "there is no .nothing"),
            "7": (1, 1, "expected an instruction"),
            ".word40 1 << 40": (1, 1, "more than 40 bits"),
        }
        for text, (line, column, reason) in mistakes.items():
            with self.assertRaises(isa.AssemblyError, msg=text) as caught:
                isa.assemble(text)
            found = caught.exception
            self.assertIn(reason, found.reason, msg=text)
            self.assertEqual((found.line, found.column), (line, column), msg=f"{text}: {found}")
        with self.assertRaisesRegex(isa.AssemblyError, "file.s:1:1: "):
            isa.assemble("foo", "file.s")

    def test_anything_is_an_error_or_a_program(self):
        """Text with random changes: an AssemblyError, never another exception, never a hang."""
        rng = random.Random(7)
        alphabet = "xvm0123456789 ,;:{}()#/.-+*<>~\n\tadlsw%_"
        refused = 0
        for _ in range(3000):
            text = list(SOURCE)
            for _ in range(rng.randint(1, 8)):
                at = rng.randrange(len(text))
                kind = rng.randrange(3)
                text[at : at + (kind != 0)] = [rng.choice(alphabet)] if kind < 2 else []
            try:
                isa.assemble("".join(text)).encode()
            except (isa.AssemblyError, isa.EncodingError):
                refused += 1
        self.assertTrue(1000 < refused < 3000, msg=str(refused))


class TestChecker(TestCase):
    def test_legal(self):
        for packet in (
            [ops.beq_s(1, 2, 0), ops.addi_s(3, 1, 0), ops.vreg_ld(1, 5, 0, 0, 32), ops.gemm_vv(4, 6, 4)],
            [ops.vreg_ld(1, 3, 0, 0, 32), ops.vreg_ld(2, 3, 0, 1, 32), ops.scpad_ld(4, 5, 6)],
            [ops.add_vv(1, 2, 3), ops.mul_vv(2, 2, 3), ops.expi_vi(3, 3), ops.lw_vi(5)],
            [None, ops.add_s(0, 1, 2), ops.muli_s(0, 1, 2)],
        ):
            self.assertEqual(isa.check_packet(packet), [])

    def test_ports(self):
        four = [ops.add_vv(1, 2, 3), ops.mul_vv(4, 5, 6)]
        self.assertEqual(isa.check_packet(four), [])
        self.assertIn("more than 4 different v", str(isa.check_packet([*four, ops.lw_vi(7)])[0]))
        self.assertEqual(isa.check_packet([*four, ops.lw_vi(0)]), [])
        masks = [ops.add_vv(1, 2, 3, 1), ops.mul_vv(4, 2, 3, 2), ops.expi_vi(5, 2, 3)]
        self.assertIn("more than 2 different m", str(isa.check_packet(masks)[0]))

    def test_units(self):
        for unit, packet in {
            "vmem": [ops.vreg_ld(i, 1, 0, 0, 1) for i in (1, 2, 3)],
            "gsau": [ops.lw_vi(1), ops.gemm_vv(2, 1, 1)],
            "sdma": [ops.scpad_ld(1, 2, 3)] * 2,
            "smem": [ops.lw_s(1, 0, 2), ops.sw_s(3, 0, 2)],
            "sdiv": [ops.divi_s(1, 2, 3), ops.rcp_bf(3, 2)],
        }.items():
            problems = isa.check_packet(packet, 9)
            self.assertEqual([p.packet for p in problems], [9])
            self.assertIn(f"unit {unit}", problems[0].text)

    def test_masked_destination_is_read(self):
        self.assertEqual(isa.check_packet([ops.vreg_ld(1, 2, 0, 0, 1), ops.add_vs(3, 1, 4)])[0].slot, 1)
        self.assertIn("is no instruction", str(isa.check([[0]])[0]))


class TestTextImage(TestCase):
    def test_round_trip(self):
        """The chip team's program: byte for byte."""
        text = GEMM.read_text()
        program = isa.from_text_image(text)
        self.assertEqual(len(program), 504)
        self.assertEqual({k: len(v) for k, v in program.data.items()}, {0x4000: 6144, 0x8000: 4096})
        self.assertEqual(isa.to_text_image(program), text)
        self.assertEqual(isa.check(program), [])
        assembled = isa.assemble(isa.disassemble(program, addresses=True))
        self.assertEqual(isa.to_text_image(assembled), text)

    def test_errors(self):
        nop = " 0000000031" * 4
        for text, (line, column, reason) in {
            f"00000000:{nop}\n00000013:{nop}": (2, 1, "expected 00000014"),
            "00000000: 0000000031": (1, 11, "expected 4 number"),
            f"00000000:{nop}1": (1, 11, "10 hexadecimal digits"),
            "hello": (1, 1, "expected ADDRESS"),
            ".data\n00000002: 00000000": (2, 1, "not a multiple of 4"),
            ".data\n00000004: 0\n00000000: 0\n00000004: 1": (4, 1, "appears twice"),
            ".data\n00000000: 123456789": (2, 11, "8 hexadecimal digits"),
        }.items():
            with self.assertRaises(isa.AssemblyError, msg=text) as caught:
                isa.from_text_image(text)
            self.assertIn(reason, str(caught.exception))
            self.assertEqual((caught.exception.line, caught.exception.column), (line, column), msg=text)
        with self.assertRaisesRegex(ValueError, "aligned 32-bit words"):
            isa.to_text_image(isa.assemble(".data\n.half 1"))

    def test_anything_is_an_error_or_a_program(self):
        """An image with random changes: an AssemblyError, never another exception, or a program that encodes."""
        rng = random.Random(9)
        lines = GEMM.read_text().splitlines(keepends=True)
        start = lines.index(".data\n")
        source = "".join([*lines[:12], *lines[start : start + 6]])
        refused = 0
        for _ in range(1500):
            text = list(source)
            for _ in range(rng.randint(1, 4)):
                at = rng.randrange(len(text))
                kind = rng.randrange(3)
                text[at : at + (kind != 0)] = [rng.choice("0123456789ABCDEFabx: #.\n\tdat-")] if kind < 2 else []
            try:
                program = isa.from_text_image("".join(text))
            except isa.AssemblyError:
                refused += 1
            else:
                isa.Program.decode(program.encode())
        self.assertTrue(300 < refused < 1500, msg=str(refused))

    def test_commands(self):
        with TemporaryFileName(suffix=".s") as source, TemporaryFileName(suffix=".bin") as code:
            Path(source).write_text("loop: { bne.s x1, x2, loop; li.s x3, 4 }\nhalt.s\n")
            self.assertEqual(asm.main([source, "-o", code]), 0)
            self.assertEqual(Path(code).stat().st_size, 40)
            shown = io.StringIO()
            with contextlib.redirect_stdout(shown):
                self.assertEqual(disasm.main([code, "--check"]), 0)
            self.assertIn("{ bne.s x1, x2, L0; li.s x3, 4 }", shown.getvalue())
            Path(source).write_text("nop\n")
            with contextlib.redirect_stderr(io.StringIO()) as told:
                self.assertEqual(asm.main([source]), 1)
            self.assertIn(":1:1: there is no instruction `nop`", told.getvalue())
