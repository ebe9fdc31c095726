# SPDX-License-Identifier: BSD-3-Clause
"""Every op of upstream's database compiled by torch.compile's backend `atalla`: eager mode's values and gradients."""

from __future__ import annotations

import contextlib
import itertools
import unittest

import torch
from torch._subclasses.fake_utils import CrossRefFakeMode
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TEST_WITH_SLOW, TestCase, run_tests
from torch.utils import _pytree as pytree

SAMPLES = 2  # of each op

# Dynamo does not take these into one graph, because of the op or of what the sample's function does around it.
BREAKS = {
    *("multinomial", "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "normal", "uniform", "randn"),
    *("rand_like", "randint", "randint_like", "randn_like", "pca_lowrank", "svd_lowrank", "empty_permuted"),
    *("nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d"),
    *("nn.functional.feature_alpha_dropout", "nn.functional.fractional_max_pool2d", "nn.functional.rrelu"),
    *("nn.functional.fractional_max_pool3d", "nn.functional.multi_head_attention_forward", "empty_strided"),
    *("nn.functional.scaled_dot_product_attention", "nn.functional.ctc_loss", "nn.functional.gaussian_nll_loss"),
    *("allclose", "equal", "item", "corrcoef", "cov", "linalg.lstsq", "tensor_split", "resize_", "resize_as_"),
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


class TestCompiledOps(TestCase):
    @ops(OPS if TEST_WITH_SLOW else OPS[::12], allowed_dtypes=(torch.float32,))
    def test_compiled(self, device, dtype, op):
        if op.name in EXCLUDED:
            raise unittest.SkipTest(EXCLUDED[op.name])
        samples = op.sample_inputs(device, dtype, requires_grad=op.supports_autograd)
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


instantiate_device_type_tests(TestCompiledOps, globals(), only_for=("atalla",))


if __name__ == "__main__":
    run_tests()
