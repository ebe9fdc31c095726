# SPDX-License-Identifier: BSD-3-Clause
"""The example calls of every op with a lowering as chip code, against their graphs in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from chip_op_calls import (
    FAST,
    Function,
    check_call,
    check_function,
    chip_calls,
    fast_calls,
    names,
    recorded_kernels,
    scalar_core_only,
)
from torch.testing._internal.common_utils import TEST_WITH_SLOW

from torch_atalla.compiler.targets.chip.build import compile_model
from torch_atalla.compiler.targets.chip.network import NoProgramError
from torch_atalla.compiler.targets.chip.scalar_core import _ROUTINES
from torch_atalla.compiler.targets.chip.select import SELECTORS

_SEGMENT = "runs on the host, which chip code does not"
_NO_CODE = "neither the vector unit nor the scalar core has code for it"
# (op, call) without a program, and why; None: all calls.
WITHOUT_PROGRAM: dict[tuple[str, int | None], str] = {
    ("_embedding_bag", None): _SEGMENT,
    ("_pdist_forward", None): _SEGMENT,
    ("_histogramdd_from_bin_tensors", None): _SEGMENT,
    ("_linalg_det", None): _SEGMENT,
    ("histogram.bins_tensor", None): _SEGMENT,
    ("linalg_cholesky_ex", None): _SEGMENT,
    ("lu_unpack", None): _SEGMENT,
    ("fractional_max_pool2d", None): _NO_CODE,
    ("fractional_max_pool3d", None): _NO_CODE,
    ("frexp.Tensor", None): _NO_CODE,
    ("linalg_matrix_exp", None): _NO_CODE,
}
TRAINING = ("backward", "optimizer")  # kernels of training steps, which no forward op reaches
# The selectors and routines that no example call reaches are run by FURTHER, except these.
UNREACHED = {
    "scalar channel_norm.statistics": "of training steps: test_isa_training.py",
    "vector pool.scatter": "of training steps: test_isa_training.py",
    "scalar arange": "folded into constants; test_isa_codegen.py",
    "scalar cross": "taken apart",
    "scalar gemm_grouped": "the CPU has none in bfloat16",
    "vector gemm_grouped": "test_isa_grouped.py",
    "scalar isin": "taken apart",
    "scalar pool.scatter": "taken apart",
    "scalar reduce.count_nonzero": "taken apart",
    "scalar reduce.norm2": "taken apart",
    "scalar reduce.norm_inf": "taken apart",
    "scalar cat": "lowered to copies; test_isa_codegen.py",
    "vector cat": "lowered to copies; test_isa_codegen.py",
    "vector convolution": "weights that are parameters: test_isa_codegen.py",
    "vector pool.average": "images with channels innermost: test_isa_codegen.py",
    "vector pool.max": "images with channels innermost: test_isa_codegen.py",
    "vector reduce.norm2": "test_isa_codegen.py",
}
MOST_CALLS = 1150


def bf16(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed + sum(sizes))).bfloat16()


X, Y, INTEGERS = bf16(5, 7), bf16(5, 7, seed=1), torch.arange(-17, 18).reshape(5, 7)
IMAGE = bf16(1, 2, 6, 5)
FURTHER: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "softmax along an outer dimension": (lambda x: torch.softmax(x, 0), (X,)),
    "kthvalue": (lambda x: torch.kthvalue(x, 2, 0), (X,)),
    "searchsorted": (lambda x: torch.searchsorted(torch.arange(-3.0, 4.0).bfloat16(), x), (X,)),
    "cdist": (lambda x, y: torch.cdist(x.float(), y.float()), (X, Y)),
    "mean of two dimensions": (lambda x: x.permute(1, 2, 0).mean((0, 2)), (bf16(3, 4, 5),)),
    "median": (lambda x: (x.median(1), x.nanmedian(0), x.median()), (X,)),
    "mode": (lambda x: x.mode(1), (INTEGERS % 3,)),
    "masked_scatter": (lambda x, y: x.masked_scatter(y > 0, x * 2), (X, Y)),
    "nonzero_static": (
        lambda x: (torch.nonzero_static(x > 0, size=7), torch.nonzero_static(x, size=50, fill_value=-1)),
        (X,),
    ),
    "pdist": (lambda x: F.pdist(x.float()), (X,)),
    "grid": (lambda x, g: F.grid_sample(x, g, align_corners=False), (IMAGE, bf16(1, 3, 4, 2))),
    "grid of cubic": (
        lambda x, g: F.grid_sample(x, g, "bicubic", "reflection", align_corners=True),
        (IMAGE, bf16(1, 3, 4, 2)),
    ),
    "minimum of rows": (lambda x: x.amin(0), (bf16(20, 40),)),
    "adaptive pooling": (lambda x: F.adaptive_avg_pool2d(x, (4, 3)), (IMAGE,)),
    "equal windows": (
        lambda x: F.adaptive_avg_pool2d(x, (3, 5)),
        (IMAGE.to(memory_format=torch.channels_last),),
    ),
    "columns": (lambda x: F.unfold(x, 2), (IMAGE,)),
    "columns added up": (lambda x: F.fold(x, (6, 5), 2), (bf16(1, 8, 20),)),
    "long lines": (
        lambda x, w, b: (F.conv1d(x, w, b, 2, 3, 2), F.relu(F.conv1d(x, w, b, 1, 1) + F.conv1d(x, w, None, 1, 1))),
        (bf16(2, 5, 450), bf16(7, 5, 3), bf16(7)),
    ),
    "long lines in groups": (lambda x, w: F.conv1d(x, w, groups=2), (bf16(1, 64, 230), bf16(6, 32, 2))),
    "wide images": (
        lambda x, w: (F.conv2d(x, w, padding=1), F.conv2d(x[:, :, :, 1:], w, stride=(1, 2))),
        (bf16(2, 3, 4, 420).to(memory_format=torch.channels_last), bf16(33, 3, 3, 3)),
    ),
    "pooling of planes": (
        lambda x: (F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, (3, 5))),
        (IMAGE,),
    ),
    "unpooling": (lambda x: F.max_unpool2d(x, torch.arange(60).reshape(1, 2, 6, 5) % 30, 2), (IMAGE,)),
    "bag": (lambda w: F.embedding_bag(torch.tensor([[0, 2], [1, 1]]), w, mode="max"), (X,)),
    "every second row": (lambda x: x[torch.tensor([0, 2, 4])], (X,)),
    "antialias": (
        lambda x: F.interpolate(x.float(), (3, 2), mode="bilinear", antialias=True),
        (IMAGE,),
    ),
    "antialias of one column": (
        lambda x: F.interpolate(x.float(), (3, 2), mode="bicubic", antialias=True),
        (IMAGE,),
    ),
}


@pytest.mark.skipif(TEST_WITH_SLOW, reason="the slow suite has all calls")
def test_fast_calls_reach_every_kernel() -> None:
    wanted = {f"vector {name}" for name in SELECTORS} | {f"scalar {name}" for name in _ROUTINES}
    wrong = []
    with recorded_kernels() as used:
        for name in FAST:
            for call in fast_calls(name):
                try:
                    check_call(name, call)
                except Exception as error:
                    wrong.append(f"{name}: {type(error).__name__}: {error}")
        for function, tensors in FURTHER.values():
            check_function(function, *tensors)
        with scalar_core_only():
            for function, tensors in ON_SCALAR_CORE.values():
                check_function(function, *tensors)
    assert not wrong, "\n".join(wrong)
    assert {name for name in wanted - used - set(UNREACHED) if not any(part in name for part in TRAINING)} == set()
    assert len(used) >= 140


def _marks(name: str, number: int | None = None) -> list[Any]:
    reason = WITHOUT_PROGRAM.get((name, number))
    return [pytest.mark.xfail(raises=NoProgramError, strict=True, reason=reason)] if reason else []


@pytest.mark.skipif(not TEST_WITH_SLOW, reason="set PYTORCH_TEST_WITH_SLOW=1 to run all calls")
@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in names()])
def test_all_calls(name: str) -> None:
    for number, call in chip_calls(name).items():
        if (name, number) in WITHOUT_PROGRAM:
            with pytest.raises(NoProgramError):
                check_call(name, call)
        else:
            check_call(name, call)


@pytest.mark.skipif(not TEST_WITH_SLOW, reason="set PYTORCH_TEST_WITH_SLOW=1 to run all calls")
def test_number_of_calls() -> None:
    assert sum(len(chip_calls(name)) for name in names()) >= MOST_CALLS


# -- what the vector unit has a kernel for, on the scalar core as well -------------------------------------------------
ON_SCALAR_CORE: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "attention": (lambda q: F.scaled_dot_product_attention(q, q, q), (bf16(1, 2, 5, 8),)),
    "causal attention": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), (bf16(1, 2, 5, 8),)),
    "rms_norm": (lambda x: F.rms_norm(x, (7,)), (X,)),
    "layer_norm": (lambda x: F.layer_norm(x, (7,)), (X,)),
    "softmax": (lambda x: torch.softmax(x, -1), (X,)),
    "mean": (lambda x: x.mean(1), (X,)),
    "linear": (lambda x, y: x @ y.t(), (X, Y)),
    "pooling": (lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 2)), (IMAGE,)),
    "group_norm": (lambda x: F.group_norm(x, 1), (IMAGE,)),
    "extremes": (lambda x: (x.amax(0), x.amin(1), x.argmax(1)), (X,)),
    "convolution": (lambda x: F.conv2d(x, x[:, :, :3, :3]), (IMAGE,)),
    "log_softmax": (lambda x: torch.log_softmax(x, 0), (X,)),
    "any": (lambda x: (x > 1).any(1), (X,)),
    "roll": (lambda x: x.roll(2, 1), (INTEGERS,)),
    "linear resampling": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (IMAGE,)),
    "copies": (lambda x: (x.t().contiguous(), torch.cat([x, x], 1)), (X,)),
}


# -- special values ----------------------------------------------------------------------------------------------------
def special(*sizes: int, seed: int = 0, share: float = 0.1, subnormal: bool = True) -> torch.Tensor:
    """Random numbers with infinities, NaNs, -0.0 and numbers below the smallest normal one."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.tensor([math.nan, math.inf, -math.inf, -0.0, *([1e-39, -3e-39] if subnormal else [])])
    chosen = values[torch.randint(0, len(values), sizes, generator=generator)]
    x = torch.randn(*sizes, generator=generator)
    return torch.where(torch.rand(*sizes, generator=generator) < share, chosen, x).bfloat16()


_UNARY = """abs neg exp sqrt rsqrt sigmoid tanh relu log log1p expm1 sin cos erf floor ceil round trunc sign isnan
    isfinite isinf signbit isposinf nan_to_num logical_not asinh atan sinh""".split()
_BINARY = """add sub mul maximum minimum fmax fmin pow atan2 fmod remainder copysign eq ne lt le gt ge
    logical_and logical_or logical_xor hypot heaviside logaddexp""".split()


_ACTIVATIONS = """elu selu celu hardshrink softshrink hardsigmoid hardswish hardtanh relu6 logsigmoid softplus mish
    tanhshrink softsign leaky_relu""".split()
_GRADIENTS: dict[str, tuple[Any, ...]] = {
    "hardswish_backward": (), "hardsigmoid_backward": (), "hardtanh_backward": (-1.0, 1.0),
    "leaky_relu_backward": (0.1, False), "softplus_backward": (1.0, 20.0), "hardshrink_backward": (0.5,),
    "softshrink_backward": (0.5,), "threshold_backward": (0.5,), "sigmoid_backward": (), "tanh_backward": (),
}  # fmt: skip


@pytest.mark.parametrize("names", [_UNARY[::2], _UNARY[1::2], _ACTIVATIONS])
def test_special_values_of_one_operand(names: list[str]) -> None:
    functions = [getattr(torch, name, None) or getattr(F, name) for name in names]
    check_function(lambda x: [function(x) for function in functions], special(40, 35))


def test_special_values_of_gradients() -> None:
    def gradients(grad: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
        return [getattr(torch.ops.aten, name)(grad, x, *given) for name, given in _GRADIENTS.items()]

    check_function(gradients, special(40, 35), special(40, 35, seed=1))


def test_special_values_with_numbers() -> None:
    def combine(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> list[torch.Tensor]:
        chosen = ((x > 0) & (y > 0.25)) | ((x <= 1) ^ (0.5 >= y))
        found = [chosen, x.clamp(-0.5, 0.7), x.clamp(min=-math.inf, max=1.0), x.clamp(y, z), 2 - x, torch.angle(x)]
        found += [torch.lerp(x, y, 0.3), torch.lerp(x, y, 0.9), torch.sub(x, y, alpha=0.5), F.threshold(x, 0.1, 3.0)]
        found += [torch.addcmul(x, y, z, value=0.5), F.huber_loss(x, y, reduction="none", delta=0.5)]
        return [*found, F.smooth_l1_loss(x, y, reduction="none", beta=0.5), F.prelu(x, y[0])]

    check_function(combine, *(special(40, 35, seed=seed) for seed in range(3)))


@pytest.mark.parametrize("names", [_BINARY[::2], _BINARY[1::2]])
def test_special_values_of_two_operands(names: list[str]) -> None:
    functions = [getattr(torch, name) for name in names]
    check_function(lambda x, y: [function(x, y) for function in functions], special(40, 35), special(40, 35, seed=1))


@pytest.mark.parametrize("sizes", [(5, 70), (70, 5), (3, 200), (33, 33)])
def test_nan_of_reductions(sizes: tuple[int, int]) -> None:
    def reductions(x: torch.Tensor) -> list[torch.Tensor]:
        found = []
        for dim in (0, 1):
            found += [x.amax(dim), x.amin(dim), x.argmax(dim), x.argmin(dim), *x.max(dim), x.sum(dim), x.prod(dim)]
            found += [x.softmax(dim), x.cumsum(dim), *x.cummax(dim), x.sort(stable=True, dim=dim)[0], x.any(dim)]
        return found

    check_function(reductions, special(*sizes, share=0.02, subnormal=False))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("sizes", [(1, 33), (2, 64), (3, 65), (1, 257)])
def test_sorted_lines(sizes: tuple[int, int], descending: bool) -> None:
    """By merging, also of runs that are cut; equal elements keep their order."""
    x, integers = special(*sizes, subnormal=False), torch.arange(sizes[0] * sizes[1]).reshape(sizes) * 7 % 11
    check_function(lambda x, y: [t.sort(stable=True, dim=1, descending=descending) for t in (x, y)], x, integers)


def test_nan_of_windows() -> None:
    image = special(2, 40, 12, 13, share=0.01).to(memory_format=torch.channels_last)
    check_function(lambda x: (F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1)), image)


def test_moved_special_values() -> None:
    def moves(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [x.t().contiguous(), torch.cat([x, y], 1), torch.where(x > 0, x, y), x.flip(0), x.masked_fill(y > 0, 1)]

    check_function(moves, special(40, 35), special(40, 35, seed=1))


# -- large integers ----------------------------------------------------------------------------------------------------
WIDE = "does not fit in 32 bits"
TABLE = bf16(4, 6)
INTEGER_OPS: dict[str, Callable[..., Any]] = {
    "add": lambda x: x + 1,
    "copy": lambda x: x.clone(memory_format=torch.contiguous_format) + 0,
    "compare": lambda x: x > 3,
    "sum": lambda x: x.sum(0),
    "sort": lambda x: x.sort(0)[0],
    "to bfloat16": lambda x: x.bfloat16(),
    "to int32": lambda x: x.to(torch.int32),
    "rows": lambda x: TABLE[x],
    "table": lambda x: F.embedding(x, TABLE),
}


@pytest.mark.parametrize("value", [1 << 31, -(1 << 31) - 1, (1 << 32) + 1, 1 << 62])
@pytest.mark.parametrize("name", INTEGER_OPS)
def test_integers_beyond_32_bits_are_faults(name: str, value: int) -> None:

    x = torch.tensor([1, 2, 3, value])
    compiled = compile_model(Function(INTEGER_OPS[name]), (torch.arange(4),))
    with pytest.raises(RuntimeError, match=f"{WIDE}|index"):
        compiled.run([x])


@pytest.mark.parametrize("value", [(1 << 31) - 1, -(1 << 31)])
def test_integers_of_32_bits(value: int) -> None:
    x = torch.tensor([1, 2, 3, value])
    check_function(lambda x: (x.clone(), x > 3, x.sort(0), x % 7, x.bfloat16(), x.to(torch.int16)), x)
    for name in ("add", "sum"):
        if value > 0:
            from chip_op_calls import Function

            from torch_atalla.compiler.targets.chip.build import compile_model

            with pytest.raises(RuntimeError, match=WIDE):
                compile_model(Function(INTEGER_OPS[name]), (x,)).run([x])


@pytest.mark.parametrize(
    "values", [[0.0, -0.0, 0.0, -0.0, 1.0], [2.0] * 6, [math.nan, 1.0, math.nan, 1.0], [math.nan] * 3]
)
def test_position_of_the_median(values: list[float]) -> None:
    """Of equal elements PyTorch returns the one at the median's place in a stable order; of NaNs, the first."""
    x = torch.tensor(values, dtype=torch.bfloat16)
    program = compile_model(Function(lambda x: (*x.median(0), *x.nanmedian(0))), (x,))
    for found, expected in zip(program.run([x]).outputs, (*x.median(0), *x.nanmedian(0)), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


NOTHING = torch.zeros(0, dtype=torch.bfloat16)
NO_PLACES = torch.zeros(0, dtype=torch.int64)
EMPTY: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "reductions": (lambda x: (x.sum(1), x.mean(1), x.prod(1), x.logsumexp(1), (x > 0).all(1)), (NOTHING.view(3, 0),)),
    "all of it": (lambda x: (x.sum(), x.var(), x.median(), (x > 0).any(), torch.dot(x, x)), (NOTHING,)),
    "product": (lambda x, y: (x @ y, x @ y + 1), (NOTHING.view(3, 0), NOTHING.view(0, 5))),
    "attention": (F.scaled_dot_product_attention, (bf16(1, 2, 3, 4), *2 * [NOTHING.view(1, 2, 0, 4)])),
    "bag": (lambda i, x: F.embedding_bag(i, x, torch.tensor([0, 0])), (NO_PLACES, bf16(3, 4))),
    "index_add": (lambda x, i: x.index_add(0, i, x[:0]), (bf16(3, 4), NO_PLACES)),
    "scatter": (lambda x, i: x.scatter(1, i, 5.0), (bf16(3, 4), NO_PLACES.view(3, 0))),
    "masked_scatter": (lambda x, y: x.masked_scatter(x > 1e9, y), (bf16(3, 4), NOTHING)),
    "cat": (lambda x, y: torch.cat([x, y], 1), (bf16(3, 4), NOTHING.view(3, 0))),
}


@pytest.mark.parametrize("name", EMPTY)
def test_operands_without_elements(name: str) -> None:
    call, tensors = EMPTY[name]
    check_function(call, *tensors)


TAPS = {sizes: bf16(*sizes) for sizes in ((4, 3, 1, 2, 1), (4, 3, 1, 1, 2), (4, 3, 1, 2, 2), (6, 1, 1, 2, 3))}
ONE_LAYER: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rows": lambda x: F.conv3d(x, TAPS[4, 3, 1, 2, 1], padding=(0, 1, 0)),
    "columns": lambda x: F.conv3d(x, TAPS[4, 3, 1, 1, 2], stride=(1, 1, 2), padding=(0, 0, 1)),
    "dilated": lambda x: F.conv3d(x, TAPS[4, 3, 1, 2, 2], None, (2, 1, 2), (0, 1, 1), (3, 2, 1)),
    "of each channel": lambda x: F.conv3d(x, TAPS[6, 1, 1, 2, 3], padding=(0, 0, 1), groups=3),
    "transposed": lambda x: F.conv_transpose3d(
        x, TAPS[4, 3, 1, 2, 1].transpose(0, 1), stride=2, output_padding=1, dilation=2
    ),
    "max": lambda x: F.max_pool3d(x, (1, 2, 3), (2, 1, 2), (0, 1, 0)),
}


@pytest.mark.parametrize("name", ONE_LAYER)
def test_volumes_of_one_layer(name: str) -> None:
    """Parameters of three dimensions, where the program is that of images."""
    check_function(ONE_LAYER[name], bf16(2, 3, 1, 5, 6))


# -- layouts -----------------------------------------------------------------------------------------------------------
LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "transposed": lambda: bf16(35, 40).t(),
    "sliced": lambda: bf16(40, 70)[:, ::2],
    "offset": lambda: bf16(41, 36)[1:, 1:],
    "broadcast rows": lambda: bf16(1, 35).expand(40, 35),
    "broadcast columns": lambda: bf16(40, 1).expand(40, 35),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str) -> None:
    def ops(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        found = [x + y, x.sum(0), x.amax(1), x.softmax(1), x.cumsum(0), x.sort(stable=True, dim=1)[0], x @ y.t()]
        return [*found, x.flip(1), x.roll(3, 0), torch.where(x > 0, x, y), x.argmax(1), x > y, x.topk(3, 0)[0]]

    check_function(ops, LAYOUTS[name](), bf16(40, 35, seed=3))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool])
def test_integer_layouts(dtype: torch.dtype) -> None:
    def ops(x: torch.Tensor) -> list[torch.Tensor]:
        moved = [x.t().contiguous(), torch.cat([x, x], 1), x.repeat(2, 1), x.flip(0), x.view(7, 5), x[1:, ::2].clone()]
        return [*moved, x.sum(1), x.bfloat16(), x == x.t()[:, :1].t()[:1, :5].new_ones(()), torch.where(x > 0, x, x)]

    check_function(ops, torch.randint(0, 9, (5, 7)).to(dtype))
    check_function(lambda x: x.to(torch.int64), torch.randint(-9, 9, (5, 7)).to(dtype))
