# SPDX-License-Identifier: BSD-3-Clause
"""Outputs that share memory with themselves or with an input: refused where the CPU refuses them, for all ops of op_db
with out= or an in-place form.

The CPU's verdicts come from other processes, since some of its kernels write outside of such outputs and end theirs.
"""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase, run_tests
from torch.utils._pytree import tree_leaves, tree_map_only

SAMPLES = 4
WORDS = ("single memory location", "overlap")

# The device refuses what the CPU accepts with undefined results: its iterator checks these outputs.
STRICTER = {
    "_native_batch_norm_legit": "statistics that share elements",
    "native_batch_norm": "statistics that share elements",
    "histc": "counts that share elements",
    "linalg.vector_norm": "norms that share elements",
    "norm": "norms that share elements",
    "nn.functional.logsigmoid": "an output that covers a part of the input",
}
# Ops that the test cannot call on both sides alike.
DEVICE_ARGUMENT = ("arange", "linspace", "logspace", "normal.number_mean", "randn", "full", "range")


def dtype_of(op) -> torch.dtype:
    return next(d for d in (torch.float32, torch.int64, *op.dtypes) if d in op.dtypes)


def expanded(t: torch.Tensor) -> torch.Tensor:
    """A tensor of the shape of `t` whose elements share memory along its largest dimension."""
    largest = max(range(t.dim()), key=lambda d: t.shape[d])
    sizes = [1 if d == largest else n for d, n in enumerate(t.shape)]
    return torch.zeros(sizes, dtype=t.dtype, device=t.device).expand(t.shape)


def neighbours(x: torch.Tensor, t: torch.Tensor, device: str, shift: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A copy of `x`, and a tensor of the shape of `t` that starts `shift` elements behind it in the same memory."""
    memory = torch.zeros(max(x.numel(), t.numel()) + 1, dtype=x.dtype, device=device)
    copy = memory[: x.numel()].view(x.shape)
    copy.copy_(x.detach())
    return copy, memory[shift : shift + t.numel()].view(t.shape)


def moved(tree, device: str, given: dict[int, torch.Tensor]):
    return tree_map_only(torch.Tensor, lambda t: given[id(t)] if id(t) in given else t.detach().to(device), tree)


def out_cases(op, sample) -> Iterator[tuple[str, Callable]]:
    call = (sample.input, sample.args, sample.kwargs)
    x, args, kwargs = moved(call, "cpu", {})
    result = op(x, *args, **kwargs)
    if not isinstance(result, (torch.Tensor, tuple, list)):
        return
    outs = [result] if isinstance(result, torch.Tensor) else list(result)
    if not all(isinstance(t, torch.Tensor) and t.layout == torch.strided for t in outs):
        return
    leaves = [t for t in tree_leaves(call) if isinstance(t, torch.Tensor)]

    def run(device: str, number: int, out: torch.Tensor, given: dict[int, torch.Tensor]) -> None:
        x, args, kwargs = moved(call, device, given)
        all_outs = [torch.empty_like(t, device=device) for t in outs]
        all_outs[number] = out
        op(x, *args, **kwargs, out=all_outs[0] if isinstance(result, torch.Tensor) else tuple(all_outs))

    for number, t in enumerate(outs):
        if t.numel() < 2:
            continue
        yield f"out {number} internal", lambda d, number=number, t=t: run(d, number, expanded(t.to(d)), {})
        for place, (leaf, shift) in enumerate(itertools.product(leaves, (0, 1))):
            if leaf.dtype == t.dtype and leaf.numel() > 1:

                def shared(d, number=number, t=t, leaf=leaf, shift=shift):
                    copy, out = neighbours(leaf, t, d, shift)
                    run(d, number, out, {id(leaf): copy})

                yield f"out {number} input {place // 2} shift {shift}", shared


def inplace_cases(op, sample) -> Iterator[tuple[str, Callable]]:
    x = sample.input
    if not isinstance(x, torch.Tensor) or x.numel() < 2:
        return

    def run(device: str, given: dict[int, torch.Tensor]) -> None:
        self, args, kwargs = moved((x, sample.args, sample.kwargs), device, given)
        op.inplace_variant(self, *args, **kwargs)

    yield "in-place internal", lambda d: run(d, {id(x): expanded(x.detach().to(d))})
    for place, leaf in enumerate(tree_leaves((sample.args, sample.kwargs))):
        if isinstance(leaf, torch.Tensor) and leaf.dtype == x.dtype and leaf.numel() > 1:

            def shared(d, leaf=leaf):
                copy, self = neighbours(leaf, x, d, 1)
                run(d, {id(leaf): copy, id(x): self})

            yield f"in-place input {place}", shared


def cases(op) -> Iterator[tuple[str, Callable]]:
    """(name, call on a device) for each way in which an output of SAMPLES samples can overlap, of those where one can.
    The same for each device."""
    torch.manual_seed(0)
    taken = 0
    for number, sample in enumerate(op.sample_inputs("cpu", dtype_of(op))):
        tensors = [t for t in tree_leaves((sample.input, sample.args, sample.kwargs)) if isinstance(t, torch.Tensor)]
        if any(t.layout != torch.strided for t in tensors):
            continue
        found = [*(out_cases(op, sample) if op.supports_out else ())]
        found += inplace_cases(op, sample) if op.inplace_variant else ()
        yield from ((f"{number} {name}", call) for name, call in found)
        taken += bool(found)
        if taken == SAMPLES:
            break


def verdict(call: Callable, device: str) -> str:
    try:
        call(device)
    except Exception as error:
        return "refuses" if any(word in str(error) for word in WORDS) else "other error"
    return "accepts"


def print_verdicts(first: int) -> None:
    for number, op in list(enumerate(tested_ops()))[first:]:
        print(json.dumps([number, op.full_name, "", ""]), flush=True)
        for name, call in cases(op):
            print(json.dumps([number, op.full_name, name, verdict(call, "cpu")]), flush=True)


def cpu_verdicts() -> list[list]:
    """[number, op, case, verdict] for each case. Where an op ends the process, another one goes on with the next op."""
    rows: list[list] = []
    while not rows or rows[-1][0] + 1 < len(tested_ops()):
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.dup2(writer, sys.stdout.fileno())
            print_verdicts(rows[-1][0] + 1 if rows else 0)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            rows += [json.loads(line) for line in pipe]
        os.wait()
    return rows


def tested_ops() -> list:
    named = [op for op in op_db if (op.supports_out or op.inplace_variant) and op.full_name not in DEVICE_ARGUMENT]
    return list({op.full_name: op for op in reversed(named)}.values())


class TestOverlap(TestCase):
    def test_as_on_the_cpu(self):
        environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", __file__, "--cpu"]
        cpu = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        device = {(op.full_name, name): verdict(call, "atalla") for op in tested_ops() for name, call in cases(op)}
        rows = json.loads(cpu.communicate()[0])
        differences, stricter = [], set()
        for _, op, name, expected in rows:
            found = device.get((op, name), "other error")
            if (found == "refuses") == (expected == "refuses") or "other error" in (found, expected):
                continue
            if found == "refuses" and op in STRICTER:
                stricter.add(op)
            else:
                differences.append(f"{op} ({name}): the CPU {expected}, the device {found}")
        self.assertTrue(not differences, "\n".join(differences))  # assertEqual would hide the text
        self.assertEqual(stricter, set(STRICTER))
        self.assertGreater([row[3] for row in rows].count("refuses"), 500)


if __name__ == "__main__":
    if sys.argv[1:] == ["--cpu"]:
        torch.set_num_threads(1)
        print(json.dumps(cpu_verdicts()))
    else:
        run_tests()
