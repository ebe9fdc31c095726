# SPDX-License-Identifier: BSD-3-Clause
"""Copies of any strides, dtypes and lazy bits between host and devices give what a copy on the host gives."""

from __future__ import annotations

import copy
import io
import itertools
from collections.abc import Callable

import torch
import torch.autograd.forward_ad as fwAD
from opinfo_suite import DeviceTestCase, collected
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal import common_utils
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.utils._python_dispatch import TorchDispatchMode

DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool),
    *(torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.complex32, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2),
)
SHAPES = ((), (1,), (0, 3), (3, 1), (2, 1, 3), (2, 3, 1, 1), (3, 1, 2, 2), (1, 4, 1, 3), (2, 1, 2, 1, 3))


def strides_of(shape: tuple[int, ...]) -> dict[str, tuple[tuple[int, ...], int]]:
    """Strides and storage offset by name. All but "expanded" may be written to."""

    def dense(order: list[int]) -> list[int]:
        strides, step = [0] * len(shape), 1
        for d in reversed(order):
            strides[d] = step
            step *= max(shape[d], 1)
        return strides

    dims = list(range(len(shape)))
    plain = dense(dims)
    layouts = {"contiguous": (plain, 0), "offset": (plain, 3), "step": ([2 * s for s in plain], 1)}
    layouts["reversed"] = (dense(dims[::-1]), 0)
    if len(shape) >= 4:
        layouts["channels_last"] = (dense([0, *dims[2:], 1]), 0)
    # A dimension of size 1 may have any stride, in a contiguous tensor as well.
    for name, odd in (("zeros", 0), ("sevens", 7)):
        layouts[name] = ([odd if n == 1 else s for n, s in zip(shape, plain)], 0)
    if shape:
        layouts["expanded"] = ([0, *plain[1:]], 0)
        layouts["overlapping"] = ([1] * len(shape), 0)
    return {name: (tuple(strides), offset) for name, (strides, offset) in layouts.items()}


def layouts_of(shape: tuple[int, ...], written: bool) -> list[tuple[tuple[int, ...], int]]:
    return [v for k, v in strides_of(shape).items() if not (written and k in ("expanded", "overlapping"))]


def values(n: int, dtype: torch.dtype) -> torch.Tensor:
    whole = torch.arange(n) % 5
    if dtype.is_complex:  # no zeros: their signs may differ after lazy negation
        return torch.complex(1.0 + whole.double(), -2.0 - whole.double()).to(dtype)
    return whole.to(dtype)


def storage(shape: tuple[int, ...], layout: tuple[tuple[int, ...], int], dtype: torch.dtype) -> torch.Tensor:
    strides, offset = layout
    return values(offset + 1 + sum((max(n, 1) - 1) * s for n, s in zip(shape, strides)), dtype)


def bits(t: torch.Tensor) -> list[int]:
    return t.resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8).tolist() if t.numel() else []


class TestTransfers(DeviceTestCase):
    def check(
        self,
        shape: tuple[int, ...],
        source: tuple[tuple[int, ...], int],
        target: tuple[tuple[int, ...], int],
        dtypes: tuple[torch.dtype, torch.dtype],
        way: tuple[str, str],
        non_blocking: bool = False,
        lazy: Callable[[torch.Tensor], torch.Tensor] = lambda t: t,
        lazy_target: Callable[[torch.Tensor], torch.Tensor] = lambda t: t,
    ) -> None:
        """Compares the whole storage: what lies between the elements stays."""
        src = storage(shape, source, dtypes[0])
        want = torch.zeros_like(storage(shape, target, dtypes[1]))
        pinned = non_blocking and "cpu" in way
        got, sent = want.clone().to(way[1]), src.to(way[0])
        if pinned:
            got, sent = (t.pin_memory() if t.device.type == "cpu" else t for t in (got, sent))

        def view(t: torch.Tensor, layout: tuple[tuple[int, ...], int], bit: Callable) -> torch.Tensor:
            return bit(t.as_strided(shape, *layout))

        view(want, target, lazy_target).copy_(view(src, source, lazy))
        result = view(got, target, lazy_target)
        strides = result.stride()
        result.copy_(view(sent, source, lazy), non_blocking=non_blocking)
        torch.atalla.synchronize()
        if way[0] == "atalla:0" and way[1] == "atalla:1":
            torch.atalla.synchronize(1)
        self.assertEqual(result.stride(), strides)
        self.assertEqual(bits(got.cpu()), bits(want), msg=f"{shape} {source} {target} {dtypes} {way} {non_blocking}")

    @common_utils.parametrize("way", ["cpu-atalla:0", "atalla:0-cpu", "atalla:0-atalla:0", "atalla:0-atalla:1"])
    @common_utils.parametrize("non_blocking", [False, True])
    def test_strides(self, device, way, non_blocking):
        ends = tuple(way.split("-"))
        for shape in SHAPES:
            for source, target in itertools.product(layouts_of(shape, False), layouts_of(shape, True)):
                self.check(shape, source, target, (torch.float32,) * 2, ends, non_blocking)
                self.check(shape, source, target, (torch.float32, torch.bfloat16), ends, non_blocking)

    @common_utils.parametrize("dtype", DTYPES)
    def test_dtypes(self, device, dtype):
        shape = (2, 3, 1, 2)
        layouts = list(strides_of(shape).values())
        for way in (("cpu", "atalla"), ("atalla", "cpu"), ("atalla", "atalla")):
            for source, target in ((0, 4), (4, 0), (2, 3), (6, 5)):
                for non_blocking in (False, True):
                    self.check(shape, layouts[source], layouts[target], (dtype, dtype), way, non_blocking)

    @common_utils.parametrize("source", [torch.float32, torch.complex64, torch.int64, torch.uint16, torch.float16])
    def test_conversions(self, device, source):
        shape = (2, 1, 3)
        layouts = list(strides_of(shape).values())
        for dtype in DTYPES:
            if source.is_complex and not dtype.is_complex:
                continue  # (discards the imaginary part, with a warning once)
            for way in (("cpu", "atalla"), ("atalla", "cpu"), ("atalla", "atalla")):
                for i, j in ((0, 3), (3, 4), (2, 0)):
                    self.check(shape, layouts[i], layouts[j], (source, dtype), way, True)

    @common_utils.parametrize("way", ["cpu-atalla:0", "atalla:0-cpu", "atalla:0-atalla:0", "atalla:0-atalla:1"])
    def test_lazy_bits(self, device, way):
        def conj(t):
            return t.conj()

        def neg(t):
            return torch._neg_view(t)

        def both(t):
            return torch._neg_view(t.conj())

        shape, ends = (2, 1, 3), tuple(way.split("-"))
        layouts = list(strides_of(shape).values())
        for a, b in itertools.product((conj, neg, both, lambda t: t), repeat=2):
            for dtypes in ((torch.complex64,) * 2, (torch.complex64, torch.complex128)):
                for non_blocking in (False, True):
                    for i, j in ((0, 0), (3, 2), (0, 4)):
                        self.check(shape, layouts[i], layouts[j], dtypes, ends, non_blocking, a, b)

    def test_memory_that_overlaps_is_not_written(self, device):
        for where in ("cpu", device):
            target = torch.zeros(3, device=where).expand(2, 3)
            for source in (torch.ones(2, 3), torch.ones(2, 3, device=device)):
                with self.assertRaisesRegex(RuntimeError, "single memory location"):
                    target.copy_(source)

    def test_layout_follows(self, device):
        """to, cpu, clone, empty_like, deepcopy, save and load_state_dict keep the strides that the CPU keeps."""

        def saved(t):
            file = io.BytesIO()
            torch.save(t, file)
            file.seek(0)
            return torch.load(file, weights_only=True)

        def loaded(t):
            module = torch.nn.Module()
            module.register_buffer("b", torch.empty(t.shape, device=t.device))
            module.load_state_dict({"b": t.cpu()})
            return module.b

        makers = (torch.clone, torch.empty_like, copy.deepcopy, saved, loaded, lambda t: t.to(torch.float64))
        makers += (lambda t: t.clone(memory_format=torch.contiguous_format), torch.Tensor.contiguous)
        for shape in SHAPES:
            for layout in layouts_of(shape, False):
                host = storage(shape, layout, torch.float32).as_strided(shape, *layout)
                there = storage(shape, layout, torch.float32).to(device).as_strided(shape, *layout)
                self.assertEqual(there.cpu().stride(), host.clone().stride())
                self.assertEqual(host.to(device).stride(), host.clone().stride())
                for maker in makers:
                    want, got = maker(host), maker(there)
                    self.assertEqual(got.stride(), want.stride(), msg=f"{maker} {shape} {layout}")
                    if maker is not torch.empty_like:
                        self.assertEqual(got.cpu(), want)

    def test_dlpack(self, device):
        for shape in SHAPES:
            for layout in layouts_of(shape, False):
                there = storage(shape, layout, torch.float32).to(device).as_strided(shape, *layout)
                back = torch.from_dlpack(there)
                self.assertEqual((back.device, back.data_ptr()), (there.device, there.data_ptr()))
                self.assertEqual(back, there)

    def test_copy_from_and_resize(self, device):
        for shape in SHAPES:
            for layout in layouts_of(shape, False):
                host = storage(shape, layout, torch.float32).as_strided(shape, *layout)
                there = host.to(device)
                for source, target in ((there, torch.empty(0)), (host, torch.empty(0, device=device))):
                    torch._copy_from_and_resize(source, target)
                    self.assertEqual(target.cpu(), host)

    def test_item_below_other_keys(self, device):
        """`item` of a plain tensor skips the dispatcher's second turn; everything else sees what it sees on the CPU."""

        class Seen(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                calls.append(func)
                return func(*args, **(kwargs or {}))

        def outcomes(device: str) -> list[object]:
            one = torch.full((1,), 2.5, device=device)
            with fwAD.dual_level():
                found = [fwAD.make_dual(one, one).item()]
            with torch.inference_mode():
                found.append(torch.full((), 3, device=device).item())
            with Seen():
                found.append(one.item())
            found += [torch.nn.Parameter(one).item(), one.to(torch.complex64).mul(1j).conj().item()]
            found += [one.to_sparse().sum().item(), torch.func.functionalize(lambda t: t + t.item())(one).item()]
            for attempt in (
                lambda: torch.ones(3, device=device).item(),
                lambda: torch.ones(0, device=device).item(),
                lambda: torch.vmap(torch.Tensor.item)(torch.ones(3, device=device)),
                lambda: FakeTensorMode().from_tensor(one).item(),
            ):
                with self.assertRaises(Exception) as raised:
                    attempt()
                found.append((type(raised.exception), str(raised.exception)))
            return found

        calls: list[object] = []
        self.assertEqual(outcomes(device), outcomes("cpu"))
        self.assertEqual(calls, [torch.ops.aten._local_scalar_dense.default] * 2)


instantiate_device_type_tests(TestTransfers, globals(), only_for=("atalla",))


def test_count() -> None:
    assert collected(globals(), "TestTransfers") >= 40
