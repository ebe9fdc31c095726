# SPDX-License-Identifier: BSD-3-Clause
"""Random programs of all instructions, made from the table, for tests and fuzzing.

`program` gives legal ones that run: jumps go forward, so that every program ends, and registers from x200 on are never
written, which hold addresses and tile shapes that are mostly right, so that programs run a while before they fault;
`state` gives what they start from. `encodable` gives ones that need not be legal, with operands from end to end of
their fields.
"""

import random

import numpy as np

from torch_atalla import isa

DRAM_BYTES = 1 << 16
WORDS, TILES, ROWS, SHAPES = range(200, 208), range(208, 216), range(216, 224), range(224, 232)
USED = 12  # registers of each file that programs compute with
PADS = 2
PAD_ROWS = 64  # at the start of each scratchpad


def _interesting_floats(rng: random.Random, count: int) -> np.ndarray:
    """FP32 bits: ordinary values, BF16 ties, zeros, subnormals, infinities, NaNs."""
    values = np.array([rng.gauss(0, 4) for _ in range(count)], np.float32).view(np.uint32)
    special = [0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00001, 0x3F808000, 0x3F818000, 1, 0x7F7FFFFF, 0x00800000]
    special += [0xFF7F8000, 0x42B20000, 0x7F000000, 0x00810000, 0x20000000, 0x5F000000]
    for i in range(count):
        if rng.random() < 0.05:
            values[i] = rng.choice(special)
        elif rng.random() < 0.02:
            values[i] = rng.getrandbits(32)
    return values


def state(rng: random.Random) -> dict:
    """Starting values: x, v, m, scratchpads (uint32 bits) and DRAM (bytes)."""
    x = np.zeros(256, np.uint32)
    for i in range(1, USED):
        x[i] = rng.choice((rng.getrandbits(32), rng.getrandbits(6), _interesting_floats(rng, 1)[0], 0xFFFFFFFF))
    for i in WORDS:
        x[i] = rng.randrange(2048, DRAM_BYTES - 4096, 4)
    for i in TILES:
        x[i] = rng.randrange(2048, DRAM_BYTES - 8192, 2)
    for i in ROWS:
        x[i] = 64 * rng.randrange(PAD_ROWS - 32)
    for i in SHAPES:
        rows, cols = rng.randint(1, 8), rng.randint(1, 32)
        length = rng.choice((0, cols - 1, cols + rng.randrange(40)))
        x[i] = rng.randrange(PADS) << 30 | (rows - 1) << 25 | (cols - 1) << 20 | length
    v = np.stack([_interesting_floats(rng, 32) for _ in range(256)])
    v[0] = 0
    m = np.array([rng.getrandbits(32) for _ in range(16)], np.uint32)
    m[0] = rng.choice((0xFFFFFFFF, 0xFFFFFFFF, rng.getrandbits(32)))
    pads = np.stack([_interesting_floats(rng, PAD_ROWS * 32).reshape(PAD_ROWS, 32) for _ in range(PADS)])
    dram = np.frombuffer(rng.randbytes(DRAM_BYTES), np.uint8).copy()
    return {"x": x, "v": v, "m": m, "pads": pads, "dram": dram}


def instruction(rng: random.Random, spec: isa.Spec, index: int, packets: int, groups: int = 0) -> isa.Instruction:
    """One with operands that make sense for packet `index` of `packets`. groups: bits of pairs that the array takes."""
    values = {}
    for operand in spec.operands:
        if operand.kind == "x":
            values[operand.name] = rng.randrange(USED)
        elif operand.kind == "v":
            values[operand.name] = rng.randrange(USED)
        elif operand.kind == "m":
            values[operand.name] = rng.choice((0, 0, rng.randrange(16)))
        elif operand.kind in ("branch", "jump"):
            values[operand.name] = 20 * rng.randint(1, max(1, min(6, packets - 1 - index)))
        else:
            values[operand.name] = rng.randint(operand.low, min(operand.high, 1 << 24))
    if "group" in values:
        values["group"] &= groups
        for operand in spec.operands:
            if operand.pair & values["group"]:
                values[operand.name] &= ~1
    if spec.format == "M":
        values |= {"rs1": rng.choice(WORDS), "imm12": 4 * rng.randint(-64, 64)}
    if spec.format == "SDMA":
        values |= {"rs1": rng.choice(ROWS), "rs2": rng.choice(TILES), "rs3": rng.choice(SHAPES)}
    if spec.format == "VM":
        values |= {"rs1": rng.choice(ROWS), "rs2": 0, "sid": rng.randrange(PADS)}
    if spec.name == "jalr.s":
        target = 20 * rng.randint(index + 1, max(index + 1, min(packets - 1, 100)))
        values |= {"rs1": 0, "imm12": rng.choice((target, -16, -32)) if target < 2048 else -16}
    if spec.name in ("divi.s", "modi.s") and rng.random() < 0.98:
        values["imm12"] = values["imm12"] or 1
    if spec.name in ("div.s", "mod.s") and rng.random() < 0.9:
        values["rs2"] = WORDS[0]
    if rng.random() < 0.002 and "imm12" in values and spec.format == "M":
        values["imm12"] += 1  # misaligned
    return isa.Instruction.of(spec, tuple(values[o.name] for o in spec.operands))


def program(rng: random.Random, packets: int, groups: int = 0) -> isa.Program:
    """`packets` legal packets; the last one halts, mostly. groups: as for `instruction`; with more array rows."""
    specs = [s for s in isa.table() if s.name != "halt.s"]
    specs += [s for s in specs if s.unit == "gsau"] * (8 if groups else 0)
    made = isa.Program()
    for index in range(packets - 1):
        packet: list = []
        for _ in range(rng.randint(1, 4)):
            slot = instruction(rng, rng.choice(specs), index, packets, groups)
            if not isa.check_packet([*packet, slot]):
                packet.append(slot)
        made.append(*(packet or [None]))
    made.append(isa.ops.halt_s() if rng.random() < 0.95 else None)
    return made


def encodable(rng: random.Random, packets: int) -> isa.Program:
    """`packets` packets of one to four instructions, every operand at an end of its range or anywhere in it."""

    def one(spec: isa.Spec) -> isa.Instruction:
        values = []
        for operand in spec.operands:
            value = rng.choice((operand.low, operand.high, rng.randint(operand.low, operand.high)))
            values.append(value // operand.step * operand.step)
        if spec.name == "lui.s":
            values[1] %= 1 << 25  # negative values read back as the same bits, unsigned
        return isa.Instruction.of(spec, tuple(values))

    specs = list(isa.table())
    made = isa.Program()
    for _ in range(packets):
        made.append(*(one(rng.choice(specs)) for _ in range(rng.randint(1, 4))))
    return made
