# SPDX-License-Identifier: BSD-3-Clause
"""What the steps of a sequence do. Each gives the differences from eager mode."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

import torch_atalla
from tools.graph_fuzz import compare
from torch_atalla.device import namespace as atalla
from torch_atalla.loadable.errors import ExportError

from .ambient import stream_of
from .functions import FUNCTIONS
from .outcome import Outcome, difference, run, sharing, tensors, values
from .sequence import Step

Problem = tuple[str, str]


def perform(step: Step) -> list[Problem]:
    if step.kind == "reset":
        torch._dynamo.reset()
        return []
    found: list[Problem] = []

    def work() -> None:
        with step.ambient.entered():
            found.extend((f"{step.kind}: {category}", text) for category, text in KINDS[step.kind](step))

    if step.ambient.thread:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    else:
        work()
    atalla.synchronize(0)
    atalla.synchronize(1)
    return found


def _eager(step: Step, time: int, args: list[Any] | None = None) -> Outcome:
    return run(FUNCTIONS[step.function].call, args or step.build(time), step.seed + time)


def _differs(step: Step, time: int, found: Outcome, expected: Outcome) -> Problem | None:
    """The difference from eager mode that is not PyTorch's own: its backend aot_eager gives something else."""
    problem = difference(found, expected)
    if problem is None or _updates_shared_memory(step, found):
        return None
    general = torch.compile(FUNCTIONS[step.function].call, backend="aot_eager", dynamic=step.dynamic)
    traced = run(general, step.build(time), step.seed + time)
    if traced.error is not None and found.error is not None:
        same = type(traced.error) is type(found.error)
    else:
        same = difference(found, traced) is None
    return None if same else problem


def _updates_shared_memory(step: Step, found: Outcome) -> bool:
    """Whether AOTAutograd failed to copy an update of shared memory back. In inference mode it passes the whole memory
    to the graph, which it traced up to the last element that the arguments reach; Inductor fails there, too."""
    shared = len(set(sharing(tensors(found.args)))) < len(tensors(found.args))
    return shared and step.ambient.grad_mode == "inference" and "must match the existing size" in str(found.error)


def call(step: Step) -> Iterator[Problem]:
    compiled = step.compiled()
    for time in range(step.times):
        expected = _eager(step, time)
        problem = _differs(step, time, run(compiled, step.build(time), step.seed + time), expected)
        if problem is not None:
            yield problem[0], f"call {time}: {problem[1]}"
            return


def streams(step: Step) -> Iterator[Problem]:
    """Calls on two streams in turn, without waiting in between."""
    compiled, other = step.compiled(), stream_of(step.ambient.device)
    contexts = [other if time % 2 else nullcontext() for time in range(2 * step.times)]
    expected, found = list[Outcome](), list[Outcome]()
    for time, context in enumerate(contexts):
        with context:  # a stream's device is the current one
            expected.append(_eager(step, time))
    given = [step.build(time) for time in range(2 * step.times)]
    atalla.synchronize(step.ambient.device)
    for time, (context, args) in enumerate(zip(contexts, given)):
        with context:
            found.append(run(compiled, args, step.seed + time, backward=False))
    atalla.synchronize(step.ambient.device)
    for time, (a, b) in enumerate(zip(found, expected)):
        a.grads = b.grads
        a.device = b.device
        problem = _differs(step, time, a, b)
        if problem is not None:
            yield problem[0], f"call {time}: {problem[1]}"
            return


def threads(step: Step) -> Iterator[Problem]:
    """Calls from three threads at a time."""
    compiled, problems = step.compiled(), list[Problem]()
    given = [[step.build(10 * k + j) for j in range(step.times)] for k in range(3)]
    expected = [[_eager(step, 10 * k + j) for j in range(step.times)] for k in range(3)]

    def work(k: int) -> None:
        with step.ambient.in_thread():
            for args, wanted in zip(given[k], expected[k]):
                found = run(compiled, args, 0)
                found.random = wanted.random
                problem = difference(found, wanted)
                if problem is not None:
                    problems.append(problem)

    started = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    yield from problems[:1]


def capture(step: Step) -> Iterator[Problem]:
    """A device graph of the function itself, replayed with the values of further calls."""
    device, function = step.ambient.device, FUNCTIONS[step.function].call
    held = step.build(0)
    if _eager(step, 0).error is not None or any(item.device.type != "atalla" for item in tensors(held)):
        return
    graph = atalla.Graph()
    try:
        with atalla.graph(graph, stream=stream_of(device, "captures")):
            results = function(*held)
    except RuntimeError as error:
        if "captur" in str(error):
            return  # refused
        raise
    found = Outcome(held, results)
    for time in range(step.times):
        for to, value in zip(tensors(held), tensors(step.build(time))):
            _stored(to).copy_(_stored(value))
        expected = _eager(step, time)
        torch.manual_seed(step.seed + time)
        graph.replay()
        outputs, wanted = tensors(found.results), tensors(expected.results)
        text = compare.bits(*([x.resolve_conj().resolve_neg() for x in xs] for xs in (outputs, wanted)))
        if text is not None:
            yield "values", f"replay {time}: {text}"
            return


def _stored(tensor: torch.Tensor) -> torch.Tensor:
    flat = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return flat.set_(tensor.detach().untyped_storage())


class _Module(torch.nn.Module):
    def __init__(self, step: Step):
        super().__init__()
        self.function = FUNCTIONS[step.function].call

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def loadable(step: Step) -> Iterator[Problem]:
    """Exported, saved, loaded, and called with other values."""
    args, function = step.build(0), FUNCTIONS[step.function]
    if function.random or function.updates or _eager(step, 0).error is not None:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.atl"
        try:
            exported = torch.export.export(_Module(step), tuple(args))
            torch_atalla.save_loadable(exported, path)
        except (ExportError, torch._dynamo.exc.TorchDynamoException, ValueError, NotImplementedError):
            return  # refused
        except Exception as error:
            if "export" in type(error).__module__ or "exc" in type(error).__module__:
                return
            raise
        program = torch_atalla.load_loadable(path, device=f"atalla:{step.ambient.device}")
        for time in range(step.times):
            expected = _eager(step, time)
            found = program(*step.build(time))
            outputs, wanted = tensors(found), tensors(expected.results)
            problem = compare.forms(outputs, wanted, strides=False)
            # A program reads expanded inputs as contiguous ones, whose elements a sum takes in another order.
            expanded = any(0 in x.stride() for x in tensors(args))
            compared = values if expanded else compare.bits
            if problem is None and (text := compared(outputs, [x.resolve_conj().resolve_neg() for x in wanted])):
                problem = "values", text
            if problem is not None:
                yield problem[0], f"call {time}: {problem[1]}"
                return


KINDS: dict[str, Callable[[Step], Iterator[Problem]]] = {
    "call": call,
    "streams": streams,
    "threads": threads,
    "capture": capture,
    "loadable": loadable,
}
