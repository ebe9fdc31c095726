# SPDX-License-Identifier: BSD-3-Clause
"""`make conformance` and `make triton-conformance`: how they sort tests, their exclusions, and the pages they write."""

import contextlib
import tempfile
import unittest
from pathlib import Path

from tools.conformance import page, removed_names, runs, suites
from tools.conformance.triton import page as triton_page
from tools.conformance.triton import runs as triton_runs

SUITE = """
import unittest

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase, run_tests


class TestFirst(TestCase):
    def test_passes(self, device):
        self.assertEqual((torch.ones(2, device=device) + 1).sum().item(), 4)

    def test_fails_everywhere(self, device):
        self.assertEqual(torch.ones(2, device=device).sum().item(), 3)

    def test_fails_here(self, device):
        self.assertEqual(torch.ones(2, device=device).device.type, "cpu")

    def test_fails_as_expected(self, device):
        self.fail("here and on the CPU")

    def test_excluded(self, device):
        self.assertEqual(torch.ones(2, device=device).device.type, "cpu")

    def test_excluded_in_vain(self, device):
        pass

    def test_ends_the_process(self, device):
        import os
        os._exit(1)

    def test_skipped(self, device):
        self.skipTest("not for this device")


class TestSecond(TestCase):
    def test_uses_the_fallback(self, device):
        torch.empty(2, device=device).to_sparse().smm(torch.ones(2, 2, device=device))


class TestSwitch(TestCase):
    def setUp(self):
        super(self.__class__, self).setUp()

    def test_passes(self, device):
        pass


class TestHost(TestCase):
    def test_left_out(self):
        self.fail("is not for a device")


instantiate_device_type_tests(TestFirst, globals())
if "TestFirstCPU" in globals():
    TestFirstCPU.test_fails_as_expected_cpu = unittest.expectedFailure(TestFirstCPU.test_fails_as_expected_cpu)
instantiate_device_type_tests(TestSecond, globals())
instantiate_device_type_tests(TestSwitch, globals())
"""


class TestConformance(unittest.TestCase):
    def test_outcomes(self):
        """Each kind of outcome; a failure that the CPU shares is told apart."""
        table = suites.Table(
            ("test_small.py",),
            (
                suites.Exclusion("test_small.py", ("TestFirst.test_excluded*",), "no reason"),
                suites.Exclusion("test_small.py", ("TestFirst.test_ends_*",), "ends the process", runs=False),
            ),
        )
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "test_small.py").write_text(SUITE)
            result = runs.check(Path(folder), "test_small.py", table, jobs=1)
        expected = {
            "TestFirst.test_passes_atalla": "passed",
            "TestFirst.test_fails_everywhere_atalla": "cpu",
            "TestFirst.test_fails_as_expected_atalla": "cpu",
            "TestFirst.test_fails_here_atalla": "failed",
            "TestFirst.test_excluded_atalla": "excluded",
            "TestFirst.test_excluded_in_vain_atalla": "excluded",
            "TestFirst.test_ends_the_process_atalla": "excluded",
            "TestFirst.test_skipped_atalla": "skipped",
            "TestSecond.test_uses_the_fallback_atalla": "cpu",
            "TestSwitch.test_passes_atalla": "passed",
        }
        self.assertEqual(result.outcomes, expected)
        self.assertEqual(result.unexpected, ["TestFirst.test_excluded_in_vain_atalla"])

    def test_wrong_exclusions(self):
        for suite, reason in (("b.py", "r"), ("a.py", "")):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "table.toml"
                path.write_text(
                    f'suites = ["a.py"]\n[[exclude."{suite}"]]\ntests = ["T.test_x"]\nreason = "{reason}"\n'
                )
                with self.assertRaisesRegex(ValueError, "expected one of `suites`"):
                    suites.load(path)

    def test_classes_for_the_cpu_and_cuda_are_for_all_devices(self):
        given = []
        instantiate = removed_names.for_all_devices(lambda tests, only_for=None: given.append(only_for))
        for only_for in (("cpu", "cuda"), "cuda", ("cpu",), None):
            instantiate(unittest.TestCase, only_for=only_for)
        self.assertEqual(given, [None, "cuda", ("cpu",), None])

    def test_samples_with_one_context(self):
        """A context of the installed torch that forbids the sample's success, inside of one that ignores exceptions."""
        contexts = (
            (lambda test: contextlib.suppress(AssertionError)),
            (lambda test: test.assertRaises(ZeroDivisionError)),
        )
        pair = removed_names.with_one_context(lambda: lambda sample, index: (sample, *contexts))()
        for divisor in (0, 1):
            sample, context = pair(divisor, 0)
            with context(self):
                1 / sample
        self.assertIsNone(removed_names.with_one_context(lambda: None)())

    def test_page_lists_the_exclusions(self):
        """The page has every exclusion of the table, and a row for each suite, in which no test failed."""
        table, text = suites.load(), page.PAGE.read_text()
        self.assertTrue(text.endswith(page.exclusions(table)), "run `make conformance`")
        rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ") and line.count("|") == 7]
        self.assertEqual([row[0].removeprefix("| ") for row in rows[1:]], ["---", *table.suites, "all that ran"])
        self.assertEqual({row[2] for row in rows[2:]} - {""}, {"0"})

    def test_suites_that_did_not_run_keep_their_counts(self):
        table = suites.Table(("a.py", "b.py", "c.py"), ())
        first = page.counts([runs.Result("a.py", {"x": "passed", "y": "cpu"})], table, {})
        self.assertIn("| c.py | not run |", first)
        kept = page.kept_counts("Measured with 1.\n" + first, "Measured with 1.")
        self.assertEqual(kept["a.py"], [1, 0, 0, 1, 0])
        second = page.counts([runs.Result("b.py", {"z": "skipped"})], table, kept)
        self.assertIn("| a.py | 1 | 0 | 0 | 1 | 0 |", second)
        self.assertIn("| all that ran | 1 | 0 | 0 | 1 | 1 |", second)
        self.assertEqual(page.kept_counts("Measured with 1.\n" + first, "Measured with 2."), {})


TRITON_SUITE = """
import os
import pytest
import torch


@pytest.mark.parametrize("n", range(10))
def test_many(n, device):
    assert torch.full((2,), n, device=device).sum().item() == 2 * n


def test_fails(device):
    assert torch.ones(2, device=device).sum().item() == 3


def test_uses_the_fallback(device):
    torch.empty(2, device=device).to_sparse().smm(torch.ones(2, 2, device=device))


def test_poison_return(device):
    assert device == "cuda"


def test_assume(device):
    pass


def test_inline_asm(device):
    os._exit(1)


def test_skipped(device):
    if device != "cuda":
        pytest.skip("for cuda")
"""


class TestTritonConformance(unittest.TestCase):
    def test_outcomes(self):
        """Each kind of outcome, with the exclusions of test_core.py, and a part of many parametrisations."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "test_core.py"
            path.write_text(TRITON_SUITE)
            result = triton_runs.check(path, suites.load(triton_runs.TABLE), most=4, jobs=1)
        expected = {f"test_many[{n}]": "passed" for n in (0, 2, 5, 7)} | {
            "test_fails": "failed",
            "test_uses_the_fallback": "failed",
            "test_poison_return": "excluded",
            "test_assume": "gpu",
            "test_inline_asm": "gpu",
            "test_skipped": "skipped",
        }
        self.assertEqual(result.outcomes, expected)
        self.assertEqual(result.unexpected, ["test_assume"])
        self.assertEqual(len(result.tests), 16)
        self.assertEqual(result.share(), 4 / 7)

    def test_page_lists_the_exclusions(self):
        text = triton_page.PAGE.read_text()
        for row in suites.load(triton_runs.TABLE).exclusions:
            for test in row.tests:
                self.assertIn(f"`{test.replace('[[]', '[')}`", text, "run `make triton-conformance`")
            self.assertIn(f" | {row.reason} |", text, "run `make triton-conformance`")
        counts = next(line for line in text.splitlines() if line.startswith("| tests | ") and "number" not in line)
        passed, failed, excluded = (int(cell.replace(",", "")) for cell in counts.split(" | ")[1:4])
        self.assertEqual(failed, 0)
        self.assertGreaterEqual(passed / (passed + excluded), 0.85)


if __name__ == "__main__":
    unittest.main()
