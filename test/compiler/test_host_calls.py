# SPDX-License-Identifier: BSD-3-Clause
"""Host calls: fallback segments as text, and texts from elsewhere, whose checksums fit."""

from __future__ import annotations

import json
import os
import random
import struct
import sys
from collections import defaultdict
from enum import Enum
from typing import Any
from unittest import mock

import models
import pytest
import torch
from torch import nn
from torch.testing._internal.common_utils import TestCase, run_tests
from torch.utils import _pytree as pytree

import torch_atalla
from torch_atalla.__main__ import main
from torch_atalla.compiler.capture.capture import capture
from torch_atalla.compiler.linearize.segments import encode_segment
from torch_atalla.driver import runtime
from torch_atalla.loadable import LoadableError, leaves, provenance
from torch_atalla.loadable.description import describe, render
from torch_atalla.loadable.errors import ExportError, UnsupportedOpsError
from torch_atalla.loadable.file.container import Container
from torch_atalla.loadable.file.format import Section
from torch_atalla.loadable.host_call import Segment, find_op
from torch_atalla.loadable.host_operators import refusal

SORT = {"op": "aten::sort.stable", "args": [{"v": 0}], "kwargs": {"stable": True}}
PART = {"op": "getitem", "args": [{"v": 1}, 0], "kwargs": {}}


def text_of(*nodes: dict[str, Any]) -> str:
    return json.dumps({"inputs": 1, "nodes": list(nodes), "outputs": [len(nodes)]})


def node(op: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"op": op, "args": list(args), "kwargs": kwargs}


def with_text(data: bytes, text: str) -> bytes:
    """The file with another text as its only host call."""
    container = Container.read(data)
    sections = {section.kind: section for section in container.sections}
    pool, calls = sections[Section.STRINGS], sections[Section.HOST_CALLS]
    first = len(pool.content)
    pool.content, pool.crc = bytes(pool.content) + text.encode() + b"\0", None
    calls.content, calls.crc = struct.pack("<2I", first, len(text.encode())) + bytes(calls.content)[8:], None
    return container.pack(runtime.crc32c)


OWN_OPERATORS = """
import torch

library = torch.library.Library("atalla_trust", "DEF")
library.define("flip(Tensor x) -> Tensor")
library.impl("flip", lambda x: x.flip(0).contiguous(), "CPU")
library.impl("flip", lambda x: torch.empty_like(x), "Meta")
"""

# Operators that often run with random arguments.
RUN = [f"aten::{name}" for name in ("abs", "add.Tensor", "mul.Scalar", "sum", "relu", "exp", "clone", "sin")]


class TestHostOperators(TestCase):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        self.path = tmp_path / "model.atl"
        torch_atalla.save_loadable(models.HostOpInTheMiddle(), self.path, args=(torch.randn(3, 5),))
        self.data = self.path.read_bytes()

    def load(self, text: str, **options: Any) -> Any:
        self.path.write_bytes(with_text(self.data, text))
        return torch_atalla.load_loadable(self.path, **options)

    def test_a_file_is_not_opened(self):
        text = text_of(node("aten::from_file", "created", True, 4))
        with self.assertRaisesRegex(
            LoadableError, r"model.atl.*aten::from_file takes free text \(filename\).*operators"
        ):
            self.load(text)
        for command in ("run", "verify", "report"):
            self.assertEqual(main([command, str(self.path)]), 1)
        self.assertEqual(main(["inspect", str(self.path)]), 0)
        self.assertEqual(os.listdir(), ["model.atl"])

    def test_names_do_not_steer_a_terminal(self):
        container = Container.read(self.data)
        pool = next(section for section in container.sections if section.kind == Section.STRINGS)
        name, changed = b"\0HostOpInTheMiddle\0", b"\0HostOp\x1b[2J\r\niddle\0"
        self.assertIn(name, bytes(pool.content))
        pool.content, pool.crc = bytes(pool.content).replace(name, changed), None
        self.path.write_bytes(container.pack(runtime.crc32c))
        text = render(describe(str(self.path)))
        self.assertIn(r"\x1b[2J\r\n", text)
        self.assertTrue(text.replace("\n", "").isprintable())
        pool.content = bytes(pool.content).replace(b'{"model"', b'["model"')
        self.path.write_bytes(container.pack(runtime.crc32c))
        self.assertEqual(main(["inspect", str(self.path)]), 1)
        with self.assertRaisesRegex(LoadableError, "the file's report cannot be read"):
            torch_atalla.load_loadable(self.path, operators=["atalla_test::*"])

    def test_refused(self):
        x = {"v": 0}
        for record, reason in (
            (node("aten::add_.Tensor", x, x), "changes its arguments"),
            (node("aten::sort.values_stable", x, values=x, indices=x), "changes its arguments"),
            (node("aten::rand_like", x), "draws from the random generator"),
            (node("aten::bernoulli.p", x, 0.5), "draws from the random generator"),
            (node("aten::_print", "text"), "has no result"),
            (node("aten::einsum", "i->", [x]), "free text"),
            (node("aten::fbgemm_linear_fp16_weight", x, x, x), "internal"),
            (node("aten::save", x, "file"), "has no operator"),
            (node("prims::device_put", x, {"device": "cpu"}), "not an operator of PyTorch"),
            (node("aten::pin_memory", x), "internal"),
            (node("aten::_to_copy", x, pin_memory=True), "pin_memory"),
            (node("aten::_to_copy", x, device={"device": "atalla:0"}), "no tensor, number or enumeration"),
            (node("aten::_to_copy", x, layout={"layout": "load"}), "no tensor, number or enumeration"),
            (node("aten::_to_copy", x, memory_format={"memory_format": "hub"}), "no tensor, number or enumeration"),
            (node("aten::_to_copy", x, dtype={"dtype": "load"}), "name of a dtype"),
            (node("aten::div.Tensor_mode", x, x, rounding_mode="../file"), "expected floor, trunc"),
            (node("aten::neg", x, nothing=x), "other arguments"),
            (node("aten::neg", x, x), "other arguments"),
            (node("aten::neg", {"v": 1}), "number of a value"),
            (node("aten::neg", {"v": -1}), "number of a value"),
            (node("aten::neg", {"v": True}), "number of a value"),
            (node("operator::attrgetter", x), "has no operator"),
            (node("pow", 10, 10**9), "has no operator"),
            (node("attrgetter", "__class__"), "has no operator"),
            (node("load_library::__globals__", x), "has no operator"),
        ):  # fmt: skip
            with self.assertRaisesRegex(LoadableError, reason, msg=str(record)):
                self.load(text_of(record))
        for text in (
            "",
            "[]",
            "{}",
            '{"inputs":1}',
            "[" * 100000,
            '{"inputs":1,"nodes":[{}],"outputs":[]}',
            "1" * 5000,
        ):
            with self.assertRaisesRegex(LoadableError, "not a list of nodes", msg=text[:40]):
                self.load(text)

    def test_named_operators_run(self):
        x = torch.randn(3, 5)
        text = text_of(node("aten::bernoulli.p", {"v": 0}, 0.0))
        segment = Segment(text, ["aten::bernoulli"])
        self.assertEqual(segment.run([x]), [torch.zeros(3, 5)])
        for pattern in ("aten::*", "aten::bernoulli.p", "*"):
            self.assertFalse(Segment(text, [pattern]).refused)
        for pattern in ("bernoulli", "mylib::*", "aten::bern"):
            self.assertTrue(Segment(text, [pattern]).refused)
        with self.assertRaisesRegex(TypeError, "expected a list of patterns, got the string 'aten::"):
            torch_atalla.load_loadable(self.path, operators="aten::*")

    def test_custom_operators(self):
        with torch.library._scoped_library("atalla_trust", "DEF") as lib:
            lib.define("flip(Tensor x) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
            lib.impl("flip", lambda x: x.flip(0).contiguous(), "CPU")
            lib.impl("flip", lambda x: torch.empty_like(x), "Meta")

            class Flip(nn.Module):
                def forward(self, x):
                    return torch.ops.atalla_trust.flip(x * 2) + 1

            x = torch.randn(3)
            report = torch_atalla.save_loadable(Flip(), self.path, args=(x,))
            self.assertIn("operators=['atalla_trust::flip']", str(report))
            own = torch_atalla.load_loadable(self.path)  # this process saved it
            self.assertEqual(own(x.to("atalla")).cpu(), (x * 2).flip(0) + 1)
            self.enterContext(mock.patch.object(provenance, "_written", set()))
            with self.assertRaisesRegex(LoadableError, r"atalla_trust::flip is not .*operators=\['atalla_trust::\*'\]"):
                torch_atalla.load_loadable(self.path)
            program = torch_atalla.load_loadable(self.path, operators=["atalla_trust::*"])
            self.assertEqual(program(x.to("atalla")).cpu(), (x * 2).flip(0) + 1)
            self.assertEqual(main(["run", str(self.path)]), 1)
            self.assertEqual(main(["run", str(self.path), "--operators", "atalla_trust::*"]), 0)
            torch.export.save(torch.export.export(Flip(), (x,)), "flip.pt2")
        with self.assertRaisesRegex(LoadableError, "no operator atalla_trust::flip: import the library .*--import"):
            torch_atalla.load_loadable(self.path, operators=["*"])
        self.path.with_name("own_operators.py").write_text(OWN_OPERATORS)
        self.enterContext(mock.patch.object(sys, "path", [str(self.path.parent), *sys.path]))
        allowed = ("--import", "own_operators", "--operators", "atalla_trust::*")
        self.assertEqual(main(["run", str(self.path), *allowed]), 0)
        self.assertEqual(main(["verify", str(self.path), *allowed]), 0)
        sys.modules.pop("own_operators").library._destroy()
        self.assertEqual(main(["compile", "flip.pt2", "--import", "own_operators"]), 0)
        sys.modules.pop("own_operators").library._destroy()
        with self.assertRaisesRegex(SystemExit, "2"):
            main(["compile", "flip.pt2", "--import", "no_operators"])

    def test_custom_operators_that_change_arguments(self):
        with torch.library._scoped_library("atalla_writes", "DEF") as lib:
            lib.define("add(Tensor x, Tensor(a!) y) -> ()", tags=(torch.Tag.pt2_compliant_tag,))
            lib.define("two(Tensor x, Tensor(a!) y, float k, Tensor(b!) w) -> (Tensor, Tensor)")
            lib.impl("add", lambda x, y: (y.add_(x), None)[1], "CPU")
            lib.impl("add", lambda x, y: None, "Meta")
            lib.impl("two", lambda x, y, k, w: (y.add_(x), w.mul_(k), (x + 1, x + 2))[2], "CPU")
            lib.impl("two", lambda x, y, k, w: (torch.empty_like(x), torch.empty_like(x)), "Meta")

            class Writes(nn.Module):
                def forward(self, x):
                    y, w = x.clone(), x * 3
                    torch.ops.atalla_writes.add(x, y)
                    a, b = torch.ops.atalla_writes.two(torch.cat([x, x])[:3], y, 2.5, w)
                    return y * 2, a, b, w + y

            x = torch.randn(3)
            with self.assertRaisesRegex(UnsupportedOpsError, "atalla_writes::add .*\n.*atalla_writes::two "):
                torch_atalla.save_loadable(Writes(), self.path, args=(x,), fallback="error")
            torch_atalla.save_loadable(Writes(), self.path, args=(x,))
            program = torch_atalla.load_loadable(self.path, operators=["atalla_writes::*"])
            for _ in range(2):
                self.assertEqual([y.cpu() for y in program(x.to("atalla"))], list(Writes()(x)))

    def test_memory_as_it_is_found_is_not_shown(self):
        for record in (
            node("aten::empty.memory_format", [3000], dtype={"dtype": "float32"}),
            node("aten::new_empty", {"v": 0}, [3000]),
            node("aten::empty_like", {"v": 0}),
        ):
            for _ in range(20):
                torch.full((3000,), 7.0)  # freed at once
                (found,) = Segment(text_of(record)).run([torch.ones(3000)])
                self.assertFalse(found.any())

    def test_no_operator_outside_the_rule_runs(self):
        """Texts changed at random, with any registered operator and any argument: a refusal at load, an error of the
        operator, or a result. No file, no random number, no change of an argument."""
        rng = random.Random(7)
        names = sorted(torch._C._dispatch_get_all_op_names())
        values = [{"v": 0}, {"v": 1}, {"v": 2}, [{"v": 0}], 0, 1, -1, 2.5, True, None, [0], [1, 2], "created", "sum"]
        values += [{"dtype": "float32"}, {"device": "cpu"}, {"float": "inf"}, {"complex": ["1", "2"]}]
        x, state = torch.arange(6.0).view(2, 3), torch.random.get_rng_state()
        ran = refused = 0
        for number in range(6400):
            name = rng.choice(names if number < 6000 else RUN)  # the libraries that are loaded change `names`
            args = [rng.choice(values) for _ in range(rng.randrange(1, 5))]
            args[0] = rng.choice([{"v": 0}, "created", args[0]])
            text = text_of(node("aten::neg", {"v": 0}), node(name, *args))
            try:
                segment = Segment(text)
            except LoadableError:
                refused += 1
                continue
            if segment.refused:
                self.assertIsNotNone(refusal(find_op(name)))
                with self.assertRaisesRegex(LoadableError, "not known to be pure"):
                    segment.run([x])
                refused += 1
                continue
            if not {torch.Tag.core, torch.Tag.pointwise} & set(find_op(name).tags):
                continue  # mistakes of rarer kernels with wrong sizes are not the subject
            try:
                segment.run([x])
                ran += 1
            except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
                pass
            self.assertEqual(x, torch.arange(6.0).view(2, 3), msg=text)
        self.assertEqual(os.listdir(), ["model.atl"])
        self.assertEqual(torch.random.get_rng_state(), state)
        self.assertGreater(ran, 20)
        self.assertGreater(refused, 500)


class Key(Enum):
    A = 1


class TestStructures(TestCase):
    """Pytree specs of a file: pytree imports the modules that they name."""

    def spec(self, kind: str, context: str | None, children: int = 0) -> str:
        leaf = {"type": None, "context": None, "children_spec": []}
        return json.dumps([1, {"type": kind, "context": context, "children_spec": [leaf] * children}])

    def test_names_of_objects(self):
        name = {"__enum__": True, "fqn": "antigravity:Name", "name": "A"}
        factory = {"default_factory_module": "os", "default_factory_name": "getcwd", "dict_context": []}
        for text in (
            self.spec("builtins.dict", json.dumps([name]), 1),
            self.spec("builtins.dict", json.dumps([[name]]), 1),
            self.spec("builtins.dict", json.dumps([{**name, "fqn": "os:environ"}]), 1),
            self.spec("collections.defaultdict", json.dumps(factory)),
        ):
            with self.assertRaisesRegex(ExportError, "found"):
                leaves.load_spec(text)

    def test_structures_of_calls(self):
        one = torch.ones(1)
        for tree in (
            {"a": one, "b": [one, (one,)]},
            defaultdict(list, {"k": one}),
            {Key.A: one},
        ):
            spec = pytree.tree_structure(tree)
            self.assertEqual(leaves.load_spec(leaves.dump_spec(spec)), spec)


class Fn(nn.Module):
    def __init__(self, fn: Any):
        super().__init__()
        self.fn = fn

    def forward(self, *args: torch.Tensor) -> Any:
        return self.fn(*args)


CASES = {
    "sort": (lambda x: torch.sort(x, stable=True, descending=True)[0], (torch.randn(3, 4),)),
    "infinity": (lambda x: x.masked_fill(x > 0, float("-inf")), (torch.randn(5),)),
    "not a number": (lambda x: torch.full_like(x, float("nan")), (torch.randn(5),)),
    "dtypes and devices": (lambda x: x.to(torch.float64) + torch.zeros(3, dtype=torch.bfloat16), (torch.randn(3),)),
    "optional and list": (lambda x, y: torch.cat([x, y], 0).sum((0,), keepdim=True), (torch.ones(2, 3),) * 2),
    "complex": (lambda x: torch.fft.fft(x).abs() * 2.5, (torch.randn(8),)),
    "dynamic inside": (lambda x: x.unique().sum(), (torch.randn(9),)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_round_trip(name: str) -> None:
    fn, args = CASES[name]
    program = capture(Fn(fn), args)
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    inputs = list(program.graph.find_nodes(op="placeholder"))
    (results,) = program.graph.output_node().args
    call = encode_segment(nodes, inputs, list(results))
    found = Segment(call.program).run(list(args))
    torch.testing.assert_close(found, [fn(*args)], equal_nan=True, rtol=0, atol=0)


def test_wrong_number_of_tensors() -> None:
    with pytest.raises(LoadableError, match="takes 1 tensors, got 2"):
        Segment('{"inputs":1,"nodes":[],"outputs":[0]}').run([torch.ones(1)] * 2)


def test_unknown_operator() -> None:
    with pytest.raises(LoadableError, match="no operator aten::frobnicate"):
        find_op("aten::frobnicate")
    with pytest.raises(LoadableError, match="no operator nowhere::add.Tensor"):
        find_op("nowhere::add.Tensor")


if __name__ == "__main__":
    run_tests()
