# SPDX-License-Identifier: BSD-3-Clause
"""A linear layer with an encoded weight, and `quantize_weights`, which puts it in the place of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import torch
from torch import nn

from .encoding import EncodedWeight, decode, elements_per_byte, encode

# Of a module's qualified name: its encoding, or None to leave it as it is.
Choice = Callable[[str, nn.Module], str | None]


class QuantizedLinear(nn.Module):
    """x [..., k] -> [..., n] with a weight in 8 or 4 bits, in the buffers `weight`, `scales` and `zeros`.

    Make one with `QuantizedLinear.of(linear, "int4", group=64)`.
    """

    weight: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor | None
    bias: torch.Tensor | None

    def __init__(self, encoded: EncodedWeight, encoding: str, bias: torch.Tensor | None = None) -> None:
        super().__init__()
        self.encoding = encoding
        self.out_features = encoded.weight.shape[0]
        self.in_features = encoded.weight.shape[1] * elements_per_byte(encoding)
        for name, tensor in (*encoded._asdict().items(), ("bias", bias)):
            self.register_buffer(name, tensor)

    @classmethod
    def of(cls, linear: nn.Linear, encoding: str, group: int | None = None) -> QuantizedLinear:
        """Encode the weight of a linear layer. `group`: as `encode` takes it."""
        bias = None if linear.bias is None else linear.bias.detach()
        return cls(encode(linear.weight, encoding, group), encoding, bias).train(linear.training)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x times the decoded weight, plus the bias."""
        return torch.ops.atalla.quantized_linear(x, self.weight, self.scales, self.zeros, self.bias, self.encoding)

    def decoded(self) -> torch.Tensor:
        """The weight [n, k] in float32."""
        return decode(self.weight, self.scales, self.zeros, self.encoding)

    def extra_repr(self) -> str:
        """Sizes and encoding, for printing."""
        group = self.in_features // len(self.scales)
        bias = self.bias is not None
        return f"{self.in_features}, {self.out_features}, encoding={self.encoding}, group={group}, bias={bias}"


def quantize_weights(
    model: nn.Module,
    encoding: str = "int8",
    *,
    group: int | None = None,
    choose: Choice | None = None,
) -> nn.Module:
    """Replace the linear layers of a model by ones with weights in 8 or 4 bits, in place, on any device.

    Args:
        encoding: "int8", "int4", "float8_e4m3fn" or "float8_e5m2".
        group: neighbouring elements of a row that share a scale; None: 64 in four bits, otherwise the whole row.
        choose: gives each linear layer's encoding by its name; None leaves the layer as it is.

    A layer stays as it is if the group does not divide its rows, or if its weight is shared with another module.

    Returns:
        The model.
    """
    for name, module in own_linear_layers(model):
        chosen = encoding if choose is None else choose(name, module)
        if chosen is None:
            continue
        shared = default_group(chosen) if group is None else group
        if shared is not None and module.in_features % shared:
            continue
        new = QuantizedLinear.of(module, chosen, shared)
        if not name:
            return new
        model.set_submodule(name, new)
    return model


def own_linear_layers(model: nn.Module) -> list[tuple[str, nn.Linear]]:
    """The linear layers, by name, whose weight no other module has."""
    owners = Counter(id(parameter) for module in model.modules() for parameter in module.parameters(recurse=False))
    return [
        (name, module)
        for name, module in model.named_modules()
        if type(module) is nn.Linear and owners[id(module.weight)] == 1
    ]


def default_group(encoding: str) -> int | None:
    return 64 if elements_per_byte(encoding) == 2 else None
