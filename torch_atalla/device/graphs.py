# SPDX-License-Identifier: BSD-3-Clause
"""Graphs: work that is captured once and replayed at the cost of its launches, with torch.cuda's names.

    static = torch.zeros(64, 64, device="atalla")
    graph = torch.atalla.Graph()
    with torch.atalla.graph(graph):
        result = (static @ static).relu()
    static.copy_(batch)
    graph.replay()  # `result` holds the new values

docs/guides/graphs.md lists the calls that a capture may contain.
"""

from __future__ import annotations

import gc
from typing import Any, Literal, get_args

import torch

from torch_atalla.driver.extension import _C

__all__ = ["CUDAGraph", "Graph", "graph", "graph_pool_handle", "is_current_stream_capturing"]

CaptureMode = Literal["default", "global", "thread_local", "relaxed"]


def is_current_stream_capturing() -> bool:
    """Whether the current stream of the current device is capturing a graph. Opens no device."""
    return _C.is_current_stream_capturing()


def graph_pool_handle() -> tuple[int, int]:
    """An id for a memory pool that several graphs share: an argument `pool` of :class:`graph`."""
    return _C.graph_pool_handle()


class Graph(torch._C._acceleratorGraph):
    """A captured program of one device, its private memory pool and its random numbers.

    Args:
        keep_graph: leave it to `instantiate` (or to the first `replay`) to prepare the program for replays.
    """

    def __new__(cls, keep_graph: bool = False) -> Graph:
        return super().__new__(cls, keep_graph)

    def __init__(self, keep_graph: bool = False) -> None:
        super().__init__(keep_graph)

    def capture_begin(self, pool: tuple[int, int] | None = None, capture_error_mode: CaptureMode = "global") -> None:
        """Begins on the current stream, which must not be the default one. Use :class:`graph` rather than this.

        The modes are those of torch.cuda. On atalla no call of another thread can harm a capture, so all of them refuse
        the same: what needs a result of the captured streams.
        """
        if capture_error_mode not in get_args(CaptureMode):
            raise ValueError(f"capture_error_mode: expected one of {get_args(CaptureMode)}, got {capture_error_mode!r}")
        super().capture_begin(pool=pool, capture_error_mode=capture_error_mode)

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Checks that a graph can draw from the generator. It need not be called: a capture takes notice of every
        generator that it draws from, and each replay draws new numbers from it."""
        if generator.device.type != "atalla":
            raise RuntimeError(f"Expected a 'atalla' device type for generator but found '{generator.device.type}'")


CUDAGraph = Graph  # for code written for torch.cuda


class graph:  # noqa: N801  (torch.cuda's name)
    """Context manager that captures what is done in it.

    Args:
        atalla_graph: where to put it.
        pool: id of a memory pool to share, from :func:`graph_pool_handle` or another graph's `pool()`.
        stream: to capture on; default: a stream that is kept for captures, one a device.
        capture_error_mode: see :meth:`Graph.capture_begin`.
    """

    _streams: dict[int, torch.Stream] = {}

    def __init__(
        self,
        atalla_graph: Graph,
        pool: tuple[int, int] | None = None,
        stream: torch.Stream | None = None,
        capture_error_mode: CaptureMode = "global",
    ):
        if stream is None:
            index = torch.accelerator.current_device_index()
            stream = self._streams.get(index)
            if stream is None:
                stream = self._streams[index] = torch.Stream(device=torch.device("atalla", index))
        self.atalla_graph = atalla_graph
        self.pool = pool
        self.capture_stream = stream
        self.capture_error_mode = capture_error_mode

    def __enter__(self) -> None:
        torch.accelerator.synchronize(self.capture_stream.device)
        gc.collect()  # what dies during the capture would be freed in it
        torch.accelerator.empty_cache()
        self.capture_stream.__enter__()
        try:
            self.atalla_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self.capture_stream.__exit__(None, None, None)
            raise

    def __exit__(self, *exc_info: Any) -> None:
        try:
            self.atalla_graph.capture_end()
        finally:
            self.capture_stream.__exit__(*exc_info)
