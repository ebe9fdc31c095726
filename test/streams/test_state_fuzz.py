# SPDX-License-Identifier: BSD-3-Clause
"""The fuzzer of state (tools/state_fuzz): its steps agree with eager mode, and it finds planted faults."""

from __future__ import annotations

from unittest import mock

import torch
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

from tools.state_fuzz.ambient import Ambient
from tools.state_fuzz.functions import FUNCTIONS
from tools.state_fuzz.sequence import Step, sequence
from tools.state_fuzz.steps import KINDS, perform
from torch_atalla.integration.dynamo import static_tensors

SQUARE = "torch.randn((3, 3))"


def step(kind, function, *texts, times=4, mode="reduce-overhead", **ambient):
    ambient = Ambient(**ambient)
    return Step(kind, function, texts, (False,) * len(texts), ambient, seed=5, times=times, mode=mode)


class StepCase(TestCase):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()


@instantiate_parametrized_tests
class TestSteps(StepCase):
    def test_a_number_determines_the_sequence(self):
        for number in range(30):
            self.assertEqual(list(map(repr, sequence(number))), list(map(repr, sequence(number))))

    def test_everything_is_drawn(self):
        steps = [step for number in range(400) for step in sequence(number)]
        self.assertEqual({step.kind for step in steps}, {*KINDS, "reset"})
        self.assertEqual({step.function for step in steps} - {""}, set(FUNCTIONS))

    @parametrize("kind", list(KINDS))
    def test_agrees_with_eager_mode(self, kind):
        self.assertEqual(perform(step(kind, "pointwise", SQUARE, device=1)), [])

    def test_state_is_restored(self):
        perform(step("call", "gram", SQUARE, current=1, default_dtype=torch.float64, deterministic=True))
        self.assertEqual(torch.get_default_dtype(), torch.float32)
        self.assertEqual(torch.atalla.current_device(), 0)
        self.assertFalse(torch.are_deterministic_algorithms_enabled())


class TestPlantedFaults(StepCase):
    def found(self, *args, **options):
        problems = perform(step(*args, **options))
        return problems[0][0] if problems else None

    def test_old_inputs(self):
        with mock.patch.object(static_tensors.StaticInput, "load", lambda self, given: None):
            self.assertEqual(self.found("call", "pointwise", SQUARE), "call: values")

    def test_other_strides(self):
        with mock.patch.object(static_tensors, "_at", lambda memory, *_: memory.new_zeros(3, 3)):
            self.assertIsNotNone(self.found("call", "views", SQUARE))

    def test_results_that_do_not_last(self):
        with mock.patch.object(static_tensors.StaticOutputs, "results", lambda self, args: tuple(self._outputs)):
            self.assertIsNotNone(self.found("streams", "pointwise", SQUARE))


if __name__ == "__main__":
    run_tests()
