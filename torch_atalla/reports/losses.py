# SPDX-License-Identifier: BSD-3-Clause
"""Where the cycles of a run go, beyond the multiply-accumulates that the model needs, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .roofline import Limits
from .timeline import Span


@dataclass(frozen=True)
class Loss:
    """Cycles that one cause costs. spans: the launches that lose most by it, by their number in the timeline."""

    title: str
    text: str
    cycles: int
    share: float
    spans: list[int]


def losses(spans: Sequence[Span], limit: Limits, cycles: int) -> list[Loss]:
    """Return all causes with at least one lost cycle, largest first.

    A launch takes its overhead, the time of its busiest unit, and the rest: filling the pipeline and latencies. The
    causes of one launch therefore add up to its cycles, less those that the array needs for its multiply-accumulates.
    Work of several streams may overlap; causes are counted for each launch alone.
    """
    launches = [(i, span) for i, span in enumerate(spans) if span.kind == "launch"]
    lost: dict[str, Counter[int]] = {cause: Counter() for cause in _CAUSES}
    for i, span in launches:
        busy = {unit: getattr(span, unit)[2] for unit in ("sdma", "vector", "array")}
        longest = max(busy, key=lambda unit: busy[unit])
        useful = min(span.macs / limit.array, busy[longest])
        overhead = min(limit.overhead, span.alone - busy[longest])  # launches with code have none of their own
        lost["overhead"][i] = overhead
        lost[longest][i] = round(busy[longest] - useful)
        lost["fill"][i] = max(span.alone - overhead - busy[longest], 0)
    idle = cycles - _covered(spans)
    if idle > 0:
        lost["idle"][-1] = idle
    found = []
    for cause, counts in lost.items():
        total = sum(counts.values())
        if total > 0:
            title, text = _CAUSES[cause]
            affected = [i for i, count in counts.most_common() if count and i >= 0]
            share = total / max(cycles, 1)
            words = text(spans, affected, total, share) + _most(spans, counts, affected, total)
            found.append(Loss(title, words, total, share, affected[:20]))
    return sorted(found, key=lambda loss: -loss.cycles)


def _covered(spans: Sequence[Span]) -> int:
    """Cycles in which at least one launch or copy was under way."""
    end = total = 0
    for begin, until in sorted((span.start, span.end) for span in spans):
        total += max(until - max(begin, end), 0)
        end = max(end, until)
    return total


def _most(spans: Sequence[Span], counts: Counter[int], affected: list[int], total: int) -> str:
    """The kernel that loses most, if there are several."""
    kernels: Counter[str] = Counter()
    for i in affected:
        kernels[spans[i].name] += counts[i]
    if len(kernels) < 2:
        return ""
    name, lost = kernels.most_common(1)[0]
    return f" The kernel {name} accounts for {lost / total:.0%} of it."


Text = Callable[[Sequence[Span], list[int], int, float], str]


def _amount(total: int, share: float) -> str:
    return f"{total:,} cycles ({share:.1%} of the run)"


def _launches(count: int) -> str:
    return f"{count:,} launch{'es' if count != 1 else ''}"


_CAUSES: dict[str, tuple[str, Text]] = {
    "overhead": (
        "Launch overhead",
        lambda spans, hit, n, share: (
            f"{_launches(len(hit))} cost {_amount(n, share)} before any data moves. Fewer, larger launches cost less: "
            "larger batches, or ops that the compiler can fuse."
        ),
    ),
    "sdma": (
        "Waiting for DRAM",
        lambda spans, hit, n, share: (
            f"In {_launches(len(hit))} the SDMA is the busiest unit. Transfers take {_amount(n, share)} and move "
            f"{sum(spans[i].bytes for i in hit):,} bytes. Temporaries in scratchpads, narrower weights or a larger "
            "batch for the same weights reduce them."
        ),
    ),
    "vector": (
        "Vector unit",
        lambda spans, hit, n, share: (
            f"In {_launches(len(hit))} the vector unit is the busiest unit, for {_amount(n, share)}, while the array "
            "waits. Fused ops load and store each value once."
        ),
    ),
    "array": (
        "Unused rows and columns of the array",
        lambda spans, hit, n, share: (
            f"In {_launches(len(hit))} the array is the busiest unit. It spends {_amount(n, share)} on loading weights "
            "and on rows and columns that the matrices do not fill. Sizes that are multiples of the array's, and more "
            "rows for the same weights, fill it better."
        ),
    ),
    "fill": (
        "Pipeline fill and latency",
        lambda spans, hit, n, share: (
            f"{_launches(len(hit))} spend {_amount(n, share)} on the first load, the last store and the latencies of "
            "units, while no unit is saturated. Launches with more tiles hide them."
        ),
    ),
    "idle": (
        "Idle between launches",
        lambda spans, hit, n, share: f"The device has no work for {_amount(n, share)}: it waits for the host.",
    ),
}
