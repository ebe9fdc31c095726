# SPDX-License-Identifier: BSD-3-Clause
"""Names that upstream's test files import and a later torch no longer has, and devices that the files do not list."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch.nn.attention import flex_attention
from torch.testing._internal import (
    common_cuda,
    common_device_type,
    common_methods_invocations,
    common_mkldnn,
    common_nn,
)


def tf32_is_not_fp32() -> bool:
    return False


def bf32_on_and_off(bf32_precision: float = 1e-5) -> Callable[[Any], Any]:
    return lambda test: test


def create_nested_block_mask(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError("this torch has no create_nested_block_mask")


def skip_ops(*args: Any) -> Callable[[Any], Any]:
    """Return the decorator of the installed torch, which takes the marks only and ignores those of unknown OpInfos."""
    return common_device_type.skipOps(args[-1])


NAMES: tuple[tuple[Any, str, Any], ...] = (
    (common_cuda, "tf32_is_not_fp32", tf32_is_not_fp32),
    (common_mkldnn, "bf32_on_and_off", bf32_on_and_off),
    (common_nn, "new_module_tests", []),  # of tests on the host
    (common_methods_invocations, "binary_ufuncs_and_refs", common_methods_invocations.binary_ufuncs),
    (common_methods_invocations, "skip", common_device_type.skip),
    (common_methods_invocations, "xfail", common_device_type.xfail),
    (common_methods_invocations, "skipOps", skip_ops),
    (flex_attention, "create_nested_block_mask", create_nested_block_mask),
)


def restore(folder: Path) -> None:
    """Put the names into the modules that lack them, and into functorch's module of helpers in the suite's folder.

    A class of tests for the CPU and for CUDA becomes one for all devices.
    """
    for module, name, value in NAMES:
        if not hasattr(module, name):
            setattr(module, name, value)
    if (folder / "common_utils.py").is_file():
        sys.path.insert(0, str(folder))
        helpers: Any = importlib.import_module("common_utils")
        helpers.skipOps = skip_ops
    device_types: Any = common_device_type
    device_types.instantiate_device_type_tests = for_all_devices(device_types.instantiate_device_type_tests)


def for_all_devices(instantiate: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(instantiate)
    def instantiate_for_all(*args: Any, only_for: Any = None, **kwargs: Any) -> None:
        lists_both = only_for is not None and {"cpu", "cuda"} <= set(only_for)
        instantiate(*args, only_for=None if lists_both else only_for, **kwargs)

    return instantiate_for_all
