# SPDX-License-Identifier: BSD-3-Clause
"""Strides and values of results for inputs of all layouts: loadables and torch.compile against eager mode and the CPU.

    python -m tools.layout_sweep                            all ops of upstream's database
    python -m tools.layout_sweep --ops abs,clamp            these
    python -m tools.layout_sweep --every 12 --start 3       each twelfth one, from number 3
    python -m tools.layout_sweep --paths loadable           without torch.compile

All calls of an op, one for each sample and layout, are one program. Prints each difference; exit status 1 if there is
one. Strides of dimensions of one element do not count, nor do those of results that have gaps or share elements: a
program returns a copy of these.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch.utils._pytree import tree_map_only

import torch_atalla
from torch_atalla.testing import tensors

PATHS = ("loadable", "compiled")

# Differences that are not the device's: pattern of the text -> reason.
EXCUSED = {
    r"tensor_split, .*: eager: RuntimeError: .* to be on cpu": "upstream takes indices on the CPU only",
    r"lu_unpack, ones, .*: eager: IndexError: .* pivot": "the layout cuts the matrix but not its pivots",
    r"(svd|pca)_lowrank, expanded, .*: Tensor-likes are not close": "singular vectors of rank 1 are not unique",
    r"(argwhere|nonzero), .*: loadable: .*: strides": "the size that depends on data is the outermost one in memory",
    r"multinomial, .*: Tensor-likes are not close": "its draws were equal by chance, so that it did not seem random",
}
LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
Change = Callable[[torch.Tensor], torch.Tensor]


def last(t: torch.Tensor) -> torch.Tensor:
    return t.contiguous(memory_format=LAST[t.dim()]) if t.dim() in LAST else t


def permuted(t: torch.Tensor, *order: int) -> torch.Tensor:
    """The same values, contiguous in another order of dimensions."""
    inverse = [order.index(d) for d in range(t.dim())]
    return t.permute(order).contiguous().permute(inverse)


def transposed(t: torch.Tensor) -> torch.Tensor:
    return permuted(t, *range(t.dim() - 2), t.dim() - 1, t.dim() - 2) if t.dim() > 1 else t


def front(t: torch.Tensor) -> torch.Tensor:
    return permuted(t, 1, 0, *range(2, t.dim())) if t.dim() > 2 else t


def reverse(t: torch.Tensor) -> torch.Tensor:
    return permuted(t, *range(t.dim())[::-1]) if t.dim() > 1 else t


def step(t: torch.Tensor) -> torch.Tensor:
    if t.dim() == 0 or t.numel() == 0:
        return t
    wide = torch.zeros((*t.shape[:-1], 2 * t.shape[-1]), dtype=t.dtype)[..., ::2]
    return wide.copy_(t)


def expanded(t: torch.Tensor) -> torch.Tensor:
    """Other values: the first ones of the first dimension, for all of it."""
    return t[:1].expand(t.shape) if t.dim() > 1 and t.shape[0] > 1 and t.is_floating_point() else t


def ones(t: torch.Tensor) -> torch.Tensor:
    """A first dimension of one element, whose stride is that of the last one."""
    if t.dim() < 2 or t.numel() == 0 or not t.is_floating_point():
        return t
    return last(t[:1]).transpose(0, 1).contiguous().transpose(0, 1)


# Those with the values of the given tensor.
LAYOUTS: dict[str, Change] = {
    "plain": lambda t: t,
    "last": last,
    "transposed": transposed,
    "front": front,
    "step": step,
    "reverse": reverse,
}
ALL_LAYOUTS = {**LAYOUTS, "expanded": expanded, "ones": ones}


def placed(t: torch.Tensor, device: str) -> torch.Tensor:
    """On the device with the same strides, which to() keeps of dense tensors only."""
    if t.is_conj() or t.is_neg() or t.numel() == 0:
        return t.detach().to(device).requires_grad_(t.requires_grad)
    extent = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride()))
    there = torch.zeros(extent, dtype=t.dtype, device=device).as_strided(t.shape, t.stride())
    source = t.detach()
    for dim, stride in enumerate(t.stride()):
        if stride == 0 and t.shape[dim] > 1:  # one element for all
            there, source = there.narrow(dim, 0, 1), source.narrow(dim, 0, 1)
    there.copy_(source)
    return there.as_strided(t.shape, t.stride()).detach().requires_grad_(t.requires_grad)


@dataclass
class Call:
    """One call of an op, and the results of eager mode."""

    name: str
    op: Any
    given: tuple[Any, tuple[Any, ...], dict[str, Any]]
    expected: list[torch.Tensor]
    is_random: bool

    def __call__(self, device: str, leaves: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        left = iter(leaves)
        first, args, kwargs = tree_map_only(torch.Tensor, lambda _: next(left), self.given)
        kwargs = {**kwargs, "device": device} if "device" in kwargs else kwargs
        return tensors(self.op(first, *args, **kwargs))


class Calls(torch.nn.Module):
    def __init__(self, calls: Sequence[Call], device: str):
        super().__init__()
        self.calls, self.device = calls, device

    def forward(self, *leaves: torch.Tensor) -> list[list[torch.Tensor]]:
        left = iter(leaves)
        return [call(self.device, list(itertools.islice(left, len(tensors(call.given))))) for call in self.calls]


def calls_of(op: Any, samples: int, differences: list[str]) -> Iterator[Call]:
    """The calls that the CPU takes; whose results in eager mode differ from the CPU's goes to `differences`."""
    drawn = list(itertools.islice(op.sample_inputs("cpu", torch.float32), samples))
    for (n, sample), (layout, change) in itertools.product(enumerate(drawn), ALL_LAYOUTS.items()):
        plain = (sample.input, sample.args, sample.kwargs)
        if any(x.layout is not torch.strided for x in tensors(plain)):
            continue
        given = tree_map_only(torch.Tensor, change, plain)
        if layout != "plain" and _strides(tensors(given)) == _strides(tensors(plain)):
            continue
        call = Call(f"{op.name}, {layout}, sample {n}", op.op, given, [], False)
        try:
            wanted, again = (call("cpu", [placed(x, "cpu") for x in tensors(given)]) for _ in range(2))
        except Exception:  # noqa: BLE001  (the CPU does not take the layout)
            continue
        if any(x.layout is not torch.strided for x in wanted):
            continue
        call.is_random = not _same_values(wanted, again)
        try:
            call.expected = call("atalla", [placed(x, "atalla") for x in tensors(given)])
        except Exception as error:  # noqa: BLE001
            differences.append(f"{call.name}: eager: {type(error).__name__}: {str(error)[:200]}")
            continue
        differences += [
            f"{call.name}: eager, against the CPU: {text}" for text in _different(call, call.expected, wanted)
        ]
        if call.expected and all(x.layout is torch.strided for x in call.expected):
            yield call


def _strides(values: Sequence[torch.Tensor]) -> list[tuple[int, ...]]:
    return [x.stride() for x in values]


def _same_values(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(one, other))


def _different(call: Call, found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> Iterator[str]:
    if len(found) != len(expected):
        yield f"{len(found)} results, expected {len(expected)}"
        return
    for k, (a, b) in enumerate(zip(found, expected)):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            yield f"result {k}: {a.dtype}{list(a.shape)}, expected {b.dtype}{list(b.shape)}"
            continue
        counts = b.numel() and is_non_overlapping_and_dense_or_false(b)
        if counts and any(n > 1 and s != e for n, s, e in zip(b.shape, a.stride(), b.stride())):
            yield f"result {k}: strides {a.stride()}, expected {b.stride()}, shape {list(b.shape)}"
        if call.is_random or "empty" in call.name:
            continue
        try:
            torch.testing.assert_close(a.cpu(), b.cpu(), rtol=1e-4, atol=1e-4, equal_nan=True)
        except AssertionError as error:
            yield f"result {k}: {' '.join(str(error).split())[:200]}"


def _loadable(calls: Sequence[Call]) -> Any:
    given = [x for call in calls for x in tensors(call.given)]
    with tempfile.TemporaryDirectory(prefix="layouts") as folder:
        path = Path(folder) / "program.atl"
        exported = torch.export.export(Calls(calls, "cpu"), tuple(given))
        torch_atalla.save_loadable(exported, path, fallback="error", optimize="exact", golden=False)
        program = torch_atalla.load_loadable(path)
    return program(*[placed(x, "atalla") for x in given])


def _compiled(calls: Sequence[Call]) -> Any:
    torch._dynamo.reset()
    given = [placed(x, "atalla") for call in calls for x in tensors(call.given)]
    return torch.compile(Calls(calls, "atalla"), dynamic=False)(*given)


def differences(
    op: Any, samples: int = 2, paths: Sequence[str] = PATHS, refused: dict[str, str] | None = None
) -> list[str]:
    """What differs for one op of upstream's database, as texts. Programs that a path does not take go to `refused`."""
    found: list[str] = []
    from torch.testing._internal import common_methods_invocations

    # Upstream seeds the generator inside of ops that draw: then they would be the same each time, but on one device.
    unseeded = mock.patch.object(common_methods_invocations, "wrapper_set_seed", lambda op, *a, **k: op(*a, **k))
    with torch.no_grad(), warnings.catch_warnings(), unseeded:
        warnings.simplefilter("ignore")
        calls = list(calls_of(op, samples, found))
        for path in paths:
            run = {"loadable": _loadable, "compiled": _compiled}[path]
            groups = [calls] if calls else []
            while groups:
                group = groups.pop()
                try:
                    results = run(group)
                except Exception as error:  # noqa: BLE001
                    if len(group) > 1:
                        groups += [group[len(group) // 2 :], group[: len(group) // 2]]
                    elif refused is not None:
                        text = str(error).splitlines()[0][:160] if str(error) else ""
                        refused[f"{group[0].name}: {path}"] = f"{type(error).__name__}: {text}"
                    continue
                for call, values in zip(group, results):
                    found += [
                        f"{call.name}: {path}: {text}" for text in _different(call, tensors(values), call.expected)
                    ]
    return [text for text in found if not any(re.match(pattern, text) for pattern in EXCUSED)]


def selected(names: Sequence[str], every: int, start: int) -> list[Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    ops = [op for op in op_db if torch.float32 in op.dtypes]
    return [op for op in ops if op.name in names] if names else ops[start::every]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", default="", help="names, comma separated (default: all)")
    parser.add_argument("--every", type=int, default=1, help="each so many ops")
    parser.add_argument("--start", type=int, default=0, help="number of the first op")
    parser.add_argument("--samples", type=int, default=2, help="of each op")
    parser.add_argument("--paths", default=",".join(PATHS), help=f"some of {', '.join(PATHS)}")
    args = parser.parse_args(argv)
    total, refused = 0, dict[str, str]()
    with torch_atalla.fallback.mode("error"):
        for op in selected([name for name in args.ops.split(",") if name], args.every, args.start):
            for text in differences(op, args.samples, args.paths.split(","), refused):
                total += 1
                print(text, flush=True)
    for name, why in refused.items():
        print(f"refused: {name}: {why}")
    print(f"{total} differences, {len(refused)} calls that a path does not take")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
