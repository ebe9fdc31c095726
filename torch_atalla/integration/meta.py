# SPDX-License-Identifier: BSD-3-Clause
"""What upstream's meta functions and FLOP formulas need to know of the device."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._subclasses import FakeTensor, fake_impls

from .libraries.imports import after_import

aten = torch.ops.aten


def install() -> None:
    _convolution_layouts()
    _decomposed()
    _embedding_bags()
    _statistics()
    _attention_layout()
    _empty_batches()
    after_import("torch.utils.flop_counter", _attention_flops)  # which imports Triton where it is installed


def _convolution_format(source: Any, weight: Any, stride: Any, padding: Any, groups: Any) -> torch.memory_format:
    """`convolution_format` of csrc/aten/kernels/matrix/convolution.cpp for fake tensors."""
    for tensor in (source, weight):
        suggested = torch._prims_common.suggest_memory_format(tensor)
        if suggested == torch.channels_last:
            return suggested
        if suggested == torch.channels_last_3d and source.dtype != torch.float64:
            n, c, d, h = source.shape[:4]
            if any(p >= s for p, s in zip(padding, stride)):
                continue
            large = groups > 1 or n > 1 or (weight.shape[3] > 3 and weight.shape[4] > 3) or n * c * d * h > 20480
            if source.dtype != torch.float32 or large:
                return suggested
    return torch.contiguous_format


def _convolution_layouts() -> None:
    """Fake convolutions of the device, and their gradients, have the strides of real ones: channels last, if input or
    weight is.

    Upstream asks its list of libraries for the memory format and takes any other backend to be contiguous.
    """
    table = fake_impls.op_implementations_dict
    forward = (aten.convolution.default, aten._convolution.default, aten._convolution.deprecated)
    for op in (*forward, aten.convolution_backward.default):
        original = table[op]

        def convolution(mode: Any, func: Any, *args: Any, _original: Any = original, **kwargs: Any) -> Any:
            out = _original(mode, func, *args, **kwargs)
            given = dict(zip((a.name for a in func._schema.arguments), args)) | kwargs
            source, weight = given["input"], given["weight"]
            if source.fake_device.type != "atalla" or source.dim() not in (3, 4, 5):
                return out
            lines = source.dim() == 3  # which upstream's convolution takes as images of one row
            if lines:
                with mode:
                    source, weight = source.contiguous().unsqueeze(2), weight.unsqueeze(2)
            padding = given["output_padding"] if given["transposed"] else ()
            last = _convolution_format(source, weight, given["stride"], padding, given["groups"])
            if last == torch.contiguous_format:
                return out

            def with_format(item: Any) -> Any:
                if item is None or not lines:
                    return None if item is None else torch.empty_like(item, memory_format=last)
                return torch.empty_like(item.unsqueeze(2), memory_format=last).squeeze(2)

            with mode:
                if not isinstance(out, tuple):
                    return with_format(out)
                of_input, of_weight, of_bias = out
                return with_format(of_input), with_format(of_weight), of_bias

        table[op] = convolution


def _decomposed() -> None:
    """Results of the device for ops that fake tensors take through upstream's decompositions, which take any device but
    the CPU to be like CUDA."""

    def adapt(op: Any, change: Callable[..., Any]) -> None:
        original = decomposition_table[op]

        @functools.wraps(original)
        def adapted(source: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            result = original(source, *args, **kwargs)
            return change(result, source, *args, **kwargs) if source.device.type == "atalla" else result

        decomposition_table[op] = adapted

    def layout_of_source(result: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
        return result.contiguous(memory_format=torch._prims_common.suggest_memory_format(source))

    def statistics(result: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
        dtype = _statistics_dtype(source, (*args, *kwargs.values()))
        return layout_of_source(result[0], source), result[1].to(dtype), result[2].to(dtype)

    def statistics_of_layers(result: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
        return result[0].contiguous(), *statistics(result, source, *args, **kwargs)[1:]

    def no_statistics(result: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
        dtype = _statistics_dtype(source, (*args, *kwargs.values()))
        empty = source.new_empty((0,), dtype=dtype)
        return layout_of_source(result[0], source), empty, torch.empty_like(empty)

    def statistics_of_training(
        result: Any, source: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, *args: Any, **kwargs: Any
    ) -> Any:
        found = (statistics if training else no_statistics)(result, source, weight, bias, mean, var)
        running = [item.to(given.dtype) for item, given in zip(result[3:], (mean, var))]  # of the functional form
        return *found, *running

    def nothing_saved(result: Any, source: Any) -> Any:
        return result[0].contiguous(), source.new_empty((0,) if source.dim() else ())

    adapt(aten.native_layer_norm.default, statistics_of_layers)  # of dynamic sizes; see _statistics
    adapt(aten.native_group_norm.default, statistics)
    adapt(aten._native_batch_norm_legit.no_stats, statistics)
    adapt(aten._native_batch_norm_legit_no_training.default, no_statistics)
    adapt(aten._native_batch_norm_legit.default, statistics_of_training)
    adapt(aten._native_batch_norm_legit_functional.default, statistics_of_training)
    adapt(aten.native_batch_norm.default, statistics_of_training)
    adapt(aten.log_sigmoid_forward.default, nothing_saved)
    adapt(aten.max_unpool2d.default, layout_of_source)


def _on_other_device(
    name: str, mode: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dtypes: Sequence[Any] = ()
) -> Any:
    """The fake results that an operator has on a device of this name, as results of the device of its first argument.
    `dtypes`: of the results, where they are others."""
    device = args[0].fake_device

    def moved(x: Any, to: torch.device | str, dtype: torch.dtype | None = None) -> Any:
        if not isinstance(x, FakeTensor):
            return x
        return torch.empty_strided(x.shape, x.stride(), dtype=dtype or x.dtype, device=to)

    with mode:
        found = func(*(moved(x, name) for x in args), **{key: moved(x, name) for key, x in kwargs.items()})
        return tuple(moved(x, device, dtype) for x, dtype in zip(found, [*dtypes, *[None] * len(found)]))


def _embedding_bags() -> None:
    """Fake results of embedding_bag have the sizes that they have on the CPU, whose ways the device follows."""

    def embedding_bag(mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        if args[0].fake_device.type != "atalla":
            return NotImplemented
        return _on_other_device("cpu", mode, func, args, kwargs)

    for op in (aten._embedding_bag.default, aten._embedding_bag_forward_only.default):
        fake_impls.op_implementations_dict[op] = embedding_bag


def _statistics_dtype(source: torch.Tensor, parameters: Iterable[Any]) -> torch.dtype:
    """Statistics have the dtype of the parameters: an input of half precision may come with those of float32."""
    return next((item.dtype for item in parameters if isinstance(item, torch.Tensor)), source.dtype)


def _statistics() -> None:
    """Upstream gives those of layer_norm the dtype in which it computes, and those of group_norm that of the input.

    That is wrong for the CPU, too, and programs that were exported there are traced anew for a loadable.
    """

    def norm(mode: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        if args[0].fake_device.type not in ("atalla", "cpu"):
            return NotImplemented
        dtype = _statistics_dtype(args[0], (*args[1:], *kwargs.values()))
        return _on_other_device("meta", mode, func, args, kwargs, [args[0].dtype, dtype, dtype])

    for op in (aten.native_layer_norm.default, aten.native_group_norm.default):
        fake_impls.op_implementations_dict[op] = norm


def _attention_layout() -> None:
    """Fake fused attention gives the strides of the real one: the query's, where the CPU would take its flash kernel,
    otherwise contiguous ones. Upstream's meta function always takes the query's.
    """

    def attention(
        mode: Any,
        func: Any,
        query: Any,
        key: Any,
        value: Any,
        attn_bias: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        return_debug_mask: bool = False,
        *,
        scale: float | None = None,
    ) -> Any:
        b, heads, length, _ = query.shape
        with mode:
            mask, grouped = attn_bias, heads != key.shape[1]
            if mask is not None and not mask.requires_grad:
                mask = mask.new_empty(mask.shape)  # of the CPU's masks the last stride is free
            try:  # the CPU's kernel reads sizes, strides and dtypes only; of fake tensors the dispatcher asks another
                choice = aten._fused_sdp_choice.default._op_dk(
                    torch._C.DispatchKey.CPU,
                    *(query, key, value, mask, dropout_p, is_causal),
                    scale=scale,
                    enable_gqa=grouped,
                )
                flash = choice == torch.nn.attention.SDPBackend.FLASH_ATTENTION.value
            except RuntimeError:  # the CPU's backends are switched off
                flash = False
            out = torch.empty_like(query) if flash else query.new_empty((b, heads, length, value.shape[3]))
            logsumexp = query.new_empty((b, heads, length), dtype=torch.float32)
            none = query.new_empty((0,), dtype=torch.int64)
            return out, logsumexp, None, None, length, key.shape[2], none, none, query.new_empty((0,))

    fake_impls.op_implementations_dict[aten._scaled_dot_product_fused_attention_overrideable.default] = attention


def _empty_batches() -> None:
    """Fake resizing by nearest neighbours takes a batch of 0 images of dynamic sizes. Upstream's meta functions give
    their check a SymInt there; on the CPU they do not run, since a decomposition comes first."""

    def nearest(mode: Any, func: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
        if source.fake_device.type != "atalla" or source.shape[0] != 0:
            return NotImplemented
        with mode:
            image = func(source.new_empty((1, *source.shape[1:])), *args, **kwargs)
            return image.new_empty((source.shape[0], *image.shape[1:]))

    names = [f"{name}{n}d" for name in ("upsample_nearest", "_upsample_nearest_exact") for n in (1, 2, 3)]
    ops = {getattr(aten, name).default for name in names}
    fake_impls.register_op_impl(ops.__contains__)(nearest)  # torch.export takes ops with a Python kernel off the table


def _attention_flops(flop_counter: ModuleType) -> None:
    @flop_counter.register_flop_formula(aten._scaled_dot_product_fused_attention_overrideable)
    def attention_flops(query: Any, key: Any, value: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
        return flop_counter.sdpa_flop_count(query, key, value)
