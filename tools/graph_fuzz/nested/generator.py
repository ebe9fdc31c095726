# SPDX-License-Identifier: BSD-3-Clause
"""A sequence of programs whose sizes are expressions of symbols."""

from __future__ import annotations

from collections import Counter
from random import Random

from ..program import Program
from .builder import TEMPLATES, NestedBuilder


class NestedGenerator:
    """A sequence of programs; draws by coverage, as the generator of the other programs does."""

    def __init__(self, share: float = 1.0) -> None:
        self.share = share  # of the programs of a campaign
        self.counts: Counter[str] = Counter()
        self.pairs: Counter[tuple[str, str]] = Counter()
        self.failed: Counter[str] = Counter()

    def next(self, rng: Random) -> Program:
        builder = NestedBuilder(rng)
        wanted = rng.choice([1, 2, 3, 3, 4, 4, 5, 6, 8, 10])
        last, tries = "input", 0
        while (len(builder.lines) < wanted and tries < 6 * wanted) or not builder.lines:
            tries += 1
            name = self._choose(rng, last)
            if builder.add(name):
                last = name
                self.counts[name] += 1
            else:
                self.failed[name] += 1
        program = builder.finish()
        for line in program.lines:
            for used in line.uses():
                self.pairs[builder.made_by.get(used, "parameter"), line.template] += 1
        return program

    def _choose(self, rng: Random, last: str) -> str:
        candidates = rng.choices(list(TEMPLATES), [weight for _, weight in TEMPLATES.values()], k=3)
        return min(
            candidates, key=lambda name: (self.counts[name] + self.failed[name] / 4) + 3 * self.pairs[last, name]
        )
