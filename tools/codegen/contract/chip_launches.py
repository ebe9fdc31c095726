# SPDX-License-Identifier: BSD-3-Clause
"""Launches on the chip through its C ABI, drawn at random from the contracts of kernels (csrc/sim/kernels.yaml)."""

from __future__ import annotations

import ctypes
import math
import random
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from tools.codegen.contract import kernel_shapes
from tools.codegen.kernels import DTYPE_GROUPS, Kernel, Operand, Parameter, integers
from torch_atalla.driver import c_abi
from torch_atalla.driver.dtypes import CODES, short_name
from torch_atalla.driver.libraries import device_table

TORCH_DTYPES = {short_name(dtype).upper(): dtype for dtype in CODES}  # by the names of kernels.yaml
WIDE = ("F64", "C128")
COMPLEX = ("C64", "C128")
ROOM = 1 << 16  # bytes of DRAM an operand
LONG = (17, 33, 33, 64, 70, 97, 150, 331, 700, 1500, 3000, 5000)
MOST_WORK = 1 << 17  # visits to elements


@dataclass
class Launch:
    """Operands in the order of the contract: tensors of the host, or None for one that is absent."""

    dtype: str
    operands: list[tuple[Operand, torch.Tensor | None]] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)
    immediate: set[int] = field(default_factory=set)


class Chip:
    """A device of 1 MiB. Results are read through the view of the host."""

    def __init__(self) -> None:
        self.api = device_table(c_abi.atalla_api, c_abi.ATALLA_ABI_MAJOR)
        params = c_abi.atalla_device_params(dram_bytes=1 << 20)
        params.struct_size = ctypes.sizeof(params)
        self.device, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.api.device_open(ctypes.byref(params), ctypes.byref(self.device)))
        self.check(self.api.stream_default(self.device, ctypes.byref(self.stream)))
        memory, view = ctypes.c_uint64(), ctypes.c_void_p()
        total = ROOM * c_abi.ATALLA_MAX_OPERANDS
        self.check(self.api.mem_alloc(self.device, total, 0, ctypes.byref(memory)))
        self.check(self.api.device_host_view(self.device, memory.value, total, ctypes.byref(view)))
        self.memory = memory.value
        assert view.value is not None
        self.bytes = torch.frombuffer((ctypes.c_char * total).from_address(view.value), dtype=torch.uint8)

    def close(self) -> None:
        self.check(self.api.device_close(self.device))

    def check(self, status: int) -> None:
        if status != c_abi.ATALLA_OK:
            raise RuntimeError(self.api.last_error().decode())

    def dtypes(self, kernel: str) -> list[str]:
        """The compute dtypes that a kernel has."""
        info = c_abi.atalla_kernel_info()
        info.struct_size = ctypes.sizeof(info)
        self.check(self.api.kernel_info(self.kernel(kernel), ctypes.byref(info)))
        return [name for name, dtype in TORCH_DTYPES.items() if info.dtypes >> CODES[dtype] & 1]

    def kernel(self, name: str) -> int:
        found = ctypes.c_uint32()
        self.check(self.api.kernel_lookup(name.encode(), ctypes.byref(found)))
        return found.value

    def tensor(self, k: int, like: torch.Tensor) -> torch.Tensor:
        """The tensor in DRAM that stands for operand k: contiguous, with strides of 0 where it has them."""
        return torch.as_strided(self.bytes[k * ROOM :].view(like.dtype), like.shape, like.stride())

    def run(self, kernel: str, contract: Kernel, launch: Launch) -> tuple[int, list[torch.Tensor | None]]:
        """The status of a launch, and copies of its outputs."""
        addresses = [self.memory + k * ROOM for k in range(len(launch.operands))]
        desc = descriptor(self.kernel(kernel), contract, launch, addresses)
        for k, (_, tensor) in enumerate(launch.operands):
            if tensor is not None and k not in launch.immediate and tensor.numel():
                place = self.tensor(k, tensor)
                base = [slice(0, 1) if step == 0 else slice(None) for step in tensor.stride()]
                place[tuple(base)] = tensor[tuple(base)]
        status = self.api.launch(self.stream, ctypes.byref(desc), ctypes.sizeof(desc))
        finished = self.api.stream_synchronize(self.stream)
        written = [
            None if tensor is None else self.tensor(k, tensor).clone() if tensor.numel() else tensor
            for k, (operand, tensor) in enumerate(launch.operands)
            if operand.written
        ]
        return status or finished, written


def descriptor(kernel: int, contract: Kernel, launch: Launch, addresses: list[int]) -> c_abi.atalla_launch_desc:
    """Of a launch whose operands lie at these device addresses. kernel: its number."""
    desc = c_abi.atalla_launch_desc(kernel=kernel)
    desc.compute_dtype = CODES[TORCH_DTYPES[launch.dtype]]
    desc.n_operands = len(launch.operands)
    desc.n_outputs = sum(operand.written for operand, _ in launch.operands)
    for parameter in contract.parameters:
        fill(desc, parameter, launch.parameters[parameter.name], launch.dtype)
    for k, (_, tensor) in enumerate(launch.operands):
        slot = desc.operands[k]
        if tensor is None:
            slot.dtype = desc.compute_dtype
            continue
        slot.dtype = CODES[tensor.dtype]
        if k in launch.immediate:
            slot.immediate = 1
            value = bytes(tensor.reshape(1).view(torch.uint8).tolist())
            ctypes.memmove(slot.sizes, value, len(value))
            continue
        slot.addr, slot.ndim = addresses[k], tensor.dim()
        slot.sizes[: tensor.dim()], slot.strides[: tensor.dim()] = tensor.shape, tensor.stride()
    return desc


def fill(desc: Any, parameter: Parameter, value: Any, dtype: str) -> None:
    """Write a parameter into its slots."""
    values = list(value) if isinstance(value, tuple) else [value]
    for k, item in enumerate(values):
        if parameter.values:
            item = parameter.values.index(item)
        integer = parameter.integer is not None and dtype in DTYPE_GROUPS["integer"]
        slot = parameter.integer if integer else parameter.slot
        if slot.bank == "f":  # type: ignore[union-attr]
            desc.fparams[slot.first + k] = complex(item).real  # type: ignore[union-attr]
        elif parameter.bit is not None:
            desc.iparams[slot.first] |= int(item) << parameter.bit  # type: ignore[union-attr]
        else:
            desc.iparams[slot.first + k] = int(item)  # type: ignore[union-attr]
        if parameter.imaginary is not None and dtype in COMPLEX:
            desc.fparams[parameter.imaginary.first + k] = complex(item).imag


class TooLarge(Exception):
    """An operand does not fit its room in DRAM."""


class Draw:
    """Random launches of one kernel: small numbers, so that most sums are exact. No program, and indices and sizes that
    need not fit: a part of the launches is refused or faults. strided: operands lie in memory in any order of
    dimensions, with gaps, and not at the start of their storage, or are immediate values. most_work: visits to elements
    of long launches."""

    def __init__(self, name: str, kernel: Kernel, strided: bool = False, most_work: int = MOST_WORK):
        self.kernel, self.strided, self.most_work = kernel, strided, most_work
        self.random = random.Random(name)
        self.generator = torch.Generator().manual_seed(self.random.getrandbits(32))
        self.sizes: dict[str, int] = {}
        self.groups: dict[str, list[int]] = {}
        self.values: dict[str, Any] = {}

    def launch(self, dtype: str, long: bool = False) -> Launch:
        """A launch of small sizes, or one with long dimensions whose reference takes little time."""
        while True:
            try:
                drawn = self.draw(dtype, long)
            except TooLarge:
                continue
            if not long or (self.has_long and self.work(drawn) <= self.most_work):
                return drawn

    def work(self, launch: Launch) -> int:
        """About how many elements the slow reference visits."""
        visits = [
            (operand.written, math.prod(max(1, n) for n in tensor.shape))
            for operand, tensor in launch.operands
            if tensor is not None
        ]
        outputs = max((count for written, count in visits if written), default=1)
        inputs = sorted((count for written, count in visits if not written), reverse=True)
        if "elementwise" in self.kernel.traits:
            return outputs
        if "product" in self.kernel.traits and len(inputs) > 1:
            return math.isqrt(outputs * inputs[0] * inputs[1])
        return outputs * (inputs[0] if inputs else 1)

    def draw(self, dtype: str, long: bool) -> Launch:
        self.sizes, self.groups, self.long, self.has_long = {}, {}, long, False
        rank = self.random.randrange(4)
        self.rank = rank
        drawn = Launch(dtype)
        drawn.parameters = self.values = {p.name: self.parameter(p, drawn.dtype) for p in self.kernel.parameters}
        operands = [o for o in self.kernel.operands if o.role != "program"]
        last = min((k for k, o in enumerate(operands) if o.last), default=len(operands))
        end = self.random.randint(last, len(operands))
        for operand in operands[:end]:
            for _ in range(self.random.randint(1, 3) if operand.repeat else 1):
                if operand.repeat and operand.optional:
                    break
                if self.strided and operand.immediate and self.random.randrange(4) == 0:
                    operand = replace(operand, role="immediate")
                tensor = self.operand(operand, drawn.dtype)
                if operand.role == "immediate" and tensor is not None:
                    drawn.immediate.add(len(drawn.operands))
                drawn.operands.append((operand, tensor))
        return drawn

    def parameter(self, p: Parameter, dtype: str) -> Any:
        count = p.slot.count
        values = tuple(self.number(p, dtype) for _ in range(count))
        return values if count > 1 else values[0]

    def number(self, p: Parameter, dtype: str) -> Any:
        if p.values:
            return self.random.choice(p.values)
        if self.kernel.program_if is not None and p.name == self.kernel.program_if.name:
            return 0
        match p.type:
            case "bool":
                return self.random.randrange(2)
            case "mask":
                return self.random.randrange(1 << self.rank)
            case "number" if dtype == "BOOL":
                return self.random.randrange(2)
            case "number" if dtype in DTYPE_GROUPS["integer"]:
                return self.random.randint(-2, 3)
            case "number" if dtype in COMPLEX:
                return complex(self.random.randint(-1, 2), self.random.randint(-1, 1))
            case "float" | "number":
                return self.random.choice((0.0, 0.5, 1.0, 1.5, 2.0))
        if p.name == "dim" or any(f"@{p.name}" in o.shape + o.map for o in self.kernel.operands):
            return self.random.randrange(max(1, self.rank))
        return self.random.choice((0, 1, 1, 1, 2, 2, 3, -1))

    def operand(self, operand: Operand, compute: str) -> torch.Tensor | None:
        if operand.optional and self.random.randrange(4) == 0:
            return None
        dtype = TORCH_DTYPES[self.dtype(operand, compute)]
        sizes = [] if operand.role == "immediate" else self.shape(operand)
        if math.prod(sizes) * dtype.itemsize > ROOM:
            raise TooLarge
        base = [1 if operand.broadcast and self.random.randrange(4) == 0 else n for n in sizes]
        if dtype.itemsize == 1 and operand.dtypes and not {"any", "integer", "compute"} & set(operand.dtypes):
            info = torch.iinfo(torch.uint8 if dtype == torch.bool else dtype)  # codes, or bytes of truth
            found = torch.randint(info.min, info.max + 1, base, generator=self.generator).to(dtype)
        else:
            found = self.elements(base, dtype, compute)
        if self.strided and operand.role != "immediate" and found.numel() and self.random.randrange(2):
            found = self.laid_out(found)
        return found.expand(sizes)

    def laid_out(self, x: torch.Tensor) -> torch.Tensor:
        """The same elements elsewhere in a larger storage."""
        order = self.random.sample(range(x.dim()), x.dim())
        steps = [self.random.choice((1, 1, 1, 2)) for _ in order]
        firsts = [self.random.choice((0, 0, 1)) for _ in order]
        storage = torch.zeros([x.shape[d] * steps[d] + firsts[d] for d in order], dtype=x.dtype)
        seen = storage.permute([order.index(d) for d in range(x.dim())])
        for d, size in enumerate(x.shape):
            seen = seen.narrow(d, firsts[d], size * steps[d])
        return seen[tuple(slice(None, None, step) for step in steps)].copy_(x)

    def elements(self, sizes: list[int], dtype: torch.dtype, compute: str) -> torch.Tensor:
        signed = (dtype.is_floating_point or dtype.is_complex) and compute not in ("U8", "BOOL")
        end = 2 if dtype == torch.bool else 4
        found = torch.randint(-2 if signed else 0, end, sizes, generator=self.generator).to(dtype)
        if dtype.is_complex:
            found += 1j * torch.randint(-1, 3, sizes, generator=self.generator)
        return found

    def dtype(self, operand: Operand, compute: str) -> str:
        names: list[str] = []
        for name in operand.dtypes or self.kernel.dtypes:
            if name == "compute":
                names.append(compute)
            elif name in ("real", "complex"):
                wide = compute in WIDE
                names.append(("F64" if wide else "F32") if name == "real" else ("C128" if wide else "C64"))
            else:
                names += DTYPE_GROUPS.get(name, (name,))
        if not operand.written and compute not in COMPLEX and "conversion" not in self.kernel.traits:
            names = [name for name in names if name not in COMPLEX] or names
        return compute if compute in names and self.random.randrange(8) else self.random.choice(names)

    def shape(self, operand: Operand) -> list[int]:
        text = operand.shape or operand.map
        if not text:
            return [self.size("") for _ in range(self.rank)]
        values = {p.name: p.values for p in integers(self.kernel.parameters)}
        forms = kernel_shapes.parse(text, values).forms
        form = next(form for condition, form in forms if not condition or self.holds(condition, values))
        sizes: list[int] = []
        for term in form.terms or ():
            if isinstance(term, kernel_shapes.Group):
                group = self.groups.setdefault(term.name, [self.size("") for _ in range(self.group_rank(form, term))])
                mask = self.values[term.mask] if term.mask else 0
                sizes += [self.size("") if term.any else 1 if mask >> d & 1 else n for d, n in enumerate(group)]
            elif term.text.isidentifier() and not term.any:
                sizes.append(self.size(term.text))
            else:
                sizes.append(self.size("") if term.any else self.computed(term.text))
        return sizes

    def group_rank(self, form: kernel_shapes.Form, term: kernel_shapes.Group) -> int:
        placed = next((t for t in form.terms or () if isinstance(t, kernel_shapes.Size) and t.place), None)
        if placed is None:
            return self.rank
        dim = self.values[placed.place]
        return dim if form.groups[0] == term else max(0, self.rank - 1 - dim)

    def holds(self, condition: str, values: dict[str, tuple[str, ...]]) -> bool:
        name, wanted = kernel_shapes.condition(condition, values)
        value = self.values[name]
        return values[name].index(value) in wanted if values[name] else bool(value)

    def size(self, name: str) -> int:
        if name in self.values and not isinstance(self.values[name], tuple):
            return max(0, int(self.values[name]))
        windows = name.startswith("o") and name != "o"  # few, so that they fit the image
        if self.long and name not in self.sizes and self.random.randrange(3) == 0:
            self.has_long = True
            drawn = self.random.choice(LONG)
        else:
            drawn = self.random.choice((0, 1, 1, 1, 2) if windows else (0, 1, 2, 2, 3, 3, 4, 5))
        return self.sizes.setdefault(name, drawn) if name else drawn

    def computed(self, text: str) -> int:
        """The size that an expression of sizes and parameters gives, or 0."""
        names = {name: self.size(name) for name in kernel_shapes.names(text) if name not in self.groups}
        functions = {"min": min, "max": max, "ceil": math.ceil, "rank": lambda *group: len(group)}
        try:
            return max(0, int(eval(text, functions, names | self.groups | self.values)))
        except ZeroDivisionError:
            return 0
