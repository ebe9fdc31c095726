# SPDX-License-Identifier: BSD-3-Clause
"""Programs that once failed in some path, made small by tools/fuzz_graphs.py: each passes the checks that it names."""

from pathlib import Path

import torch
from torch.testing._internal.common_utils import TestCase
from torch_version import LOWEST

from tools.graph_fuzz.evaluate import CHECKS, evaluate
from tools.graph_fuzz.generator import Generator
from tools.graph_fuzz.nested.builder import TEMPLATES as NESTED_TEMPLATES
from tools.graph_fuzz.program import Case, Line, Program
from tools.graph_fuzz.shrink import shrink
from tools.graph_fuzz.templates import TEMPLATES

ROOT = Path(__file__).resolve().parents[2]

FILES = sorted((ROOT / "test/data/fuzz").glob("*/*.py"))


class TestFuzzCases(TestCase):
    """One test a file, added below."""

    def test_there_are_cases(self):
        self.assertGreaterEqual(len(FILES), 30)


def _add(path: Path) -> None:
    def test(self):
        case = Case.read(path)
        unknown = set(case.checks) - set(CHECKS)
        self.assertFalse(unknown, f"{path.name}: unknown checks {unknown}")
        outcome = evaluate(case, case.checks)
        if outcome.invalid and not LOWEST:
            self.skipTest(f"this version of torch refuses the case: {outcome.invalid}")
        self.assertEqual(outcome.invalid, "")
        if outcome.problems:
            self.fail("\n".join(f"{p.check}: {p.category}: {p.text}" for p in outcome.problems))
        self.assertTrue(outcome.passed or outcome.refused)

    setattr(TestFuzzCases, f"test_{path.parent.name}_{path.stem}", test)


for _path in FILES:
    _add(_path)


class TestFuzzer(TestCase):
    """The fuzzer itself finds what is there to be found."""

    def test_a_seed_determines_the_programs(self):
        first, second = Generator(3), Generator(3)
        for number in range(40):
            self.assertEqual(first.next(number).source(), second.next(number).source())

    def test_programs_run_on_the_cpu(self):
        generator = Generator(5)
        for number in range(60):
            module, args = Case(generator.next(number).source()).build()
            with torch.no_grad():
                module(*args)
        self.assertGreater(len(TEMPLATES), 500)

    def test_nested_programs_run_at_all_their_sizes(self):
        generator, other = Generator(6, nested=1.0), Generator(6, nested=1.0)
        several = 0
        for number in range(30):
            case = Case(generator.next(number).source())
            self.assertEqual(case.text, other.next(number).source())
            module, _ = case.build()
            for sizes in case.sizes:
                with torch.no_grad():
                    module(*case.arguments(sizes))
            symbols = [symbol for dims in case.dims for text in dims for symbol in "nm" if symbol in text]
            several += len(symbols) > len(set(symbols))
        self.assertGreater(several, 15)
        self.assertGreater(len(NESTED_TEMPLATES), 200)

    def test_a_size_that_is_fixed_is_seen(self):
        """A program that computes with the size of its example, at other sizes."""
        text = """
import torch
CHECKS = ("symbols", "symbols exact", "symbols fast", "symbols compiled")
DYNAMIC = "nested"
SIZES = ({"n": 4}, {"n": 6})
DIMS = (("n", "2 * n"),)
class M(torch.nn.Module):
    def forward(self, x):
        return (x * (x.shape[0] if x.is_cpu else 4),)
def arguments(n):
    return (torch.randn(n, 2 * n),)
args = arguments(**SIZES[0])
"""
        outcome = evaluate(Case(text), Case(text).checks)
        found = [(p.check, p.category) for p in outcome.problems]
        self.assertEqual(found, [("symbols", "values"), ("symbols exact", "bits"), ("symbols fast", "values")])
        self.assertEqual(outcome.passed, ["symbols compiled"])  # which sees the device

    def test_wrong_values_are_seen(self):
        """A program that gives other values on the device than on the CPU."""
        text = """
import torch
CHECKS = ("eager",)
class M(torch.nn.Module):
    def forward(self, x):
        return (x + (1e-3 if x.is_cpu else 0.0),)
args = (torch.randn(4, 5),)
"""
        outcome = evaluate(Case(text), ("eager",))
        self.assertEqual([p.category for p in outcome.problems], ["values"])
        strided = text.replace("x + (1e-3 if x.is_cpu else 0.0)", "x.clone() if x.is_cpu else x.t().contiguous().t()")
        self.assertEqual([p.category for p in evaluate(Case(strided), ("eager",)).problems], ["layout"])

    def test_rounding_is_no_difference(self):
        """Cancellation, thresholds and positions of equal numbers depend on the last bit."""
        text = """
import torch
CHECKS = ("eager",)
class M(torch.nn.Module):
    def forward(self, x):
        y = torch.softmax(x, -1)
        return (y.sum(-1) - 1, torch.floor(y.sum(-1)), (y.sum(-1) - 1).sign())
args = (torch.randn(40, 33),)
"""
        self.assertEqual(evaluate(Case(text), ("eager",)).problems, [])

    def test_internal_errors_are_seen(self):
        text = """
import torch
CHECKS = ("eager",)
class M(torch.nn.Module):
    def forward(self, x):
        assert x.is_cpu
        return (x,)
args = (torch.randn(3),)
"""
        (problem,) = evaluate(Case(text), ("eager",)).problems
        self.assertIn("AssertionError", problem.category)

    def test_shrinking_keeps_what_fails(self):
        lines = tuple(
            Line(f"v{k + 1} = torch.{op}(v{k})", (f"v{k + 1}",)) for k, op in enumerate(["sin", "exp", "cos"], 1)
        )
        program = Program({"v1": "torch.randn((3, 4))"}, lines=lines, outputs=("v3", "v4"))
        small = shrink(program, lambda candidate: "torch.exp" in candidate.source())
        self.assertEqual([line.text for line in small.lines], ["v3 = torch.exp(v2)"])
        self.assertEqual(set(small.inputs), {"v2"})
