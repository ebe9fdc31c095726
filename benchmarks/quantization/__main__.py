# SPDX-License-Identifier: BSD-3-Clause
"""Cycles per token and accuracy of a decoder in 8 and 4 bits: `python -m benchmarks.quantization [--write-docs]`.

Cycles are simulated, so every machine gives the same numbers. test/quantization/test_quantized_decoding.py has limits.
--write-docs: the tables of docs/guides/quantize.md.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

import torch

from .accuracy import of_decoder, of_minilm
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


def write(name: str, text: str) -> None:
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    block = f"{begin}\n{text}\n{end}"
    page = re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _: block, DOCS.read_text(), flags=re.DOTALL)
    DOCS.write_text(page)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantization", description=__doc__.splitlines()[0])
    parser.add_argument("--write-docs", action="store_true", help="write the tables of docs/guides/quantize.md")
    args = parser.parse_args()
    for name, table in (
        ("cycles", lambda: cycles_table(variants(), Sizes())),
        ("accuracy", lambda: accuracy_table(variants())),
    ):
        text = table()
        if args.write_docs:
            write(name, text)


if __name__ == "__main__":
    main()
