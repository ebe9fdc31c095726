# SPDX-License-Identifier: BSD-3-Clause
"""One entry point of a loaded program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from torch_atalla.driver import c_abi, runtime
from torch_atalla.driver.dtypes import CODES
from torch_atalla.driver.extension import _C

from .interface import Interface
from .leaves import method_key
from .tensor_spec import TensorSpec


class LoadedMethod:
    """One entry point of a program on a device. Call it like the module that was exported for it."""

    def __init__(self, program: runtime.Program, device: torch.device, path: str, number: int, data: dict[str, Any]):
        self._program = program
        self.device = device
        self._interface = Interface(path, data, number, device)
        self.name = self._interface.name
        self.inputs, self.outputs = self._interface.inputs, self._interface.outputs
        drawn = int(data["metadata"].get(method_key("random_positions", self.name, number), 0))
        ports = port_types(self.inputs), port_types(self.outputs)
        self._bound = _C.BoundMethod(program.handle, number, device.index, *ports, drawn=drawn)
        # Fast path for the common call: only positional tensors, nothing nested.
        self._positional, self._single = self._interface.positional, self._interface.single

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._positional and not kwargs:
            outputs = self._bound(*args)
            if type(outputs) is list:
                return outputs[0] if self._single else self._interface.result(outputs)
        else:
            outputs = None
        if outputs is None:
            outputs = self._bound(*self._interface.arguments(args, kwargs))
        if isinstance(outputs, list):
            return self._interface.result(outputs)
        if outputs is None:
            raise TypeError(f"expected tensors of these types\n{self.signature()}")
        self._raise(outputs)

    def tensors(self, *args: Any, **kwargs: Any) -> list[torch.Tensor]:
        """Return all outputs of the program as it stores them: with padding, and with counts as the last ones."""
        outputs = self._bound(*self._interface.arguments(args, kwargs))
        if not isinstance(outputs, list):
            self._raise(outputs)
        return outputs

    def _raise(self, status: int) -> None:
        """Raise the error of a call, with PyTorch's type: ValueError for sizes that the program does not support."""
        try:
            self._program._check_call(status)
        except runtime.RuntimeLibraryError as error:
            if error.status == c_abi.ATALLA_ERR_ARGUMENT:
                raise ValueError(str(error)) from None
            raise

    def signature(self) -> str:
        """Return the inputs and outputs as text, one per line."""
        return self._interface.signature()

    def __repr__(self) -> str:
        return f"<LoadedMethod {self.name}: {len(self.inputs)} inputs, {len(self.outputs)} outputs>"


def port_types(specs: Sequence[TensorSpec]) -> list[tuple]:
    return [
        (CODES[spec.dtype], list(spec.shape), list(spec.strides), [spec.is_dynamic(d) for d in range(len(spec.shape))])
        for spec in specs
    ]
