# SPDX-License-Identifier: BSD-3-Clause
"""State outside of a graph that its program may depend on: the one list of what enters the keys of the cache.

Most of it already shaped the graph when Dynamo captured it. Capture and lowering of a program run upstream's
decompositions and meta functions once more, which read the same state. A state that only selects another program of
equal results costs at most one more compilation.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental import _config as symbolic_shapes

from torch_atalla.driver.extension import _C
from torch_atalla.driver.runtime import device_library

# Variables of the environment that select another device library, or other kernels of it.
PROGRAM_VARIABLES = ("ATALLA_DEVICE_LIBRARY", "ATALLA_ISA", "ATALLA_LAPACK")
# Variables that do not: they concern execution, memory, folders and messages. The chip enters keys by the parameters of
# its file, not by the file's name.
OTHER_VARIABLES = (
    "ATALLA_CHIP_CONFIG",
    "ATALLA_CLOCK",
    "ATALLA_DEVICE_COUNT",
    "ATALLA_DRAM_BYTES",
    "ATALLA_LAUNCH",
    "ATALLA_NUM_THREADS",
    "TORCH_ATALLA_ALLOC_CONF",
    "TORCH_ATALLA_BLOCKING_WAIT",
    "TORCH_ATALLA_CACHE_LIMIT",
    "TORCH_ATALLA_FALLBACK",
)


def _global_state() -> dict[str, Any]:
    """Return what Dynamo guards in each frame: default dtype, grad mode, autocast, deterministic algorithms and others.

    The number of threads is left out: programs do not depend on it.
    """
    state: dict[str, Any] = json.loads(str(torch._C._dynamo.guards.GlobalStateGuard().__getstate__()))
    state.pop("num_threads", None)
    return state


def _precision() -> dict[str, Any]:
    flags = {"float32_matmul": torch.get_float32_matmul_precision()}
    for backend, op in (("generic", "all"), ("cuda", "all"), ("cuda", "matmul"), ("cuda", "conv"), ("cuda", "rnn")):
        flags[f"{backend}.{op}"] = torch._C._get_fp32_precision_getter(backend, op)
    return flags


def _attention() -> dict[str, bool]:
    cuda = torch.backends.cuda
    return {
        "flash": cuda.flash_sdp_enabled(),
        "memory_efficient": cuda.mem_efficient_sdp_enabled(),
        "math": cuda.math_sdp_enabled(),
        "cudnn": cuda.cudnn_sdp_enabled(),
        "reduced_precision": cuda.fp16_bf16_reduction_math_sdp_allowed(),
    }


AMBIENT: dict[str, Callable[[], Any]] = {
    "global_state": _global_state,
    "default_dtype": lambda: str(torch.get_default_dtype()),
    "default_device": lambda: str(torch.get_default_device()),
    "current_device": _C.current_device,
    "inference_mode": torch.is_inference_mode_enabled,
    "fill_uninitialized_memory": lambda: torch._C._get_deterministic_fill_uninitialized_memory(),
    "precision": _precision,
    "attention": _attention,
    "symbolic_shapes": lambda: symbolic_shapes.get_hash().hex(),  # type: ignore[attr-defined]
    "device_library": lambda: [device_library().abi, device_library().host_isa],
    "environment": lambda: {name: os.environ.get(name) for name in PROGRAM_VARIABLES},
    "byte_order": lambda: sys.byteorder,
}


def ambient_text() -> str:
    """Return all state of `AMBIENT` as text."""
    return json.dumps({name: read() for name, read in AMBIENT.items()}, sort_keys=True)
