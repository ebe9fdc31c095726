# SPDX-License-Identifier: BSD-3-Clause
"""The parameters and buffers that the methods of a file share.

Methods share a mutable buffer if it is one tensor, under whatever names. Buffers that only have one name in common are
several, as the modules have them, and the later ones get the method's name before their own: "decode:k". Parameters,
and buffers that no method writes, may also be equal tensors of one name, as copies of a model have them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch.export.graph_signature import InputKind
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from torch_atalla.loadable.errors import ExportError

from ..program.layouts import span
from .known_numbers import stored_tensor, written_buffers

_NAMED = {InputKind.PARAMETER, InputKind.BUFFER}
Key = tuple  # of memory: address of the storage, offset, sizes, strides, dtype


@dataclass
class SharedTensors:
    """Names of the file for those of each method.

    names: of a method, from its own names to those of the file, as far as they differ. states: of a method, its own
    names of buffers that some method writes. aliases: further names of mutable buffers, to those of the file.
    """

    names: dict[str, dict[str, str]] = field(default_factory=dict)
    states: dict[str, set[str]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)


def shared_tensors(methods: Mapping[str, torch.export.ExportedProgram]) -> SharedTensors:
    """Raises ExportError for buffers of different names or places that share memory to which a method writes."""
    tensors = {method: _tensors(program) for method, program in methods.items()}
    written = {
        _key(tensors[method][name]): (method, name)
        for method, program in methods.items()
        for name in written_buffers(program)
        if name in tensors[method]
    }
    _check_memory(tensors, written)
    found = SharedTensors()
    first: dict[str, torch.Tensor] = {}  # by the file's name
    states: dict[Key, str] = {}
    for method, named in tensors.items():
        found.states[method] = {name for name, tensor in named.items() if _key(tensor) in written}
        found.names[method] = {}
        for name, tensor in named.items():
            key, mutable = _key(tensor), name in found.states[method]
            if key in states:
                chosen = states[key]
            elif name not in first or _one(first[name], tensor, mutable or name in states.values()):
                chosen = name
            else:
                chosen = f"{method}:{name}"
                if mutable and _equal(first[name], tensor):
                    _warn(name, method)
            first.setdefault(chosen, tensor)
            if mutable:
                states[key] = chosen
            if chosen != name:
                found.names[method][name] = chosen
    taken = {found.names[method].get(name, name) for method, named in tensors.items() for name in named}
    for method, names in found.names.items():
        found.aliases |= {name: names[name] for name in found.states[method] & names.keys() if name not in taken}
    return found


def tie_equal_buffers(methods: Mapping[str, torch.export.ExportedProgram]) -> None:
    """Make equal tensors of one name one tensor, in place. For programs that were stored in files of their own, which
    have lost what they shared."""
    first: dict[str, torch.Tensor] = {}
    for program in methods.values():
        for store in (program.state_dict, program.constants):
            for name, tensor in store.items():
                if isinstance(tensor, torch.Tensor) and _equal(first.setdefault(name, tensor), tensor):
                    store[name] = first[name]


def _tensors(program: torch.export.ExportedProgram) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name."""
    specs = program.graph_signature.input_specs
    names = [spec.target for spec in specs if spec.kind in _NAMED and spec.target is not None]
    return {name: stored_tensor(program, name) for name in names}


def _key(tensor: torch.Tensor) -> Key:
    has_bytes = not is_traceable_wrapper_subclass(tensor) and tensor.untyped_storage().data_ptr() != 0
    place = tensor.untyped_storage().data_ptr() if has_bytes else id(tensor)  # without bytes, it shares no memory
    return place, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _one(first: torch.Tensor, tensor: torch.Tensor, mutable: bool) -> bool:
    return _key(first) == _key(tensor) or (not mutable and _equal(first, tensor))


def _equal(first: torch.Tensor, tensor: torch.Tensor) -> bool:
    """Whether type and bits are equal."""
    if (first.dtype, first.shape, first.device) != (tensor.dtype, tensor.shape, tensor.device):
        return False
    if first.layout is not torch.strided or tensor.layout is not torch.strided:
        return False
    if is_traceable_wrapper_subclass(first) or is_traceable_wrapper_subclass(tensor):
        return False
    pair = [item.detach().contiguous().view(-1).view(torch.uint8) for item in (first, tensor)]
    return torch.equal(*pair)


def _check_memory(tensors: Mapping[str, Mapping[str, torch.Tensor]], written: Mapping[Key, tuple[str, str]]) -> None:
    """A file stores tensors apart, unless they are one."""
    places: dict[int, list[tuple[str, str, torch.Tensor]]] = {}
    for method, named in tensors.items():
        for name, tensor in named.items():
            if tensor.layout is torch.strided and tensor.numel() and not is_traceable_wrapper_subclass(tensor):
                places.setdefault(tensor.untyped_storage().data_ptr(), []).append((method, name, tensor))
    for place, several in places.items():
        if not any(key[0] == place for key in written):
            continue
        for i, (method, name, tensor) in enumerate(several):
            for other_method, other_name, other in several[:i]:
                if not _overlap(tensor, other) or not {_key(tensor), _key(other)} & written.keys():
                    continue
                if _key(tensor) != _key(other) or method == other_method:
                    raise ExportError(
                        f"buffer {other_name!r} of method {other_method!r} and buffer {name!r} of method {method!r} "
                        "share memory, and the program writes to it; expected one buffer, of which the others are "
                        "views that forward makes"
                    )


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    (first, end), (other_first, other_end) = (_bytes(item) for item in (a, b))
    return first < other_end and other_first < end


def _bytes(tensor: torch.Tensor) -> tuple[int, int]:
    first = int(tensor.storage_offset()) * tensor.itemsize
    return first, first + int(span(tensor.shape, tensor.stride())) * tensor.itemsize


def _warn(name: str, method: str) -> None:
    warnings.warn(
        f"the mutable buffer {name!r} of method {method!r} equals that of an earlier method and is another tensor: the "
        f"file keeps it apart, as {method + ':' + name!r}. To share it, export the methods from one module, or let the "
        f"programs have one tensor: second.state_dict[{name!r}] = first.state_dict[{name!r}]",
        stacklevel=5,
    )
