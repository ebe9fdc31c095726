# SPDX-License-Identifier: BSD-3-Clause
"""The op list is checked: each kind of wrong entry names its line and the reason."""

import json
import tempfile
import unittest
from pathlib import Path

from tools.codegen import calls, model, package_tables, registrations

ROOT = Path(__file__).resolve().parents[2]

OPS = ROOT / "csrc/aten/atalla_native_functions.yaml"


class TestEntries(unittest.TestCase):
    def fails(self, text: str, expected: str, line: int = 1):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ops.yaml"
            path.write_text(text)
            with self.assertRaises(model.EntryError) as caught:
                model.load(path)
            self.assertIn(f"ops.yaml:{line}:", str(caught.exception))
            self.assertIn(expected, str(caught.exception))

    def test_unknown_schema(self):
        self.fails("- {op: ad.Tensor, formula: self}", "unknown schema `ad.Tensor`")

    def test_unknown_kernel(self):
        self.fails("- {op: mm, kernel: gem, adaptor: mm, dtypes: [floating]}", "unknown kernel `gem`")
        self.fails("- {op: eq.Scalar, kernel: pointwise.nope}", "unknown kernel `pointwise.nope`")

    def test_bad_dtype(self):
        self.fails("- {op: mm, kernel: gemm, adaptor: mm, dtypes: [float7]}", "bad dtype `float7`")
        self.fails("- {op: exp, formula: exp(self), classes: [real]}", "bad dtype class `real`")

    def test_unknown_key(self):
        self.fails("- {op: exp, formulas: exp(self)}", "unknown key `formulas`")

    def test_unknown_promotion_and_iterator(self):
        self.fails("- {op: exp, formula: exp(self), promotion: up}", "unknown promotion `up`")
        self.fails("- {op: abs, formula: abs(self), iterator: nary}", "unknown iterator `nary`")

    def test_neither_formula_nor_kernel(self):
        self.fails("- {op: exp}", "neither a formula nor a kernel")

    def test_unstructured_without_adaptor(self):
        self.fails("- {op: abs, formula: abs(self)}", "give `iterator` or `adaptor`")

    def test_twice(self):
        self.fails('- {op: abs, formula: "abs(self)", iterator: unary_real, result: rael}', "unknown result `rael`")
        self.fails("- {op: exp, formula: exp(self)}\n- {op: exp, kernel: pointwise.exp}", "already stands in line 1", 2)

    def test_unknown_input_and_variant_argument(self):
        self.fails("- {op: exp, formula: exp(self), inputs: {other: bool}}", "has no tensor `other`")
        self.fails("- {op: gelu, variants: {arg: mode, none: {floating: self}}}", "has no argument `mode`")

    def test_results_and_requirements(self):
        self.fails("- {op: exp, formula: exp(self), result: float7}", "unknown result `float7`")
        self.fails("- {op: exp, formula: exp(self), result: [same, int32]}", "1 expressions for 2 results")
        self.fails("- {op: exp, formula: exp(self), requires: self > 0}", "requires: expected a mapping")
        self.fails("- {op: exp, formula: exp(self), kernel: exp}", "a formula's kernel is named pointwise.<name>")

    def test_wrong_call(self):
        self.fails("- {op: mm, kernel: gemm, adaptor: 'mm(', dtypes: [floating]}", "expected a function or a call")
        with self.assertRaisesRegex(model.EntryError, "adaptor of `mm`: the op has no argument `other`"):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "ops.yaml"
                path.write_text("- {op: mm, kernel: gemm, adaptor: 'mm(self, other, out)', dtypes: [floating]}")
                registrations.generate(model.load(path))

    def test_several_ops(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ops.yaml"
            path.write_text('- {op: [exp, special_i1e], formula: "{op}(self)", classes: [floating]}')
            entries = model.load(path)
        self.assertEqual([entry.op for entry in entries], ["exp", "special_i1e"])
        self.assertEqual(
            [entry.formula.formulas for entry in entries], [{"floating": "exp(self)"}, {"floating": "i1e(self)"}]
        )
        self.fails("- {op: [exp, ex], formula: exp(self)}", "unknown schema `ex`")

    def test_not_a_list(self):
        self.fails("op: exp", "expected a list of entries")


class TestCalls(unittest.TestCase):
    def test_arguments(self):
        call = calls.parse("f(kernel, 'a, b', {x, y}, ..., lr=at::scalar_tensor(lr, at::kDouble))")
        expected = ["kernel", '"a, b"', "{x, y}", "self", "at::scalar_tensor(lr, at::kDouble)", "out"]
        self.assertEqual(call.filled(["self", "lr", "out"]), expected)
        self.assertEqual(call.headers(), {"ATen/ops/scalar_tensor.h"})
        self.assertTrue(call.uses("kernel") and call.is_given("out") and not call.uses("out"))
        self.assertEqual(calls.parse("f").filled(["self"]), ["self"])

    def test_optional_tensors(self):
        type_ = "const ::std::optional<at::Tensor> &"
        for text, declared, value in (
            ("f(...)", "void f(const at::Tensor &);", "bias.value_or(at::Tensor())"),
            ("f", f"void f({type_});", "bias"),
        ):
            call = calls.parse(text)
            self.assertEqual(calls.Declarations().add(call, "void", {"bias": type_}, ["bias"]), declared)
            self.assertEqual(call.value("bias", type_), value)

    def test_the_first_entry_declares(self):
        declarations = calls.Declarations()
        types = {"self": "const at::Tensor &", "dim": "int64_t"}
        first = declarations.add(calls.parse("f(true, self, {dim})"), "void", types, list(types))
        self.assertEqual(first, "void f(bool, const at::Tensor &, std::initializer_list<int64_t>);")
        self.assertEqual(declarations.add(calls.parse("f(self, {}, dim)"), "int", types, list(types)), first)


class TestOutputs(unittest.TestCase):
    def test_every_variant_is_registered(self):
        entries = model.load(OPS)
        text = "".join(registrations.generate(entries).values())
        for overload in (
            "add.Tensor",
            "add.out",
            "add_.Tensor",
            "gelu",
            "gelu.out",
            "gelu_",
            "mm",
            "mm.out",
            "where.self",
        ):
            self.assertIn(f'm.impl("{overload}"', text)

    def test_support_table(self):
        table = json.loads(package_tables.support(model.load(OPS)))
        row = table["aten.add.Tensor"]
        self.assertEqual(row["kernel"], "pointwise.add")
        self.assertEqual(row["scalars"], ["alpha"])
        self.assertEqual(row["inputs"], ["self", "other"])
        self.assertIn("aten.add_.Tensor", table)

    def test_at_least_80_families(self):
        self.assertGreaterEqual(len(model.load(OPS)), 80)
