# SPDX-License-Identifier: BSD-3-Clause
"""Pattern matching and replacement: attention that is written out becomes torch's op, one launch on the chip.

python examples/compile/patterns.py
"""

from __future__ import annotations

import torch
from torch._dynamo.backends.registry import lookup_backend
from torch.fx.subgraph_rewriter import replace_pattern
from torch.nn import functional as F

from torch_atalla import telemetry


def written_out(query, key, value):
    return torch.softmax(query @ key.transpose(-1, -2) * 0.125, -1) @ value


def one_op(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, scale=0.125)


def with_replacement(graph_module, inputs):
    matches = replace_pattern(graph_module, written_out, one_op)
    print(f"matches replaced: {len(matches)}")
    return lookup_backend("atalla")(graph_module, inputs)


query, key, value = (torch.randn(2, 4, 32, 64, device="atalla") for _ in range(3))
with torch.no_grad():
    expected = written_out(query, key, value)
    for name, backend in (("as written", "atalla"), ("with the replacement", with_replacement)):
        torch._dynamo.reset()
        compiled = torch.compile(written_out, backend=backend)
        compiled(query, key, value)
        torch.atalla.synchronize()
        before = telemetry.counters().launches
        result = compiled(query, key, value)
        torch.atalla.synchronize()
        kernels = ", ".join(launch.kernel for launch in telemetry.launches(since=before))
        close = torch.allclose(result, expected, atol=1e-5)
        print(f"{name}: {kernels}; close to eager mode: {close}")
