# SPDX-License-Identifier: BSD-3-Clause
"""Every op of upstream's database compiled by torch.compile's backend `atalla`: eager mode's values and gradients."""

from __future__ import annotations

import contextlib
import itertools
import unittest
from unittest import mock

import torch
from torch._subclasses.fake_utils import CrossRefFakeMode
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TEST_WITH_SLOW, TestCase, run_tests
from torch.utils import _pytree as pytree

SAMPLES = 2  # of each op

# Ops that Dynamo does not take into one graph, on any device, and why.
_VALUES = "Python is given a number that depends on the data"
_SIZES = "the size of a result depends on the data"
_RESIZES = "Dynamo does not trace what changes the size of a tensor"
BREAKS = {
    **dict.fromkeys(("allclose", "corrcoef", "cov", "equal", "item", "nn.functional.gaussian_nll_loss"), _VALUES),
    **dict.fromkeys(("linalg.lstsq", "nn.functional.ctc_loss", "tensor_split"), _SIZES),
    **dict.fromkeys(("resize_", "resize_as_"), _RESIZES),
}
# Dynamo or AOTAutograd traces other ops than eager mode runs: these have the bits of the graph run op by op.
RETRACED = {"addcdiv", "prod"}
# Results whose values nobody wrote.
UNWRITTEN = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
# Ops that are not compared, and why.
EXCLUDED: dict[str, str] = {
    "linalg.eig": "its gradient is defined up to the phase of the vectors",
    "resize_": "the elements beyond the input's are not written",
    "resize_as_": "the elements beyond the input's are not written",
    "sparse.sampled_addmm": "sparse tensors are not supported on the device",
    "to_sparse": "sparse tensors are not supported on the device",
}

OPS = [op for op in op_db if torch.float32 in op.dtypes]


CHOSEN = OPS if TEST_WITH_SLOW else OPS[::12]


class TestCompiledOps(TestCase):
    @ops(CHOSEN, allowed_dtypes=(torch.float32,))
    def test_compiled(self, device, dtype, op):
        if op.name in EXCLUDED:
            raise unittest.SkipTest(EXCLUDED[op.name])
        samples = op.sample_inputs(device, dtype, requires_grad=op.supports_autograd)
        # Upstream seeds the generator inside of ops that draw, which Dynamo does not trace; here compare() does so.
        with mock.patch.object(common_methods_invocations, "wrapper_set_seed", lambda op, *a, **k: op(*a, **k)):
            for sample in itertools.islice(samples, SAMPLES):
                self.compare(op, sample)

    def compare(self, op, sample):
        torch._dynamo.reset()

        def call(*args):
            given, args, kwargs = pytree.tree_unflatten(args, structure)
            return op(given, *args, **kwargs)

        leaves, structure = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        whole = op.name not in BREAKS
        torch.manual_seed(1)
        # Every op's fake result is compared with the real one: what is compiled relies on their sizes and strides.
        with CrossRefFakeMode(check_strides=True, check_aliasing=False) if whole else contextlib.nullcontext():
            expected = run(call, leaves)
        if op.name in RETRACED:
            expected = run(torch.compile(call, backend="aot_eager"), leaves)
        torch._dynamo.reset()
        torch.manual_seed(1)
        found = run(torch.compile(call, backend="atalla", fullgraph=whole), leaves)
        self.assertEqual(len(found), len(expected))
        for a, b in zip(found, expected):
            if not isinstance(b, torch.Tensor):
                self.assertEqual(a, b)
                continue
            self.assertEqual((a.shape, a.dtype, a.device), (b.shape, b.dtype, b.device))
            if op.name not in UNWRITTEN:
                self.assertEqual(a, b, rtol=0, atol=0, equal_nan=True)


def run(function, leaves):
    """Results, then gradients."""
    given = [x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in leaves]
    results = pytree.tree_leaves(function(*given))
    wanted = [x for x in given if isinstance(x, torch.Tensor) and x.requires_grad]
    sources = [y for y in results if isinstance(y, torch.Tensor) and y.requires_grad]
    gradients = []
    if wanted and sources:
        cotangents = [torch.ones_like(y) for y in sources]
        gradients = torch.autograd.grad(sources, wanted, cotangents, allow_unused=True)
    return [*(y.detach() if isinstance(y, torch.Tensor) else y for y in results), *gradients]


def test_count() -> None:
    assert len(CHOSEN) >= (670 if TEST_WITH_SLOW else 55)


instantiate_device_type_tests(TestCompiledOps, globals(), only_for=("atalla",))


if __name__ == "__main__":
    run_tests()
