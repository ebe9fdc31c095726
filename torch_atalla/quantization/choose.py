# SPDX-License-Identifier: BSD-3-Clause
"""`torch_atalla.quantize`: the precision of each layer, by measured loss and simulated cycles."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from torch_atalla.driver.extension import _C

from .encoding import check_encoding, elements_per_byte
from .modules import QuantizedLinear, default_group, own_linear_layers

Loss = Callable[[nn.Module], float]


@dataclass(frozen=True)
class LayerChoice:
    """One linear layer: the encoding that it got (None: as it was), and what was measured."""

    name: str
    encoding: str | None
    losses: dict[str, float]  # of the model with only this layer in the encoding
    cycles: dict[str | None, int]  # of the layer's product for the rows of `data`, by encoding; None: as it was


@dataclass
class QuantizationReport:
    """What `quantize` chose. `str(report)` is a table."""

    budget: float
    loss: float  # of the model as it is now
    layers: list[LayerChoice] = field(default_factory=list)

    @property
    def cycles_before(self) -> int:
        return sum(layer.cycles[None] for layer in self.layers)

    @property
    def cycles(self) -> int:
        return sum(layer.cycles[layer.encoding] for layer in self.layers)

    def __str__(self) -> str:
        rows = [("layer", "encoding", "loss alone", "cycles before", "cycles")]
        for layer in self.layers:
            alone = f"{layer.losses[layer.encoding]:.2e}" if layer.encoding else ""
            before, after = layer.cycles[None], layer.cycles[layer.encoding]
            rows.append((layer.name, layer.encoding or "-", alone, f"{before:,}", f"{after:,}"))
        total = (f"{len(self.layers)} layers", "", f"{self.loss:.2e}", f"{self.cycles_before:,}", f"{self.cycles:,}")
        rows.append(total)
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = [
            "  ".join(cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths)))
            for row in rows
        ]
        return "\n".join([*lines, f"loss {self.loss:.2e} of a budget of {self.budget:.2e}"])


def quantize(
    model: nn.Module,
    data: Sequence[Any],
    *,
    budget: float = 1e-3,
    encodings: Iterable[str] = ("int8", "int4"),
    group: int | None = None,
    loss: Loss | None = None,
) -> tuple[nn.Module, QuantizationReport]:
    """Choose an encoding for the weight of each linear layer, in place: the fewest simulated cycles within a loss.

    Every layer is measured alone in every encoding: the loss of the model, and the cycles of the layer's products on
    the device. Then the encodings that save the most cycles per loss are applied one after the other, each only if the
    loss of the whole model stays within the budget. The same model and data give the same choice.

    Args:
        model: on any device, in evaluation mode. Layers whose weight is shared with another module stay.
        data: calls of the model: a tensor, or a tuple of arguments, each.
        budget: the largest loss.
        encodings: those to choose from, as `quantize_weights` takes them.
        group: neighbouring elements of a row that share a scale; None: 64 in four bits, otherwise the whole row.
        loss: gives the loss of a model. Default: the mean squared difference of the results for `data` from those of
            the model before, relative to their mean square.

    Returns:
        The model, and a report that prints as a table.

    Raises:
        ValueError: no data, an unknown encoding, or a negative budget.
    """
    chosen_from = list(encodings)
    for encoding in chosen_from:
        check_encoding(encoding)
    if not len(data) or budget < 0:
        raise ValueError(f"expected data and a budget of 0 or more, got {len(data)} calls and {budget}")
    calls = [call if isinstance(call, tuple) else (call,) for call in data]
    rows: dict[str, int] = {}
    reference = _results(model, calls, rows)
    measure = loss or (lambda changed: _difference(_results(changed, calls), reference))
    layers = {name: model.get_submodule(name) for name in rows}
    measured: dict[str, LayerChoice] = {}
    for name, layer in layers.items():
        measured[name] = _measure(model, name, layer, rows[name], chosen_from, group, measure)
    applied = _choose(model, layers, measured, group, measure, budget)
    result = [LayerChoice(name, applied.get(name), item.losses, item.cycles) for name, item in measured.items()]
    return model, QuantizationReport(budget, measure(model), result)


def _results(model: nn.Module, calls: list[tuple[Any, ...]], rows: dict[str, int] | None = None) -> list[torch.Tensor]:
    """The tensors that the calls return, in float32 on the CPU. rows: gets the rows that linear layers multiply."""
    hooks = []
    if rows is not None:
        for name, module in own_linear_layers(model):
            if name:

                def hook(_: nn.Module, given: tuple[torch.Tensor, ...], name: str = name) -> None:
                    rows[name] = rows.get(name, 0) + given[0].numel() // max(1, given[0].shape[-1])

                hooks.append(module.register_forward_pre_hook(hook))
    try:
        with torch.no_grad():
            leaves = [leaf for call in calls for leaf in pytree.tree_leaves(_values(model(*call)))]
    finally:
        for handle in hooks:
            handle.remove()
    return [leaf.detach().float().cpu() for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _values(result: Any) -> Any:
    """Of the result of transformers' models, too, which are no tuples to pytree."""
    return list(result.values()) if hasattr(result, "values") and not isinstance(result, torch.Tensor) else result


def _difference(found: list[torch.Tensor], reference: list[torch.Tensor]) -> float:
    error = sum(float((a - b).double().square().sum()) for a, b in zip(found, reference, strict=True))
    return error / max(sum(float(b.double().square().sum()) for b in reference), 1e-30)


def _encoded(layer: nn.Linear, encoding: str, group: int | None) -> QuantizedLinear | None:
    shared = default_group(encoding) if group is None else group
    if (shared is not None and layer.in_features % shared) or layer.in_features % elements_per_byte(encoding):
        return None
    return QuantizedLinear.of(layer, encoding, shared)


def _measure(
    model: nn.Module,
    name: str,
    layer: nn.Module,
    rows: int,
    encodings: list[str],
    group: int | None,
    measure: Loss,
) -> LayerChoice:
    assert isinstance(layer, nn.Linear)
    losses: dict[str, float] = {}
    cycles: dict[str | None, int] = {None: _cycles(layer, rows, layer.in_features, layer.weight.dtype)}
    for encoding in encodings:
        new = _encoded(layer, encoding, group)
        if new is None:
            continue
        model.set_submodule(name, new)
        try:
            losses[encoding] = measure(model)
        finally:  # the loss is the caller's, and may raise
            model.set_submodule(name, layer)
        cycles[encoding] = _cycles(new, rows, layer.in_features, layer.weight.dtype)
    return LayerChoice(name, None, losses, cycles)


def _cycles(layer: nn.Module, rows: int, width: int, dtype: torch.dtype) -> int:
    on_chip = copy.deepcopy(layer).to("atalla")
    x = torch.zeros(rows, width, dtype=dtype, device="atalla")
    torch.accelerator.synchronize()
    start = _C.clock(x.device.index)
    with torch.no_grad():
        on_chip(x)
    torch.accelerator.synchronize()
    return int(_C.clock(x.device.index) - start)


def _choose(
    model: nn.Module,
    layers: dict[str, nn.Module],
    measured: dict[str, LayerChoice],
    group: int | None,
    measure: Loss,
    budget: float,
) -> dict[str, str]:
    """Applies encodings to the model; those that it applied."""
    moves = [
        (item.cycles[None] - item.cycles[encoding], loss, name, encoding)
        for name, item in measured.items()
        for encoding, loss in item.losses.items()
        if item.cycles[encoding] < item.cycles[None] and loss <= budget
    ]
    moves.sort(key=lambda move: (-move[0] / max(move[1], 1e-30), move[2], move[3]))
    applied: dict[str, str] = {}
    for saved, _, name, encoding in moves:
        before = applied.get(name)
        if before is not None and measured[name].cycles[None] - measured[name].cycles[before] >= saved:
            continue
        layer, current = layers[name], model.get_submodule(name)
        assert isinstance(layer, nn.Linear)
        new = _encoded(layer, encoding, group)
        assert new is not None
        model.set_submodule(name, new)
        if measure(model) <= budget:
            applied[name] = encoding
        else:
            model.set_submodule(name, current)
    return applied
