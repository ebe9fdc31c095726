# SPDX-License-Identifier: BSD-3-Clause
"""A backend of one's own on top of the compiler's IR: it compiles a graph to launches, prints them, and runs them.

python examples/compile/custom_backend.py
"""

from __future__ import annotations

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses.fake_tensor import unset_fake_temporarily

from torch_atalla.compiler.capture.aot_graph import capture_graph
from torch_atalla.compiler.targets.functional.pipeline import Options, compile_captured
from torch_atalla.integration.dynamo.compiled_region import CompiledRegion, emit_program


def compile_graph(graph_module, inputs):
    names = [node.name for node in graph_module.graph.find_nodes(op="placeholder")]
    with unset_fake_temporarily():
        compiled = compile_captured(capture_graph(graph_module, updates=[]), Options(fallback="error"))
        for launch in compiled.program.instructions:
            print("  ", launch.kernel, "->", ", ".join(str(list(out.sizes)) for out in launch.writes()))
        region = CompiledRegion(emit_program(compiled), torch.device("atalla", 0))

    def run(args):
        given = dict(zip(names, args))
        return region(*(given[name] for name in region.arguments))

    run._boxed_call = True
    return run


def function(x, weight, bias):
    return torch.softmax(torch.nn.functional.gelu(x @ weight + bias), -1)


args = [torch.randn(*sizes, device="atalla") for sizes in ((8, 16), (16, 32), (32,))]
compiled = torch.compile(function, backend=aot_autograd(fw_compiler=compile_graph))
print("launches:")
print("the same bits as eager mode:", torch.equal(compiled(*args), function(*args)))
