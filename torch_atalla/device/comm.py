# SPDX-License-Identifier: BSD-3-Clause
"""torch.atalla.comm: tensors between the devices of one process, as torch.cuda.comm; nn.DataParallel stands on it.

The functions are those of torch.nn.parallel.comm. `install` puts what they call in place, over copies between devices;
in a build of torch for CUDA, beside what that has for its devices. Devices are ordinals here.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._utils import _flatten_dense_tensors, _reorder_tensors_as, _take_tensors, _unflatten_dense_tensors
from torch.nn.parallel.comm import broadcast, broadcast_coalesced, gather, reduce_add, reduce_add_coalesced, scatter
from torch.utils import _pytree as pytree

from .index import device_index

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]


def _to(tensor: Tensor, device: int) -> Tensor:
    return tensor.to(torch.device("atalla", device), non_blocking=True)


def _check_outputs(out: Sequence[Tensor]) -> None:
    for i, tensor in enumerate(out):
        if tensor.device.type != "atalla":
            raise RuntimeError(
                f"Expected all output tensors to be atalla tensors, but output tensor at index {i} "
                f"has device '{tensor.device}'"
            )


def _broadcast(tensor: Tensor, devices: Sequence[int]) -> list[Tensor]:
    """The tensor on each device; itself where it is already."""
    return [_to(tensor, d) for d in devices]


def _broadcast_out(tensor: Tensor, out: Sequence[Tensor]) -> list[Tensor]:
    _check_outputs(out)
    for i, target in enumerate(out):
        if target.shape != tensor.shape:
            raise RuntimeError(
                f"Expected all output tensors to have same shape as the source tensor {tuple(tensor.shape)}, "
                f"but output tensor at index {i} has shape {tuple(target.shape)}"
            )
        target.copy_(tensor, non_blocking=True)
    return list(out)


def _broadcast_coalesced(tensors: Sequence[Tensor], devices: Sequence[int], buffer_size: int) -> list[list[Tensor]]:
    """For each device the tensors there, carried over in flat buffers of about `buffer_size` bytes."""
    first = torch.device("atalla", devices[0])
    if any(t.device != first for t in tensors):
        raise RuntimeError(f"All tensors must be on devices[0]: {devices[0]}")
    results = [list(tensors)]
    for device in devices[1:]:
        arrived: list[Tensor] = []
        for chunk in _take_tensors(tensors, buffer_size):
            flat = _to(_flatten_dense_tensors(chunk), device)
            # Detached: each result counts its own versions, though they share the buffer.
            arrived += [t.data for t in _unflatten_dense_tensors(flat, chunk)]
        results.append(list(_reorder_tensors_as(arrived, tensors)))
    return results


def _on(stream: torch.Stream | None) -> contextlib.AbstractContextManager:
    return contextlib.nullcontext() if stream is None else stream


def _scatter(
    tensor: Tensor, devices: Sequence[int], chunk_sizes: Sequence[int] | None, dim: int, streams: Any
) -> list[Tensor]:
    if not devices:
        raise RuntimeError("Expected at least one device to scatter to")
    if chunk_sizes is not None and len(chunk_sizes) != len(devices):
        raise RuntimeError(
            f"Expected devices and chunk_sizes to be of same length, but got len(devices) = {len(devices)} and "
            f"len(chunk_sizes) = {len(chunk_sizes)}"
        )
    chunks = tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    found = []
    for i, (chunk, device) in enumerate(zip(chunks, devices)):
        with _on(streams[i] if streams else None):
            found.append(_to(chunk, device))
    return found


def _scatter_out(tensor: Tensor, out: Sequence[Tensor], dim: int, streams: Any) -> list[Tensor]:
    if not out:
        raise RuntimeError("Expected at least one output tensor to scatter to")
    _check_outputs(out)
    sizes = [t.size(dim) for t in out]
    if sum(sizes) != tensor.size(dim):
        raise RuntimeError(
            f"Total size for output tensors along scatter dim {dim} does not match the source tensor size at dim "
            f"{dim}: expected {tensor.size(dim)}, but got total size {sum(sizes)}"
        )
    for i, (chunk, target) in enumerate(zip(tensor.split(sizes, dim), out)):
        with _on(streams[i] if streams else None):
            target.copy_(chunk, non_blocking=True)
    return list(out)


def _gather(tensors: Sequence[Tensor], dim: int, destination: int | None) -> Tensor:
    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    if destination == -1:
        return torch.cat([t.cpu() for t in tensors], dim)
    device = device_index(destination)
    return torch.cat([_to(t, device) for t in tensors], dim)


def _gather_out(tensors: Sequence[Tensor], out: Tensor, dim: int) -> Tensor:
    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    sizes = [t.size(dim) for t in tensors]
    expected = list(tensors[0].shape)
    expected[dim] = sum(sizes)
    if list(out.shape) != expected:
        raise RuntimeError(f"Expected out tensor to have shape {expected}, but got {list(out.shape)}")
    for target, tensor in zip(out.split(sizes, dim), tensors):
        target.copy_(tensor, non_blocking=True)
    return out


def _quiet(is_available: Callable[[Iterable[Tensor]], bool]) -> Callable[[Iterable[Tensor]], bool]:
    """reduce_add asks whether NCCL takes the tensors: not those of atalla, which is no reason to warn."""

    def wrapped(tensors: Iterable[Tensor]) -> bool:
        given = list(tensors)
        return not any(t.device.type == "atalla" for t in given) and is_available(given)

    return wrapped


def _beside(ours: Callable[..., Any], upstream: Callable[..., Any] | None) -> Callable[..., Any]:
    """Leaves tensors of CUDA to upstream, and those of the host where CUDA has a device."""
    if upstream is None:
        return ours

    @functools.wraps(ours)
    def chosen(*arguments: Any) -> Any:
        places = {x.device.type for x in pytree.tree_leaves(arguments) if isinstance(x, Tensor)}
        is_ours = "atalla" in places or not ("cuda" in places or torch.cuda.is_available())
        return (ours if is_ours else upstream)(*arguments)

    return chosen


def install() -> None:
    """Once, at registration."""
    bindings = (_broadcast, _broadcast_out, _broadcast_coalesced, _scatter, _scatter_out, _gather, _gather_out)
    for function in bindings:
        name = function.__name__
        setattr(torch._C, name, _beside(function, getattr(torch._C, name, None)))
    torch.cuda.nccl.is_available = _quiet(torch.cuda.nccl.is_available)
