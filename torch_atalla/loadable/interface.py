# SPDX-License-Identifier: BSD-3-Clause
"""The interface of a method: the arguments and results of the exported module, and the tensors of the program."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torch_atalla.driver.dtypes import name as dtype_name

from .errors import MALFORMED, ExportError, LoadableError
from .lazy_bits import resolved
from .leaves import load_leaves, load_spec, method_key
from .tensor_spec import TensorSpec, read_spec


def valid_results(outputs: list[torch.Tensor], sizes: Collection[Sequence[int]]) -> list[torch.Tensor]:
    """The results without their padding, and without the counts, which come last. Waits for the device.

    sizes: (result, dimension, number of its count) for sizes that depend on data.
    """
    first = len(outputs) - len({count for _, _, count in sizes})
    results, counts = outputs[:first], [int(count) for count in outputs[first:]]
    for result, dim, count in sizes:
        results[result] = results[result].narrow(dim, 0, counts[count])
    return [result.contiguous() for result in results]


class Interface:
    """Checks the arguments of a call and gives their tensors; builds the result from the program's tensors.

    positional: every argument is a tensor, and none is nested or has a keyword. single: the result is one tensor.
    Raises LoadableError for a file whose metadata does not describe the method.
    """

    def __init__(self, path: str, data: dict[str, Any], number: int, device: torch.device):
        self.name: str = data["methods"][number]["name"]
        self.device = device
        try:
            self._read(path, data, number)
        except (*MALFORMED, ExportError) as error:
            raise LoadableError(
                f"{path}: the metadata does not describe method {self.name!r}: {type(error).__name__}: {error}"
            ) from None

    def _read(self, path: str, data: dict[str, Any], number: int) -> None:
        record, metadata = data["methods"][number], data["metadata"]
        keys = {key: method_key(key, self.name, number) for key in ("in_spec", "out_spec", "in_leaves", "out_leaves")}
        missing = [key for key in keys.values() if key not in metadata]
        if missing:
            raise LoadableError(f"{path}: expected the metadata {', '.join(missing)}, found none")
        self.inputs = tuple(read_spec(data, port) for port in _slice(data["inputs"], record["inputs"]))
        self.outputs = tuple(read_spec(data, port) for port in _slice(data["outputs"], record["outputs"]))
        self._in_leaves = load_leaves(metadata[keys["in_leaves"]])
        self._out_leaves = load_leaves(metadata[keys["out_leaves"]])
        self._in_spec = load_spec(metadata[keys["in_spec"]])
        self._out_spec = load_spec(metadata[keys["out_spec"]])
        sizes = metadata.get(method_key("result_sizes", self.name, number), "[]")
        self._sizes: list[list[int]] = json.loads(
            sizes
        )  # result, dimension, number of its count among the last outputs
        self._counts = len({count for _, _, count in self._sizes})
        positional, keywords = self._in_spec.children()
        self.positional = (
            keywords.num_children == 0
            and all(child.is_leaf() for child in positional.children())
            and all(leaf.is_tensor for leaf in self._in_leaves)
        )
        self.single = self._out_spec.is_leaf() and len(self.outputs) == 1
        for what, leaves, ports in (
            ("inputs", self._in_leaves, self.inputs),
            ("outputs", self._out_leaves, self.outputs[: len(self.outputs) - self._counts]),
        ):
            tensors = sum(leaf.is_tensor for leaf in leaves)
            if tensors != len(ports):
                raise LoadableError(f"{path}: the metadata has {tensors} {what}, the program {len(ports)}")

    def result(self, outputs: list[torch.Tensor]) -> Any:
        """Return what the exported module would, with the program's tensors in it."""
        if self._counts:
            outputs = valid_results(outputs, self._sizes)
        if self._out_spec.is_leaf():
            return outputs[0] if outputs else self._out_leaves[0].value
        results = iter(outputs)
        leaves = [next(results) if leaf.is_tensor else leaf.value for leaf in self._out_leaves]
        return pytree.tree_unflatten(leaves, self._out_spec)

    def arguments(self, args: tuple, kwargs: dict[str, Any]) -> list[torch.Tensor]:
        """Return the tensors of a call. Raises TypeError or ValueError for arguments that the program does not take."""
        if self.positional and not kwargs and len(args) == len(self.inputs):
            if all(isinstance(given, torch.Tensor) for given in args):
                return [self._check_tensor(spec, given) for spec, given in zip(self.inputs, args)]
        order = self._in_spec.children()[1].context or []
        if set(order) == set(kwargs):
            kwargs = {key: kwargs[key] for key in order}
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != self._in_spec:
            expected = len(self._in_leaves)
            raise TypeError(
                f"expected {expected} argument{'s' if expected != 1 else ''} in the structure\n  {self._in_spec}\n"
                f"found {len(leaves)} in the structure\n  {spec}\n{self.signature()}"
            )
        tensors: list[torch.Tensor] = []
        for i, (leaf, given) in enumerate(zip(self._in_leaves, leaves, strict=True)):
            if leaf.is_tensor:
                tensors.append(self._check_tensor(self.inputs[len(tensors)], given))
            elif given != leaf.value or type(given) is not type(leaf.value):
                raise ValueError(f"argument {i}: expected the value {leaf.value!r} of the export, found {given!r}")
        return tensors

    def _check_tensor(self, spec: TensorSpec, given: Any) -> torch.Tensor:
        if not isinstance(given, torch.Tensor):
            raise TypeError(f"input {spec.name}: expected a tensor, found {type(given).__name__}")
        if given.device == self.device and given.dtype == spec.dtype and not spec.mismatch(tuple(given.shape)):
            if given.layout is not torch.strided:
                raise ValueError(f"input {spec.name}: expected layout torch.strided, found {given.layout}")
            return resolved(given)
        problems = []
        if given.device != self.device:
            problems.append(f"device {self.device}, found {given.device}")
        if given.dtype != spec.dtype:
            problems.append(f"dtype {dtype_name(spec.dtype)}, found {dtype_name(given.dtype)}")
        if spec.mismatch(tuple(given.shape)):
            shown = str(spec).removeprefix(f"{spec.name}: {dtype_name(spec.dtype)}")
            problems.append(f"shape {shown}, found {list(given.shape)}")
        raise ValueError(f"input {spec.name}: expected " + "; expected ".join(problems))

    def signature(self) -> str:
        """Inputs and outputs, one a line."""
        lines = [f"input   {spec}" for spec in self.inputs] + [f"output  {spec}" for spec in self.outputs]
        return "\n".join(lines)


def _slice(records: list[Any], span: list[int]) -> list[Any]:
    first, count = span
    return records[first : first + count]
