# SPDX-License-Identifier: BSD-3-Clause
"""Cost over size, on logarithmic axes: one small plot a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .sweep import Sweep, exponent

COLUMNS = 3


def plot(found: Sequence[tuple[Sweep, list[float]]], path: Path) -> None:
    """Write an SVG. Raises ModuleNotFoundError without matplotlib (requirements-ecosystem.txt)."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "scale", "svg.fonttype": "none", "font.size": 8})
    from matplotlib import pyplot

    rows = -(-len(found) // COLUMNS)
    figure, axes = pyplot.subplots(rows, COLUMNS, figsize=(10, 2.6 * rows), layout="constrained", squeeze=False)
    for axis in axes.flat[len(found) :]:
        axis.remove()
    for axis, (sweep, costs) in zip(axes.flat, found):
        slope = exponent(sweep.sizes, costs)
        half = len(sweep.sizes) // 2
        axis.loglog(sweep.sizes, costs, "o-", markersize=3)
        middle = sweep.sizes[half:]
        at = costs[half] * 0.6
        axis.loglog(middle, [at * (n / middle[0]) ** slope for n in middle], ":", color="gray")
        axis.set_title(f"{sweep.name.replace('`', '')}\nexponent {slope:.2f}", fontsize=8)
        axis.set_xlabel("n")
        axis.set_ylabel("seconds")
        axis.grid(True, which="major", linewidth=0.3)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
