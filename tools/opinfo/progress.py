# SPDX-License-Identifier: BSD-3-Clause
"""A bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    def __init__(self, total: int, stream: TextIO = sys.stderr, width: int = 32):
        self.total, self.stream, self.width = total, stream, width
        self.done, self.start, self.tty = 0, time.monotonic(), stream.isatty()

    def step(self, text: str) -> None:
        self.done += 1
        elapsed = time.monotonic() - self.start
        left = elapsed / self.done * (self.total - self.done)
        counts = f"{self.done}/{self.total} pairs, {elapsed:.0f} s, about {left:.0f} s left, {text}"
        if self.tty:
            filled = self.width * self.done // max(self.total, 1)
            bar = "#" * filled + "." * (self.width - filled)
            self.stream.write(f"\r\x1b[K[{bar}] {counts}")
        elif self.done % 500 == 0 or self.done == self.total:
            self.stream.write(counts + "\n")
        self.stream.flush()

    def close(self) -> None:
        if self.tty:
            self.stream.write("\n")
