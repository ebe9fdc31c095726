# SPDX-License-Identifier: BSD-3-Clause
"""Replay of a compiled graph as a device graph, for mode="reduce-overhead"."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from torch_atalla.device.graphs import Graph, graph, is_current_stream_capturing

from .debug import hints
from .static_tensors import StaticInput, StaticOutputs, layout

_MOST_CAPTURES = 8
_capturing = threading.Lock()  # a capture waits for the device, which another capture refuses


class Replayed:
    """A compiled function that is replayed as a device graph: inputs are copied in, results are copied out.

    The first call runs the function, the second one captures it and replays the graph, and later calls replay it. The
    graph is captured on `device`, and is replayed on the current stream of that device.

    `fixed` has the indices of the inputs that are parameters or buffers. The graph reads them in place and is captured
    again if their addresses change. Results are copied out of the graph's memory, so later replays do not change them.

    A graph has one set of inputs and results, and shares the memory of its intermediate values with the function. So
    threads submit their calls in turn, and a call on another stream waits for the previous one on the device. Calls
    that the graph cannot serve run the function itself: those with arguments of another layout, and those inside of a
    capture.
    """

    _boxed_call = True

    def __init__(self, function: Callable[[list[Any]], Any], fixed: Collection[int], device: torch.device):
        self._function = function
        self._fixed = sorted(fixed)
        self._device = device
        self._lock = threading.RLock()
        self._warm = False
        self._captures = 0
        self._captured: _Captured | None = None

    def __call__(self, args: list[Any]) -> Any:
        if torch._C._len_torch_dispatch_stack() != 0:
            return self._function(args)
        with self._lock:
            with torch.no_grad(), torch.accelerator.device_index(self._device.index):
                in_capture = is_current_stream_capturing()
                if not in_capture and self._prepare(args):
                    assert self._captured is not None
                    results = self._captured.replay(args)
                    args.clear()
                    return results
            if in_capture or self._captured is None:
                return self._function(args)
            with self._captured.in_turn(torch.accelerator.current_stream(self._device.index)):
                return self._function(args)

    def _prepare(self, args: list[Any]) -> bool:
        """Return whether there is a graph for `args`. Capture it if necessary."""
        if not self._warm:
            self._warm = True
            return False
        addresses = [args[i].data_ptr() for i in self._fixed]
        if self._captured is None or self._captured.addresses != addresses:
            if self._captures == _MOST_CAPTURES or not _capturing.acquire(blocking=False):
                return False
            try:
                self._capture(args, addresses)
            finally:
                _capturing.release()
        return self._captured is not None and self._captured.fits(args)

    def _capture(self, args: list[Any], addresses: list[int]) -> None:
        self._captured = None
        self._captures += 1
        try:
            self._captured = _Captured(self._function, args, self._fixed, addresses)
        except Exception as error:  # the function runs instead, and raises what is its own fault
            hints.info("the graph is not replayed: its capture failed: %s", error)
            return
        if self._captures == _MOST_CAPTURES:
            hints.info("the graph is not captured again: its parameters moved %d times", _MOST_CAPTURES)


class _Captured:
    """A device graph of the current device with its static inputs and outputs."""

    def __init__(
        self, function: Callable[[list[Any]], Any], args: list[Any], fixed: Collection[int], addresses: list[int]
    ):
        self.addresses = addresses
        self._copied = [i for i in range(len(args)) if i not in set(fixed)]
        self._layouts = [layout(args[i]) for i in self._copied]
        with torch.inference_mode(False):
            self._inputs = [StaticInput(args[i]) for i in self._copied]
            held = list(args)
            for i, static in zip(self._copied, self._inputs):
                held[i] = static.tensor
            self._graph = Graph()
            with graph(self._graph):
                outputs = function(list(held))
        self._outputs = StaticOutputs(outputs, held)
        self._done = torch.Event()
        self._stream = torch.accelerator.current_stream()
        self._used = {self._stream}
        self._done.record(self._stream)

    def fits(self, args: list[Any]) -> bool:
        return all(layout(args[i]) == expected for i, expected in zip(self._copied, self._layouts))

    def replay(self, args: list[Any]) -> tuple[Any, ...]:
        """Submit the copies of the arguments, the graph and the copies of the results to the current stream."""
        stream = torch.accelerator.current_stream()
        self._keep_for(stream)
        with self.in_turn(stream):
            for i, static in zip(self._copied, self._inputs):
                static.load(args[i])
            self._graph.replay()
            return self._outputs.results(args)

    @contextmanager
    def in_turn(self, stream: torch.Stream) -> Iterator[None]:
        """What is submitted to `stream` runs after the previous call, and before the next one."""
        if stream != self._stream:
            stream.wait_event(self._done)
            self._stream = stream
        try:
            yield
        finally:
            self._done.record(stream)

    def _keep_for(self, stream: torch.Stream) -> None:
        """Keep the static memory until the work of `stream` with it is done, even if the graph is dropped before."""
        if stream not in self._used:
            self._used.add(stream)
            for tensor in (*(static.tensor for static in self._inputs), *self._outputs.tensors):
                tensor.record_stream(stream)


__all__ = ["Replayed"]
