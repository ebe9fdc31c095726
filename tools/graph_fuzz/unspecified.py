# SPDX-License-Identifier: BSD-3-Clause
"""What PyTorch leaves open, or where the CPU gives one of several right answers: in runs that measure bounds, these
ops give another of them, so that elements that depend on it count as undetermined."""

from __future__ import annotations

import math
from math import inf
from typing import Any
from unittest import mock

import torch
from torch.nn import functional

from torch_atalla.compiler.targets.chip.open_results import OPEN_FOR_NAN

aten = torch.ops.aten

# Which of equal elements these give; and where the argument `dim` is.
_ANY_OF_EQUALS = {
    op: next(k for k, argument in enumerate(op._schema.arguments) if argument.name == "dim")
    for op in (
        *(aten.sort.default, aten.topk.default, aten.kthvalue.default),
        *(aten.median.dim, aten.nanmedian.dim, aten.mode.default),
    )
}

# A zero that these give has the sign of either operand: on the CPU it depends on the element's place in a vector.
_ZERO_OF_EITHER_SIGN = {
    getattr(aten, name)
    for name in (
        *("relu", "softshrink", "hardshrink", "hardtanh", "threshold", "clamp", "clamp_min", "clamp_max", "maximum"),
        *("minimum", "fmax", "fmin", "max", "min", "amax", "amin", "aminmax", "max_pool2d_with_indices", "cummax"),
        *("cummin", "nan_to_num", "hardswish", "leaky_relu", "native_layer_norm", "native_group_norm"),
    )
}

# Results that are not finite: the CPU's running mean of infinities depends on their order, the gradient of a sampling
# grid takes NaNs times pixels outside of the image, and a weight of a linear or an antialiased filter that should be 0
# is what rounding left.
_NAN_OR_NOT = {
    *(aten.var_mean.correction, aten.std_mean.correction, aten.native_layer_norm.default),
    *(aten.native_group_norm.default, aten.grid_sampler_2d_backward.default, aten._upsample_bicubic2d_aa.default),
    *(aten.upsample_linear1d.default, aten.upsample_bilinear2d.default, aten.upsample_trilinear3d.default),
}

# Zeros are what rounding left of larger numbers, and of an infinity every result may be NaN or not.
_FOURIER = {aten._fft_c2c.default, aten._fft_r2c.default, aten._fft_c2r.default}

# Of infinity the CPU's vectorised loop gives NaN in float32.
_OPEN_FOR_INFINITY = {aten.gelu, aten.gelu_backward}


# The CPU computes wrong values where the dimensions of an operand stand in another order than in either memory format.
_WRONG_OF_STRIDED = {aten.native_batch_norm_backward.default}

# How far the CPU's functions may be from the right values, in absolute terms: a series of few terms.
_IMPRECISE = {aten.igamma: 1e-9, aten.igammac: 1e-9}

_NARROW = (torch.float16, torch.bfloat16)

# Differences inside of an op leave what rounding of their operands left: the operands move, too.
_CANCELS = {
    *(aten.tanh_backward, aten.lerp, aten.addcmul, aten.addcdiv),
    *(aten.std, aten.var, aten.std_mean, aten.var_mean),  # of equal elements, whose mean is another number
}


# Of an element that is the mean of its row, what is left is what rounding left; and the place of the weight.
_CENTRES = {aten.native_layer_norm.default: 2, aten.native_group_norm.default: 1}

# Rounding decides which numbers are equal, and which are 0.
_EQUALITY = {aten.eq, aten.ne}
_TRUTH = {aten.logical_and, aten.logical_or, aten.logical_xor, aten.logical_not}


def call(op: Any, args: tuple, kwargs: dict[str, Any], generator: torch.Generator, everywhere: bool = False) -> Any:
    """Calls the op. If it may return any of equal elements, it gets them in another order. `everywhere`: all elements
    that are equal but for rounding are said to come from one place, so that a place that decides about something
    stands at each of them."""
    if op.overloadpacket in _CANCELS and not op._schema.is_mutable:
        args = tuple(_moved(value, generator) for value in args)
    if op in _WRONG_OF_STRIDED:
        args = tuple(x.contiguous() if isinstance(x, torch.Tensor) else x for x in args)
    if everywhere and op.overloadpacket in _EQUALITY:
        args = (_beside(args[0], args[1], generator), args[1])
    if everywhere and op.overloadpacket in _TRUTH and not op._schema.is_mutable:
        args = tuple(_beside(value, 0.0, generator) if isinstance(value, torch.Tensor) else value for value in args)
    place = _ANY_OF_EQUALS.get(op)
    if place is None or not args[0].ndim:
        result = op(*args, **kwargs)
        if everywhere and op in _CENTRES and args[0].numel():
            centred = _centred(args[0], args[_CENTRES[op]], result[0], result[2], generator)
            return centred, *result[1:]
        return _of_unrounded_numbers(op, args, kwargs, result) if torch.rand((), generator=generator) < 0.5 else result
    dim = args[place] if len(args) > place else kwargs.get("dim", -1)
    order = torch.randperm(args[0].shape[dim], generator=generator)
    values, indices = op(args[0].index_select(dim, order), *args[1:], **kwargs)
    indices = order[indices]
    if everywhere and op in (aten.sort.default, aten.topk.default):
        nearby = values.movedim(dim, 0)
        rtol = min(4096 * torch.finfo(values.dtype).eps, 0.01) if values.is_floating_point() else 0.0
        equal = torch.isclose(nearby[1:], nearby[:-1], rtol=rtol, atol=0.0, equal_nan=True)
        none = torch.zeros_like(nearby[:1], dtype=torch.bool)
        tied = (torch.cat((equal, none)) | torch.cat((none, equal))).movedim(0, dim)
        place = int(torch.randint(2, (), generator=generator)) * (args[0].shape[dim] - 1)
        indices = torch.where(tied, place, indices)
    return values, indices


def _centred(
    x: torch.Tensor, weight: torch.Tensor | None, result: torch.Tensor, rstd: torch.Tensor, generator: torch.Generator
) -> torch.Tensor:
    """A normalised tensor. Elements that are as small as what rounding leaves of x less its mean are 0 by chance."""
    scale = 1.0 if weight is None else weight.double().abs().max()
    reach = 4 * torch.finfo(x.dtype).eps * x.double().abs().max() * rstd.double().max() * scale
    none = torch.rand(result.shape, generator=generator) < 0.5
    return torch.where((result.double().abs() <= reach) & none, 0, result)


def _beside(value: torch.Tensor, other: Any, generator: torch.Generator) -> torch.Tensor:
    """`value`; numbers that are as close to `other` as rounding in a sum may bring them are equal to it or not by
    chance."""
    if not value.is_floating_point() or not value.numel():
        return value
    a, b = value.double(), torch.as_tensor(other).double()
    finite = torch.where(a.isfinite(), a.abs(), 0)
    reach = 8 * torch.finfo(value.dtype).eps * (finite + finite.mean())
    equal = torch.rand(torch.broadcast_shapes(a.shape, b.shape), generator=generator) < 0.5
    return torch.where((a - b).abs() <= reach, b + torch.where(equal, 0, reach), a)


def _of_unrounded_numbers(op: Any, args: tuple, kwargs: dict[str, Any], result: Any) -> Any:
    """Most of the CPU's pointwise ops round an operand without dimensions to the narrow dtype of the others; the chip,
    and some of the CPU's, compute with all its digits."""
    tensors = [x for x in args if isinstance(x, torch.Tensor)]
    wide = any(not x.ndim and x.dtype in (torch.float32, torch.float64) for x in tensors)
    if torch.Tag.pointwise not in op.tags or op._schema.is_mutable or not wide or result.dtype not in _NARROW:
        return result
    exact = (x.float() if isinstance(x, torch.Tensor) and x.dtype in _NARROW else x for x in args)
    return op(*exact, **kwargs).to(result.dtype)


def vary(op: Any, args: tuple, value: torch.Tensor, generator: torch.Generator, joined: bool) -> None:
    """Changes one of the op's results in place. joined: of launches that the compiler joined; attention adds a mask
    of minus infinities, so that a masked score that was NaN stays NaN."""
    if op in _FOURIER and value.numel():
        real = torch.view_as_real(value) if value.is_complex() else value
        most, eps = real.abs().max(), torch.finfo(real.dtype).eps
        real.add_(((torch.rand(real.shape, generator=generator) - 0.5) * eps).to(real.dtype) * most)
        real.masked_fill_((real.abs() < 4 * eps * most) & (torch.rand(real.shape, generator=generator) < 0.5), 0)
        if not bool(args[0].isfinite().all()):
            real.copy_(_anything(real, generator))
    if op is aten._to_copy.default and args[0].is_floating_point() and not value.dtype.is_floating_point:
        _convert_anyhow(args[0], value, generator)
    if not value.is_floating_point():
        return
    if op.overloadpacket in _IMPRECISE or op.overloadpacket is aten.gelu:  # which computes 1 + erf(x), also near -1
        step = (torch.rand(value.shape, generator=generator, dtype=torch.float64) * 2 - 1).to(value.dtype)
        reach = 2 * torch.finfo(value.dtype).eps * args[0].abs().nan_to_num(0, 0, 0)
        value.add_(step * _IMPRECISE.get(op.overloadpacket, reach))
    if op.overloadpacket in _OPEN_FOR_INFINITY:
        value.copy_(torch.where(args[-1].isinf(), _anything(value, generator), value))
    if op is aten.mode.default and bool(args[0].isnan().any()):  # the CPU sorts with a comparison that NaN breaks
        value.copy_(_anything(value, generator))
    if joined and op is aten.masked_fill.Scalar and args[2] == -inf:
        value.copy_(torch.where(args[0].isfinite(), value, _anything(value, generator)))
    if op.overloadpacket is aten.prod:
        value.copy_(torch.where(_leaves_the_range(op, args), _anything(value, generator), value))
    if op.overloadpacket is aten.logit_backward:  # at -0 the sign depends on the element's place in a vector
        sign = (torch.rand(value.shape, generator=generator) - 0.5).sign()
        value.copy_(torch.where(args[1] == 0, value * sign, value))
    if op in _NAN_OR_NOT and torch.rand((), generator=generator) < 0.7:  # (ops behind it may be open for NaN)
        value.nan_to_num_(0.0, 0.0, 0.0)
    if op.overloadpacket in OPEN_FOR_NAN:
        for operand in args:
            if isinstance(operand, torch.Tensor):
                stays = torch.rand((), generator=generator) < 0.5  # so that it reaches ops behind several
                other = torch.where(stays, torch.nan, _anything(value, generator))
                value.copy_(torch.where(operand.isnan(), other, value))
    if op.overloadpacket in _ZERO_OF_EITHER_SIGN:
        sign = torch.rand(value.shape, generator=generator) - 0.5
        value.copy_(torch.where(value == 0, torch.zeros_like(value).copysign(sign), value))


def _leaves_the_range(op: Any, args: tuple) -> torch.Tensor:
    """Whether a product of some of the factors is too small or too large for the dtype: then the order decides."""
    logs = args[0].double().abs().log2().nan_to_num(0.0, 0.0, 0.0)
    dims: dict[str, Any] = {} if op is aten.prod.default else {"dim": args[1], "keepdim": bool(args[2:] and args[2])}
    most = -math.log2(torch.finfo(args[0].dtype).tiny) if args[0].is_floating_point() else inf
    return (logs.clamp(max=0).sum(**dims) < -most) | (logs.clamp(min=0).sum(**dims) > most)


def _convert_anyhow(source: torch.Tensor, value: torch.Tensor, generator: torch.Generator) -> None:
    """C++ leaves open which integer a NaN becomes, or a number out of range."""
    if value.dtype is torch.bool or value.is_complex():
        return
    limits = torch.iinfo(value.dtype)
    inside = (source.double() >= limits.min) & (source.double() <= limits.max)
    value.copy_(torch.where(inside, value, torch.randint(2, value.shape, generator=generator).to(value.dtype)))


def _moved(value: Any, generator: torch.Generator) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    step = torch.rand(value.shape, generator=generator, dtype=torch.float64) * 2 - 1
    return (value.double() * (1 + 2 * step * torch.finfo(value.dtype).eps)).to(value.dtype)


def _anything(value: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """NaN, 0 or 1: all of one kind, or mixed, since sums of many elements tell kinds apart only where no NaN is among
    them."""
    kinds = torch.tensor([torch.nan, 0.0, 1.0], dtype=value.dtype)
    kind = int(torch.randint(4, (), generator=generator))
    if kind < 3:
        return kinds[kind].expand(value.shape)
    return kinds[torch.randint(3, value.shape, generator=generator)]


def plain_control_flow() -> Any:
    """torch.cond takes its branch in Python."""
    return mock.patch("torch.cond", lambda which, first, second, operands: (first if which else second)(*operands))


def forms_of_all_devices() -> Any:
    """Strides and sizes of every device but the CPU: maxima of a line have the strides of the input, as on the CPU
    where it keeps places for gradients; and what the CPU gives for images without pixels keeps their sizes."""
    unshuffle = functional.pixel_unshuffle

    def pool(*args: Any, **kwargs: Any) -> torch.Tensor:
        return functional.max_pool1d_with_indices(*args, **kwargs)[0]

    def unshuffled(x: torch.Tensor, factor: int) -> torch.Tensor:
        return unshuffle(x, factor) if x.numel() else x.new_empty(unshuffle(x.to("meta"), factor).shape)

    return mock.patch.multiple(functional, max_pool1d=pool, pixel_unshuffle=unshuffled)


def masked_scores_left_out() -> Any:
    """Attention that does not see scores under a mask, as kernels that skip them; upstream's composition adds minus
    infinity to them, which keeps NaN, and makes NaN of infinity."""

    def attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        if enable_gqa:
            groups = query.shape[-3] // key.shape[-3]
            key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
        scores = query @ key.mT * (max(query.shape[-1], 1) ** -0.5 if scale is None else scale)
        keep = torch.ones(scores.shape[-2:], dtype=torch.bool).tril() if is_causal else attn_mask
        if keep is not None and keep.dtype == torch.bool:
            scores = scores.masked_fill(~keep, -inf)
        elif keep is not None:
            scores = scores + keep
        return scores.softmax(-1) @ value

    return mock.patch("torch.nn.functional.scaled_dot_product_attention", attention)
