# SPDX-License-Identifier: BSD-3-Clause
"""Products of int8 tensors in the graphs that torchao's PT2E flow converts: `lower_pt2e`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from torch_atalla.compiler.program.call_arguments import arguments_of

aten = torch.ops.aten
CONVOLUTIONS = (
    *(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default),
    *(aten.conv1d.padding, aten.conv2d.padding, aten.conv3d.padding),  # "same" or "valid"
)
TRANSPOSED = (aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input)


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
    the scales; a convolution becomes `atalla::int_convolution` and the same. A linear layer with a quantized weight
    only becomes `atalla::quantized_linear`, whose traffic is that of the bytes. Other quantized nodes keep their
    conversions. All of these are ops, so that the CPU, eager mode on the device and a loadable run the same ones; the
    last two give the same bits.

    Returns:
        The model, with dead nodes removed.
    """
    for node in list(model.graph.nodes):
        if node.op != "call_function":
            continue
        if node.target is aten.linear.default:
            _lower_linear(model, node)
        elif node.target in (*CONVOLUTIONS, *TRANSPOSED):
            _lower_convolution(model, node)
        elif node.target in (aten.matmul.default, aten.mm.default):
            _lower_matmul(model, node)
    for node in model.graph.find_nodes(
        op="call_function", target=torch.ops.quantized_decomposed.quantize_per_tensor.default
    ):
        _without_relu(node)
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
    while hasattr(model, name) and not torch.equal(getattr(model, name), value):  # of another node with this weight
        name += "_"
    model.register_buffer(name, value)
    node = model.graph.get_attr(name)
    node.meta["val"] = value
    return node


def _symmetric_weight(
    model: torch.fx.GraphModule, weight: _Quantized | None, channels: int
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The integers of a weight and the scales of its channels, along that dimension, or one scale for all."""
    if weight is None or weight.axis not in (None, channels):
        return None
    values, scales, zeros = (
        _constant(model, item) if isinstance(item, torch.fx.Node) else item
        for item in (weight.values, weight.scale, weight.zero_point)
    )
    if values is None or scales is None or zeros is None or torch.as_tensor(zeros).any():
        return None
    return values, torch.as_tensor(scales, dtype=torch.float32).reshape(-1)


def _without_zero(model: torch.fx.GraphModule, sums: torch.fx.Node, of_weight: Any, zero_point: Any) -> torch.fx.Node:
    """The sums of x - zero_point, from those of x and what the weight gives for ones in place of x."""
    call, zero = model.graph.call_function, zero_point
    if isinstance(zero, torch.fx.Node):
        zero = call(aten._to_copy.default, (zero,), {"dtype": torch.int32})
    return call(aten.sub.Tensor, (sums, call(aten.mul.Tensor, (of_weight, zero))))


def _scaled(model: torch.fx.GraphModule, sums: torch.fx.Node, factors: Any, scale: Any, bias: Any) -> torch.fx.Node:
    call = model.graph.call_function
    factors = call(aten.mul.Tensor, (factors, _number(model, scale)))
    new = call(aten.mul.Tensor, (call(aten._to_copy.default, (sums,), {"dtype": torch.float32}), factors))
    return new if bias is None else call(aten.add.Tensor, (new, bias))


def _lower_linear(model: torch.fx.GraphModule, node: torch.fx.Node) -> None:
    x, weight = _quantized(node.args[0]), _quantized(node.args[1])
    bias = node.args[2] if len(node.args) > 2 else None
    found = _symmetric_weight(model, weight, 0)
    if weight is None or found is None:
        return
    values, scales = found
    by_channel = scales.expand(len(values)).contiguous()
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
                sums = _without_zero(model, sums, of_rows, x.zero_point)
            new = _scaled(model, sums, _attribute(model, weight.values, "scales", by_channel), x.scale, bias)
            new = call(aten.reshape.default, (new, [*_one_unknown(shape[:-1]), values.shape[0]]))
        if node.meta["val"].dtype != torch.float32 and x is not None:
            new = call(aten._to_copy.default, (new,), {"dtype": node.meta["val"].dtype})
    node.replace_all_uses_with(new)


def _lower_convolution(model: torch.fx.GraphModule, node: torch.fx.Node) -> None:
    """Of x with the zero point z, whose padding counts as z: the sums of x - z are those of x, less z times those of
    the weight, a bias. Which taps of a transposed convolution meet x depends on the position, and so do the sums of its
    weight.
    """
    x, weight = _quantized(node.args[0]), _quantized(node.args[1])
    transposed = node.target in TRANSPOSED
    found = _symmetric_weight(model, weight, int(transposed))
    if x is None or weight is None or found is None or x.axis is not None:
        return
    values, scales = found
    args = arguments_of(node)
    spatial, groups, bias = values.ndim - 2, args["groups"], args["bias"]
    stride, dilation, output_padding = (
        _per_dimension(args.get(name, 0), spatial) for name in ("stride", "dilation", "output_padding")
    )
    padding, uneven = _padding(args["padding"], values.shape[2:], dilation)
    options = [stride, padding, dilation, transposed, output_padding, groups]
    channels = values.shape[1] * groups if transposed else values.shape[0]
    ones = [1] * spatial
    # The scales of a transposed convolution are those of the channels of one group.
    factors = scales.repeat(channels // len(scales)).view(-1, *ones)
    call = model.graph.call_function
    shape = _source_shape(x.values)
    with model.graph.inserting_before(node):
        image = x.values
        if node.meta["val"].ndim == spatial + 1:
            image = call(aten.unsqueeze.default, (image, 0))
        offset = x.zero_point != 0
        zero: Any = None
        if offset and not transposed and any(padding):
            zero = x.zero_point
            if not isinstance(zero, torch.fx.Node):
                zero = _attribute(model, weight.values, "outside", torch.tensor(zero, dtype=torch.int32))
        correction = _correction(model, weight, values, x.zero_point) if offset and not transposed else None
        sums = call(torch.ops.atalla.int_convolution.default, (image, weight.values, correction, zero, *options))
        for dim in uneven:
            sums = call(aten.slice.Tensor, (sums, 2 + dim, 1))
        if offset and transposed:
            of_weight = _sums_of_weight(model, weight, values, image, shape[-spatial:], options)
            sums = _without_zero(model, sums, of_weight, x.zero_point)
        if bias is not None:
            bias = call(aten.reshape.default, (bias, [-1, *ones]))
        new = _scaled(model, sums, _attribute(model, weight.values, "scales", factors), x.scale, bias)
        if image is not x.values:
            new = call(aten.squeeze.dim, (new, 0))
        if node.meta["val"].dtype != torch.float32:
            new = call(aten._to_copy.default, (new,), {"dtype": node.meta["val"].dtype})
    node.replace_all_uses_with(new)


def _without_relu(node: torch.fx.Node) -> None:
    """A quantization whose least value stands for zero clamps negative numbers itself."""
    source, _, zero_point, least = node.args[:4]
    assert isinstance(source, torch.fx.Node)
    if source.target is aten.relu.default and zero_point == least:
        node.replace_input_with(source, source.all_input_nodes[0])


def _padding(given: Any, kernel: Any, dilation: list[int]) -> tuple[list[int], list[int]]:
    """The padding on both sides, and the dimensions that need one less in front: their first result is dropped."""
    if given == "valid":
        return [0] * len(kernel), []
    if given != "same":
        return _per_dimension(given, len(kernel)), []
    both = [step * (taps - 1) for step, taps in zip(dilation, kernel, strict=True)]  # the stride is 1
    return [(size + 1) // 2 for size in both], [dim for dim, size in enumerate(both) if size % 2]


def _correction(model: torch.fx.GraphModule, weight: _Quantized, values: torch.Tensor, zero_point: Any) -> Any:
    """What makes the sums of x those of x - zero_point, by output channel."""
    negative = -values.flatten(1).sum(1, dtype=torch.int32)
    if not isinstance(zero_point, torch.fx.Node):
        return _attribute(model, weight.values, "correction", negative * zero_point)
    call = model.graph.call_function
    zero = call(aten._to_copy.default, (call(aten.reshape.default, (zero_point, [])),), {"dtype": torch.int32})
    return call(aten.mul.Tensor, (_attribute(model, weight.values, "correction", negative), zero))


def _sums_of_weight(
    model: torch.fx.GraphModule,
    weight: _Quantized,
    values: torch.Tensor,
    image: torch.fx.Node,
    sizes: Any,
    options: list[Any],
) -> torch.fx.Node:
    """What a transposed convolution gives for an image of ones."""
    op = torch.ops.atalla.int_convolution.default
    if all(isinstance(size, int) for size in sizes):
        sums = op(torch.ones(1, len(values), *sizes, dtype=torch.int8), values, None, None, *options)
        return _attribute(model, weight.values, "sums", sums)
    call = model.graph.call_function
    filled = call(aten.ones_like.default, (call(aten.slice.Tensor, (image, 0, 0, 1)),))
    return call(op, (filled, weight.values, None, None, *options))


def _source_shape(node: torch.fx.Node) -> Any:
    """`convert_pt2e` gives the nodes that it adds no metadata: a quantization has the shape of its input."""
    while "val" not in node.meta:
        node = node.all_input_nodes[0]
    return node.meta["val"].shape


def _per_dimension(value: Any, spatial: int) -> list[int]:
    """One number stands for all dimensions."""
    several = [value] if isinstance(value, int) else [*value]
    return several * (spatial if len(several) == 1 else 1)


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
