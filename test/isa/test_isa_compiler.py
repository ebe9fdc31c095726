# SPDX-License-Identifier: BSD-3-Clause
"""Register allocation, scheduling and linking of virtual instructions, on programs drawn at random."""

from __future__ import annotations

import random

import numpy as np
from torch.testing._internal.common_utils import TestCase

from torch_atalla import isa
from torch_atalla.compiler.targets.chip.allocate import OutOfRegisters, allocate
from torch_atalla.compiler.targets.chip.link import compile_function, link
from torch_atalla.compiler.targets.chip.schedule import schedule
from torch_atalla.compiler.targets.chip.vir import V0, X0, Builder, Inst, Label

SCALAR = ("add.s", "sub.s", "mul.s", "and.s", "or.s", "xor.s", "slt.s", "sll.s")
VECTOR = ("add.vv", "sub.vv", "mul.vv")


def random_program(seed: int, count: int = 120, loops: bool = True) -> Builder:
    """Scalars go to DRAM from 0x1000 on, vectors to rows of scratchpad 0; values pass through memory now and then."""
    rng = random.Random(seed)
    b = Builder("random")
    scalars = [b.li(rng.randrange(1, 1000)) for _ in range(6)]
    ones = b.lf(1.5)
    vectors = [b.vec("add.vs", V0, ones) for _ in range(4)]
    memory = b.li(0x1000)

    def body(steps: int) -> None:
        for _ in range(steps):
            kind = rng.randrange(7)
            if kind <= 1:
                target = rng.choice(scalars)
                b.emit(rng.choice(SCALAR), target, rng.choice(scalars), rng.choice(scalars))
            elif kind == 2:
                scalars[rng.randrange(len(scalars))] = b.s(rng.choice(SCALAR), rng.choice(scalars), rng.choice(scalars))
            elif kind == 3:
                mask = b.m()
                b.emit("mv.stm", mask, rng.choice(scalars))
                b.emit(rng.choice(VECTOR), rng.choice(vectors), rng.choice(vectors), rng.choice(vectors), mask=mask)
            elif kind == 4:
                b.emit(rng.choice(VECTOR), rng.choice(vectors), rng.choice(vectors), rng.choice(vectors))
            elif kind == 5:
                row = b.li(rng.randrange(1, 4))
                b.store_row(rng.choice(vectors), X0, row, 0, "rows")
                b.load_row(X0, b.li(rng.randrange(1, 4)), 0, "rows", out=rng.choice(vectors))
            else:
                b.emit("vmov.vts", rng.choice(scalars), rng.choice(vectors), rng.randrange(32))

    for row in range(1, 4):
        b.store_row(V0, X0, b.li(row), 0, "rows")
    body(count // 3)
    if loops:
        with b.loop(3):
            body(count // 6)
            with b.loop(rng.randrange(1, 4)):
                body(count // 6)
        with b.unless("blt.s", scalars[0], scalars[1]):
            mark = rng.choice(scalars)
            b.emit("addi.s", mark, mark, 7)
    body(count // 3)
    for i, reg in enumerate(scalars):
        b.emit("sw.s", reg, 4 * i, memory)
    for i, reg in enumerate(vectors):
        b.store_row(reg, X0, b.li(8 + i), 0, "rows")
    b.emit("halt.s")
    return b


def one_by_one(b: Builder) -> isa.Program:
    """The same instructions in program order, one a packet."""
    allocate(b)
    lines, waiting = [], []
    for item in b.items:
        if isinstance(item, Label):
            waiting.append(item)
        elif isinstance(item, Inst):
            lines.append((item, waiting))
            waiting = []
    places = {label: index for index, (_, labels) in enumerate(lines) for label in labels}
    program = isa.Program()
    for index, (inst, _) in enumerate(lines):
        values = []
        for operand in inst.spec.operands:
            value = inst.operands.get(operand.name, 0)
            if isinstance(value, Label):
                value = (places[value] - index) * isa.PACKET_BYTES
            values.append(value if isinstance(value, int) else value.number)
        program.append(isa.Instruction.of(isa.table().by_name[inst.name], tuple(values)))
    return program


def outcome(program: isa.Program) -> tuple[bytes, bytes]:
    machine = isa.Machine(program, timing=False)
    machine.run(100_000)
    assert machine.stop == "halted", machine.stop
    return machine.dram(0x1000, 64).tobytes(), machine.scratchpad(0, 1, 12).tobytes()


class TestCompiler(TestCase):
    def test_random_programs(self):
        """Scheduled code does what the instructions do one by one, and every packet is legal."""
        shorter = 0
        for seed in range(25):
            expected = outcome(one_by_one(random_program(seed)))
            program = link([compile_function(random_program(seed))])
            self.assertEqual(isa.check(program), [])
            self.assertEqual(outcome(program), expected)
            shorter += len(program) < len(one_by_one(random_program(seed)))
        self.assertEqual(shorter, 25)

    def test_packets_are_full(self):
        """Independent work for four units fits one packet."""
        b = Builder("wide")
        a, c = b.v(), b.v()
        for reg in (a, c):
            b.emit("add.vv", reg, V0, V0)
        x = b.li(5)
        b.items.append(Label())
        b.emit("add.vv", b.v(), a, c)
        b.emit("mul.vv", b.v(), a, c)
        b.emit("expi.vi", b.v(), a)
        b.emit("addi.s", b.x(), x, 1)
        b.ret()
        allocate(b)
        self.assertIn(4, [len(packet.slots) for packet in schedule(b)])

    def test_long_branch(self):
        """A loop of more than 102 packets ends with an inverted branch over a jump."""
        b = Builder("long")
        total, memory = b.li(0), b.li(0x1000)
        total = b.s("addi.s", X0, 0)
        with b.loop(5):
            for _ in range(300):
                b.emit("addi.s", total, total, 1)
        b.emit("sw.s", total, 0, memory)
        b.emit("halt.s")
        program = link([compile_function(b)])
        self.assertIn("jal", isa.disassemble(program))
        found = outcome(program)[0]
        self.assertEqual(np.frombuffer(found[:4], np.uint32)[0], 1500)

    def test_out_of_registers(self):
        b = Builder("many")
        values = [b.vec("add.vv", V0, V0) for _ in range(256)]
        for value in values:
            b.push(value)
        with self.assertRaisesRegex(OutOfRegisters, "many: more than 255 v registers"):
            compile_function(b)
