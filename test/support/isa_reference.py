# SPDX-License-Identifier: BSD-3-Clause
"""A second interpreter of Atalla code: slow, one instruction at a time, written from the table's text.

It shares nothing with the engine but the instruction table. Registers hold 32-bit patterns as Python integers; floating
point goes through numpy.float32, one operation at a time.
"""

import math
import struct

import numpy as np

from torch_atalla import isa

LANES = 32
MASK32 = 0xFFFFFFFF
SCRATCHPAD_ROWS = 16384
SCRATCHPADS = 2
NAN = 0x7FC00000
SERVICE_ALLOC = 0xFFFFFFF0
SERVICE_FREE = 0xFFFFFFE0
SERVICE_FAULT = 0xFFFFFFD0


class Fault(Exception):
    def __init__(self, packet, slot, reason):
        self.packet, self.slot, self.reason = packet, slot, reason
        super().__init__(f"packet {packet}, slot {slot}: {reason}")


def signed(bits):
    return bits - (1 << 32) if bits >> 31 else bits


def number(bits):
    return np.uint32(bits).view(np.float32)


def pattern(value):
    """Bits of an FP32 result; any NaN is the canonical one."""
    value = np.float32(value)
    return NAN if np.isnan(value) else int(value.view(np.uint32))


def is_nan(bits):
    return bits & 0x7FFFFFFF > 0x7F800000


def round_bf16(bits):
    """FP32 bits to the bits of the nearest BF16, ties to even, still as FP32 bits."""
    if is_nan(bits):
        return NAN
    low, high = bits & 0xFFFF, bits >> 16
    if low > 0x8000 or (low == 0x8000 and high & 1):
        high += 1
    return (high << 16) & MASK32


def low_half_rule(bits):
    return bits << 16 if bits <= 0xFFFF else bits


def exponential(bits):
    x = float(number(bits))
    if math.isnan(x):
        return NAN
    try:
        value = math.exp(x)
    except OverflowError:
        value = math.inf
    with np.errstate(over="ignore", under="ignore"):
        return round_bf16(pattern(np.float32(value)))


def divide(a, b):
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def to_integer(bits):
    x = float(number(bits))
    if math.isnan(x):
        return 0
    return max(-(1 << 31), min((1 << 31) - 1, math.trunc(x) if math.isfinite(x) else int(math.copysign(1 << 40, x))))


class Machine:
    """State of one run. `dram` is a bytearray at address 0; `args` go to x10 and up."""

    def __init__(self, program, dram, args=(), profile="simulator", scratchpads=None):
        self.program = isa.Program.decode(program.encode())
        self.dram = dram
        for address, raw in program.data.items():
            dram[address : address + len(raw)] = raw
        self.profile = profile
        self.x = [0] * 256
        self.v = [[0] * LANES for _ in range(256)]
        self.m = [MASK32] + [0] * 15
        self.pads = scratchpads or [{} for _ in range(SCRATCHPADS)]  # row -> lanes; absent rows are 0
        self.columns = [[0] * 2 * LANES for _ in range(2 * LANES)]  # column -> its values, for an array of 64 x 64
        self.pushes = 0
        self.pages = {}
        self.pc = 0
        self.halted = False
        self.packets = self.instructions = 0
        for i, arg in enumerate(args):
            self.x[10 + i] = arg & MASK32

    # --- helpers

    def row(self, sid, row):
        return self.pads[sid].get(row, [0] * LANES)

    def fault(self, reason):
        raise Fault(self.pc // 20, self.slot, reason)

    def address(self, operands, size):
        at = (self.x[operands["rs1"]] + operands["imm12"]) & MASK32
        if at % size:
            self.fault("misaligned")
        if at + size > len(self.dram):
            self.fault("outside of DRAM")
        return at

    def scratchpad_row(self, operands):
        row = ((self.x[operands["rs1"]] >> 6) + self.x[operands["rs2"]]) & MASK32
        if operands["sid"] >= SCRATCHPADS or row >= SCRATCHPAD_ROWS:
            self.fault("outside of the scratchpad")
        return row

    def tile(self, operands):
        pad, dram, meta = (self.x[operands[name]] for name in ("rs1", "rs2", "rs3"))
        sid, rows, cols = meta >> 30, (meta >> 25 & 31) + 1, (meta >> 20 & 31) + 1
        stride = (meta & 0xFFFFF) + 1 if meta & 0xFFFFF else cols
        if pad % 64 or dram % 2:
            self.fault("misaligned")
        if sid >= SCRATCHPADS or (pad >> 6) + rows > SCRATCHPAD_ROWS:
            self.fault("outside of the scratchpad")
        if dram + 2 * ((rows - 1) * stride + cols) > len(self.dram):
            self.fault("outside of DRAM")
        return sid, pad >> 6, dram, rows, cols, stride

    # --- execution

    def run(self, most=1_000_000):
        while not self.halted and most:
            self.step()
            most -= 1
        return self

    def step(self):
        index = self.pc // 20
        self.slot = 0
        if index >= len(self.program):
            self.fault("past the end of the program")
        packet = self.program.packets[index]
        problems = isa.check_packet(packet, index)
        if problems:
            self.slot = problems[0].slot
            self.fault("illegal packet")
        # All slots read before any writes: the writes of each slot are collected and done at the end.
        writes, self.next, self.service = [], self.pc + 20, None
        for self.slot, instruction in enumerate(packet):
            operands = {o.name: v for o, v in zip(instruction.spec.operands, instruction.values)}
            done = getattr(self, "do_" + instruction.spec.format.lower())(instruction.spec.name, operands)
            writes += done
        for write in writes:
            write()
        self.x[0] = 0
        self.v[0] = [0] * LANES
        self.packets += 1
        self.instructions += sum(i.spec.name != "nop.s" for i in packet)
        if self.service is not None:
            self.call(self.service)
        self.pc = self.next

    def set_x(self, register, bits):
        def write():
            self.x[register] = bits & MASK32

        return [write]

    def set_v(self, register, lanes):
        def write():
            self.v[register] = lanes

        return [write]

    def set_m(self, register, bits):
        def write():
            self.m[register] = bits & MASK32

        return [write]

    def target(self, address):
        if address % 20 or not 0 <= address < 20 * len(self.program):
            self.fault("jump to no packet")
        self.next = address

    def call(self, service):
        if service == SERVICE_FAULT:
            self.fault(f"reported error {self.x[10]}")
        size, align = self.x[10], self.x[11]
        if service == SERVICE_FREE:
            found = self.pages.pop((align, size), None)
            self.x[10] = 0 if found is not None else MASK32
            return
        align = align or 64
        need = -(-size // 64) * 64
        self.x[10], sid = MASK32, 0
        if size and align >= 64 and align & (align - 1) == 0 and need <= SCRATCHPAD_ROWS * 64:
            free = [SCRATCHPAD_ROWS * 64 - sum(n for (s, _), n in self.pages.items() if s == p) for p in (0, 1)]
            for sid in (0, 1) if free[0] >= free[1] else (1, 0):
                at = 0
                for (s, start), length in sorted(self.pages.items()):
                    if s == sid and at + need > start:
                        at = -(-(start + length) // align) * align
                if at + need <= SCRATCHPAD_ROWS * 64:
                    self.pages[sid, at] = need
                    self.x[10], self.x[11] = at, sid
                    return

    # --- scalar formats

    def integer(self, name, a, b):
        shift = b & 31
        if name in ("div", "mod") and b == 0:
            self.fault("division by zero")
        return {
            "add": lambda: a + b,
            "sub": lambda: a - b,
            "mul": lambda: a * b,
            "div": lambda: divide(signed(a), signed(b)),
            "mod": lambda: signed(a) % signed(b),
            "or": lambda: a | b,
            "and": lambda: a & b,
            "xor": lambda: a ^ b,
            "sll": lambda: a << shift,
            "srl": lambda: a >> shift,
            "sra": lambda: signed(a) >> shift,
            "slt": lambda: int(signed(a) < signed(b)),
            "sltu": lambda: int(a < b),
        }[name]()

    def do_r(self, name, operands):
        a = self.x[operands["rs1"]]
        b = self.x[operands["rs2"]] if "rs2" in operands else 0
        rd = operands["rd"]
        with np.errstate(all="ignore"):
            if name in ("add.bf", "sub.bf", "mul.bf"):
                p, q = number(low_half_rule(a)), number(low_half_rule(b))
                return self.set_x(rd, pattern(p + q if name[0] == "a" else p - q if name[0] == "s" else p * q))
            if name == "rcp.bf":
                return self.set_x(rd, pattern(np.float32(1) / number(a)))
            if name == "sqrt.bf":
                return self.set_x(rd, pattern(np.sqrt(number(a))))
            if name == "slt.bf":
                return self.set_x(rd, int(number(a) < number(b)))
            if name == "bfts.s":
                return self.set_x(rd, to_integer(a))
            if name == "stbf.s":
                return self.set_x(rd, round_bf16(pattern(np.float32(np.int32(signed(a))))))
        return self.set_x(rd, self.integer(name[:-2], a, b))

    def do_i(self, name, operands):
        a = self.x[operands["rs1"]]
        b = operands["imm12"] & MASK32
        if name == "jalr.s":
            target = (a + b) & MASK32
            if target in (SERVICE_ALLOC, SERVICE_FREE, SERVICE_FAULT):
                self.service = target
            else:
                self.target(target)
            return self.set_x(operands["rd"], self.pc + 20)
        base = {"sltui": "sltu"}.get(name[:-2], name[:-3])
        return self.set_x(operands["rd"], self.integer(base, a, b))

    def do_br(self, name, operands):
        a, b = signed(self.x[operands["rs1"]]), signed(self.x[operands["rs2"]])
        taken = {"beq": a == b, "bne": a != b, "blt": a < b, "bge": a >= b, "bgt": a > b, "ble": a <= b}[name[:3]]
        if taken:
            self.target(self.pc + operands["offset"])
        if not operands["incr7"]:
            return []
        return self.set_x(operands["rs1"], a + operands["incr7"])

    def do_m(self, name, operands):
        size = 4 if name in ("lw.s", "sw.s") else 2
        at = self.address(operands, size)
        if name[0] == "l":
            value = int.from_bytes(self.dram[at : at + size], "little")
            return self.set_x(operands["rd"], value if size == 4 else value << 16)
        value = self.x[operands["rd"]] if size == 4 else self.x[operands["rd"]] >> 16

        def write():
            self.dram[at : at + size] = value.to_bytes(size, "little")

        return [write]

    def do_mi(self, name, operands):
        if name == "jal":
            self.target(self.pc + operands["offset"])
            return self.set_x(operands["rd"], self.pc + 20)
        return self.set_x(operands["rd"], operands["imm25"] if name == "li.s" else operands["imm25"] << 7)

    def do_s(self, name, operands):
        def halt():
            self.halted = True

        return [halt] if name == "halt.s" else []

    # --- vector formats

    def active(self, operands, lane):
        return self.m[operands["mask"]] >> lane & 1

    def elementwise(self, operands, lanes):
        old = self.v[operands["vd"]]
        return self.set_v(operands["vd"], [lanes(i) if self.active(operands, i) else old[i] for i in range(LANES)])

    def arithmetic(self, name, a, b):
        p, q = number(round_bf16(a)), number(round_bf16(b))
        with np.errstate(all="ignore"):
            return round_bf16(pattern({"add": p + q, "sub": p - q, "mul": p * q}[name[:3]]))

    def do_vv(self, name, operands):
        a, b = self.v[operands["vs1"]], self.v[operands["vs2"]]
        if name != "gemm.vv":
            return self.elementwise(operands, lambda i: self.arithmetic(name, a[i], b[i]))
        group, vd = operands["group"], operands["vd"]
        a, b = self.vectors(operands["vs1"], group & 1), self.vectors(operands["vs2"], group & 2)
        out = []
        with np.errstate(all="ignore"):
            for n in range(len(b)):
                total = np.float32(0)
                for k in range(len(a)):
                    total = total + number(round_bf16(a[k])) * number(self.columns[n][k])
                out.append(pattern(number(round_bf16(pattern(total))) + number(b[n])))
        return self.set_v(vd, out[:LANES]) + (self.set_v(vd + 1, out[LANES:]) if vd and group & 2 else [])

    def vectors(self, register, pair):
        """The lanes of a register, or of the pair that begins there."""
        behind = self.v[register + 1] if register else [0] * LANES
        return [*self.v[register], *behind] if pair else self.v[register]

    def do_vs(self, name, operands):
        a, b = self.v[operands["vs1"]], self.x[operands["rs1"]]
        return self.elementwise(operands, lambda i: self.arithmetic(name, a[i], b))

    def do_vi(self, name, operands):
        a = self.v[operands["vs1"]]
        if name == "expi.vi":
            return self.elementwise(operands, lambda i: exponential(round_bf16(a[i])))
        if name == "lw.vi":
            column = [round_bf16(bits) for bits in self.vectors(operands["vs1"], operands["group"])]
            column += [0] * (2 * LANES - len(column))

            def push():
                if self.pushes < LANES:
                    self.columns[self.pushes] = column
                    self.pushes += 1
                else:
                    self.columns = [column] + self.columns[:-1]

            return [push]
        values = [round_bf16(a[i]) for i in range(LANES) if self.active(operands, i)]
        with np.errstate(all="ignore"):
            if name == "rsum.vi":
                total = np.float32(0)
                for bits in values:
                    total = total + number(bits)
                result = pattern(total)
            elif any(map(is_nan, values)):
                result = NAN
            else:  # -0 is less than +0
                key = [(signed(bits) if not bits >> 31 else -(bits & 0x7FFFFFFF) - 1, bits) for bits in values]
                empty = 0x7F800000 if name == "rmin.vi" else 0xFF800000
                result = (min if name == "rmin.vi" else max)(key)[1] if key else empty
        imm = operands["imm8"]
        if imm & 64:
            return self.set_v(operands["vd"], [result] * LANES)
        rest = [0] * LANES if imm & 32 else list(a)
        rest[imm & 31] = result
        return self.set_v(operands["vd"], rest)

    def compare(self, name, operands, a, b):
        mask = self.m[operands["vmd"]]
        for i in range(LANES):
            if self.active(operands, i):
                p, q = number(a[i]), number(b[i])
                holds = {"mgt": p > q, "mlt": p < q, "meq": p == q, "mneq": not p == q}[name[:-4]]
                mask = mask & ~(1 << i) | int(holds) << i
        return self.set_m(operands["vmd"], mask)

    def do_vmv(self, name, operands):
        return self.compare(name, operands, self.v[operands["vs1"]], self.v[operands["vs2"]])

    def do_vms(self, name, operands):
        return self.compare(name, operands, self.v[operands["vs1"]], [self.x[operands["rs1"]]] * LANES)

    def do_vts(self, name, operands):
        return self.set_x(operands["rd"], self.v[operands["vs1"]][operands["imm8"] & 31])

    def do_mts(self, name, operands):
        return self.set_x(operands["rd"], self.m[operands["vms"]])

    def do_stm(self, name, operands):
        return self.set_m(operands["vmd"], self.x[operands["rs1"]])

    # --- memory formats: in slot order, so a load after a store in one packet sees it

    def do_vm(self, name, operands):
        sid, row, cols = operands["sid"], self.scratchpad_row(operands), operands["cols"]
        if name == "vreg.ld":

            def load():
                self.v[operands["vd"]] = self.row(sid, row)[:cols] + [0] * (LANES - cols)

            return [load]
        value = list(self.v[operands["vd"]])

        def store():
            self.pads[sid][row] = value[:cols] + self.row(sid, row)[cols:]

        return [store]

    def do_sdma(self, name, operands):
        sid, first, dram, rows, cols, stride = self.tile(operands)

        def move():
            for r in range(rows):
                at = dram + 2 * r * stride
                if name == "scpad.ld":
                    halves = struct.unpack_from(f"<{cols}H", self.dram, at)
                    self.pads[sid][first + r] = [h << 16 for h in halves] + self.row(sid, first + r)[cols:]
                else:
                    lanes = self.row(sid, first + r)[:cols]
                    halves = [self.narrow(bits) for bits in lanes]
                    struct.pack_into(f"<{cols}H", self.dram, at, *halves)

        return [move]

    def narrow(self, bits):
        if self.profile == "simulator":
            return bits >> 16
        return bits >> 16 | 64 if is_nan(bits) else round_bf16(bits) >> 16
