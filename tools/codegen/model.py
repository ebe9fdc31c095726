# SPDX-License-Identifier: BSD-3-Clause
"""The op list, parsed and checked.

`load(path)` turns atalla_native_functions.yaml into `Entry` objects bound to upstream's schemas (torchgen's packaged
native_functions.yaml). A wrong entry raises `EntryError` with the file, the line and the reason, which fails the build.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torchgen
import yaml
from torchgen.gen import ParsedYaml, get_grouped_native_functions, parse_native_yaml
from torchgen.model import (
    BackendMetadata,
    DispatchKey,
    NativeFunction,
    NativeFunctionsGroup,
    OperatorName,
    SchemaKind,
)

from . import c_abi, calls
from . import kernels as contracts

CLASSES: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "integer": ("uint8", "int8", "int16", "int32", "int64"),
    "floating": ("float16", "bfloat16", "float32", "float64"),
    "complex": ("complex64", "complex128"),
}
DTYPES = tuple(d for members in CLASSES.values() for d in members)
_CHIP_NAMES = {
    "uint8": "U8", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "float16": "F16", "float32": "F32",
    "float64": "F64", "complex64": "C64", "complex128": "C128", "bool": "BOOL", "bfloat16": "BF16",
}  # fmt: skip
TORCH = tuple(int(part) for part in importlib.metadata.version("torch").split(".")[:2])
_ABI = c_abi.load(Path(__file__).parents[2]).constants
CODES = {dtype: _ABI[f"ATALLA_{_CHIP_NAMES[dtype]}"] for dtype in DTYPES}  # c10::ScalarType values, too
DEFAULT_CLASSES = ("bool", "integer", "floating")
PROMOTIONS = ("default", "int_to_float", "bool", "none")
ITERATORS = (
    *("unary", "unary_bool", "unary_float", "unary_real", "unary_float_real", "binary", "binary_like_self"),
    "comparison",
)
RESULTS = ("same", "real")
OVERLAPS = ("internal", "partial", "any")
FIELDS = {
    "op", "formula", "classes", "variants", "kernel", "promotion", "iterator", "inputs", "result", "operands",
    "scalars", "requires", "adaptor", "dtypes", "overlap", "torch",
}  # fmt: skip


class EntryError(Exception):
    """A wrong entry of the op list: says where and why."""


@dataclass(frozen=True)
class Input:
    name: str
    type: str  # "compute": converted to the promoted dtype while it is loaded; else the torch dtype it is loaded as


@dataclass(frozen=True)
class ScalarArg:
    name: str
    optional: bool


@dataclass(frozen=True)
class Pointwise:
    """One pointwise kernel of the chip, named `pointwise.<name>`."""

    name: str
    inputs: tuple[Input, ...]
    scalars: tuple[ScalarArg, ...]
    formulas: dict[str, str]  # dtype class -> C++ expressions, one a result, separated by semicolons
    results: tuple[
        str, ...
    ]  # each a dtype, "same" as the compute dtype, or "real": of complex components, else the same
    dtypes: tuple[str, ...]  # compute dtypes
    line: int  # of the entry in the YAML
    requires: tuple[tuple[str, str], ...] = ()  # conditions on each element, and what to say where one fails

    @property
    def result(self) -> str:
        return self.results[0]


@dataclass(frozen=True)
class Entry:
    op: str
    line: int
    group: NativeFunctionsGroup | None
    function: NativeFunction  # the overload that `op` names
    promotion: str
    iterator: str | None
    call: calls.Call | None  # of the adaptor
    kernels: tuple[str, ...]  # names of the chip kernels it launches
    variants: dict[str, str] | None  # value of the string argument -> kernel name
    variant_arg: str | None
    pointwise: tuple[Pointwise, ...]  # kernels that this entry defines
    formula: Pointwise | None  # of the first kernel
    compute_dtypes: tuple[str, ...]
    results: tuple[str, ...] = ("same",)  # of an adaptor that allocates; each a dtype, or "same" as the first tensor's
    overlap: str | None = None  # what memory the outputs that a caller gives must not share

    @property
    def adaptor(self) -> str | None:
        return self.call.function if self.call else None

    @property
    def is_upstream(self) -> bool:
        """Whether upstream's own functions are the adaptor."""
        return self.adaptor == "upstream"

    @property
    def allocates(self) -> bool:
        """Whether the adaptor is the out= form, and the functional form is the same with results of its own."""
        kind = self.function.func.kind()
        return not self.structured and kind == SchemaKind.functional and (self.adaptor or "").endswith("_out")

    @property
    def structured(self) -> bool:
        return self.group is not None and self.group.structured

    @property
    def family(self) -> str:
        return self.kernels[0].split(".")[0]

    @property
    def input_dtypes(self) -> tuple[str, ...]:
        """Dtypes that a user's tensors may have: integers too, where the op promotes them to a float."""
        if self.promotion == "int_to_float":
            wider = (*CLASSES["bool"], *CLASSES["integer"])
            return (*wider, *(d for d in self.compute_dtypes if d not in wider))
        return self.compute_dtypes

    def tensors(self) -> list[str]:
        return [a.name for a in self.function.func.arguments.flat_non_out if a.type.is_tensor_like()]


@lru_cache(maxsize=1)
def native_functions() -> ParsedYaml:
    root = Path(torchgen.__file__).parent / "packaged/ATen/native"
    return parse_native_yaml(str(root / "native_functions.yaml"), str(root / "tags.yaml"))


def upstream_kernels() -> dict[OperatorName, BackendMetadata]:
    """What the CPU runs for each overload that has a kernel of its own."""
    return native_functions().backend_indices[DispatchKey.CPU].index


@lru_cache(maxsize=1)
def upstream() -> tuple[dict[str, NativeFunction], dict[str, NativeFunctionsGroup]]:
    """Upstream's overloads by name, and the group (functional, in-place, out) of each."""
    parsed = native_functions()
    functions = {str(f.func.name): f for f in parsed.native_functions}
    groups: dict[str, NativeFunctionsGroup] = {}
    for group in get_grouped_native_functions(parsed.native_functions):
        if isinstance(group, NativeFunctionsGroup):
            for f in group.functions():
                groups[str(f.func.name)] = group
    return functions, groups


def scalars_of(f: NativeFunction) -> tuple[ScalarArg, ...]:
    found = []
    for a in f.func.arguments.flat_non_out:
        text = str(a.type)
        if text.rstrip("?") in ("Scalar", "int", "float", "bool", "SymInt"):
            found.append(ScalarArg(a.name, text.endswith("?")))
    return tuple(found)


def of_each_op(raw: dict) -> list[dict]:
    """An entry for several ops as one for each."""
    if not isinstance(raw.get("op"), list):
        return [raw]
    text = json.dumps(raw)
    return [json.loads(calls.for_op(text, op)) | {"op": op} for op in raw["op"]]


class Parser:
    def __init__(self, path: Path):
        self.path = path
        self.kernels: dict[str, Pointwise] = {}

    def fail(self, line: int, reason: str) -> EntryError:
        return EntryError(f"{self.path}:{line}: {reason}")

    def known(self, what: str, given: str, names: tuple[str, ...], line: int) -> str:
        if given not in names:
            raise self.fail(line, f"unknown {what} `{given}`; known: {', '.join(names)}")
        return given

    def parse(self) -> list[Entry]:
        root = yaml.compose(self.path.read_text())
        if not isinstance(root, yaml.SequenceNode):
            raise self.fail(1, "expected a list of entries")
        entries: list[Entry] = []
        seen: dict[str, int] = {}
        for node in root.value:
            line = node.start_mark.line + 1
            if not isinstance(node, yaml.MappingNode):
                raise self.fail(line, "expected a mapping with the key `op`")
            raw = yaml.SafeLoader("").construct_document(node)
            if not self.has_op(raw, line):
                continue
            for entry in (self.entry(each, line) for each in of_each_op(raw)):
                if entry.op in seen:
                    raise self.fail(line, f"op `{entry.op}` already stands in line {seen[entry.op]}")
                seen[entry.op] = line
                entries.append(entry)
        return entries

    def has_op(self, raw: dict, line: int) -> bool:
        """Whether the installed torch has the op, by the entry's key `torch`."""
        if "torch" not in raw:
            return True
        if "formula" in raw or "variants" in raw:
            raise self.fail(
                line, "torch: an entry with a formula needs a torch-independent op, whose kernel is the chip's"
            )
        found = re.fullmatch(r"(<|>=)(\d+)\.(\d+)", str(raw["torch"]))
        if found is None:
            raise self.fail(line, f'torch: expected "<2.15" or ">=2.15", got `{raw["torch"]}`')
        first = (int(found[2]), int(found[3]))
        return (TORCH < first) == (found[1] == "<")

    def entry(self, raw: dict, line: int) -> Entry:
        unknown = sorted(set(raw) - FIELDS)
        if unknown:
            raise self.fail(line, f"unknown key `{unknown[0]}`; known: {', '.join(sorted(FIELDS))}")
        op = raw.get("op")
        functions, groups = upstream()
        if op not in functions:
            raise self.fail(line, f"unknown schema `{op}`: native_functions.yaml has no such overload")
        promotion = self.known("promotion", raw.get("promotion", "default"), PROMOTIONS, line)
        iterator = raw.get("iterator") and self.known("iterator", raw["iterator"], ITERATORS, line)
        function, group = functions[op], groups.get(op)
        try:
            call = calls.parse(raw["adaptor"]) if "adaptor" in raw else None
        except calls.CallError as error:
            raise self.fail(line, f"adaptor: {error}") from error
        if not call and not iterator and not (group and group.structured and group.out.structured_inherits):
            raise self.fail(line, f"`{op}` is no structured TensorIterator op: give `iterator` or `adaptor`")
        pointwise, variants, variant_arg = self.formulas(raw, function, line)
        for p in pointwise:
            self.kernels[p.name] = p
        if pointwise:
            kernels = tuple(dict.fromkeys(f"pointwise.{p.name}" for p in pointwise))
            dtypes = tuple(d for d in DTYPES if any(d in p.dtypes for p in pointwise))
        else:
            named = raw.get("kernel")
            if not named:
                raise self.fail(line, f"`{op}` has neither a formula nor a kernel")
            kernels = tuple(named) if isinstance(named, list) else (named,)
            dtypes = self.kernel_dtypes(kernels, line)
        if "dtypes" in raw:
            dtypes = self.expand(raw["dtypes"], line)
        if not dtypes:
            raise self.fail(line, f"`{op}` needs `dtypes`")
        given = raw.get("result", "same")
        results = tuple(given) if isinstance(given, list) else (given,)
        overlap = raw.get("overlap") and self.known("overlap", raw["overlap"], OVERLAPS, line)
        if overlap and (not call or (group and group.structured and group.out.structured_inherits)):
            raise self.fail(line, f"overlap: `{op}` is checked by its iterator")
        family, _, name = kernels[0].partition(".")
        formula = self.kernels[name] if family == "pointwise" else None
        return Entry(
            op,
            line,
            group,
            function,
            promotion,
            iterator,
            call,
            kernels,
            variants,
            variant_arg,
            pointwise,
            formula,
            dtypes,
            results,
            overlap,
        )

    def kernel_dtypes(self, kernels: tuple[str, ...], line: int) -> tuple[str, ...]:
        dtypes: tuple[str, ...] = ()
        for kernel in kernels:
            family, _, name = kernel.partition(".")
            if family == "pointwise":
                if name not in self.kernels:
                    raise self.fail(line, f"unknown kernel `{kernel}`: no earlier entry defines it")
                dtypes = self.kernels[name].dtypes
            elif kernel not in contracts.by_name():
                raise self.fail(line, f"unknown kernel `{kernel}`: {contracts.TABLE} does not list it")
        return dtypes

    def formulas(self, raw: dict, f: NativeFunction, line: int):
        base = re.sub(r"_$", "", str(f.func.name.name))
        overload = f.func.name.overload_name
        name = base if overload in ("", "Tensor", "self", "out") else f"{base}_{overload.lower()}"
        if "kernel" in raw and ("formula" in raw or "variants" in raw):
            family, _, name = str(raw["kernel"]).partition(".")
            if family != "pointwise" or not name:
                raise self.fail(line, f"kernel: a formula's kernel is named pointwise.<name>, not `{raw['kernel']}`")
        if "variants" in raw:
            mapping = dict(raw["variants"])
            arg = mapping.pop("arg", None)
            if arg not in [a.name for a in f.func.arguments.flat_non_out]:
                raise self.fail(line, f"variants: `{raw['op']}` has no argument `{arg}`")
            found, table = [], {}
            for value, text in mapping.items():
                p = self.pointwise(f"{name}_{value}", text, raw, f, line, exclude=arg)
                found.append(p)
                table[str(value)] = f"pointwise.{p.name}"
            return tuple(found), table, arg
        if "formula" not in raw:
            return (), None, None
        return (self.pointwise(name, raw["formula"], raw, f, line),), None, None

    def pointwise(self, name: str, text, raw: dict, f: NativeFunction, line: int, exclude: str | None = None):
        if name in self.kernels:
            raise self.fail(line, f"kernel `pointwise.{name}` is already defined in line {self.kernels[name].line}")
        if isinstance(text, str):
            formulas = {c: text for c in self.classes(raw.get("classes", DEFAULT_CLASSES), line)}
        elif isinstance(text, dict):
            formulas = {c: str(text[c]) for c in self.classes(text, line)}
        else:
            raise self.fail(line, "formula: expected a text or a mapping of dtype classes to texts")
        types = raw.get("inputs", {})
        names = [a.name for a in f.func.arguments.flat_non_out if a.type.is_tensor_like()]
        names = raw.get("operands", names)
        for given, dtype in types.items():
            if given not in names:
                raise self.fail(line, f"inputs: `{raw['op']}` has no tensor `{given}`; it has {', '.join(names)}")
            self.expand([dtype], line)
        inputs = tuple(Input(n, types.get(n, "compute")) for n in names)
        scalars = tuple(s for s in scalars_of(f) if s.name != exclude)
        if "scalars" in raw:
            scalars = tuple(ScalarArg(s, False) for s in raw["scalars"])
        dtypes = tuple(d for c in formulas for d in CLASSES[c])
        if "dtypes" in raw:
            dtypes = tuple(d for d in dtypes if d in self.expand(raw["dtypes"], line))
        given = raw.get("result", "bool" if raw.get("promotion") == "bool" else "same")
        results = tuple(given) if isinstance(given, list) else (given,)
        for result in results:
            self.known("result", result, (*RESULTS, *DTYPES), line)
        for text in formulas.values():
            if text.count(";") + 1 != len(results):
                raise self.fail(line, f"formula: {text.count(';') + 1} expressions for {len(results)} results")
        parameters = contracts.by_name()[contracts.POINTWISE].parameters
        places = next(p.slot.count for p in parameters if p.name == "scalars")
        if len(scalars) > places:
            raise self.fail(line, f"a formula takes at most {places} scalars, got {len(scalars)}")
        requires = raw.get("requires", {})
        if not isinstance(requires, dict):
            raise self.fail(line, "requires: expected a mapping of conditions to error texts")
        return Pointwise(name, inputs, scalars, formulas, results, dtypes, line, tuple(requires.items()))

    def classes(self, given, line: int) -> list[str]:
        for c in given:
            if c not in CLASSES:
                raise self.fail(line, f"bad dtype class `{c}`; known: {', '.join(CLASSES)}")
        return [c for c in CLASSES if c in given]

    def expand(self, given, line: int) -> tuple[str, ...]:
        found: list[str] = []
        for d in given:
            if d in CLASSES:
                found += CLASSES[d]
            elif d in DTYPES:
                found.append(d)
            else:
                raise self.fail(line, f"bad dtype `{d}`; known: {', '.join((*CLASSES, *DTYPES))}")
        return tuple(dict.fromkeys(found))


def load(path: str | Path) -> list[Entry]:
    return Parser(Path(path)).parse()


def pointwise_kernels(entries: list[Entry]) -> list[Pointwise]:
    return [p for e in entries for p in e.pointwise]
