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

from .integer_products import CONVOLUTIONS, TRANSPOSED, lower_pt2e

__all__ = ["AtallaQuantizer", "lower_pt2e"]

aten = torch.ops.aten
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

    def _weight(self, channels: int) -> QuantizationSpec:
        """channels: the dimension of output channels."""
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
            ch_axis=channels if self.per_channel else None,
            observer_or_fake_quant_ctr=observer,
        )

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        activation, operand = self._activation(), self._activation(symmetric=True)
        for node in model.graph.nodes:
            if node.op != "call_function" or _KEY in node.meta:
                continue
            if node.target in (aten.linear.default, *CONVOLUTIONS, *TRANSPOSED):
                specs = {node.args[0]: activation, node.args[1]: self._weight(int(node.target in TRANSPOSED))}
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
