# SPDX-License-Identifier: BSD-3-Clause
"""The contracts of the chip's kernels: csrc/sim/kernels.yaml, parsed and checked.

`load(path)` returns the `Table` of enums and kernels. A wrong entry raises `ContractError` with the file, the line, the
given value and the expected one, which fails the build. The chip refuses to start with a kernel that has no entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from .contract import kernel_shapes, kernel_values

ROOT = Path(__file__).resolve().parents[2]
TABLE = "csrc/sim/kernels.yaml"
SOURCES = "csrc/sim/kernels"
POINTWISE = "pointwise.<name>"  # one contract for all kernels that are generated from a formula

TRAITS = {
    "elementwise": "each element of the result depends on the elements at its place only",
    "product": "a matrix product whose first two inputs are a and b",
    "batched": "a product whose outermost of three dimensions is a batch",
    "convolution": "a convolution whose first two inputs are the image and the weight",
    "lookup": "rows of the first input, named by the second",
    "conversion": "the result is the input, converted to the dtype of the result",
    "concatenation": "each input is copied to a range of its own in the result",
    "in_place": "the result may be written over an input that has its dtype and layout",
    "random": "draws random numbers: its first two parameters are seed and offset",
    "formula": "generated from a formula; a launch has each scalar as a double and as an integer",
}
VARIANTS = ("packed", "fused")  # keys that name another kernel
LOOP_KINDS = ("parallel", "window")
ROLES = ("out", "inout", "in", "immediate", "program")
TYPES = ("int", "extent", "bool", "mask", "float", "number")  # beside the enums of the file
DTYPES = ("U8", "I8", "I16", "I32", "I64", "F16", "F32", "F64", "C64", "C128", "BOOL", "BF16")
DTYPE_GROUPS = {
    "any": DTYPES,
    "floating": ("F16", "BF16", "F32", "F64"),
    "integer": ("U8", "I8", "I16", "I32", "I64", "BOOL"),
    "compute": (),  # the compute dtype, and the real or complex one of its precision
    "real": (),
    "complex": (),
}
MAX_PARAMS = {"i": 12, "f": 11}  # ATALLA_MAX_PARAMS and ATALLA_MAX_FLOATS of csrc/sim/abi/atalla.h
MAX_OPERANDS = 12  # ATALLA_MAX_OPERANDS
NAME = re.compile(r"[a-z][a-z_0-9]*")
ENUM_NAME = re.compile(r"([A-Z][a-z]+)+")
KERNEL_NAME = re.compile(r"[a-z][a-z_0-9]*(\.[a-z][a-z_0-9]*)?|" + re.escape(POINTWISE))


class ContractError(Exception):
    """A wrong kernel contract: says where and why."""


@dataclass(frozen=True)
class Slot:
    """`count` consecutive values of iparams (bank "i") or fparams ("f")."""

    bank: str
    first: int
    count: int

    def __str__(self) -> str:
        return f"{self.bank}{self.first}" + (f"..{self.first + self.count - 1}" if self.count > 1 else "")


@dataclass(frozen=True)
class Reference:
    """Stands for all operands, or all parameters, of another kernel."""

    kernel: str


@dataclass(frozen=True)
class Operand:
    name: str
    role: str
    shape: str = ""
    map: str = ""  # as written; `terms` has the one that holds
    dtypes: tuple[str, ...] = ()
    optional: bool = False
    last: bool = False
    repeat: bool = False
    broadcast: bool = False
    immediate: bool = False
    layout: str = ""
    note: str = ""

    @property
    def written(self) -> bool:
        return self.role in ("out", "inout")

    def terms(self) -> tuple[str, ...]:
        """The index map: which loop each dimension follows. The shape, if it has one form and the operand no map."""
        text = self.map or self.shape
        return tuple(re.findall(r"[^\s,][^,]*", text[1:-1])) if re.fullmatch(r"\[[^\[\]()]*\]", text) else ()


@dataclass(frozen=True)
class Loop:
    """A name of the index maps and how the kernel goes over it. `parallel`: it computes each place by itself. `window`:
    each place is computed from neighbouring places of the loop `over`; the window has `size` places, and stride,
    padding and dilation are the parameters of these names, whose value `axis` belongs to it."""

    name: str
    kind: str
    condition: tuple[str, ...] = ()  # (left, right), which are equal, or the name of an operand that is absent
    over: str = ""
    axis: int = 0
    size: str = ""


@dataclass(frozen=True)
class Parameter:
    name: str
    slot: Slot
    type: str
    integer: Slot | None = None
    imaginary: Slot | None = None
    bit: int | None = None
    values: tuple[str, ...] = ()  # of the enum that `type` names
    repeat: bool = False
    meaning: str = ""

    def slots(self) -> list[Slot]:
        return [s for s in (self.slot, self.integer, self.imaginary) if s is not None]


@dataclass(frozen=True)
class Kernel:
    """One entry: the contract of one kernel, or of several kernels."""

    names: tuple[str, ...]
    version: int
    section: str
    line: int
    operands: tuple[Operand, ...]
    parameters: tuple[Parameter, ...]
    own_operands: tuple[Operand | Reference, ...]  # as written, with references
    own_parameters: tuple[Parameter | Reference, ...]
    loops: tuple[Loop, ...]
    values: dict[str, str]  # what the elements of outputs are, and values that these refer to (kernel_values.py)
    opaque: bool  # maps and values cannot say what it computes
    traits: frozenset[str]
    dtypes: tuple[str, ...]  # of operands that have none of their own
    program_if: Parameter | None
    variants: dict[str, str]  # VARIANTS -> kernel
    meaning: str


@dataclass(frozen=True)
class Table:
    kernels: list[Kernel]
    enums: dict[str, tuple[str, ...]]  # names of the values 0, 1, ...


OPERAND_KEYS = {f: Operand.__dataclass_fields__[f].type for f in Operand.__dataclass_fields__}
PARAMETER_KEYS = set(Parameter.__dataclass_fields__) - {"values"}
KERNEL_KEYS = {
    *("name", "names", "version", "dtypes", "operands", "parameters", "loops", "value", "traits", "program_if"),
    "meaning",
    *VARIANTS,
}


class Reader:
    def __init__(self, path: Path):
        self.path = path
        self.found: list[Kernel] = []
        self.by_name: dict[str, Kernel] = {}
        self.enums: dict[str, tuple[str, ...]] = {}

    def fail(self, node: yaml.Node | int, reason: str) -> ContractError:
        line = node if isinstance(node, int) else node.start_mark.line + 1
        return ContractError(f"{self.path}:{line}: {reason}")

    def read(self) -> Table:
        try:
            root = yaml.compose(self.path.read_text())
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise self.fail(line, f"not valid YAML: {error.problem}") from error
        if not isinstance(root, yaml.MappingNode):
            raise self.fail(1, "expected a mapping of sections to lists of kernels")
        for section, entries in root.value:
            if section.value == "enums":
                self.read_enums(entries)
                continue
            if not isinstance(entries, yaml.SequenceNode):
                raise self.fail(section, f"section `{section.value}`: expected a list of kernels")
            for entry in entries.value:
                kernel = self.kernel(entry, section.value)
                for name in kernel.names:
                    if name in self.by_name:
                        raise self.fail(entry, f"kernel `{name}` is already in line {self.by_name[name].line}")
                    self.by_name[name] = kernel
                self.found.append(kernel)
        for kernel in self.found:
            for key, name in kernel.variants.items():
                if name not in self.by_name:
                    raise self.fail(kernel.line, f"kernel `{kernel.names[0]}`: {key} is `{name}`; expected a kernel")
        return Table(self.found, self.enums)

    def read_enums(self, node: yaml.Node) -> None:
        raw = yaml.SafeLoader("").construct_document(node)
        if not isinstance(raw, dict):
            raise self.fail(node, "enums: expected a mapping of names to lists of values")
        for name, values in raw.items():
            names = values if isinstance(values, list) else []
            if not ENUM_NAME.fullmatch(str(name)) or not all(NAME.fullmatch(str(v)) for v in names) or len(names) < 2:
                raise self.fail(node, f"enum `{name}`: expected a name as `MyEnum`, and a list of lower-case names")
            self.check_unique(node, f"enum `{name}`: value", names)
            self.enums[name] = tuple(names)

    def mapping(self, node: yaml.Node, known: set[str], what: str) -> dict[str, Any]:
        """The mapping of `node`, all of whose keys are known."""
        if not isinstance(node, yaml.MappingNode):
            raise self.fail(node, f"{what}: expected a mapping")
        for key, _ in node.value:
            if key.value not in known:
                raise self.fail(key, f"{what}: unknown key `{key.value}`; known: {', '.join(sorted(known))}")
        return dict(yaml.SafeLoader("").construct_document(node))

    def choice(self, node: yaml.Node, what: str, given: Any, known: Any) -> Any:
        if given not in known:
            raise self.fail(node, f"{what} is `{given}`; expected one of {', '.join(known)}")
        return given

    def kernel(self, node: yaml.Node, section: str) -> Kernel:
        raw = self.mapping(node, KERNEL_KEYS, "kernel")
        names = tuple(raw["names"] if "names" in raw else [raw.get("name")])
        if ("name" in raw) == ("names" in raw) or not names:
            raise self.fail(node, "a kernel has either `name` or `names`")
        for name in names:
            if not isinstance(name, str) or not KERNEL_NAME.fullmatch(name):
                raise self.fail(node, f"kernel name `{name}`; expected `name` or `family.name` in lower case")
        what = f"kernel `{names[0]}`"
        version = raw.get("version", 1)
        if not isinstance(version, int) or version < 1:
            raise self.fail(node, f"{what}: version is `{version}`; expected a positive integer")
        if not raw.get("meaning"):
            raise self.fail(node, f"{what}: `meaning` is missing; expected one line of text")
        traits = frozenset(self.choice(node, f"{what}: trait", t, TRAITS) for t in raw.get("traits", []))
        children = {key.value: child for key, child in node.value}
        own_operands, operands = self.members(children.get("operands"), what, self.operand, "operands")
        own_parameters, parameters = self.members(children.get("parameters"), what, self.parameter, "parameters")
        self.check_operands(node, what, operands)
        self.check_parameters(node, what, parameters)
        self.check_shapes(node, what, operands, parameters)
        program_if = self.program_if(node, what, raw.get("program_if"), operands, parameters)
        same = {o.kernel for o in own_operands if isinstance(o, Reference)}
        opaque = raw.get("loops") == "opaque"
        values = self.values(node, what, raw.get("value", {}), operands, parameters)
        if (opaque and values) or not (opaque or values or raw.get("loops") or own_operands == []):
            raise self.fail(node, f"{what}: expected `loops`, a `value`, or `loops: opaque` without a value")
        if "loops" not in raw and len(same) == 1:
            loops = self.by_name[same.pop()].loops
        else:
            loops = () if opaque else self.loops(node, what, raw.get("loops", {}), operands, parameters)
        return Kernel(
            names, version, section, node.start_mark.line + 1, tuple(operands), tuple(parameters),
            tuple(own_operands), tuple(own_parameters), loops, values, opaque, traits,
            self.dtypes(node, what, raw) or ("compute",), program_if,
            {key: raw[key] for key in VARIANTS if key in raw}, raw["meaning"],
        )  # fmt: skip

    def loops(
        self, node: yaml.Node, what: str, given: Any, operands: list[Operand], parameters: list[Parameter]
    ) -> tuple[Loop, ...]:
        if not isinstance(given, dict):
            raise self.fail(node, f"{what}: loops is `{given}`; expected a mapping of names to kinds")
        names = {term.partition("@")[0] for operand in operands for term in operand.terms()}
        others = {o.name for o in operands} | {p.name for p in parameters}
        found = []
        for name, value in given.items():
            entry = dict(value) if isinstance(value, dict) else {"kind": value}
            kind, _, condition = str(entry.pop("kind", "window")).partition(" if ")
            self.choice(node, f"{what}: loop `{name}`", kind, LOOP_KINDS)
            condition = entry.pop("if", condition)
            asked = tuple(condition.removeprefix("not ").split(" == ")) if condition else ()
            plain = {re.sub(r"\[\d+\]$", "", part) for part in asked if not part.isdecimal()}
            extra = {entry[key] for key in ("over", "size") if key in entry}
            if unknown := ({name} - names) | ((plain | extra) - names - others):
                raise self.fail(node, f"{what}: loop `{name}`: {', '.join(sorted(unknown))} is no name of an index map")
            if set(entry) - {"over", "axis", "size"} or (kind == "window") != ("over" in entry and "size" in entry):
                expected = "`parallel`, `parallel if a == b`, or a mapping with over, axis and size"
                raise self.fail(node, f"{what}: loop `{name}` is `{value}`; expected {expected}")
            for operand in operands:
                if operand.role == "out" and not operand.optional and not _has(operand, name):
                    raise self.fail(node, f"{what}: operand `{operand.name}` lacks the loop `{name}`")
            found.append(Loop(name, kind, asked, **entry))
        return tuple(found)

    def values(
        self, node: yaml.Node, what: str, given: Any, operands: list[Operand], parameters: list[Parameter]
    ) -> dict[str, str]:
        outputs = [operand.name for operand in operands if operand.written]
        texts = {outputs[0]: given} if isinstance(given, str) and outputs else given
        if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
            raise self.fail(node, f"{what}: value is `{given}`; expected a text, or a mapping of outputs to texts")
        if texts and not set(outputs) & set(texts):
            raise self.fail(node, f"{what}: value has {', '.join(texts)}; expected an output: {', '.join(outputs)}")
        try:
            translations(texts, operands, parameters)
        except kernel_values.ValueTextError as error:
            raise self.fail(node, f"{what}: {error}") from error
        return texts

    def items(self, node: yaml.Node | None, what: str) -> list[yaml.Node]:
        if node is None:
            return []
        if not isinstance(node, yaml.SequenceNode):
            raise self.fail(node, f"{what}: expected a list")
        return node.value

    def members(
        self, node: yaml.Node | None, what: str, read: Callable[[yaml.Node], Any], of: str
    ) -> tuple[list[Any], list[Any]]:
        """The entries of a list as written, and with those of other kernels (their attribute `of`) for references."""
        own: list[Any] = []
        every: list[Any] = []
        for child in self.items(node, what):
            reference = self.reference(child)
            own.append(reference or read(child))
            every += getattr(self.by_name[reference.kernel], of) if reference else own[-1:]
        return own, every

    def reference(self, node: yaml.Node) -> Reference | None:
        if not isinstance(node, yaml.MappingNode) or all(key.value != "as" for key, _ in node.value):
            return None
        kernel = self.mapping(node, {"as"}, "reference")["as"]
        if kernel not in self.by_name:
            raise self.fail(node, f"as: `{kernel}` is not an earlier kernel of this file")
        return Reference(kernel)

    def operand(self, node: yaml.Node) -> Operand:
        raw = self.mapping(node, set(OPERAND_KEYS), "operand")
        name = self.name(node, "operand", raw)
        what = f"operand `{name}`"
        self.choice(node, f"{what}: role", raw.get("role"), ROLES)
        raw["dtypes"] = self.dtypes(node, what, raw)
        for key, value in raw.items():
            expected = {"bool": bool, "str": str}.get(str(OPERAND_KEYS[key]), tuple)
            if not isinstance(value, expected):
                raise self.fail(node, f"{what}: {key} is `{value}`; expected a {expected.__name__}")
        if raw.get("last") and not raw.get("optional"):
            raise self.fail(node, f"{what}: `last` is for optional operands")
        if raw.get("broadcast") and not raw.get("shape"):
            raise self.fail(node, f"{what}: `broadcast` needs the shape that the operand broadcasts to")
        return Operand(**raw)

    def dtypes(self, node: yaml.Node, what: str, raw: dict[str, Any]) -> tuple[str, ...]:
        given = raw.get("dtypes", [])
        return tuple(self.choice(node, f"{what}: dtype", d, (*DTYPES, *DTYPE_GROUPS)) for d in given)

    def parameter(self, node: yaml.Node) -> Parameter:
        raw = self.mapping(node, PARAMETER_KEYS, "parameter")
        name = self.name(node, "parameter", raw)
        what = f"parameter `{name}`"
        kind = self.choice(node, f"{what}: type", raw.get("type"), (*TYPES, *self.enums))
        for key in ("slot", "integer", "imaginary"):
            if key in raw:
                bank = "f" if key == "imaginary" or (key == "slot" and kind in ("float", "number")) else "i"
                raw[key] = self.slot(node, f"{what}: {key}", raw[key], bank)
        if "slot" not in raw or (kind != "number" and ("integer" in raw or "imaginary" in raw)):
            raise self.fail(node, f"{what}: expected a slot, and `integer` or `imaginary` for a number only")
        counts = {raw[key].count for key in ("slot", "integer", "imaginary") if key in raw}
        if len(counts) > 1:
            raise self.fail(node, f"{what}: expected slots of the same number of values, got {sorted(counts)}")
        bit = raw.get("bit")
        if bit is not None and (kind != "bool" or not isinstance(bit, int) or not 0 <= bit < 63):
            raise self.fail(node, f"{what}: bit is `{bit}`; expected 0 to 62, for a bool only")
        repeat = raw.get("repeat", False)
        if not isinstance(repeat, bool) or (repeat and raw["slot"].count == 1):
            raise self.fail(node, f"{what}: repeat is `{repeat}`; expected a bool, and true for several slots only")
        return Parameter(**raw, values=self.enums.get(kind, ()))

    def name(self, node: yaml.Node, what: str, raw: dict[str, Any]) -> str:
        name = raw.get("name")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise self.fail(node, f"{what}: name is `{name}`; expected lower case letters, digits and underscores")
        return name

    def slot(self, node: yaml.Node, what: str, text: Any, bank: str) -> Slot:
        match = re.fullmatch(r"([if])(\d+)(?:\.\.(\d+))?", str(text))
        if match is None or match[1] != bank:
            raise self.fail(node, f"{what} is `{text}`; expected `{bank}3` or `{bank}3..5`")
        first, last = int(match[2]), int(match[3] or match[2])
        if not first <= last < MAX_PARAMS[bank]:
            raise self.fail(node, f"{what} is `{text}`; expected ascending numbers below {MAX_PARAMS[bank]}")
        return Slot(bank, first, last - first + 1)

    def check_operands(self, node: yaml.Node, what: str, operands: list[Operand]) -> None:
        """Outputs come first, and a program is the last operand."""
        rank = [0 if o.written else 2 if o.role == "program" else 1 for o in operands]
        if rank != sorted(rank) or rank.count(2) > 1:
            raise self.fail(node, f"{what}: expected outputs first, then inputs, then at most one program")
        self.check_unique(node, f"{what}: operand", [o.name for o in operands])

    def check_parameters(self, node: yaml.Node, what: str, parameters: list[Parameter]) -> None:
        self.check_unique(node, f"{what}: parameter", [p.name for p in parameters])
        taken: list[tuple[str, int, int | None, str]] = []
        for p in parameters:
            for slot in p.slots():
                for i in range(slot.first, slot.first + slot.count):
                    for bank, place, bit, other in taken:
                        if (bank, place) == (slot.bank, i) and (None in (bit, p.bit) or bit == p.bit):
                            raise self.fail(node, f"{what}: parameters `{other}` and `{p.name}` both have {bank}{i}")
                    taken.append((slot.bank, i, p.bit, p.name))

    def check_shapes(self, node: yaml.Node, what: str, operands: list[Operand], parameters: list[Parameter]) -> None:
        """Names in expressions are integer parameters, or sizes and groups of dimensions of operands."""
        values = {p.name: p.values for p in integers(parameters)}
        terms: list[tuple[Operand, kernel_shapes.Size | kernel_shapes.Group]] = []
        for operand in operands:
            try:
                shape = kernel_shapes.parse(operand.shape, values)
            except kernel_shapes.ShapeError as error:
                raise self.fail(node, f"{what}: operand `{operand.name}`: {error}") from error
            terms += [(operand, term) for _, form in shape.forms for term in form.terms or ()]
        known = set(values) | {term.name for _, term in terms if isinstance(term, kernel_shapes.Group)}
        sizes = [(operand, term) for operand, term in terms if isinstance(term, kernel_shapes.Size) and not term.any]
        known |= {term.text for _, term in sizes if term.text.isidentifier()}
        for operand, term in sizes:
            if unknown := kernel_shapes.names(term.text) - known:
                raise self.fail(
                    node,
                    f"{what}: operand `{operand.name}`: {', '.join(sorted(unknown))} of the size `{term.text}` is "
                    "neither a parameter nor a size of an operand",
                )

    def check_unique(self, node: yaml.Node, what: str, names: list[str]) -> None:
        for name in names:
            if names.count(name) > 1:
                raise self.fail(node, f"{what} `{name}` is given twice")

    def program_if(
        self, node: yaml.Node, what: str, given: str | None, operands: list[Operand], parameters: list[Parameter]
    ) -> Parameter | None:
        if given is None:
            return None
        found = [p for p in parameters if p.name == given and p.slot.bank == "i"]
        if not found or not any(o.role == "program" and o.optional for o in operands):
            raise self.fail(node, f"{what}: program_if is `{given}`; expected an integer parameter of a kernel with an "
                                  "optional program")  # fmt: skip
        return found[0]


def _has(operand: Operand, loop: str) -> bool:
    return any(term.partition("@")[0] == loop for term in operand.terms())


def translations(texts: dict[str, str], operands: Iterable[Operand], parameters: Iterable[Parameter]) -> dict[str, str]:
    """The values of outputs as Python (kernel_values.translate)."""
    maps = {operand.name: operand.terms() for operand in operands}
    others = frozenset(texts) - frozenset(maps)
    names = kernel_values.Names(maps, frozenset(parameter.name for parameter in parameters), others)
    first = next((output for output in texts if output in maps), "")
    return {
        name: kernel_values.translate(text, first if name in others else name, names) for name, text in texts.items()
    }


def integers(parameters: Iterable[Parameter]) -> list[Parameter]:
    """The parameters whose values are integers."""
    return [p for p in parameters if p.slot.bank == "i" and not p.repeat]


def load(path: Path) -> Table:
    return Reader(path).read()


@lru_cache(maxsize=1)
def by_name() -> dict[str, Kernel]:
    """The contract of each kernel that has one of its own."""
    return {name: kernel for kernel in load(ROOT / TABLE).kernels for name in kernel.names}
