# SPDX-License-Identifier: BSD-3-Clause
"""Example calls of ATen overloads: those of upstream's op database, and calls that its samples do not reach."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tools.codegen.model import upstream

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.complex64)
SAMPLES = 12  # of an OpInfo in a dtype
CALLS = 2  # of an overload in a dtype
ELEMENTS = 2500  # of all tensors of a call
OTHER_DEVICES = ("jiterator", "to_sparse")

# The results are drawn at random or not initialised: only their sizes can be compared.
SHAPE_ONLY = {"native_dropout", "rand", "randn", "randperm", "resize_"}
SHAPE_ONLY |= {"empty.memory_format", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}


class Call(NamedTuple):
    """The arguments of an overload; their tensors are on the CPU."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def tensors(self) -> list[torch.Tensor]:
        return [leaf for leaf in pytree.tree_leaves(tuple(self)) if isinstance(leaf, torch.Tensor)]


class Recorder(TorchDispatchMode):
    """Keeps small calls of each overload below autograd: some of each dtype, no two of the same layouts and numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[tuple[str, Any], dict[str, Call]] = defaultdict(dict)  # overload and dtype -> ...

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        call = Call(args, kwargs or {})
        tensors = call.tensors() if func.namespace == "aten" else []
        found = self.calls[func.name().removeprefix("aten::"), tensors[0].dtype if tensors else None]
        small = sum(tensor.numel() for tensor in tensors) <= ELEMENTS
        if len(found) < CALLS and small and all(tensor.layout is torch.strided for tensor in tensors):
            signature = pytree.tree_map_only(torch.Tensor, lambda t: (t.dtype, t.shape, t.stride()), tuple(call))
            found.setdefault(str(signature), pytree.tree_map_only(torch.Tensor, copied, call))
        return func(*args, **call.kwargs)


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """With its strides, and as much of its storage as they reach."""
    plain = tensor.detach()
    if not plain.numel():
        return torch.empty_strided(plain.shape, plain.stride(), dtype=plain.dtype)
    reach = 1 + sum((size - 1) * stride for size, stride in zip(plain.shape, plain.stride()))
    return plain.as_strided((reach,), (1,)).resolve_conj().resolve_neg().clone().as_strided(plain.shape, plain.stride())


def run(op: OpInfo, dtype: torch.dtype) -> None:
    backward = dtype is torch.float32 and op.supports_autograd
    # op.sample_inputs() tells the running test of each sample, which takes longer than the sample.
    for sample in islice(op.sample_inputs_func(op, "cpu", dtype, backward), SAMPLES):
        results = pytree.tree_leaves(op(sample.input, *sample.args, **sample.kwargs))
        if backward:
            roots = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
            torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])


@cache
def example_calls() -> dict[str, list[Call]]:
    """Overload, as in native_functions.yaml -> its calls. Takes ten seconds."""
    torch.manual_seed(0)
    recorder = Recorder()
    with warnings.catch_warnings(), recorder:
        warnings.simplefilter("ignore")
        for op in op_db:
            for dtype in DTYPES:  # in this order, so that calls have the same numbers at every run
                if dtype in op.supported_dtypes("cpu") and not op.name.startswith(OTHER_DEVICES):
                    run(op, dtype)
    calls: dict[str, list[Call]] = defaultdict(list)
    for (name, _), found in recorder.calls.items():
        calls[name] += found.values()
    for name, call in further():
        calls[name].append(call)
    return dict(calls)


def further() -> Iterator[tuple[str, Call]]:
    """What no sample calls below autograd: overloads of other frontends, and those that inference alone takes."""

    def call(name: str, *args: Any, **kwargs: Any) -> tuple[str, Call]:
        return name, Call(args, kwargs)

    x, y, i = torch.randn(3, 4), torch.randn(3, 4), torch.arange(12).reshape(3, 4)
    sequence, image, volume = torch.randn(2, 3, 8), torch.randn(2, 4, 8, 8), torch.randn(1, 2, 4, 6, 6)
    pixels = torch.randint(0, 255, (1, 3, 6, 5), dtype=torch.uint8)
    index, rows, c, v = torch.tensor([[0, 1, 2, 1], [2, 0, 0, 2]]), torch.tensor([2, 0, 2]), x[0], torch.rand(4) + 0.5
    yield call("_native_batch_norm_legit_no_training", image, c, c, c, v, 0.1, 1e-5)
    yield call("_native_batch_norm_legit_functional", image, c, None, c, v, True, 0.3, 1e-5)
    yield call("_native_batch_norm_legit_functional", sequence.bfloat16(), *(c[:3],) * 3, v[:3], True, 0.3, 1e-5)
    yield call("adaptive_avg_pool1d", sequence, [4])
    yield call("avg_pool1d", sequence, [2])
    yield call("atan2.out", x, y, out=torch.empty(3, 4))
    for name, number in {"bitwise_and": 6, "bitwise_or": 6, "bitwise_xor": 6, "remainder": -3, "fmod": 3}.items():
        yield call(f"{name}.Scalar", i, number)
        if name != "fmod":
            yield call(f"{name}.Scalar_Tensor", number, i + 1)
    yield call("remainder.Scalar", x.half(), 0.7)
    kernel, bias = torch.randn(6, 2, 3, 3), torch.randn(6)
    for dtype in (torch.float32, torch.bfloat16):
        given = [t.to(dtype) for t in (image, kernel, bias)]
        yield call("convolution", *given, [2, 1], [1, 0], [1, 2], False, [0, 0], 2)
    yield call("copy", x, y)
    for mode in ("floor", "trunc", None):
        yield call("div.Scalar_mode", i, 5, rounding_mode=mode)
        yield call("div.Scalar_mode", x, 0.3, rounding_mode=mode)
    yield call("native_dropout", x, 0.5, True)
    yield call("randperm", 7, device=torch.device("cpu"))
    yield call("slice_scatter", x, x[:, 2:] * 3, 1, 0, 4, 2)
    yield call("scatter.value_reduce", x.bfloat16(), 0, index, 0.7, reduce="add")
    yield call("_unsafe_index_put", x, [rows], y, True)
    yield call("_embedding_bag", x, rows, torch.tensor([0, 1, 3]), False, 0, False, c[:3], True)
    yield call("_embedding_bag_forward_only", x, rows, torch.tensor([0, 1, 1]), False, 2)
    yield call("repeat_interleave.Tensor", rows, output_size=4)
    yield call("linear", x, torch.randn(5, 4), c.new_ones(5))
    yield call("layer_norm", x, [4], c, v)
    yield call("rms_norm", x, [4], c)
    yield call("scaled_dot_product_attention", image, image, image, is_causal=True)
    yield call("contiguous", x.t())
    yield call("reshape", x.t(), [2, 6])
    yield call("var.dim", x, [0])
    for name in ("sym_numel", "sym_storage_offset", "sym_is_contiguous"):
        yield call(name, x[1:])
    yield call("sym_size.int", x, 1)
    yield call("sym_stride.int", x, 0)
    for exact in ("upsample_nearest", "_upsample_nearest_exact"):
        yield call(f"{exact}1d.vec", sequence, None, [1.3])
        yield call(f"{exact}2d.vec", image.contiguous(memory_format=torch.channels_last), None, [1.7, 0.6])
        yield call(f"{exact}2d.vec", pixels, [9, 4], None)
        yield call(f"{exact}3d.vec", volume.bfloat16(), [6, 5, 9], None)
    yield call("upsample_linear1d.vec", sequence, [11], False, None)
    yield call("upsample_trilinear3d.vec", volume.bfloat16(), None, True, [1.5, 2.0, 0.5])
    for name in ("upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
        yield call(f"{name}.vec", image, [5, 11], False, None)
        yield call(f"{name}.vec", image, None, True, [1.5, 0.6])
    yield call("upsample_bilinear2d.vec", pixels, [9, 4], True, None)


def core_overloads() -> set[str]:
    """What native_functions.yaml tags `core`."""
    functions, _ = upstream()
    return {name for name, function in functions.items() if "core" in function.tags}


def overload(name: str) -> Any:
    base, _, kind = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), kind or "default")
