# SPDX-License-Identifier: BSD-3-Clause
"""The last stage: a linear program with its plan becomes a loadable (docs/reference/loadable-format.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch.utils._sympy.value_ranges import bound_sympy

from torch_atalla.driver.dtypes import CODES
from torch_atalla.loadable.errors import ExportError
from torch_atalla.loadable.file.container import Checksum
from torch_atalla.loadable.file.format import (
    NONE,
    PORT_UPDATED,
    DynamicKind,
    InstructionKind,
    OperandKind,
    Section,
    SegmentKind,
    Space,
    ValueKind,
)
from torch_atalla.loadable.file.graph import KEY as GRAPH_KEY
from torch_atalla.loadable.file.records import Ref, write_file
from torch_atalla.loadable.leaves import method_key

from ..capture.capture import Captured
from ..linearize.partition import Partition, source_of
from ..program.immediates import pack_immediate
from ..program.ir import AnyOperand, Buffer, BufferKind, HostCall, Immediate, Launch, LinearProgram, Operand, Port
from ..program.size_expressions import ExpressionTable
from ..program.sizes import Size, limits
from ..program.support import qualified_name
from ..targets.functional.pipeline import Compiled
from .contents import FileContents, GoldenRecord
from .flops import node_flops
from .graph import graph_of
from .report import segment_name

_SPACES = {
    BufferKind.TEMPORARY: Space.ARENA,
    BufferKind.CONSTANT: Space.WEIGHTS,
    BufferKind.INPUT: Space.INPUT,
    BufferKind.OUTPUT: Space.OUTPUT,
    BufferKind.STATE: Space.STATE,
    BufferKind.UPDATED: Space.OUTPUT,
}
_DYNAMIC_IMMEDIATES = (torch.int32, torch.int64, torch.float32, torch.float64)
_PER_METHOD = (Section.NODES, Section.SEGMENTS, Section.INSTRUCTIONS, Section.INPUTS, Section.OUTPUTS)


def emit(
    methods: Mapping[str, Compiled] | Compiled,
    *,
    kernel_versions: Mapping[str, int],
    crc32c: Checksum,
    metadata: Mapping[str, str],
    estimate_cycles: Sequence[int] = (),
    goldens: Sequence[GoldenRecord] = (),
) -> bytes:
    """The file. kernel_versions: of every kernel that the programs launch. estimate_cycles: of each method."""
    if not isinstance(methods, Mapping):
        methods = {"forward": methods}
    file = FileContents(kernel_versions, crc32c)
    for number, (name, compiled) in enumerate(methods.items()):
        cycles = estimate_cycles[number] if number < len(estimate_cycles) else 0
        _Emitter(file, number, name, compiled).emit(cycles)
    for golden in goldens:
        file.golden(golden)
    folded = file.folded(methods.values())
    packed = "\n".join(f"{name} {shape}" for name, shape in sorted(file.packed.items()))
    extra = {key: text for key, text in (("folded", folded), ("packed", packed)) if text}
    for key, value in {**metadata, **file.metadata, **extra}.items():
        file.tables.add(Section.METADATA, *file.tables.string(key), *file.tables.string(value))
    return write_file(file.tables, crc32c)


class _Emitter:
    """One method."""

    def __init__(self, file: FileContents, number: int, name: str, compiled: Compiled):
        self.file = file
        self.method = number
        self.name = name
        self.captured: Captured = compiled.captured
        self.partition: Partition = compiled.partition
        self.program: LinearProgram = compiled.program
        self.plan = compiled.plan
        self.cores = compiled.cores
        self.tables = file.tables
        self.base = {section: self.tables.count(section) for section in _PER_METHOD}
        self.storages: dict[int, int] = {}  # buffer -> storage
        self.nodes: dict[str, int] = {}
        self.values: dict[Operand, int] = {}  # exactly that view -> value
        self.first_value: dict[int, int] = {}  # buffer -> a value on it
        self.dynamic_runs: dict[tuple, Ref] = {}
        first = self.tables.count(Section.SYMBOLS)
        symbols = {symbol.symbol: first + k for k, symbol in enumerate(self.captured.symbols.symbols)}
        self.expressions = ExpressionTable(
            lambda *fields: self.tables.add(Section.EXPRESSIONS, *fields), symbols, self.captured.symbols.ranges()
        )

    def emit(self, cycles: int) -> None:
        tables = self.tables
        self._nodes_and_segments()
        self._storages()
        self._values()
        self._packed()
        inputs = [self._port(Section.INPUTS, port, ValueKind.INPUT) for port in self.program.inputs]
        outputs = [self._port(Section.OUTPUTS, port, ValueKind.OUTPUT) for port in self.program.outputs]
        for i, inst in enumerate(self.program.instructions):
            cores = self.cores[i] if self.cores else 1
            self._instruction(inst, self.base[Section.SEGMENTS] + self.program.segments[i], 0 if cores == 1 else cores)
        tables.add(
            Section.METHODS,
            *tables.string(self.name),
            *_range(len(inputs), self.base[Section.INPUTS]),
            *_range(len(outputs), self.base[Section.OUTPUTS]),
            *_range(len(self.program.instructions), self.base[Section.INSTRUCTIONS]),
            *_range(len(self.nodes), self.base[Section.NODES]),
            *_range(len(self.partition.segments), self.base[Section.SEGMENTS]),
            self.plan.arena_bytes,
            cycles,
        )
        self._symbols()

    def _symbols(self) -> None:
        tables, names = self.tables, [port.name for port in self.program.inputs]
        assert len(set(names)) == len(names)
        for symbol in self.captured.symbols.symbols:
            tables.add(
                Section.SYMBOLS,
                *tables.string(str(symbol.symbol)),
                self.method,
                self.base[Section.INPUTS] + symbol.input,
                symbol.dim,
                symbol.min,
                symbol.max,
                symbol.multiplier,
                symbol.offset,
                symbol.value,
            )
        for expr, text in self.captured.symbols.guards:
            tables.add(Section.GUARDS, *tables.string(text), self.expressions.index(expr), self.method)
        for condition in self.expressions.conditions:  # grows with the divisors in conditions
            tables.add(Section.GUARDS, *tables.string(str(condition)), self.expressions.index(condition), self.method)

    def _follows(self, kind: int, index: int, number: int) -> None:
        """Says that a number of the file follows the symbols."""
        if isinstance(number, Size):
            self.tables.add(Section.DYNAMIC, kind, index, self.expressions.index(number.expr), self.method)

    def _sizes(self, operand: Operand) -> Ref:
        """An export may say n - 1 for a slice, and take n = 0: its size would be 0 then, and not -1."""
        for size in operand.sizes:
            if isinstance(size, Size):
                self.expressions.require(size.expr, 0)
        return self._integers(operand.sizes)

    def _integers(self, numbers: Sequence[int]) -> Ref:
        """A run of numbers in the pool; one with expressions is this method's own."""
        if not any(isinstance(number, Size) for number in numbers):
            return self.tables.integers(numbers)
        key = tuple(number.expr if isinstance(number, Size) else number for number in numbers)
        if key not in self.dynamic_runs:
            first, count = self.tables.own_integers(tuple(map(int, numbers)))
            self.dynamic_runs[key] = (first, count)
            for k, number in enumerate(numbers):
                self._follows(DynamicKind.INTEGER, first + k, number)
        return self.dynamic_runs[key]

    def _nodes_and_segments(self) -> None:
        """The nodes and segments, and as metadata their graph."""
        tables = self.tables
        reasons = {op.node: op.reason for op in self.partition.unsupported}
        follows = "part of a node that is not native"
        for number, segment in enumerate(self.partition.segments):
            first = self.base[Section.NODES] + len(self.nodes)
            for node in segment.nodes:
                self.nodes[node.name] = tables.add(
                    Section.NODES,
                    *tables.string(node.name),
                    *tables.string(qualified_name(node.target)),
                    *tables.string("" if segment.native else reasons.get(node.name, follows)),
                    *tables.string(source_of(node)),
                    *tables.string(_module_path(node)),
                    node_flops(node),
                    0,
                    self.base[Section.SEGMENTS] + number,
                    int(segment.native),
                )
            instructions = [i for i, owner in enumerate(self.program.segments) if owner == number]
            tables.add(
                Section.SEGMENTS,
                *tables.string(segment_name(number, segment.native)),
                *_range(len(segment.nodes), first),
                *_range(len(instructions), self.base[Section.INSTRUCTIONS] + instructions[0] if instructions else 0),
                SegmentKind.NATIVE if segment.native else SegmentKind.FALLBACK,
            )
        graph = graph_of(self.program, self.partition)
        self.file.metadata[method_key(GRAPH_KEY, self.name, self.method)] = graph.to_json()

    def _storages(self) -> None:
        """In-place results share a storage, as they share their piece of the arena."""
        slots = self.plan.slot_of()
        shared: dict[int, int] = {}  # first buffer of a slot -> storage
        touched = self.program.lives()
        base = self.base[Section.INSTRUCTIONS]
        for buffer in self.program.buffers:
            if buffer.kind is BufferKind.CONSTANT:
                self.storages[buffer.index] = self.file.constant(buffer)
                continue
            if buffer.kind is BufferKind.STATE:
                self.storages[buffer.index] = self._state(buffer)
                continue
            first = last = offset = 0
            name, nbytes = buffer.name, buffer.nbytes
            slot = slots.get(buffer.index)
            if slot is not None:
                if slot.buffers[0] in shared:
                    self.storages[buffer.index] = shared[slot.buffers[0]]
                    continue
                offset, nbytes, first, last = slot.offset, slot.nbytes, base + slot.first, base + slot.last
            elif buffer.kind is BufferKind.TEMPORARY:
                first, last = touched.get(buffer.index, (0, 0))
                first, last = (base + first, base + last) if buffer.index in touched else (0, 0)
                nbytes = nbytes if buffer.index in touched else 0
            elif isinstance(nbytes, Size):
                nbytes = self._planned(nbytes)
            index = self.tables.add(
                Section.STORAGES, _SPACES[buffer.kind], nbytes, offset, first, last, *self.tables.string(name)
            )
            if buffer.kind is not BufferKind.TEMPORARY or not self.captured.symbols.bounded:
                self._follows(DynamicKind.STORAGE_BYTES, index, nbytes)
            self.storages[buffer.index] = index
            if slot is not None:
                shared[slot.buffers[0]] = index

    def _planned(self, nbytes: Size) -> Size:
        """With the value under the planning assignment, not the most that the expression can be."""
        return Size(self.captured.symbols.planned(nbytes.expr), nbytes.expr)

    def _state(self, buffer: Buffer) -> int:
        operand = self.program.states[buffer.name]

        def value(storage: int) -> int:
            self.storages[buffer.index] = storage
            return self._value(buffer.name, operand, ValueKind.STATE, buffer.name)

        return self.file.state(buffer, value)

    def _values(self) -> None:
        for name, operand in self.program.values.items():
            constant = self.captured.constants.get(name)
            kind = self.program.buffers[operand.buffer].kind
            if constant is not None:
                self.file.used |= constant.made_of
                self.file.kept |= {constant.fqn} if constant.kind != "constant" else set()
                self._value(name, operand, ValueKind[constant.kind.upper()], constant.fqn)
            elif kind is not BufferKind.INPUT or name not in {port.name for port in self.program.inputs}:
                self._value(name, operand, ValueKind.INTERMEDIATE)

    def _packed(self) -> None:
        """A matrix whose every use reads it packed keeps its name: who replaces it packs it in the same way."""
        constants = self.captured.constants
        for buffer in self.program.buffers:
            source = constants.get(buffer.name.removesuffix(".packed"))
            if buffer.kind is not BufferKind.CONSTANT or not buffer.name.endswith(".packed") or source is None:
                continue
            assert buffer.tensor is not None
            matrix, panel = source.tensor, buffer.tensor[0]
            if matrix.ndim > 2 and matrix.is_contiguous():  # of a convolution
                matrix = matrix.flatten(1)
            same = matrix.ndim == 2 and panel.ndim == 2 and matrix.dtype == panel.dtype
            rows = min(32, *matrix.shape) if same else 0
            plain = rows and torch.equal(panel[:rows, :rows], matrix[:rows, :rows].t())
            turned = rows and torch.equal(panel[:rows, :rows], matrix[:rows, :rows])
            if plain == turned or source.kind == "constant":
                continue
            operand = Operand(buffer.index, 0, tuple(buffer.tensor.shape), buffer.tensor.stride(), buffer.tensor.dtype)
            for item in constants.values():
                tied = item.tensor.data_ptr() == matrix.data_ptr() and item.tensor.shape == source.tensor.shape
                if tied and item.kind != "constant":
                    self.file.kept.add(item.fqn)
                    rows, *columns = source.tensor.shape
                    self.file.packed[item.fqn] = f"{'n' if plain else 't'} {rows} {'x'.join(map(str, columns))}"
                    self._value(buffer.name, operand, ValueKind[item.kind.upper()], item.fqn)

    def _value(self, name: str, operand: Operand, kind: int, fqn: str = "") -> int:
        tables = self.tables
        index = tables.add(
            Section.VALUES,
            *tables.string(name),
            self.storages[operand.buffer],
            CODES[operand.dtype],
            kind,
            len(operand.sizes),
            operand.offset,
            self._sizes(operand)[0],
            self._integers(operand.strides)[0],
            *tables.string(fqn),
            self.nodes.get(name, NONE),
        )
        self._follows(DynamicKind.VALUE_OFFSET, index, operand.offset)
        self.values.setdefault(operand, index)
        self.first_value.setdefault(operand.buffer, index)
        return index

    def _port(self, section: Section, port: Port, kind: int) -> int:
        value = self._value(port.name, port.operand, kind)
        guards = NONE
        if section is Section.INPUTS and any(isinstance(size, Size) for size in port.operand.sizes):
            guards = self.tables.own_integers(self._guards(port))[0]
        updated = self.program.buffers[port.operand.buffer].kind is BufferKind.UPDATED
        flags = PORT_UPDATED if updated else 0
        return self.tables.add(section, *self.tables.string(port.name), value, guards, flags)

    def _guards(self, port: Port) -> tuple[int, ...]:
        """(least, most) of each dimension."""
        ranges = self.captured.symbols.ranges()
        pairs: list[int] = []
        for size in port.operand.sizes:
            bounds = bound_sympy(size.expr, ranges) if isinstance(size, Size) else None
            pairs += [int(size)] * 2 if bounds is None else limits(bounds)
        return tuple(pairs)

    def _instruction(self, inst: Launch | HostCall, segment: int, cores: int) -> None:
        tables = self.tables
        node = self.nodes.get(inst.node, NONE)
        if isinstance(inst, HostCall):
            callee = self._host_call(inst)
            none = (0, 0, 0, 0, 0, 0)
            tables.add(Section.INSTRUCTIONS, InstructionKind.HOST_CALL, 0, 0, 0, callee, *none, node, segment)
            return
        first = tables.count(Section.OPERANDS)
        operands = (*inst.outputs, *inst.inputs)
        for operand in operands:
            self._operand(operand)
        tables.add(
            Section.INSTRUCTIONS,
            InstructionKind.RANDOM if "random" in inst.contract.traits else InstructionKind.LAUNCH,
            CODES[inst.compute_dtype],
            len(inst.outputs),
            cores,
            self.file.kernel(inst.kernel),
            *_range(len(operands), first),
            *self._integers(inst.iparams),
            *tables.doubles(inst.fparams),
            node,
            segment,
        )

    def _operand(self, operand: AnyOperand) -> None:
        tables, nothing = self.tables, bytes(16)
        if operand is None:
            tables.add(Section.OPERANDS, OperandKind.ABSENT, 0, 0, NONE, 0, 0, 0, nothing, NONE)
        elif isinstance(operand, Immediate):
            packed = pack_immediate(operand).ljust(16, b"\0")
            index = tables.add(
                Section.OPERANDS, OperandKind.IMMEDIATE, CODES[operand.dtype], 0, NONE, 0, 0, 0, packed, NONE
            )
            if isinstance(operand.value, Size) and operand.dtype not in _DYNAMIC_IMMEDIATES:
                raise ExportError(
                    f"a number of dtype {operand.dtype} follows a dynamic size; expected a 32 or 64-bit one"
                )
            self._follows(DynamicKind.IMMEDIATE, index, operand.value)  # type: ignore[arg-type]
        else:
            value = self.values.get(operand, self.first_value.get(operand.buffer, NONE))
            index = tables.add(
                Section.OPERANDS,
                OperandKind.MEMORY,
                CODES[operand.dtype],
                len(operand.sizes),
                self.storages[operand.buffer],
                operand.offset,
                self._sizes(operand)[0],
                self._integers(operand.strides)[0],
                nothing,
                value,
            )
            self._follows(DynamicKind.OPERAND_OFFSET, index, operand.offset)

    def _host_call(self, call: HostCall) -> int:
        def indices(operands: tuple[Operand, ...], names: tuple[str, ...]) -> Ref:
            found = []
            for operand, name in zip(operands, names, strict=True):
                if operand not in self.values:
                    self._value(name, operand, ValueKind.INTERMEDIATE)
                found.append(self.values[operand])
            return self.tables.integers(found)

        return self.tables.add(
            Section.HOST_CALLS,
            *self.tables.string(call.program),
            *indices(call.inputs, call.input_names),
            *indices(call.outputs, call.output_names),
            *self.tables.string("\n".join(call.ops)),
        )


def _range(count: int, first: int = 0) -> Ref:
    return (first, count) if count else (0, 0)


def _module_path(node: torch.fx.Node) -> str:
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return stack[-1][0] if stack else ""
