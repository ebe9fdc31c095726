# SPDX-License-Identifier: BSD-3-Clause
"""The graph of a method for reports: edges between nodes, and the nodes that each launch computes."""

from torch_atalla.loadable.file.graph import Graph

from ..linearize.partition import Partition
from ..program.ir import Launch, LinearProgram


def graph_of(program: LinearProgram, partition: Partition) -> Graph:
    """Nodes are numbered in the order of the segments, as in section NODES."""
    nodes = [node for segment in partition.segments for node in segment.nodes]
    number = {node.name: k for k, node in enumerate(nodes)}
    return Graph(
        inputs=[[number[arg.name] for arg in node.all_input_nodes if arg.name in number] for node in nodes],
        fused=[
            [number[name] for name in inst.fused if name in number] if isinstance(inst, Launch) else []
            for inst in program.instructions
        ],
    )
