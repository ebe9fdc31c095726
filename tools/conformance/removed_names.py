# SPDX-License-Identifier: BSD-3-Clause
"""Names that upstream's test files import and that are not installed, and devices that the files do not list."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import sys
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

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


def restore(suite: Path) -> None:
    """Put the names into the modules that lack them, and into functorch's module of helpers beside the suite's file.

    A class of tests for the CPU and for CUDA becomes one for all devices, and a sample has one context
    if the suite's file unpacks one.
    """
    folder = suite.parent
    for module, name, value in NAMES:
        if not hasattr(module, name):
            setattr(module, name, value)
    if (folder / "common_utils.py").is_file():
        sys.path.insert(0, str(folder))
        helpers: Any = importlib.import_module("common_utils")
        helpers.skipOps = skip_ops
        known = {(info.name, info.variant_test_name) for info in helpers.op_db + helpers.additional_op_db}
        override_tolerances = helpers.opsToleranceOverride
        helpers.opsToleranceOverride = lambda case, test, overrides: override_tolerances(
            case, test, [override for override in overrides if tuple(override[:2]) in known]
        )
    op_info: Any = common_methods_invocations.OpInfo
    if "skip_xfail_ctx" not in suite.read_text():
        op_info._sample_callback_fn = with_one_context(op_info._sample_callback_fn)
    if importlib.util.find_spec("hypothesis") is None:
        sys.modules |= modules_without_hypothesis()
    device_types: Any = common_device_type
    device_types.instantiate_device_type_tests = for_all_devices(device_types.instantiate_device_type_tests)


def modules_without_hypothesis() -> dict[str, ModuleType]:
    """Return modules for the import of a suite of which single tests draw their inputs with hypothesis."""
    hypothesis: Any = ModuleType("hypothesis")
    hypothesis.given = lambda *args, **kwargs: unittest.skip("hypothesis is not installed")
    strategies: Any = mock.MagicMock()
    return {"hypothesis": hypothesis, "torch.testing._internal.hypothesis_utils": strategies}


def with_one_context(callback_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function for loops over (sample, context), where the installed torch has two contexts per sample."""

    @functools.wraps(callback_fn)
    def with_context(*args: Any) -> Any:
        callback = callback_fn(*args)
        if callback is None:
            return None

        def pair(*sample_and_index: Any) -> tuple[Any, Any]:
            sample, *contexts = callback(*sample_and_index)

            @contextlib.contextmanager
            def entered(test: Any) -> Iterator[None]:
                with contextlib.ExitStack() as stack:
                    for context in contexts:
                        stack.enter_context(context(test))
                    yield

            return sample, entered

        return pair

    return with_context


def for_all_devices(instantiate: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(instantiate)
    def instantiate_for_all(tests: type, *args: Any, only_for: Any = None, **kwargs: Any) -> None:
        for name in ("setUp", "tearDown"):
            method = vars(tests).get(name)
            # super(self.__class__, self) is the method itself in a derived class. Such methods set switches of CUDA.
            if method is not None and "__class__" in method.__code__.co_names:
                delattr(tests, name)
        lists_both = only_for is not None and {"cpu", "cuda"} <= set(only_for)
        instantiate(tests, *args, only_for=None if lists_both else only_for, **kwargs)

    return instantiate_for_all
