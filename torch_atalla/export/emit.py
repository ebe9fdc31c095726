# SPDX-License-Identifier: BSD-3-Clause
"""The last stage: a linear program with its plan becomes the bytes of a loadable (docs/loadable-format.md)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

import torch

from .capture import Captured
from .dtypes import CODES
from .flops import node_flops
from .ir import AnyOperand, BufferKind, HostCall, Immediate, Launch, LinearProgram, Operand
from .partition import Partition, source_of
from .pipeline import Compiled
from .plan import ALIGNMENT
from .records import NONE, Ref, Section, Tables, write_file
from .report import segment_name
from .support import qualified_name

_SPACES = {BufferKind.TEMPORARY: 1, BufferKind.CONSTANT: 2, BufferKind.INPUT: 3, BufferKind.OUTPUT: 4}
_INPUT, _OUTPUT, _INTERMEDIATE, _PARAMETER, _BUFFER, _CONSTANT = range(1, 7)
_VALUE_KINDS = {"parameter": _PARAMETER, "buffer": _BUFFER, "constant": _CONSTANT}
_LAUNCH, _HOST_CALL = 1, 2
_ABSENT, _MEMORY, _IMMEDIATE = 0, 1, 2

_PACK = {
    torch.bool: "<?",
    torch.uint8: "<B",
    torch.int8: "<b",
    torch.int16: "<h",
    torch.int32: "<i",
    torch.int64: "<q",
    torch.float16: "<e",
    torch.float32: "<f",
    torch.float64: "<d",
}


def emit(
    compiled: Compiled,
    *,
    kernel_versions: Mapping[str, int],
    crc32c: Callable[[bytes | bytearray], int],
    metadata: Mapping[str, str],
    estimate_cycles: int = 0,
) -> bytes:
    """The file. kernel_versions: of every kernel that the program launches."""
    return _Emitter(compiled, kernel_versions).emit(crc32c, metadata, estimate_cycles)


class _Emitter:
    def __init__(self, compiled: Compiled, kernel_versions: Mapping[str, int]):
        self.captured: Captured = compiled.captured
        self.partition: Partition = compiled.partition
        self.program: LinearProgram = compiled.program
        self.plan = compiled.plan
        self.versions = kernel_versions
        self.tables = Tables()
        self.kernels: dict[str, int] = {}
        self.storages: dict[int, int] = {}  # buffer -> storage
        self.nodes: dict[str, int] = {}
        self.values: dict[Operand, int] = {}  # exactly that view -> value
        self.first_value: dict[int, int] = {}  # buffer -> a value on it

    def emit(self, crc32c: Callable[[bytes | bytearray], int], metadata: Mapping[str, str], cycles: int) -> bytes:
        tables = self.tables
        self._nodes_and_segments()
        self._storages()
        self._values()
        inputs = [self._port(Section.INPUTS, port.name, port.operand, _INPUT) for port in self.program.inputs]
        outputs = [self._port(Section.OUTPUTS, port.name, port.operand, _OUTPUT) for port in self.program.outputs]
        for i, inst in enumerate(self.program.instructions):
            self._instruction(inst, self.program.segments[i])
        tables.add(
            Section.METHODS,
            *tables.string("forward"),
            *_range(len(inputs)),
            *_range(len(outputs)),
            *_range(len(self.program.instructions)),
            *_range(len(self.nodes)),
            *_range(len(self.partition.segments)),
            self.plan.arena_bytes,
            cycles,
        )
        for key, value in metadata.items():
            tables.add(Section.METADATA, *tables.string(key), *tables.string(value))
        return write_file(tables, crc32c)

    def _nodes_and_segments(self) -> None:
        tables = self.tables
        reasons = {op.node: op.reason for op in self.partition.unsupported}
        follows = "part of a node that is not native"
        for number, segment in enumerate(self.partition.segments):
            first = len(self.nodes)
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
                    number,
                    int(segment.native),
                )
            instructions = [i for i, owner in enumerate(self.program.segments) if owner == number]
            tables.add(
                Section.SEGMENTS,
                *tables.string(segment_name(number, segment.native)),
                *_range(len(segment.nodes), first),
                *_range(len(instructions), instructions[0] if instructions else 0),
                1 if segment.native else 2,
            )

    def _storages(self) -> None:
        """In-place results share a storage, as they share their piece of the arena."""
        slots = self.plan.slot_of()
        shared: dict[int, int] = {}  # first buffer of a slot -> storage
        touched = self._touched()
        for buffer in self.program.buffers:
            first = last = offset = 0
            name, nbytes = buffer.name, buffer.nbytes
            slot = slots.get(buffer.index)
            if slot is not None:
                if slot.buffers[0] in shared:
                    self.storages[buffer.index] = shared[slot.buffers[0]]
                    continue
                offset, nbytes, first, last = slot.offset, slot.nbytes, slot.first, slot.last
            elif buffer.kind is BufferKind.TEMPORARY:
                first, last = touched.get(buffer.index, (0, 0))
            elif buffer.kind is BufferKind.CONSTANT:
                offset = self._store(buffer.tensor)
            index = self.tables.add(
                Section.STORAGES, _SPACES[buffer.kind], nbytes, offset, first, last, *self.tables.string(name)
            )
            self.storages[buffer.index] = index
            if slot is not None:
                shared[slot.buffers[0]] = index

    def _touched(self) -> dict[int, tuple[int, int]]:
        touched: dict[int, tuple[int, int]] = {}
        for i, inst in enumerate(self.program.instructions):
            for operand in (*inst.reads(), *inst.writes()):
                touched[operand.buffer] = (touched.get(operand.buffer, (i, i))[0], i)
        return touched

    def _store(self, tensor: torch.Tensor | None) -> int:
        """Appends a dense constant to the weights and gives its offset."""
        assert tensor is not None
        weights = self.tables.data[Section.WEIGHTS]
        weights += bytes(-len(weights) % ALIGNMENT)
        offset = len(weights)
        if tensor.numel():
            flat = tensor.detach().as_strided((tensor.numel(),), (1,), tensor.storage_offset())
            weights += flat.view(torch.uint8).numpy().data
        return offset

    def _values(self) -> None:
        for name, operand in self.program.values.items():
            constant = self.captured.constants.get(name)
            kind = self.program.buffers[operand.buffer].kind
            if constant is not None:
                self._value(name, operand, _VALUE_KINDS[constant.kind], constant.fqn)
            elif kind is not BufferKind.INPUT or name not in {port.name for port in self.program.inputs}:
                self._value(name, operand, _INTERMEDIATE)

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
            tables.integers(operand.sizes)[0],
            tables.integers(operand.strides)[0],
            *tables.string(fqn),
            self.nodes.get(name, NONE),
        )
        self.values.setdefault(operand, index)
        self.first_value.setdefault(operand.buffer, index)
        return index

    def _port(self, section: Section, name: str, operand: Operand, kind: int) -> int:
        value = self._value(name, operand, kind)
        return self.tables.add(section, *self.tables.string(name), value, NONE, 0)

    def _instruction(self, inst: Launch | HostCall, segment: int) -> None:
        tables = self.tables
        node = self.nodes.get(inst.node, NONE)
        if isinstance(inst, HostCall):
            callee = self._host_call(inst)
            none = (0, 0, 0, 0, 0, 0)
            tables.add(Section.INSTRUCTIONS, _HOST_CALL, 0, 0, callee, *none, node, segment)
            return
        if inst.kernel not in self.kernels:
            version = self.versions[inst.kernel]
            self.kernels[inst.kernel] = tables.add(Section.KERNELS, *tables.string(inst.kernel), version)
        first = tables.count(Section.OPERANDS)
        operands = (*inst.outputs, *inst.inputs)
        for operand in operands:
            self._operand(operand)
        tables.add(
            Section.INSTRUCTIONS,
            _LAUNCH,
            CODES[inst.compute_dtype],
            len(inst.outputs),
            self.kernels[inst.kernel],
            *_range(len(operands), first),
            *tables.integers(inst.iparams),
            *tables.doubles(inst.fparams),
            node,
            segment,
        )

    def _operand(self, operand: AnyOperand) -> None:
        tables, nothing = self.tables, bytes(16)
        if operand is None:
            tables.add(Section.OPERANDS, _ABSENT, 0, 0, NONE, 0, 0, 0, nothing, NONE)
        elif isinstance(operand, Immediate):
            packed = _pack_immediate(operand).ljust(16, b"\0")
            tables.add(Section.OPERANDS, _IMMEDIATE, CODES[operand.dtype], 0, NONE, 0, 0, 0, packed, NONE)
        else:
            value = self.values.get(operand, self.first_value.get(operand.buffer, NONE))
            tables.add(
                Section.OPERANDS,
                _MEMORY,
                CODES[operand.dtype],
                len(operand.sizes),
                self.storages[operand.buffer],
                operand.offset,
                tables.integers(operand.sizes)[0],
                tables.integers(operand.strides)[0],
                nothing,
                value,
            )

    def _host_call(self, call: HostCall) -> int:
        def indices(operands: tuple[Operand, ...], names: tuple[str, ...]) -> Ref:
            found = []
            for operand, name in zip(operands, names, strict=True):
                if operand not in self.values:
                    self._value(name, operand, _INTERMEDIATE)
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


def _pack_immediate(operand: Immediate) -> bytes:
    if operand.dtype in _PACK:
        value = operand.value
        if not operand.dtype.is_floating_point and operand.dtype != torch.bool:
            value = int(value)
        try:
            return struct.pack(_PACK[operand.dtype], value)
        except (OverflowError, struct.error):
            pass  # too large for a narrow float: torch gives the infinity
    return bytes(torch.tensor(operand.value, dtype=operand.dtype).view(torch.uint8).reshape(-1).tolist())


def _module_path(node: torch.fx.Node) -> str:
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return stack[-1][0] if stack else ""
