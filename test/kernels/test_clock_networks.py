# SPDX-License-Identifier: BSD-3-Clause
"""The problems that tools.clock_networks finds in its results."""

from __future__ import annotations

from typing import Any

import pytest

from tools.clock_networks import chips, page, results


def row(reported: int, executed: int, other: int | None = None, assumed: int = 0) -> dict[str, Any]:
    values = {"reported": reported, "executed": executed, "other values": executed if other is None else other}
    return {"network": "a", "assumed": assumed} | values


@pytest.mark.parametrize(
    ("chip", "found", "is_wrong"),
    [
        (chips.CONSTANT, row(1000, 1009), False),
        (chips.CONSTANT, row(1000, 1011), True),
        (chips.CONSTANT, row(1000, 1011, other=1020), False),
        (chips.CONSTANT, row(1000, 1000, assumed=1), True),
        (chips.CONSTANT, row(1000, 800) | {"one by one": True}, False),
        ("hbm2_2000", row(1000, 951), False),
        ("hbm2_2000", row(1000, 949), True),
        ("hbm2_2000", {"network": "a", "problem": "crash"}, True),
        ("hbm2_2000", {"network": "a", "without code": "complex numbers"}, False),
    ],
)
def test_bounds(chip: str, found: dict[str, Any], is_wrong: bool) -> None:
    assert bool(results.unexplained({chip: {"a": found}})) is is_wrong


@pytest.mark.parametrize(
    ("other", "is_same"), [((900, 910), True), ((900, 1050), False), ((1010, 990), True), ((990, 1500), True)]
)
def test_order(other: tuple[int, int], is_same: bool) -> None:
    """Cycles within 2 % are equal to any others."""
    found = {"x": {"a": row(1000, 1000)}, "y": {"a": row(*other)}}
    assert list(results.comparisons(found, [("x", "y")])) == [("x", "y", "a", is_same)]


def test_page_names_what_is_beyond_the_bounds() -> None:
    found = {chips.CONSTANT: {"a": row(1000, 1100, other=1300)}, "z": {"b": row(1000, 1000)}}
    text = page.page(found, [])
    assert "| constant DRAM | a | 1,000 | 1,100 | 1,300 | values |" in text
