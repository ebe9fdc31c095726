# SPDX-License-Identifier: BSD-3-Clause
"""A whole program: functions, the table of calls with their descriptors, and the driver that runs them in one launch.

The launch's first argument (x10) is the table's DRAM address. The driver takes both scratchpads from the firmware,
whole, and gives them back by halting. It walks a table of descriptor addresses in DRAM, ended by 0. A descriptor's
first word is the function's address, the others are its parameters. Kernels may use every register but x1 (return
address), x2 (descriptor), x223 (place in the table) and x225 to x255, which hold 1 to 31. The weight buffer is filled
once, before the first call.

Code for several cores has a table of pairs: a descriptor, and the core that it is for. All cores walk the table (x18 is
the number of the core, x19 how many there are, or 0 for one; x222 and x224 keep them). Of fewer cores, each takes the
calls of others as well, so that one core runs the whole program. Between launches, all cores meet at a barrier.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch_atalla.driver import c_abi
from torch_atalla.isa.geometry import SCRATCHPAD_BYTES
from torch_atalla.isa.program import Program

from .kernels.common import fault, warm_up
from .link import Function, compile_function, link
from .vir import CORE, CORES, DESCRIPTOR, LINK, NEXT, ROWS, TABLE, X0, Builder, Label, Reg


@dataclass(frozen=True)
class Address:
    """A place in a named region of DRAM that is placed when the program is loaded."""

    region: str
    offset: int = 0


Word = int | Address


@dataclass
class Call:
    function: str
    words: dict[str, Word]
    comment: str = ""
    kernel: Callable[..., Builder] | None = None  # that made the function, of `variant`
    variant: Any = None
    core: int = 0
    time: int = 0  # calls of the same time run side by side


@dataclass
class Image:
    """cores: that share the calls. core: the one for which calls are added. together: whether the calls that are added
    run at the same time. compiled: every function by its name, also
    those that no call names any more. Images may share it."""

    cores: int = 1
    core: int = 0
    together: bool = False
    functions: dict[str, Function] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    compiled: dict[str, Function] = field(default_factory=dict, repr=False)

    def call(
        self,
        name: str,
        build: Callable[[], Builder],
        words: Mapping[str, Word],
        comment: str = "",
        kernel: Callable[..., Builder] | None = None,
        variant: Any = None,
    ) -> None:
        """Adds a call; the function is compiled where it is called first."""
        if name not in self.functions:
            self.functions[name] = self._compile(name, build)
        missing = [key for key in self.functions[name].parameters if key not in words]
        if missing:
            raise KeyError(f"{name}: no value for {', '.join(missing)}")
        time = self.calls[-1].time + (not self.together) if self.calls else 0
        self.calls.append(Call(name, dict(words), comment, kernel, variant, self.core, time))

    def barrier(self) -> None:
        """All cores wait for one another, unless they have just done so."""
        if self.calls and self.calls[-1].core != ALL_CORES:
            self.core, self.together = ALL_CORES, False
            self.call(BARRIER, _barrier, {})
            self.core = 0

    def function(self, builder: Builder) -> str:
        """The name of the builder's function, which is compiled if there is none of this name."""
        if builder.name not in self.functions:
            self.functions[builder.name] = self._compile(builder.name, lambda: builder)
        return builder.name

    def _compile(self, name: str, build: Callable[[], Builder]) -> Function:
        if name not in self.compiled:
            self.compiled[name] = compile_function(build())
        return self.compiled[name]

    def drop_unused(self) -> None:
        """Drops functions that no call names."""
        used = {call.function for call in self.calls}
        self.functions = {name: function for name, function in self.functions.items() if name in used}

    def undo(self, calls: int) -> None:
        """Back to so many calls."""
        del self.calls[calls:]
        used = {call.function for call in self.calls}
        for name in [name for name in self.functions if name not in used]:
            del self.functions[name]

    @property
    def entry_words(self) -> int:
        """Of a call in the table."""
        return 2 if self.cores > 1 else 1

    def table_bytes(self) -> int:
        entries = self.entry_words * len(self.calls) + 1
        return 4 * (entries + sum(1 + len(self.functions[c.function].parameters) for c in self.calls))

    def link(self, standalone_table: int | None = None) -> Program:
        """The code. It knows no address of DRAM; those are in the table.

        standalone_table: the table's address, for code that takes no argument and asks no firmware, as other simulators
        run it.
        """
        return link([compile_function(_driver(standalone_table, self.cores > 1)), *self.functions.values()])

    def table(self, regions: Mapping[str, int]) -> bytes:
        """The table of calls for these addresses, after `link`; it goes to regions["table"]."""
        words, relocations = self.table_words()
        for index, address in relocations:
            words[index] = regions[address.region] + address.offset
        return struct.pack(f"<{len(words)}I", *(word & 0xFFFFFFFF for word in words))

    def table_words(self) -> tuple[list[int], list[tuple[int, Address]]]:
        """The table with 0 where an address belongs, and those addresses by the word's index."""
        if any(self.functions[call.function].address == 0 for call in self.calls):
            raise RuntimeError("the table of calls has the addresses of functions, which link() decides; call it first")
        words: list[int] = []
        relocations: list[tuple[int, Address]] = []
        place = 4 * (self.entry_words * len(self.calls) + 1)
        for call in self.calls:
            relocations.append((len(words), Address("table", place)))
            words += [0, call.core & 0xFFFFFFFF][: self.entry_words]
            place += 4 * (1 + len(self.functions[call.function].parameters))
        words.append(0)
        for call in self.calls:
            function = self.functions[call.function]
            words.append(function.address)
            for key in function.parameters:
                word = call.words[key]
                if isinstance(word, Address):
                    relocations.append((len(words), word))
                words.append(0 if isinstance(word, Address) else word & 0xFFFFFFFF)
        return words, relocations


SCPAD_ALLOC = c_abi.ATALLA_ISA_SCPAD_ALLOC  # x10 bytes, x11 alignment; gives x10 address, x11 scratchpad
ARGUMENT, SECOND = Reg("x", 10), Reg("x", 11)
BARRIER = "barrier"
ALL_CORES = -1  # the core of a call that every core makes


def _barrier() -> Builder:
    b = Builder(BARRIER)
    b.emit("jalr.s", X0, X0, c_abi.ATALLA_ISA_BARRIER)
    b.ret()
    return b


def _skip_others(b: Builder, skip: Label) -> None:
    """To `skip`, unless the call at TABLE is for this core, or for one that does not run and whose calls it takes."""
    owner, again, mine = b.x(), Label("again"), Label("mine")
    b.emit("lw.s", owner, 4, TABLE)
    b.emit("blt.s", owner, X0, mine, 0)  # for all
    b.items.append(again)
    b.emit("beq.s", owner, CORE, mine, 0)
    b.emit("sub.s", owner, owner, CORES)
    b.emit("bge.s", owner, X0, again, 0)
    b.emit("jal", X0, skip)
    b.items.append(mine)


def _driver(standalone_table: int | None, several_cores: bool = False) -> Builder:
    b = Builder("driver")
    if several_cores:
        b.mov(CORE, Reg("x", 18))
        b.mov(CORES, Reg("x", 19))
        with b.unless("bne.s", CORES, X0):
            b.emit("li.s", CORES, 1)
    if standalone_table is None:
        b.mov(TABLE, ARGUMENT)
    else:
        b.set(TABLE, standalone_table)
    for _ in range(2 if standalone_table is None else 0):
        taken = Label()
        b.emit("li.s", ARGUMENT, SCRATCHPAD_BYTES)
        b.emit("li.s", SECOND, 0)
        b.emit("jalr.s", LINK, X0, SCPAD_ALLOC)
        b.emit("beq.s", ARGUMENT, X0, taken, 0)
        fault(b, c_abi.ATALLA_ISA_FAULT_SCRATCHPAD)  # the kernels use whole scratchpads, from address 0
        b.items.append(taken)
    for row, reg in enumerate(ROWS[1:], 1):
        b.emit("li.s", reg, row)
    warm_up(b)
    again, done = Label("next"), Label("done")
    b.items.append(again)
    b.emit("lw.s", DESCRIPTOR, 0, TABLE)
    b.emit("beq.s", DESCRIPTOR, X0, done, 0)
    skip = Label("skip")
    if several_cores:
        _skip_others(b, skip)
    b.emit("lw.s", NEXT, 0, DESCRIPTOR)
    b.emit("addi.s", TABLE, TABLE, 8 if several_cores else 4)
    b.emit("jalr.s", LINK, NEXT, 0)
    b.emit("jal", X0, again)
    if several_cores:
        b.items.append(skip)
        b.emit("addi.s", TABLE, TABLE, 8)
        b.emit("jal", X0, again)
    b.items.append(done)
    b.emit("halt.s")
    return b
