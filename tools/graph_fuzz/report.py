# SPDX-License-Identifier: BSD-3-Clause
"""What a campaign ran and covered, as text."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch_atalla import ops
from torch_atalla.compiler.capture.decompositions import decomposition_table
from torch_atalla.compiler.program.support import op_key

from .campaign import Results
from .generator import Generator
from .pointwise_templates import schema_of

# All passes of the compiler but remove_unused_buffers, which says nothing of what it changed.
PASSES = (
    *("remove_identities", "fold_constants", "merge_common_subexpressions", "split_rotary", "fold_batch_norm"),
    *("fuse_attention", "fuse_norms", "split_batch_norm", "fuse_epilogue", "remove_dead_code", "pack_weights"),
    *("fuse_reductions", "fuse_pointwise", "fuse_epilogues", "store_programs", "update_states_in_place"),
)


def native_ops() -> set[str]:
    """Functional ops that eager mode runs natively, as keys, except gradients and what the compiler's table of
    decompositions takes apart."""
    taken_apart = {op_key(op) for op in decomposition_table()}
    return {key for key in ops.support() if "backward" not in key and not schema_of(key).is_mutable} - taken_apart


def key_of(target: str) -> str:
    """ "aten::add.Tensor" as "aten.add.Tensor"."""
    name = target.replace("::", ".")
    return name if name.count(".") > 1 else f"{name}.default"


def covered(results: Results) -> set[str]:
    return {key_of(target) for target in results.coverage.get("ops", {})}


def report(results: Results, generator: Generator, templates: int, transferred: Any) -> str:
    wanted, seen = native_ops(), covered(results)
    missing = sorted(wanted - seen)
    passes = sorted(results.coverage.get("passes", {}))
    dtypes: Counter[str] = results.coverage.get("dtypes", Counter())
    sizes: Counter[str] = results.coverage.get("refused_sizes", Counter())
    rate = results.cases / results.seconds if results.seconds else 0.0
    lines = [
        f"{results.cases} programs in {results.seconds:.0f} s ({rate:.1f} a second), {results.invalid} that PyTorch "
        f"refuses, {len(results.failures)} failures",
        f"{transferred.tensors} transfers, {len(transferred.problems)} failures",
        "checks passed: " + ", ".join(f"{name} {count}" for name, count in sorted(results.passed.items())),
        f"templates: {len(generator.plain.counts) + len(generator.nested.counts)} of {templates} drawn; "
        f"{len(generator.plain.pairs) + len(generator.nested.pairs)} pairs of neighbours",
        f"native ops: {len(wanted & seen)} of {len(wanted)} ({len(wanted & seen) / len(wanted):.1%})",
        f"  not reached: {', '.join(missing[:60]) or 'none'}",
        f"  other ops in programs: {len(seen - wanted)}",
        f"passes that changed a program: {len(set(passes) & set(PASSES))} of {len(PASSES)}; not: "
        f"{', '.join(sorted(set(PASSES) - set(passes))) or 'none'}",
        f"dtypes of inputs and outputs: {', '.join(f'{name} {count}' for name, count in sorted(dtypes.items()))}",
        f"sets of sizes refused: {', '.join(f'{name} {count}' for name, count in sorted(sizes.items())) or 'none'}",
        "refused:",
    ]
    for (check, why), count in results.refused.most_common(40):
        lines.append(f"  {count:6d}  {check}: {why}")
    return "\n".join(lines)


__all__ = ["covered", "native_ops", "report"]
