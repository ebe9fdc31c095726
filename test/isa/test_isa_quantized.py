# SPDX-License-Identifier: BSD-3-Clause
"""Products with quantized weights in today's instruction set (benchmarks/isa_quantized.py)."""

from __future__ import annotations

import torch

from benchmarks import isa_quantized
from torch_atalla import isa


def test_pairs_are_exact() -> None:
    """All pairs of weights fit a bfloat16 number, and round to their parts."""
    weight = torch.cartesian_prod(torch.arange(-7, 8), torch.arange(-7, 8))
    weight = torch.nn.functional.pad(weight, (0, 0, 0, 31))[:256].reshape(8, 32, 2).transpose(1, 2).reshape(1, -1)
    stored = isa_quantized.high_and_low(weight)
    high = (stored / 16 + 192) - 192
    low = stored - 16 * high
    assert torch.equal(torch.stack([high.view(8, 32), low.view(8, 32)], 1).reshape(1, -1).long(), weight)


def test_cycles() -> None:
    """Half of the traffic gives nearly half of the cycles; the scalar core is no way to convert."""
    found = {result.name: result for result in isa_quantized.results()}
    base, pairs = found["bfloat16"], found["-7 to 7, two per bfloat16"]
    assert max(base.error, pairs.error) < 0.01  # of products in float64
    assert pairs.cycles <= 0.6 * base.cycles
    assert found["int8, converted by the scalar core"].cycles > 2 * base.cycles
    assert not isa.check(isa_quantized.program(256, True))
