# SPDX-License-Identifier: BSD-3-Clause
"""torch.autocast on the device: CUDA's policies, eagerly and in exported graphs. GradScaler: test_grad_scaler.py."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch.testing._internal.autocast_test_lists import AutocastTestLists, TestAutocast
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase, parametrize
from torch.utils.checkpoint import checkpoint

import torch_atalla

HALVES = (torch.float16, torch.bfloat16)
CUDNN = ("cudnn_convolution", "cudnn_convolution_transpose")
# "equal" of two dtypes is an error here, as on the CPU; upstream's entry of einsum is no valid call.
LEFT_OUT = (*CUDNN, "equal", "einsum")


class TestAutocastPolicies(TestAutocast):
    """Upstream's lists of ops: the result's dtype, and the value of the same op on arguments cast by hand."""

    def run_list(self, device, name, run_as, module, amp_dtype=torch.float16):
        entries = getattr(AutocastTestLists(torch.device(device)), name)
        self.assertGreater(len(entries), 0)
        for entry in entries:
            if entry[0] in LEFT_OUT:
                continue
            op, args, kwargs = self.args_maybe_kwargs(entry)
            out_type = None
            if name.endswith("builtin_promote"):
                out_type, kwargs = entry[2], {}
            with self.subTest(op=op):
                self._run_autocast_outofplace(
                    op,
                    args,
                    run_as,
                    device=torch.device(device).type,
                    out_type=out_type,
                    module=module,
                    add_kwargs=kwargs,
                    amp_dtype=amp_dtype,
                )

    @parametrize("amp_dtype", HALVES)
    @parametrize("name,module", [("torch_fp16", torch), ("nn_fp16", torch._C._nn), ("linalg_fp16", torch._C._linalg),
                                 ("methods_fp16", None)])  # fmt: skip
    def test_lower_precision(self, device, name, module, amp_dtype):
        self.run_list(device, name, amp_dtype, module, amp_dtype)

    @parametrize("name,module", [("torch_fp32", torch), ("nn_fp32", torch._C._nn), ("methods_fp32", None)])
    def test_single_precision(self, device, name, module):
        self.run_list(device, name, torch.float32, module)

    @parametrize(
        "name,module",
        [("torch_need_autocast_promote", torch), ("torch_expect_builtin_promote", torch),
         ("methods_expect_builtin_promote", None)],
    )  # fmt: skip
    def test_widest_input(self, device, name, module):
        self.run_list(device, name, torch.float32, module)

    def test_banned(self, device):
        for op, args, module in AutocastTestLists(torch.device(device)).banned:
            with torch.autocast("atalla"), self.assertRaisesRegex(RuntimeError, "unsafe to autocast"):
                getattr(module, op)(*args)

    def test_policies_are_cudas(self, device):
        """Each op that has a policy on CUDA has one here, and no other op has."""

        def policies(key):
            names = torch._C._dispatch_get_all_op_names()
            aten = (name for name in names if not name.startswith("torchvision::"))  # once that library is imported
            return {name for name in aten if torch._C._dispatch_has_kernel_for_dispatch_key(name, key)}

        cuda, atalla = policies("AutocastCUDA"), policies("AutocastPrivateUse1")
        self.assertGreater(len(atalla), 100)
        extra = {f"aten::{name}" for name in CUDNN}
        self.assertEqual({n for n in cuda - atalla if n not in extra and not n.startswith("aten::_cudnn_rnn")}, set())
        self.assertEqual(atalla - cuda, set())


class TestAutocastMode(TestCase):
    def test_defaults(self, device):
        self.assertTrue(torch.amp.is_autocast_available("atalla"))
        self.assertEqual(torch.get_autocast_dtype("atalla"), torch.float16)
        self.assertFalse(torch.is_autocast_enabled("atalla"))
        a = torch.randn(4, 4, device=device)
        with torch.autocast("atalla"):
            self.assertTrue(torch.is_autocast_enabled("atalla"))
            self.assertFalse(torch.is_autocast_enabled("cpu"))
            self.assertEqual((a @ a).dtype, torch.float16)
            self.assertEqual((a.cpu() @ a.cpu()).dtype, torch.float32)
        self.assertEqual((a @ a).dtype, torch.float32)

    def test_unsupported_dtype_disables(self, device):
        with self.assertWarnsRegex(UserWarning, "target dtype is not supported"):
            context = torch.autocast("atalla", dtype=torch.float64)
        a = torch.randn(4, 4, device=device)
        with context:
            self.assertEqual((a @ a).dtype, torch.float32)

    def test_nesting(self, device):
        a = torch.randn(4, 4, device=device)
        with torch.autocast("atalla", dtype=torch.float16):
            with torch.autocast("atalla", dtype=torch.bfloat16):
                self.assertEqual((a @ a).dtype, torch.bfloat16)
                with torch.autocast("atalla", enabled=False):
                    self.assertEqual((a @ a).dtype, torch.float32)
                self.assertEqual((a @ a).dtype, torch.bfloat16)
            self.assertEqual((a @ a).dtype, torch.float16)
        self.assertFalse(torch.is_autocast_enabled("atalla"))

    def test_left_by_an_exception(self, device):
        with self.assertRaises(KeyError), torch.autocast("atalla", dtype=torch.bfloat16):
            raise KeyError
        self.assertFalse(torch.is_autocast_enabled("atalla"))
        self.assertEqual(torch.get_autocast_dtype("atalla"), torch.float16)

    def test_types_that_stay(self, device):
        """Doubles, integers and complex numbers are not cast."""
        double = torch.randn(4, 4, device=device, dtype=torch.double)
        integer = torch.ones(4, 4, device=device, dtype=torch.int64)
        with torch.autocast("atalla"):
            self.assertEqual((double @ double).dtype, torch.double)
            self.assertEqual((integer @ integer).dtype, torch.int64)
            self.assertEqual(torch.sum(double).dtype, torch.double)
            self.assertEqual(torch.sum(integer).dtype, torch.int64)
            single = torch.randn(4, 4, device=device)
            out = torch.empty(4, 4, device=device)
            self.assertEqual(torch.mm(single, single, out=out).dtype, torch.float32)
            self.assertEqual(torch.softmax(single.half(), 0, dtype=torch.float16).dtype, torch.float16)

    def test_decorator_and_namespace(self, device):
        a = torch.randn(4, 4, device=device)

        @torch.autocast("atalla", dtype=torch.bfloat16)
        def product(x):
            return x @ x

        self.assertEqual(product(a).dtype, torch.bfloat16)
        with torch.atalla.amp.autocast():
            self.assertEqual((a @ a).dtype, torch.float16)
        self.assertEqual(torch.atalla.amp.autocast(dtype=torch.bfloat16)(lambda: a @ a)().dtype, torch.bfloat16)
        self.assertIsInstance(torch.atalla.amp.GradScaler(), torch.amp.GradScaler)

    def launches(self, device):
        return torch_atalla.telemetry.counters(torch.device(device).index or 0).launches

    def test_cache_of_weights(self, device):
        weight = torch.randn(8, 8, device=device, requires_grad=True)
        x = torch.randn(8, 8, device=device, dtype=torch.float16)

        def count(**options):
            with torch.autocast("atalla", **options):
                before = self.launches(device)
                for _ in range(3):
                    x @ weight
                return self.launches(device) - before

        self.assertEqual(count(), 3 + 1)
        self.assertEqual(count(cache_enabled=False), 3 + 3)
        with torch.autocast("atalla"), torch.no_grad():
            x @ weight

    def test_cache_does_not_leak(self, device):
        weight = torch.randn(8, 8, device=device, requires_grad=True)
        with torch.autocast("atalla"):
            weight @ weight
            inside = torch.atalla.memory_allocated(device)
        self.assertEqual(torch.atalla.memory_allocated(device), inside - 512)

    def test_backward(self, device):
        """Gradients arrive in the parameters' dtype and are those of a hand-cast model."""
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(device)
        x, target = torch.randn(5, 8, device=device), torch.randint(4, (5,), device=device)
        for dtype in HALVES:
            with torch.autocast("atalla", dtype=dtype):
                out = model(x)
                self.assertEqual(out.dtype, dtype)
                loss = F.cross_entropy(out, target)
                self.assertEqual(loss.dtype, torch.float32)
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            half = copy.deepcopy(model).to(dtype)
            other = F.cross_entropy(half(x.to(dtype)).float(), target)
            for got, want in zip(gradients, torch.autograd.grad(other, list(half.parameters()))):
                self.assertEqual(got.dtype, torch.float32)
                self.assertEqual(got, want.float(), rtol=0.02, atol=2e-3)

    @parametrize("dtype", HALVES)
    @parametrize("kind", ["LSTM", "GRU", "RNN"])
    def test_recurrent_modules(self, device, kind, dtype):
        torch.manual_seed(0)
        module = getattr(torch.nn, kind)(6, 8, num_layers=2, bidirectional=True).to(device)
        x = torch.randn(5, 3, 6, device=device, requires_grad=True)
        with torch.autocast("atalla", dtype=dtype):
            y, _ = module(x)
            loss = y.float().square().sum()
        self.assertEqual(y.dtype, dtype)
        gradients = torch.autograd.grad(loss, [x, *module.parameters()])
        exact, _ = module(x)
        self.assertEqual(y.float(), exact, atol=0.02, rtol=0.05)
        want = torch.autograd.grad(exact.square().sum(), [x, *module.parameters()])
        for a, b in zip(gradients, want):
            self.assertEqual(a, b, atol=0.1, rtol=0.1)

    def test_custom_function(self, device):
        class Product(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type="atalla")
            def forward(ctx, a, b):
                ctx.save_for_backward(a, b)
                ctx.enabled = torch.is_autocast_enabled("atalla")
                return a @ b

            @staticmethod
            @torch.amp.custom_bwd(device_type="atalla")
            def backward(ctx, g):
                assert torch.is_autocast_enabled("atalla") == ctx.enabled
                a, b = ctx.saved_tensors
                return g @ b.t(), a.t() @ g

        a = torch.randn(4, 4, device=device, requires_grad=True)
        with torch.autocast("atalla", dtype=torch.bfloat16):
            out = Product.apply(a, a)
            self.assertEqual(out.dtype, torch.bfloat16)
            loss = out.sum()
        loss.backward()
        self.assertEqual(a.grad.dtype, torch.float32)

    def test_custom_function_with_cast_inputs(self, device):
        seen = []

        class Product(torch.autograd.Function):
            @staticmethod
            @torch.atalla.amp.custom_fwd(cast_inputs=torch.float32)
            def forward(ctx, a, other):
                seen.append((a.dtype, other["b"].dtype, torch.is_autocast_enabled("atalla")))
                ctx.save_for_backward(a)
                return a @ a

            @staticmethod
            @torch.atalla.amp.custom_bwd
            def backward(ctx, g):
                seen.append(torch.is_autocast_enabled("atalla"))
                (a,) = ctx.saved_tensors
                return g @ a.t() + a.t() @ g, None

        a = torch.randn(4, 4, device=device, dtype=torch.float16, requires_grad=True)
        with torch.autocast("atalla"):
            Product.apply(a, {"b": a.detach()}).sum().backward()
        self.assertEqual(seen, [(torch.float32, torch.float32, False), False])
        self.assertEqual(a.grad.dtype, torch.float16)
        Product.apply(a, {"b": a.detach()})
        self.assertEqual(seen[-1], (torch.float16, torch.float16, False))

    @parametrize("use_reentrant", [True, False])
    def test_checkpoint(self, device, use_reentrant):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 8)).to(device)
        x = torch.randn(4, 8, device=device, requires_grad=True)
        seen = []
        model[0].register_forward_hook(lambda module, args, out: seen.append(out.dtype))

        def gradients(run):
            torch.atalla.manual_seed(3)
            leaves = [x, *model.parameters()]
            for leaf in leaves:
                leaf.grad = None
            with torch.autocast("atalla", dtype=torch.bfloat16):
                loss = run(x).float().square().sum()
            loss.backward()
            return [leaf.grad for leaf in leaves]

        want = gradients(model)
        got = gradients(lambda t: checkpoint(model, t, use_reentrant=use_reentrant))
        self.assertEqual(seen, [torch.bfloat16] * 3)
        for a, b in zip(got, want):
            self.assertEqual(a, b, atol=0, rtol=0)


class Net(torch.nn.Module):
    """A layer in half precision, one that is not, and a norm, which is not by policy."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)
        self.norm = torch.nn.LayerNorm(16)

    def forward(self, x):
        with torch.autocast("atalla", dtype=self.dtype):
            h = self.norm(F.gelu(self.first(x)))
            with torch.autocast("atalla", enabled=False):
                h = h.float() * 2
            y = self.second(h)
        return y, h


class TestAutocastGraph(TestCase):
    @parametrize("dtype", HALVES)
    def test_captured(self, device, dtype):
        """Casts of weights and inputs are recorded: a replay takes what stands in them then."""
        model = Net(dtype).to(device).eval()
        x = torch.randn(3, 8, device=device)
        graph = torch.atalla.Graph()
        with torch.no_grad():
            with torch.atalla.graph(graph):
                captured = model(x)
            for _ in range(2):
                x.copy_(torch.randn(3, 8))
                graph.replay()
                for a, b in zip(captured, model(x)):
                    self.assertEqual(a, b, atol=0, rtol=0)


class TestAutocastExport(TestCase):
    @parametrize("strict", [True, False])
    @parametrize("dtype", HALVES)
    def test_exported_and_saved(self, device, dtype, strict):
        torch.manual_seed(0)
        model = Net(dtype).to(device).eval()
        x = torch.randn(3, 8, device=device)
        want = model(x)
        self.assertEqual([t.dtype for t in want], [dtype, torch.float32])
        program = torch.export.export(model, (x,), strict=strict)
        self.assertIn("autocast", str(program.graph))
        for a, b in zip(program.module()(x), want):
            self.assertEqual(a, b, atol=0, rtol=0)
        decomposed = program.run_decompositions()
        self.assertNotIn("autocast", str(decomposed.graph))
        self.assertIn("_to_copy", str(decomposed.graph))
        for a, b in zip(decomposed.module()(x), want):
            self.assertEqual(a, b, atol=2e-2, rtol=2e-2)
        path = self.temporary()
        report = torch_atalla.save_loadable(program, path, fallback="error")
        self.assertEqual(report.coverage_ops, 1.0)
        for a, b in zip(torch_atalla.load_loadable(path, device=device)(x), want):
            self.assertEqual(a, b, atol=0, rtol=0)

    def test_module_saved_under_autocast(self, device):
        """save_loadable exports the module itself."""
        model = Net(torch.float16).to(device).eval()
        x = torch.randn(2, 8, device=device)
        path = self.temporary()
        torch_atalla.save_loadable(model, path, args=(x,), fallback="error")
        for a, b in zip(torch_atalla.load_loadable(path, device=device)(x), model(x)):
            self.assertEqual(a, b, atol=0, rtol=0)

    def temporary(self):
        import tempfile

        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return f"{folder.name}/model.atl"


instantiate_device_type_tests(TestAutocastPolicies, globals(), only_for=("atalla",))
instantiate_device_type_tests(TestAutocastMode, globals(), only_for=("atalla",))
instantiate_device_type_tests(TestAutocastGraph, globals(), only_for=("atalla",))
instantiate_device_type_tests(TestAutocastExport, globals(), only_for=("atalla",))


def test_count() -> None:
    tests = [n for c in list(globals().values()) if isinstance(c, type) and issubclass(c, TestCase) for n in dir(c)]
    assert sum(name.startswith("test_") for name in tests) >= 30
