# SPDX-License-Identifier: BSD-3-Clause
"""Results and gradients have the strides that they have on the CPU, for inputs of several layouts."""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from opinfo_suite import DeviceTestCase, collected, native_ops, op_name, samples
from torch.testing._internal import common_utils
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_map_only

import torch_atalla
from tools.layout_sweep import LAST, LAYOUTS, last, permuted, placed, step
from torch_atalla.driver.torch_versions import since
from torch_atalla.testing.properties import tensors

FLASH = "the CPU's flash kernel stores gradients in an order of its own"
CPU_KERNEL = "without gradients the CPU has a kernel of its own for it, whose result is contiguous"
STORAGE = "it reads the storage around its input"
HOST_INDICES = "its indices must be on the CPU"
GROUP_NORM = "upstream's derivative makes inputs contiguous on all devices but the CPU"

# (op, "forward" or "backward"): why some of its strides differ.
DIFFERENT_OPS = {
    ("as_strided.partial_views", "forward"): STORAGE,
    ("as_strided.partial_views", "backward"): STORAGE,
    ("nn.functional.max_pool1d", "forward"): CPU_KERNEL,
    ("tensor_split", "forward"): HOST_INDICES,
    ("tensor_split", "backward"): HOST_INDICES,
}
DIFFERENT_MODULES = {"nn.NLLLoss": "the CPU refuses gradients of channels last inputs"}
if since("2.15"):
    DIFFERENT_OPS["nn.functional.scaled_dot_product_attention", "backward"] = FLASH
else:
    DIFFERENT_MODULES["nn.GroupNorm"] = GROUP_NORM


def laid_out(change: Callable[[torch.Tensor], torch.Tensor], t: torch.Tensor) -> torch.Tensor:
    return change(t.detach()).requires_grad_(t.requires_grad)


def gradients(out: Any, inputs: Any) -> list[torch.Tensor | None]:
    found = [t for t in tensors(out) if t.requires_grad]
    leaves = [t for t in tensors(inputs) if t.requires_grad]
    if not found or not leaves:
        return []
    return list(torch.autograd.grad(found, leaves, [torch.ones_like(t) for t in found], allow_unused=True))


def strides(results: list[torch.Tensor | None]) -> list[Any]:
    return [None if t is None else t.stride() if t.numel() else "empty" for t in results]


class TestStrides(DeviceTestCase):
    def setUp(self):
        super().setUp()
        threads = torch.get_num_threads(), torch_atalla.chip.get_num_threads()
        self.addCleanup(lambda: (torch.set_num_threads(threads[0]), torch_atalla.chip.set_num_threads(threads[1])))
        torch.set_num_threads(1)  # for thousands of small ops
        torch_atalla.chip.set_num_threads(1)

    def expect_only(self, found: dict[str, list[str]], excused: Iterable[str]) -> None:
        lines = [line for name in sorted(found.keys() - set(excused)) for line in found[name]]
        self.assertEqual(len(lines), 0, msg="\n".join(lines))
        equal = [name for name in excused if not found.get(name)]
        self.assertEqual(equal, [], msg=f"equal now: {equal}")

    def results(self, op: Any, sample: Any, inputs: tuple[Any, ...], backward: bool) -> list[torch.Tensor | None]:
        torch.manual_seed(0)
        out = op(inputs[0], *inputs[1], **inputs[2])
        if not backward:
            return list(tensors(out))
        return gradients(sample.output_process_fn_grad(out), inputs)

    def differences(self, op: Any, backward: bool) -> list[str]:
        found = []
        drawn = enumerate(samples(op, torch.float32, 3, requires_grad=backward))
        for (n, sample), layout in itertools.product(drawn, LAYOUTS):
            given = (sample.input, sample.args, sample.kwargs)
            host = tree_map_only(torch.Tensor, partial(laid_out, LAYOUTS[layout]), given)
            if layout != "plain" and strides(tensors(host)) == strides(tensors(given)):
                continue
            try:
                want = self.results(op, sample, host, backward)
            except Exception:  # noqa: BLE001  (the CPU does not take the layout)
                continue
            there = tree_map_only(torch.Tensor, lambda t: placed(t, "atalla"), host)
            if "device" in there[2]:
                there[2]["device"] = "atalla"
            try:
                got = strides(self.results(op, sample, there, backward))
            except Exception as error:  # noqa: BLE001
                got = [f"{type(error).__name__}: {error}"]
            if got != strides(want):
                found.append(f"{op_name(op)}, {layout}, sample {n}: {got}, on the CPU {strides(want)}")
        return found

    @common_utils.parametrize("backward", [False, True])
    def test_ops(self, device, backward):
        found: dict[str, list[str]] = {}
        for op in native_ops:
            if torch.float32 not in op.dtypesIf["atalla"] or (backward and not op.supports_autograd):
                continue
            with torch.set_grad_enabled(backward), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[op_name(op)] = self.differences(op, backward)
        direction = "backward" if backward else "forward"
        excused = {name for name, way in DIFFERENT_OPS if way == direction}
        self.expect_only(found, excused)

    def module_strides(self, module: Any, inputs: Any, where: str) -> list[Any]:
        module.to(where)
        inputs = tree_map_only(torch.Tensor, lambda t: placed(t, where), inputs)
        torch.manual_seed(0)
        try:
            out = module(*inputs[0], **inputs[1])
            return strides(tensors(out)) + strides(gradients(out, (inputs, list(module.parameters()))))
        except Exception as error:  # noqa: BLE001
            return [f"{type(error).__name__}: {error}"]

    def test_modules(self, device):
        """Modules and inputs in channels last, as in upstream's test_memory_format."""
        found: dict[str, list[str]] = {}
        for info in module_db:
            if torch.float32 not in info.dtypes or "Lazy" in info.name:
                continue
            inputs = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=True)
            taken = [
                i
                for i in inputs
                if i.forward_input
                and LAST.keys() & {t.dim() for t in tensors((i.forward_input.args, i.forward_input.kwargs))}
            ]
            for given in taken[:7]:
                for change_input, change_module in ((True, False), (False, True)):
                    torch.manual_seed(1)
                    made = info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs)
                    if change_module:
                        if not any(p.dim() in LAST for p in made.parameters()):
                            continue
                        for p in made.parameters():
                            p.data = last(p.data)
                    call = (given.forward_input.args, given.forward_input.kwargs)
                    if change_input:
                        call = tree_map_only(torch.Tensor, partial(laid_out, last), call)
                    want = self.module_strides(copy.deepcopy(made), call, "cpu")
                    got = self.module_strides(made, call, device)
                    if got != want:
                        found.setdefault(info.name, []).append(f"{info.name}: {got}, on the CPU {want}")
        self.expect_only(found, DIFFERENT_MODULES)

    def test_attention(self, device):
        """The flash kernel of the CPU keeps the query's order; what it does not take is contiguous."""

        def run(f: Callable[..., Any], *arguments: torch.Tensor, **options: Any) -> None:
            for needs_grad in (False, True):
                host = [t.detach().requires_grad_(needs_grad) for t in arguments]
                there = [placed(t, "atalla") for t in host]
                want, got = f(*host, **options), f(*there, **options)
                self.assertEqual(got.stride(), want.stride())
                self.assertEqual(got.cpu(), want, atol=1e-5, rtol=1e-5)

        attention = torch.nn.functional.scaled_dot_product_attention
        plain = torch.randn(2, 3, 4, 5)
        for q in (plain, permuted(plain, 0, 2, 1, 3), permuted(plain, 1, 0, 2, 3), last(plain), step(plain)):
            run(attention, q, q, q)
            run(attention, q, plain, plain, is_causal=True)
            run(attention, q, plain, torch.randn(2, 3, 4, 7))
        run(attention, permuted(torch.randn(2, 6, 4, 5), 0, 2, 1, 3), plain, plain, enable_gqa=True)


instantiate_device_type_tests(TestStrides, globals(), only_for=("atalla",))


def test_count() -> None:
    assert collected(globals(), "TestStrides") >= 4
