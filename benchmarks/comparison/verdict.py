# SPDX-License-Identifier: BSD-3-Clause
"""Ratios of two commits, and whether they are beyond noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..harness import Spread

LEAST = 0.03  # of a change that is reported: addresses differ from process to process, and move a median by less


@dataclass(frozen=True)
class Verdict:
    """Time of the new commit over that of the base, over all rounds; per pair of processes, the median."""

    name: str
    base_seconds: Spread
    ratio: Spread
    of_processes: tuple[float, ...]

    @property
    def change(self) -> str:
        """Slower or faster, if all pairs of processes and three quarters of the rounds agree; otherwise nothing."""
        for word, sign in (("slower", 1), ("faster", -1)):
            median, quartile = self.ratio.median, self.ratio.low if sign > 0 else self.ratio.high
            agreed = all(sign * (ratio - 1) > 0 for ratio in (*self.of_processes, quartile))
            if agreed and sign * (median - 1) > LEAST:
                return word
        return ""

    def line(self) -> str:
        shown = f"{self.ratio.median:.3f} ({self.ratio.low:.3f} to {self.ratio.high:.3f})"
        processes = ", ".join(f"{ratio:.3f}" for ratio in self.of_processes)
        return f"{self.name:32} {self.base_seconds.median * 1e6:10.2f} us  {shown}  [{processes}]  {self.change}"


def verdict(name: str, samples: Sequence[Sequence[tuple[float, float]]]) -> Verdict:
    """samples: per pair of processes, per round, seconds of base and new commit."""
    ratios = [[new / base for base, new in rounds] for rounds in samples]
    return Verdict(
        name,
        Spread.of([base for rounds in samples for base, _ in rounds]),
        Spread.of([ratio for part in ratios for ratio in part]),
        tuple(Spread.of(part).median for part in ratios),
    )
