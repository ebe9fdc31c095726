# SPDX-License-Identifier: BSD-3-Clause
"""The precisions that benchmarks/quantization compares: each quantizes a bfloat16 model in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from torch_atalla.quantization import quantize_weights


@dataclass(frozen=True)
class Variant:
    name: str
    quantize: Callable[[nn.Module], object]
    cache: torch.dtype | None = None
    library: str = "torch_atalla"


def _torchao(config: str, **options: object) -> Callable[[nn.Module], object]:
    def quantize(model: nn.Module) -> None:
        import torchao.quantization as ao

        ao.quantize_(model, getattr(ao, config)(**options))

    return quantize


def variants() -> list[Variant]:
    def ours(encoding: str, group: int | None = None) -> Callable[[nn.Module], object]:
        return lambda model: quantize_weights(model, encoding, group=group)

    return [
        Variant("bfloat16", lambda model: model, library=""),
        Variant("int8 by row", ours("int8")),
        Variant("int8 by row, int8 cache", ours("int8"), torch.int8),
        Variant("int8 by 64", ours("int8", 64)),
        Variant("float8_e4m3fn by row", ours("float8_e4m3fn")),
        Variant("int4 by 128", ours("int4", 128)),
        Variant("int4 by 64", ours("int4", 64)),
        Variant("int4 by 32", ours("int4", 32)),
        Variant("Int8WeightOnlyConfig()", _torchao("Int8WeightOnlyConfig"), library="torchao"),
        Variant(
            "Int4WeightOnlyConfig()", _torchao("Int4WeightOnlyConfig", set_inductor_config=False), library="torchao"
        ),
        Variant(
            "Float8WeightOnlyConfig()", _torchao("Float8WeightOnlyConfig", set_inductor_config=False), library="torchao"
        ),
        Variant(
            "Int8DynamicActivationInt8WeightConfig()",
            _torchao("Int8DynamicActivationInt8WeightConfig", set_inductor_config=False),
            library="torchao",
        ),
    ]
