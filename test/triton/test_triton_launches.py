# SPDX-License-Identifier: BSD-3-Clause
"""Launches of Triton kernels: programs on the device, and how long graphs and streams can read them."""

from unittest import mock

import pytest
import torch
from torch.testing._internal.common_utils import TestCase, run_tests

triton = pytest.importorskip("triton", reason="the extra torch_atalla[triton] is not installed")

import triton.language as tl  # noqa: E402

from torch_atalla.compiler.tile import launch  # noqa: E402

N = 64
MEMORY = 400  # tensors of the sizes of programs, which take the memory of one that was freed


@triton.jit
def scale(x, out, factor, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * factor)


class TestPrograms(TestCase):
    def setUp(self):
        super().setUp()
        self.x = torch.ones(N, device="atalla")
        self.out = torch.zeros(N, device="atalla")

    def run_scale(self, factor):
        return scale[(1,)](self.x, self.out, factor, BLOCK=N)

    def evict(self):
        """Launches with so many arguments that no earlier program stays, and uses the freed memory."""
        with mock.patch.object(launch, "KEPT", 4):
            for i in range(20):
                self.run_scale(100.0 + i)
        return [torch.full((n,), 7, dtype=torch.int64, device="atalla") for n in range(8, MEMORY)]

    def test_a_graph_keeps_programs_of_earlier_launches(self):
        self.run_scale(3.0)
        graph = torch.atalla.Graph()
        with torch.atalla.graph(graph):
            self.run_scale(3.0)
        held = self.evict()
        self.out.zero_()
        graph.replay()
        self.assertEqual(self.out.cpu(), torch.full((N,), 3.0))
        del held

    def test_a_graph_captures_the_first_launch(self):
        compiled = self.run_scale(3.0)  # which compiles it
        graph = torch.atalla.Graph()
        with torch.atalla.graph(graph):
            self.run_scale(5.0)
        held = self.evict()
        self.out.zero_()
        graph.replay()
        self.assertEqual(self.out.cpu(), torch.full((N,), 5.0))
        self.run_scale(5.0)  # the program that the graph reads
        self.assertEqual(self.out.cpu(), torch.full((N,), 5.0))
        self.assertEqual(sum(5.0 in map(_number, key[0]) for key in compiled.function.captured), 1)
        del held

    def test_streams_have_programs_of_their_own(self):
        """The memory of a program is freed in the order of the stream that reads it."""
        compiled = self.run_scale(2.0)
        before = len(compiled.function.kept)
        stream = torch.Stream("atalla")
        with stream:
            self.run_scale(2.0)
        self.run_scale(2.0)
        self.assertEqual(len(compiled.function.kept), before + 1)
        torch.accelerator.synchronize()
        self.assertEqual(self.out.cpu(), torch.full((N,), 2.0))

    def test_launches_run_on_the_device_of_their_tensors(self):
        """Whichever device is current, in eager mode and in compiled functions."""
        for device, current in ((1, 0), (0, 1)):
            with torch.atalla.device(current):
                x = torch.full((N,), 2.0, device=f"atalla:{device}")
                out = torch.zeros_like(x)
                scale[(1,)](x, out, 3.0, BLOCK=N)
                self.assertEqual(out.tolist(), [6.0] * N)
                elsewhere = torch.zeros(N, device=f"atalla:{current}")
                with self.assertRaisesRegex(ValueError, f"expected a tensor on atalla:{device}, got one on atalla:"):
                    scale[(1,)](x, elsewhere, 3.0, BLOCK=N)
                self.assertEqual(torch.atalla.current_device(), current)


def _number(word):
    """The number of an argument of float32, or its place in a tensor."""
    operand, bits = word
    return torch.tensor(bits, dtype=torch.int32).view(torch.float32).item() if operand < 0 else operand


if __name__ == "__main__":
    run_tests()
