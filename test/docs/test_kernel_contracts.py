# SPDX-License-Identifier: BSD-3-Clause
"""csrc/sim/kernels.yaml: a wrong entry names its line and the reason; its kernels are those the chip registers."""

import json
import re
import tempfile
import unittest
from pathlib import Path

import torch_atalla
from tools.codegen import kernels, kernels_cpp, kernels_json, model

ROOT = Path(__file__).resolve().parents[2]


def table(entry: str) -> str:
    return f"Section:\n- name: first\n  version: 1\n  meaning: text\n{entry}"


class TestEntries(unittest.TestCase):
    def fails(self, text: str, expected: str, line: int):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernels.yaml"
            path.write_text(text)
            with self.assertRaises(kernels.ContractError) as caught:
                kernels.load(path)
            self.assertIn(f"kernels.yaml:{line}:", str(caught.exception))
            self.assertIn(expected, str(caught.exception))

    def entry_fails(self, entry: str, expected: str, line: int = 5):
        self.fails(table(entry), expected, line)

    def test_not_a_table(self):
        self.fails("- name: first", "expected a mapping of sections", 1)
        self.fails("Section:\n  name: first", "expected a list of kernels", 1)
        self.fails("Section: [", "not valid YAML", 1)

    def test_kernel_keys(self):
        self.entry_fails(
            "- {name: k, version: 1, meaning: text, operand: []}", "unknown key `operand`; known: dtypes, fused"
        )
        self.entry_fails("- {version: 1, meaning: text}", "either `name` or `names`")
        self.entry_fails("- {name: K, version: 1, meaning: text}", "kernel name `K`; expected")
        self.entry_fails("- {name: k, version: 0, meaning: text}", "version is `0`; expected a positive integer")
        self.entry_fails("- {name: k, version: 1}", "`meaning` is missing")
        self.entry_fails("- {name: k, version: 1, meaning: text, traits: [fast]}", "trait is `fast`; expected one of")
        self.entry_fails("- {name: first, version: 1, meaning: text}", "kernel `first` is already in line 2")

    def test_loops(self):
        def fails(loops: str, expected: str) -> None:
            operands = 'operands: [{name: out, role: out, shape: "[m, n]"}, {name: a, role: in, shape: "[m, k]"}]'
            parameters = "parameters: [{name: window, slot: i0..1, type: int, meaning: text}]"
            self.entry_fails(
                f"- {{name: k, version: 1, meaning: text, {operands}, {parameters}, loops: {loops}}}", expected
            )

        fails("{m: sideways}", "loop `m` is `sideways`; expected one of parallel, window")
        fails("{x: parallel}", "loop `x`: x is no name of an index map")
        fails("{m: parallel if groups == 1}", "loop `m`: groups is no name of an index map")
        fails("{k: parallel}", "operand `out` lacks the loop `k`")
        fails("{m: {over: k}}", "expected `parallel`, `parallel if a == b`, or a mapping with over, axis and size")
        fails("{n: {over: k, size: rows}}", "loop `n`: rows is no name of an index map")
        fails("[m]", "expected a mapping of names to kinds")

    def test_values(self):
        def fails(value: str, expected: str) -> None:
            operands = 'operands: [{name: out, role: out, shape: "[m]"}, {name: a, role: in, shape: "[m, k]"}]'
            self.entry_fails(f"- {{name: k, version: 1, meaning: text, {operands}, {value}}}", expected)

        fails("value: a", "the value `a`: a follows `k`, which is no loop there; expected a[...] with indices")
        fails("value: sum(a for k in J)", "`J` is no operand, parameter or size, nor a loop of the output")
        fails("value: sum(a for k", "the value `sum(a for k` is no expression")
        fails("value: a.real", "expected .all, .at, .new, .sizes of an operand")
        fails("value: {b: a}", "value has b; expected an output: out")
        fails("value: [a]", "expected a text, or a mapping of outputs to texts")
        fails("value: sum(a for k in K), loops: opaque", "or `loops: opaque` without a value")
        fails("version: 1", "expected `loops`, a `value`, or `loops: opaque` without a value")

    def operand_fails(self, operand: str, expected: str):
        self.entry_fails(f"- {{name: k, version: 1, meaning: text, operands: [{operand}]}}", expected)

    def test_operands(self):
        self.operand_fails("{name: out, role: output}", "role is `output`; expected one of out, inout")
        self.operand_fails("{name: Out, role: out}", "name is `Out`; expected lower case")
        self.operand_fails("{name: out, role: out, dtypes: [F33]}", "dtype is `F33`; expected one of")
        self.operand_fails("{name: out, role: out, optional: 1}", "optional is `1`; expected a bool")
        self.operand_fails("{name: a, role: in, broadcast: true}", "needs the shape")
        self.operand_fails("{name: a, role: in}, {name: out, role: out}", "expected outputs first")
        self.operand_fails("{name: a, role: in}, {name: a, role: in}", "operand `a` is given twice")
        self.operand_fails("{name: a, role: in, last: true}", "`last` is for optional operands")
        self.operand_fails("{as: later}", "`later` is not an earlier kernel")

    def parameter_fails(self, parameter: str, expected: str):
        self.entry_fails(f"- {{name: k, version: 1, meaning: text, parameters: [{parameter}]}}", expected)

    def test_parameters(self):
        self.parameter_fails("{name: p, slot: i0, type: text}", "type is `text`; expected one of int, extent, bool")
        self.parameter_fails("{name: p, slot: f0, type: int}", "slot is `f0`; expected `i3` or `i3..5`")
        self.parameter_fails("{name: p, slot: i0, type: float}", "slot is `i0`; expected `f3` or `f3..5`")
        self.parameter_fails("{name: p, slot: i12, type: int}", "expected ascending numbers below 12")
        self.parameter_fails("{name: p, slot: i0, type: int, integer: i1}", "for a number only")
        self.parameter_fails("{name: p, slot: i0, type: int, bit: 1}", "bit is `1`; expected 0 to 62, for a bool only")
        bits = "{name: p, slot: i0, bit: 1, type: bool}, {name: q, slot: i0, bit: 1, type: bool}"
        self.parameter_fails(bits, "parameters `p` and `q` both have i0")
        self.parameter_fails("{name: p, slot: i0, type: int, repeat: true}", "true for several slots only")
        overlap = "{name: p, slot: i0..2, type: int}, {name: q, slot: i2, type: int}"
        self.parameter_fails(overlap, "parameters `p` and `q` both have i2")
        counts = "{name: p, slot: f0..1, integer: i0..2, type: number}"
        self.parameter_fails(counts, "expected slots of the same number of values, got [2, 3]")

    def test_enums(self):
        self.fails("enums: [a]", "expected a mapping of names to lists of values", 1)
        self.fails("enums: {mode: [a, b]}", "enum `mode`: expected a name as `MyEnum`", 1)
        self.fails("enums: {Mode: [a]}", "enum `Mode`: expected a name as `MyEnum`, and a list", 1)
        self.fails("enums: {Mode: [a, a]}", "enum `Mode`: value `a` is given twice", 1)

    def test_variants(self):
        self.entry_fails("- {name: k, meaning: text, packed: later}", "packed is `later`; expected a kernel")

    def test_program_if(self):
        entry = "- {name: k, version: 1, meaning: text, program_if: p}"
        self.entry_fails(entry, "program_if is `p`; expected an integer parameter")


class TestTable(unittest.TestCase):
    def setUp(self):
        self.table = kernels.load(ROOT / kernels.TABLE)
        self.entries = self.table.kernels

    def test_entries_and_registered_kernels_agree(self):
        # The chip refuses to start with a kernel that has no entry (kernel_table.cpp).
        contracts = {name for entry in self.entries for name in entry.names} - {"pointwise.<name>"}
        registered = set(torch_atalla.chip.kernels())
        self.assertEqual(contracts - registered, set())
        self.assertTrue(all(name.startswith("pointwise.") for name in registered - contracts))

    def test_references_are_resolved(self):
        packed = next(k for k in self.entries if "convolution_packed" in k.names)
        self.assertEqual([str(p.slot) for p in packed.parameters], ["i0", "i1..3", "i4..6", "i7..9"])

    def test_traits(self):
        text = kernels_cpp.traits(self.entries)
        row = dict(re.findall(r'\{\.name = "([^"]+)", (.*)\},', text))
        self.assertIn(".product = true, .outputs = 1, .least = 3, .most = 4, .required = 0x7,", row["gemm"])
        self.assertIn(".enums = {{2, 5}}", row["gemm"])
        self.assertIn(".program = Program::kIfMoreInputs, .program_index = 3,", row["convolution_packed"])
        self.assertIn(".required = 0xfff, .dtypes = {kAnyDtype,", row["reduce_fused"])
        self.assertIn(".required = 0xffb, .dtypes = {kComputeDtype,", row["histogram"])  # the weights are optional
        self.assertIn("{kRealDtype, kComputeDtype, 1u << ATALLA_I32, kComputeDtype}", row["linalg.eigh"])

    def test_accessors(self):
        text = kernels_cpp.parameters(self.table)
        self.assertIn("using ConvolutionPackedParameters = ConvolutionFusedParameters;", text)
        self.assertIn("p.alpha.imaginary = desc.fparams[6];", text)
        self.assertIn("desc->iparams[4] = scalars[4].integer;", text)
        self.assertIn("desc->iparams[9] = dilation[2];", text)

    def test_random_kernels_have_their_source_in_one_place(self):
        for entry in self.entries:  # csrc/runtime/graph/graph.cpp gives a replayed launch another one
            if entry.names[0].startswith("random."):
                places = [(p.name, str(p.slot)) for p in entry.parameters[:2]]
                self.assertEqual(places, [("seed", "i0"), ("offset", "i1")], msg=entry.names[0])

    def test_json(self):
        scalars = (model.ScalarArg("low", False), model.ScalarArg("high", True))
        formula = model.Pointwise("between", (), scalars, {}, (), (), 1)
        table = json.loads(kernels_json.generate(self.entries, [formula]))
        self.assertEqual(table["gemm"]["parameters"]["alpha"], {"slot": ["f", 0, 1], "integer": ["i", 0, 1]})
        self.assertEqual(table["gemm_packed"]["inputs"], ["a", "b", "c"])
        self.assertEqual(table["gemm_packed"]["program_if"], "has_program")
        between = table["pointwise.between"]
        self.assertIn("in_place", between["traits"])
        self.assertEqual(
            between["parameters"],
            {
                "low": {"slot": ["f", 0, 1], "integer": ["i", 0, 1]},
                "high": {"slot": ["f", 1, 1], "integer": ["i", 1, 1], "present": [11, 1]},
            },
        )

    def test_guide_shows_the_contract(self):
        shown = re.search(r"```yaml\n(.*?)```", (ROOT / "docs/guides/adding-a-kernel.md").read_text(), re.S)
        self.assertIn(shown[1], (ROOT / kernels.TABLE).read_text())
