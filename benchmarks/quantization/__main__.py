# SPDX-License-Identifier: BSD-3-Clause
"""Cycles and accuracy of models in 8 and 4 bits: `python -m benchmarks.quantization [TABLE ...] [--write-docs]`.

The tables: cycles per token (`cycles`) and `accuracy` of a decoder, and cycles of `convolutions`. Cycles are simulated,
so every machine gives the same numbers. test_quantized_decoding.py and test_pt2e_convolutions.py in test/quantization
have limits.
--write-docs: the tables of docs/guides/quantize.md.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch

from tools.pages import write_section

from .accuracy import of_decoder, of_minilm
from .convolutions import blocks, results
from .measure import of_token, quantized
from .model import Sizes
from .variants import Variant, variants

DOCS = Path(__file__).resolve().parents[2] / "docs/guides/quantize.md"


def cycles_table(chosen: list[Variant], sizes: Sizes) -> str:
    lines = [
        "| weights | by | eager cycles | ratio | loadable cycles | ratio | DRAM MB, loadable | same bits |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    base: dict[str, int] = {}
    for variant in chosen:
        with tempfile.TemporaryDirectory() as folder:
            found = of_token(quantized(sizes, variant), Path(folder))
        (eager, first), (loadable, second) = found["eager"], found["loadable"]
        if not base:
            base = {"eager": eager.cycles, "loadable": loadable.cycles}
        lines.append(
            f"| {variant.name} | {variant.library} | {eager.cycles:,} | {eager.cycles / base['eager']:.2f} "
            f"| {loadable.cycles:,} | {loadable.cycles / base['loadable']:.2f} | {loadable.dram_bytes / 1e6:.1f} "
            f"| {'yes' if torch.equal(first, second) else 'no'} |"
        )
        print(lines[-1], flush=True)
    return "\n".join(lines)


def convolutions_table() -> str:
    lines = [
        "| convolutions | cycles | ratio | DRAM MB | error | same bits |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    base = 0
    with tempfile.TemporaryDirectory() as folder:
        for found in results(blocks(), torch.rand(1, 64, 56, 56), Path(folder)):
            base = base or found.cost.cycles
            lines.append(
                f"| {found.name} | {found.cost.cycles:,} | {found.cost.cycles / base:.2f} "
                f"| {found.cost.dram_bytes / 1e6:.1f} | {found.error:.1%} | {'yes' if found.same_bits else 'no'} |"
            )
            print(lines[-1], flush=True)
    return "\n".join(lines)


def accuracy_table(chosen: list[Variant]) -> str:
    decoder, minilm = of_decoder(chosen), of_minilm(chosen)
    lines = [
        "| weights | perplexity per byte | divergence, nats | cosine of logits | same choice | MiniLM cosine |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, a in decoder.items():
        embedding = f"{minilm[name]:.4f}" if name in minilm else ""
        lines.append(
            f"| {name} | {a.perplexity:.3f} | {a.divergence:.5f} | {a.cosine:.5f} | {a.same_choice:.1%} | {embedding} |"
        )
    text = "\n".join(lines)
    print(text)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantization", description=__doc__.splitlines()[0])
    parser.add_argument("--write-docs", action="store_true", help="write the tables of docs/guides/quantize.md")
    tables = {
        "cycles": lambda: cycles_table(variants(), Sizes()),
        "accuracy": lambda: accuracy_table(variants()),
        "convolutions": convolutions_table,
    }
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"{', '.join(tables)}; all of them by default")
    args = parser.parse_args()
    if unknown := set(args.tables) - tables.keys():
        parser.error(f"expected {', '.join(tables)}, got {', '.join(sorted(unknown))}")
    for name in args.tables or tables:
        text = tables[name]()
        if args.write_docs:
            write_section(DOCS, name, [text])


if __name__ == "__main__":
    main()
