# SPDX-License-Identifier: BSD-3-Clause
"""torchao's PT2E flow on the chip: `AtallaQuantizer` says what is quantized, `lower_pt2e` makes int8 products of it.

program = torch.export.export(model, args).module()
prepared = prepare_pt2e(program, AtallaQuantizer())
prepared(*args)                                  # calibrate
lowered = lower_pt2e(convert_pt2e(prepared))     # runs on the CPU, on atalla, and as a loadable
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torchao.quantization.pt2e import (
    FakeQuantize,
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    PerChannelMinMaxObserver,
    PlaceholderObserver,
)
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer

aten = torch.ops.aten
_PRODUCTS = (aten.linear.default, aten.conv1d.default, aten.conv2d.default, aten.conv3d.default)
_KEY = "quantization_annotation"


@dataclass(frozen=True)
class AtallaQuantizer(Quantizer):
    """Quantize the inputs and weights of linear layers and convolutions to int8, and the inputs of matrix products.

    Args:
        activations: "static" measures ranges during calibration, "dynamic" at every call, "none" leaves activations
            as they are.
        per_channel: a scale per output channel of a weight; otherwise one per weight.
        histogram: choose static ranges from histograms, which drops rare outliers; otherwise from extremes.
        qat: make modules for training with fake quantization, for `prepare_qat_pt2e`.

    Weights and the operands of matrix products are symmetric, other activations are not. Raises ValueError for other
    values of `activations`.
    """

    activations: str = "static"
    per_channel: bool = True
    histogram: bool = False
    qat: bool = False

    def __post_init__(self) -> None:
        if self.activations not in ("static", "dynamic", "none"):
            raise ValueError(f'activations: expected "static", "dynamic" or "none", got {self.activations!r}')

    def _activation(self, *, symmetric: bool = False) -> QuantizationSpec | None:
        if self.activations == "none":
            return None
        common: dict[str, Any] = {"dtype": torch.int8, "quant_min": -128, "quant_max": 127}
        common["qscheme"] = torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine
        if self.activations == "dynamic":
            return QuantizationSpec(**common, is_dynamic=True, observer_or_fake_quant_ctr=PlaceholderObserver)
        if self.qat:
            observer: Any = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver)
        else:
            observer = HistogramObserver if self.histogram else MinMaxObserver
        return QuantizationSpec(**common, observer_or_fake_quant_ctr=observer)

    def _weight(self) -> QuantizationSpec:
        if self.qat:
            one = MovingAveragePerChannelMinMaxObserver if self.per_channel else MovingAverageMinMaxObserver
            observer: Any = FakeQuantize.with_args(observer=one)
        else:
            observer = PerChannelMinMaxObserver if self.per_channel else MinMaxObserver
        return QuantizationSpec(
            dtype=torch.int8,
            quant_min=-127,
            quant_max=127,
            qscheme=torch.per_channel_symmetric if self.per_channel else torch.per_tensor_symmetric,
            ch_axis=0 if self.per_channel else None,
            observer_or_fake_quant_ctr=observer,
        )

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        activation, operand, weight = self._activation(), self._activation(symmetric=True), self._weight()
        for node in model.graph.nodes:
            if node.op != "call_function" or _KEY in node.meta:
                continue
            if node.target in _PRODUCTS:
                specs = {node.args[0]: activation, node.args[1]: weight}
            elif node.target in (aten.matmul.default, aten.mm.default) and self.activations == "static":
                specs = {node.args[0]: operand, node.args[1]: operand}
            else:
                continue
            specs = {source: spec for source, spec in specs.items() if spec is not None and _is_float(source)}
            node.meta[_KEY] = QuantizationAnnotation(input_qspec_map=specs, _annotated=True)
        return model

    def validate(self, model: torch.fx.GraphModule) -> None:
        """Nothing to refuse: every annotation of `annotate` lowers."""


def _is_float(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype.is_floating_point


@dataclass(frozen=True)
class _Quantized:
    """What a dequantization reads: values, scale and zero point (numbers or nodes), and the axis of channels."""

    values: torch.fx.Node
    scale: Any
    zero_point: Any
    axis: int | None


def _quantized(node: Any) -> _Quantized | None:
    if not isinstance(node, torch.fx.Node) or node.op != "call_function":
        return None
    ops = torch.ops.quantized_decomposed
    if node.target in (ops.dequantize_per_tensor.default, ops.dequantize_per_tensor.tensor):
        values, scale, zero_point, _, _, dtype = node.args[:6]
        axis = None
    elif node.target is ops.dequantize_per_channel.default:
        values, scale, zero_point, axis, _, _, dtype = node.args[:7]
    else:
        return None
    return _Quantized(values, scale, zero_point, axis) if dtype == torch.int8 else None  # type: ignore[arg-type]


def lower_pt2e(model: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Make products of int8 tensors of a graph that `convert_pt2e` gave, in place.

    A linear layer of a quantized input and weight becomes `_int_mm`, the correction for the input's zero point, and
    the scales. With a quantized weight only it becomes `atalla::quantized_linear`, whose traffic is that of the bytes.
    Other quantized nodes, such as convolutions, keep their conversions. All of these are ops, so that the CPU, eager
    mode on the device and a loadable run the same ones; the last two give the same bits.

    Returns:
        The model, with dead nodes removed.
    """
    for node in list(model.graph.nodes):
        if node.op != "call_function":
            continue
        if node.target is aten.linear.default:
            _lower_linear(model, node)
        elif node.target in (aten.matmul.default, aten.mm.default):
            _lower_matmul(model, node)
    model.graph.eliminate_dead_code()
    model.recompile()
    return model


def _constant(model: torch.fx.GraphModule, node: torch.fx.Node) -> torch.Tensor | None:
    if node.op != "get_attr":
        return None
    found: Any = model
    for part in str(node.target).split("."):
        found = getattr(found, part)
    return found if isinstance(found, torch.Tensor) else None


def _attribute(model: torch.fx.GraphModule, like: torch.fx.Node, suffix: str, value: torch.Tensor) -> torch.fx.Node:
    name = f"_{str(like.target).replace('.', '_')}_{suffix}"
    model.register_buffer(name, value)
    node = model.graph.get_attr(name)
    node.meta["val"] = value
    return node


def _lower_linear(model: torch.fx.GraphModule, node: torch.fx.Node) -> None:
    x, weight = _quantized(node.args[0]), _quantized(node.args[1])
    bias = node.args[2] if len(node.args) > 2 else None
    values = None if weight is None else _constant(model, weight.values)
    if weight is None or values is None or weight.axis not in (None, 0):
        return
    scales = weight.scale
    if isinstance(scales, torch.fx.Node):
        scales = _constant(model, scales)
    if scales is None:
        return
    by_channel = torch.as_tensor(scales, dtype=torch.float32).reshape(-1).expand(len(values)).contiguous()
    shape = node.meta["val"].shape
    call = model.graph.call_function
    with model.graph.inserting_before(node):
        if x is None:
            encoded = _attribute(model, weight.values, "scales", by_channel[None, :])
            new = call(
                torch.ops.atalla.quantized_linear.default, (node.args[0], weight.values, encoded, None, bias, "int8")
            )
        else:
            rows = call(aten.reshape.default, (x.values, [-1, values.shape[1]]))
            transposed = call(aten.t.default, (weight.values,))
            sums = call(aten._int_mm.default, (rows, transposed))
            if x.zero_point != 0:
                of_rows = _attribute(model, weight.values, "sums", values.sum(1, dtype=torch.int32))
                zero = x.zero_point
                if isinstance(zero, torch.fx.Node):
                    zero = call(aten._to_copy.default, (zero,), {"dtype": torch.int32})
                sums = call(aten.sub.Tensor, (sums, call(aten.mul.Tensor, (of_rows, zero))))
            factors: Any = _attribute(model, weight.values, "scales", by_channel)
            factors = call(aten.mul.Tensor, (factors, _number(model, x.scale)))
            new = call(aten.mul.Tensor, (call(aten._to_copy.default, (sums,), {"dtype": torch.float32}), factors))
            if bias is not None:
                new = call(aten.add.Tensor, (new, bias))
            new = call(aten.reshape.default, (new, [*_one_unknown(shape[:-1]), values.shape[0]]))
        if node.meta["val"].dtype != torch.float32 and x is not None:
            new = call(aten._to_copy.default, (new,), {"dtype": node.meta["val"].dtype})
    node.replace_all_uses_with(new)


def _one_unknown(sizes: Any) -> list[Any]:
    """Sizes for a reshape, of which a dynamic one is -1."""
    return [size if isinstance(size, int) else -1 for size in sizes]


def _number(model: torch.fx.GraphModule, scale: Any) -> Any:
    """A dynamic scale is a tensor of float64 with one element."""
    if not isinstance(scale, torch.fx.Node):
        return scale
    flat = model.graph.call_function(aten.reshape.default, (scale, []))
    return model.graph.call_function(aten._to_copy.default, (flat,), {"dtype": torch.float32})


def _lower_matmul(model: torch.fx.GraphModule, node: torch.fx.Node) -> None:
    """Of two matrices with whole-tensor scales that are symmetric around zero."""
    left, right = _quantized(node.args[0]), _quantized(node.args[1])
    if left is None or right is None or node.meta["val"].ndim != 2:
        return
    if (left.zero_point, right.zero_point) != (0, 0) or not isinstance(left.scale, float):
        return
    if not isinstance(right.scale, float):
        return
    call = model.graph.call_function
    with model.graph.inserting_before(node):
        sums = call(aten._int_mm.default, (left.values, right.values))
        wide = call(aten._to_copy.default, (sums,), {"dtype": torch.float32})
        new = call(aten.mul.Tensor, (wide, left.scale * right.scale))
    node.replace_all_uses_with(new)
