# SPDX-License-Identifier: BSD-3-Clause
"""Reads the printed form of a TTIR module, which is one op a line, into the IR.

The text is what Triton's cache holds and `TRITON_KERNEL_OVERRIDE` reads. Locations give the line of the user's source:
of an inlined call, the line of the call, as long as the callee is Triton's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from .ir import WIDTHS, Block, Function, Location, Op, Region, TileError, Type, Value

_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_RESULTS = re.compile(r"^((?:%[\w$.-]+(?::\d+)?(?:, )?)+) = ")
_LOCATION = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_FILE = re.compile(r'^"((?:[^"\\]|\\.)*)":(\d+):(\d+)')
_NAMED = re.compile(r'^"(?:[^"\\]|\\.)*"\((.*)\)$')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_OWN_SOURCES = "/triton/language/"  # of the standard library, whose lines say little to a user


def parse(text: str) -> list[Function]:
    """The functions of a module; TileError if a line is none of TTIR's."""
    return _Parser(text).functions()


class _Parser:
    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.at = 0
        self.aliases = {m[1]: m[2] for m in map(_LOCATION.match, self.lines) if m}
        self.resolved: dict[str, Location | None] = {}

    # ------------------------------------------------------------------------------------------------- locations
    def location(self, text: str | None) -> Location | None:
        if text is None:
            return None
        if text not in self.resolved:
            self.resolved[text] = self._resolve(text)
        return self.resolved[text]

    def _resolve(self, text: str) -> Location | None:
        text = text.strip()
        if text.startswith("#loc"):
            return self.location(self.aliases.get(text, "unknown"))
        if text.startswith("callsite("):
            callee, _, caller = _unwrapped(text[len("callsite") :]).partition(" at ")
            inner = self.location(callee)
            outer = self.location(caller)
            return outer if inner is None or _OWN_SOURCES in inner.file else inner
        if match := _FILE.match(text):
            return Location(match[1], int(match[2]), int(match[3]))
        if match := _NAMED.match(text):
            return self.location(match[1])
        if text.startswith("fused"):
            parts = _split(text[text.find("[") + 1 : text.rfind("]")])
            found = [self.location(part) for part in parts]
            return next((x for x in found if x is not None), None)
        return None

    # --------------------------------------------------------------------------------------------------- structure
    def functions(self) -> list[Function]:
        found = []
        while self.at < len(self.lines):
            line, location = self._line()
            if line.startswith("tt.func"):
                found.append(self._function(line, location))
        if not found:
            raise TileError("the module has no function")
        return found

    def _line(self) -> tuple[str, str | None]:
        """The next line without its location."""
        line = self.lines[self.at].strip()
        self.at += 1
        return _without_location(line)

    def _function(self, line: str, location: str | None) -> Function:
        match = re.match(r"tt\.func (public |private )?@([\w$.]+|\"[^\"]*\")\(", line)
        if match is None:
            raise TileError(f"no function: {line}")
        start = match.end() - 1
        inside = line[start + 1 : _closing(line, start)]
        arguments = _arguments(inside)
        body = self._region({value.name: value for value in arguments})
        return Function(match[2].strip('"'), arguments, body, match[1] != "private ", self.location(location))

    def _region(self, scope: dict[str, Value], arguments: list[Value] | None = None) -> Region:
        """Up to the line that closes it, which stays in self.closing."""
        scope = dict(scope)
        blocks = [Block("bb0", arguments or [], [])]
        for value in blocks[0].arguments:
            scope[value.name] = value
        while True:
            if self.at >= len(self.lines):
                raise TileError("the module ends inside of a region")
            line, location = self._line()
            if line.startswith("}"):
                self.closing, self.closing_location = line, location
                return Region(blocks)
            if line.startswith("^"):
                label = re.match(r"\^([\w$.]+)", line)
                assert label is not None
                values = _arguments(line[line.index("(") + 1 : line.rindex(")")]) if "(" in line else []
                scope |= {value.name: value for value in values}
                if not blocks[-1].ops and len(blocks) == 1 and not blocks[0].arguments:
                    blocks[0].label, blocks[0].arguments = label[1], values
                else:
                    blocks.append(Block(label[1], values, []))
                continue
            if line:
                blocks[-1].ops.append(self._op(line, location, scope))

    def _op(self, line: str, location: str | None, scope: dict[str, Value]) -> Op:
        names: list[tuple[str, int]] = []
        if match := _RESULTS.match(line):
            for part in match[1].split(", "):
                name, _, count = part.partition(":")
                names.append((name, int(count or 1)))
            line = line[match.end() :]
        name, _, rest = line.partition(" ")
        if name.startswith('"'):  # "tt.reduce"(%x) <{...}> ({
            name, _, rest = line[1:].partition('"')
        elif "(" in name:  # scf.condition(%x)
            name, _, tail = line.partition("(")
            rest = "(" + tail
        op = Op(name, [], [], {}, [])
        if rest.endswith("{"):
            self._with_regions(op, rest, scope)
            location = self.closing_location or location
        else:
            self._without_regions(op, rest, scope)
        op.location = self.location(location)
        types = op.attributes.pop("result_types")
        if op.name == "tt.split":
            types *= 2
        wanted = sum(n for _, n in names)
        if wanted != len(types):
            raise TileError(f"{op.name}: {wanted} results, but the types of {len(types)}: {line}", op.location)
        i = 0
        for base, count in names:
            for k in range(count):
                value = Value(base if count == 1 else f"{base}#{k}", types[i])
                scope[value.name] = value
                op.results.append(value)
                i += 1
        return op

    def _values(self, text: str, scope: dict[str, Value]) -> list[Value]:
        found = []
        for name in _VALUE.findall(text):
            if name.endswith("#0") and name not in scope:
                name = name[:-2]
            if name not in scope:
                raise TileError(f"value {name} is not defined")
            found.append(scope[name])
        return found

    def _without_regions(self, op: Op, rest: str, scope: dict[str, Value]) -> None:
        head, types = _split_type(rest)
        for label, values in re.findall(r"\^([\w$.]+)(?:\(([^)]*)\))?", head):
            op.successors.append(label)
            op.passed.append(self._values(values, scope))
        if op.name == "arith.constant":
            if not types:  # true, false
                types = "i1"
            op.attributes = {"value": head}
        else:
            bare, braces = _without_braces(head)
            for inside in braces:
                op.attributes.update(_attributes(inside))
            strings = [m[1:-1] for m in _STRING.findall(bare)]
            bare = _STRING.sub("", bare)
            op.operands = self._values(bare, scope)
            words = re.findall(r"[\w.]+", _VALUE.sub("", bare))
            op.attributes |= {"words": words} if words else {}
            op.attributes |= {"strings": strings} if strings else {}
            if op.name == "tt.dot_scaled":  # of the two factors
                op.attributes["scaled"] = [" scale " in part for part in bare.split(",")[:2]]
        op.attributes["result_types"] = _result_types(op, types)

    def _with_regions(self, op: Op, rest: str, scope: dict[str, Value]) -> None:
        """scf.for, scf.if, scf.while, and the generic form of reductions and scans."""
        if op.name == "scf.for":
            match = re.match(r"(unsigned )?(%\S+) = (%\S+) to (%\S+) step (%\S+)", rest)
            if match is None:
                raise TileError(f"no loop: {rest}")
            op.attributes["unsigned"] = match[1] is not None
            op.operands = self._values(f"{match[3]} {match[4]} {match[5]}", scope)
            arguments = [Value(match[2], op.operands[0].type)]
            types: list[Type] = []
            if "iter_args(" in rest:
                start = rest.index("iter_args(") + len("iter_args")
                end = _closing(rest, start)
                pairs = [p.split(" = ") for p in _split(rest[start + 1 : end])]
                types = [parse_type(t) for t in _split(_unwrapped(rest[rest.index("->", end) + 2 :].strip()))]
                op.operands += [self._values(init, scope)[0] for _, init in pairs]
                arguments += [Value(name.strip(), t) for (name, _), t in zip(pairs, types, strict=True)]
            op.regions = [self._region(scope, arguments)]
            op.attributes["result_types"] = types
        elif op.name == "scf.if":
            op.operands = self._values(rest.split("->")[0], scope)
            types = [parse_type(t) for t in _split(_unwrapped(rest.split("->")[1].strip()))] if "->" in rest else []
            op.regions = [self._region(scope)]
            if self.closing.startswith("} else {"):
                op.regions.append(self._region(scope))
            op.attributes["result_types"] = types
        elif op.name == "scf.while":
            arguments = []
            head, _, kind = rest.partition(" : ")
            if head.startswith("("):
                pairs = [p.split(" = ") for p in _split(_unwrapped(head))]
                op.operands = [self._values(init, scope)[0] for _, init in pairs]
                arguments = [Value(name.strip(), v.type) for (name, _), v in zip(pairs, op.operands, strict=True)]
            else:
                kind = rest[rest.index(":") + 1 :].strip()
            types = _arrow(kind.removesuffix("{").strip())
            op.regions = [self._region(scope, arguments)]
            if not self.closing.startswith("} do {"):
                raise TileError(f"scf.while: no body: {self.closing}")
            op.regions.append(self._region(scope))
            op.attributes["result_types"] = types
        elif rest.endswith("({"):
            op.operands = self._values(_unwrapped(rest), scope)
            for braces in re.findall(r"<\{(.*?)\}>", rest):
                op.attributes.update(_attributes(braces))
            op.regions = [self._region(scope)]
            while self.closing.startswith("}, {"):
                op.regions.append(self._region(scope))
            op.attributes["result_types"] = _arrow(self.closing[self.closing.index(":") + 1 :].strip())
        else:
            raise TileError(f"{op.name}: an op with a body that tile programs do not have")


# ---------------------------------------------------------------------------------------------------------------- text
def parse_type(text: str) -> Type:
    text = text.strip()
    shape: tuple[int, ...] | None = None
    if text.startswith("tensor<"):
        text = text[len("tensor<") : -1]
        match = re.match(r"(?:\d+x)*", text)
        assert match is not None
        shape = tuple(int(n) for n in match[0].split("x") if n)
        text = text[match.end() :]
    if text.startswith("!tt.ptr<"):
        pointee = text[len("!tt.ptr<") : text.rindex(">")]
        return Type("ptr", shape, _split(pointee)[0])
    if text == "index":
        text = "i64"
    if text not in WIDTHS:
        raise TileError(f"type `{text}` is none of a tile program's: {', '.join(WIDTHS)}")
    return Type(text, shape)


def _outside_strings(text: str, start: int = 0) -> Iterator[tuple[int, str, int]]:
    """Places and characters that no string encloses, and how many brackets are open behind them."""
    depth, i = 0, start
    while i < len(text):
        c = text[i]
        if c == '"':
            match = _STRING.match(text, i)
            i = match.end() if match else len(text)
            continue
        if c in "([{<":
            depth += 1
        elif c in ")]}" or (c == ">" and text[i - 1] != "-"):
            depth -= 1
        yield i, c, depth
        i += 1


def _closing(text: str, start: int) -> int:
    """Where the bracket at `start` is closed."""
    for i, _, depth in _outside_strings(text, start):
        if depth == 0:
            return i
    raise TileError(f"a bracket is not closed: {text}")


def _unwrapped(text: str) -> str:
    """What stands between the first bracket and its end; the text before a `{` if it has none."""
    text = text.strip()
    if not text.startswith("("):
        return text.removesuffix("{").strip()
    return text[1 : _closing(text, 0)]


def _split(text: str) -> list[str]:
    """Parts between commas that no bracket encloses."""
    commas = [i for i, c, depth in _outside_strings(text) if c == "," and depth == 0]
    parts = [text[a + 1 : b].strip() for a, b in zip([-1, *commas], [*commas, len(text)], strict=True)]
    return parts if parts[-1] else parts[:-1]


def _without_location(line: str) -> tuple[str, str | None]:
    if not line.endswith(")"):
        return line, None
    at = line.rfind(" loc(")
    while at >= 0:
        try:
            if _closing(line, at + 4) == len(line) - 1:
                return line[:at].rstrip(), line[at + 5 : -1]
        except TileError:
            pass
        at = line.rfind(" loc(", 0, at)
    return line, None


def _arguments(text: str) -> list[Value]:
    """The arguments of a function or a block: `%a: type {attributes} loc(...), ...`."""
    parts = (part.partition(": ") for part in _split(text))
    return [Value(name.strip(), parse_type(_without_location(kind)[0].split(" {")[0])) for name, _, kind in parts]


def _without_braces(text: str) -> tuple[str, list[str]]:
    """The text outside of braces, and what each pair of them encloses."""
    outside, inside, start, i = [], [], 0, 0
    while i < len(text):
        if text[i] == '"':
            match = _STRING.match(text, i)
            i = match.end() if match else len(text)
        elif text[i] == "{":
            end = _closing(text, i)
            outside.append(text[start:i].removesuffix("<"))
            inside.append(text[i + 1 : end])
            start = i = end + (2 if text[end + 1 : end + 2] == ">" else 1)
        else:
            i += 1
    return "".join([*outside, text[start:]]), inside


def _split_type(rest: str) -> tuple[str, str]:
    """The text before and after the colon that introduces the types."""
    colons = [i for i, c, depth in _outside_strings(rest) if c == ":" and depth == 0 and rest[i - 1 : i + 2] == " : "]
    return (rest[: colons[-1]].strip(), rest[colons[-1] + 1 :].strip()) if colons else (rest, "")


def _arrow(text: str) -> list[Type]:
    """Result types of `types -> types`."""
    right = text[text.rindex("->") + 2 :].strip()
    return [parse_type(t) for t in _split(_unwrapped(right))]


def _attributes(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in _split(text):
        key, _, value = part.partition(" = ")
        found[key.strip()] = _attribute(value.strip())
    return found


def _attribute(text: str) -> Any:
    if text.startswith("array<"):
        inside = text[text.index("<") + 1 : -1].partition(":")[2]
        return [_attribute(part) for part in _split(inside)]
    if text in ("true", "false", ""):
        return text != "false"
    number = text.split(" : ")[0]
    if re.fullmatch(r"-?\d+", number):
        return int(number)
    return text.strip('"')


_NONE = ("tt.store", "tt.return", "scf.yield", "scf.condition", "tt.reduce.return", "tt.scan.return", "tt.assert",
         "tt.print", "cf.br", "cf.cond_br", "gpu.barrier", "ttg.barrier", "ttg.local_barrier", "cf.assert",
         "llvm.intr.assume", "tt.map_elementwise.return")  # fmt: skip


def _result_types(op: Op, text: str) -> list[Type]:
    if op.name in _NONE or not text:
        return []
    if "->" in text:
        return _arrow(text)
    if op.name != "tt.dot" and " to " in text:
        return [parse_type(text.split(" to ")[1])]
    listed = [parse_type(t) for t in _split(text)]
    rule: Callable[[list[Type]], Type] = _RULES.get(op.name, lambda types: types[-1])
    return [rule(listed)]


_RULES: dict[str, Callable[[list[Type]], Type]] = {
    "arith.cmpi": lambda types: types[0].with_element("i1"),
    "arith.cmpf": lambda types: types[0].with_element("i1"),
    "tt.addptr": lambda types: types[0],
    "tt.load": lambda types: Type(types[0].pointee or "", types[0].shape),
}
