# SPDX-License-Identifier: BSD-3-Clause
"""Features of autograd in training code: checkpointing, hooks, saved tensors, parametrizations, subclasses, modes."""

from __future__ import annotations

import gc
import weakref

import torch
import torch.nn.functional as F
from opinfo_suite import DeviceTestCase, collected
from torch.autograd.graph import GradientEdge, get_gradient_edge, save_on_cpu, saved_tensors_hooks
from torch.testing._internal import common_utils
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode


def make_model(device, seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 16), torch.nn.Dropout(0.3), torch.nn.ReLU(), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 2)
    ).to(device)


def backward(model, loss, *inputs):
    for leaf in (*inputs, *model.parameters()):
        leaf.grad = None
    loss.backward()
    return [leaf.grad for leaf in (*inputs, *model.parameters())]


class TestCheckpoint(DeviceTestCase):
    @common_utils.parametrize("use_reentrant", [True, False])
    @common_utils.parametrize("preserve", [True, False])
    def test_gradients(self, device, use_reentrant, preserve):
        """Dropout draws the same numbers when the forward pass runs again, if the generator's state is preserved."""
        model, x = make_model(device), torch.randn(8, 4, device=device, requires_grad=True)

        def run(f):
            torch.atalla.manual_seed(1)
            return backward(model, f(x).square().sum(), x), torch.atalla.get_rng_state(device)

        options = {"use_reentrant": use_reentrant, "preserve_rng_state": preserve}
        (want, state), (got, after) = run(model), run(lambda t: checkpoint(model, t, **options))
        equal = all(torch.equal(a, b) for a, b in zip(got, want))
        self.assertEqual(equal, preserve)
        self.assertEqual(torch.equal(state, after), preserve)

    def test_two_devices(self, device):
        """The states of all devices that the arguments live on are kept."""
        a = torch.ones(32, device="atalla:0", requires_grad=True)
        b = torch.ones(32, device="atalla:1", requires_grad=True)

        def f(a, b):
            return F.dropout(a).sum().to("atalla:1") + (F.dropout(b) * b).sum()

        results = []
        for run in (f, lambda *t: checkpoint(f, *t, use_reentrant=False)):
            torch.atalla.manual_seed_all(3)
            results.append(torch.autograd.grad(run(a, b), (a, b)))
        for got, want in zip(*results):
            self.assertEqual(got, want, atol=0, rtol=0)

    def test_saves_memory(self, device):
        layers = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh()) for _ in range(8)))
        layers, x = layers.to(device), torch.randn(4096, 64, device=device, requires_grad=True)
        held = []
        for run in (layers, lambda t: checkpoint_sequential(layers, 4, t, use_reentrant=False)):
            before = torch.atalla.memory_allocated(device)
            loss = run(x).sum()
            held.append(torch.atalla.memory_allocated(device) - before)
            loss.backward()
            del loss
        self.assertLess(held[1], 0.7 * held[0])

    def test_early_stop_and_context(self, device):
        x = torch.randn(4, device=device, requires_grad=True)
        calls = []

        def f(t):
            y = t.sin().exp()
            calls.append(1)
            return y + 1

        with set_checkpoint_early_stop(True):
            checkpoint(f, x, use_reentrant=False).sum().backward()
        self.assertEqual(len(calls), 1)
        self.assertEqual(x.grad, x.cos() * x.sin().exp())

    def test_selective(self, device):
        from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

        ran = []

        class Watch(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                ran.append(func)
                return func(*args, **(kwargs or {}))

        def policy(ctx, op, *args, **kwargs):
            keep = op is torch.ops.aten.mm.default
            return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

        w = torch.randn(4, 4, device=device, requires_grad=True)
        out = checkpoint(
            lambda t: (t @ t).sin() * 2,
            w,
            use_reentrant=False,
            context_fn=lambda: create_selective_checkpoint_contexts(policy),
        )
        with Watch():
            (got,) = torch.autograd.grad(out.sum(), w)
        self.assertEqual(got, torch.autograd.grad(((w @ w).sin() * 2).sum(), w)[0])
        self.assertEqual(ran.count(torch.ops.aten.mm.default), 2)  # the two gradients, no recomputation


class TestSavedTensors(DeviceTestCase):
    def test_hooks(self, device):
        x = torch.randn(4, device=device, requires_grad=True)
        packed = []

        def pack(t):
            packed.append(t.device)
            return t.double()

        with saved_tensors_hooks(pack, lambda t: t.float()):
            y = (x * x.exp()).sum()
        y.backward()
        self.assertGreaterEqual(len(packed), 2)
        self.assertEqual(set(packed), {x.device})
        self.assertEqual(x.grad, (x.exp() * (1 + x)).detach())

    @common_utils.parametrize("pin_memory", [False, True])
    def test_save_on_cpu(self, device, pin_memory):
        if pin_memory and not can_pin():
            self.skipTest("no pinned memory")
        x = torch.randn(1 << 16, device=device, requires_grad=True)
        before = torch.atalla.memory_allocated(device)
        with save_on_cpu(pin_memory=pin_memory, device_type="atalla"):
            y = x
            for _ in range(4):
                y = y.sin()
            y = y.sum()
        self.assertLess(torch.atalla.memory_allocated(device) - before, 2 * x.nbytes)
        (got,) = torch.autograd.grad(y, x)
        self.assertEqual(got, torch.autograd.grad(x.sin().sin().sin().sin().sum(), x)[0], atol=0, rtol=0)

    def test_freed_and_modified(self, device):
        x = torch.randn(4, device=device, requires_grad=True)
        y = x.exp()
        y.add_(1)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            y.sum().backward()
        z = x.exp().sum()
        z.backward()
        with self.assertRaisesRegex(RuntimeError, "backward through the graph a second time"):
            z.backward()


def can_pin():
    try:
        return torch.empty(1).pin_memory().is_pinned()
    except (RuntimeError, NotImplementedError):
        return False


class TestHooks(DeviceTestCase):
    def test_tensor_hooks(self, device):
        x = torch.ones(3, device=device, requires_grad=True)
        seen = []
        x.register_hook(lambda g: g * 2)
        x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
        y = x * 3
        handle = y.register_hook(lambda g: g + 1)
        y.sum().backward()
        self.assertEqual(x.grad, torch.full_like(x, 12.0))
        self.assertEqual(seen[0], x.grad)
        handle.remove()
        x.grad = None
        (x * 3).sum().backward()
        self.assertEqual(x.grad, torch.full_like(x, 6.0))

    def test_node_hooks(self, device):
        x = torch.ones(3, device=device, requires_grad=True)
        y = x.exp()
        seen = []
        y.grad_fn.register_prehook(lambda gs: seen.append("before"))
        y.grad_fn.register_hook(lambda inputs, outputs: seen.append("after"))
        y.sum().backward()
        self.assertEqual(seen, ["before", "after"])

    def test_module_hooks(self, device):
        layer = torch.nn.Linear(3, 3).to(device)
        seen = []
        layer.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
        layer.register_forward_hook(lambda module, args, out: out + 1)
        layer.register_full_backward_pre_hook(lambda module, gs: seen.append("before"))
        layer.register_full_backward_hook(lambda module, inputs, outputs: seen.append("after"))
        x = torch.randn(2, 3, device=device, requires_grad=True)
        out = layer(x)
        self.assertEqual(out, F.linear(2 * x, layer.weight, layer.bias) + 1)
        out.sum().backward()
        self.assertEqual(seen, ["before", "after"])

    def test_multi_grad_hook(self, device):
        x, y = (torch.ones(3, device=device, requires_grad=True) for _ in range(2))
        a, b = x * 2, y * 3
        seen = []
        torch.autograd.graph.register_multi_grad_hook((a, b), lambda gs: seen.append([g.device for g in gs]))
        (a * b).sum().backward()
        self.assertEqual(seen, [[x.device, x.device]])

    def test_gradient_edge(self, device):
        x = torch.ones(3, device=device, requires_grad=True)
        y = x * 2
        edge = get_gradient_edge(y)
        self.assertIsInstance(edge, GradientEdge)
        z = y.exp().sum()
        self.assertEqual(torch.autograd.grad(z, edge, retain_graph=True)[0], y.exp())
        got = torch.autograd.grad(get_gradient_edge(z), x, torch.ones((), device=device))
        self.assertEqual(got[0], 2 * y.exp())

    def test_queued_callbacks_and_threads(self, device):
        seen = []

        class Note(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, g):
                torch.autograd.Variable._execution_engine.queue_callback(lambda: seen.append("end"))
                return g

        x = torch.ones(3, device=device, requires_grad=True)
        Note.apply(x).sum().backward()
        self.assertEqual(seen, ["end"])

    def test_two_devices(self, device):
        a = torch.ones(3, device="atalla:0", requires_grad=True)
        b = torch.ones(3, device="atalla:1", requires_grad=True)
        (a.to("atalla:1") * b * 2).cpu().sum().backward()
        self.assertEqual((a.grad.device, b.grad.device), (a.device, b.device))
        self.assertEqual(a.grad.cpu(), torch.full((3,), 2.0))


class TestFunctions(DeviceTestCase):
    def test_function(self, device):
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, k):
                ctx.k = k
                ctx.mark_dirty(x)
                return x.mul_(k)

            @staticmethod
            @torch.autograd.function.once_differentiable
            def backward(ctx, g):
                return g * ctx.k, None

        x = torch.ones(3, device=device, requires_grad=True)
        y = Scale.apply(x.clone(), 4.0)
        y.sum().backward()
        self.assertEqual(x.grad, torch.full_like(x, 4.0))

    def test_double_backward(self, device):
        x = torch.randn(3, device=device, requires_grad=True)
        (g,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
        self.assertEqual(h, 6 * x)
        self.assertEqual(torch.autograd.functional.hessian(lambda t: t.pow(3).sum(), x), torch.diag(6 * x))

    def test_gradcheck(self, device):
        def make(*shape):
            return torch.rand(*shape, device=device, dtype=torch.double).add_(0.5).requires_grad_()

        for f, inputs in (
            (torch.mm, (make(3, 4), make(4, 2))),
            (lambda x: x.softmax(-1), (make(3, 4),)),
            (lambda x, w: F.conv2d(x, w, padding=1), (make(1, 2, 3, 3), make(2, 2, 3, 3))),
            (lambda x: F.layer_norm(x, (4,)), (make(3, 4),)),
            (torch.linalg.inv, (torch.eye(3, device=device, dtype=torch.double).mul_(3).requires_grad_(),)),
            (lambda x: x.log().cumsum(0), (make(4),)),
        ):
            self.assertTrue(torch.autograd.gradcheck(f, inputs, check_forward_ad=True, check_batched_grad=True))
        self.assertTrue(torch.autograd.gradgradcheck(lambda x: x.exp().sin(), (make(3),)))

    def test_anomaly(self, device):
        x = torch.zeros(3, device=device, requires_grad=True)
        with torch.autograd.detect_anomaly(check_nan=True), self.assertRaisesRegex(RuntimeError, "nan values"):
            (x.sqrt() * x).sum().backward()

    def test_inference_mode(self, device):
        with torch.inference_mode():
            y = torch.ones(3, device=device) * 2
        self.assertTrue(y.is_inference())
        with self.assertRaisesRegex(RuntimeError, "Inference tensors cannot be saved"):
            (torch.ones(3, device=device, requires_grad=True) * y).sum()

    def test_graph_is_freed(self, device):
        x = torch.ones(1 << 16, device=device, requires_grad=True)
        gc.collect()  # what earlier tests left in cycles
        before = torch.atalla.memory_allocated(device)
        loss = (x.exp() * x).sum()
        saved = weakref.ref(loss)
        del loss
        gc.collect()
        self.assertIsNone(saved())
        self.assertEqual(torch.atalla.memory_allocated(device), before)


class Logged(torch.Tensor):
    """A subclass by __torch_function__."""

    calls: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Scaled(torch.Tensor):
    """A wrapper by __torch_dispatch__: holds a tensor and shows twice its values."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=inner.device,
            requires_grad=inner.requires_grad,
        )  # fmt: skip

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return f"Scaled({self.inner})"

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(tensors, meta, outer_size, outer_stride):
        return Scaled(tensors["inner"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args, kwargs = tree_map(lambda t: t.inner * 2 if isinstance(t, Scaled) else t, (args, kwargs or {}))
        out = func(*args, **kwargs)
        return tree_map(lambda t: Scaled(t / 2) if isinstance(t, torch.Tensor) else t, out)


class TestSubclassesAndModes(DeviceTestCase):
    def test_torch_function(self, device):
        x = torch.ones(3, device=device).as_subclass(Logged)
        Logged.calls.clear()
        y = (x + 1).exp()
        self.assertIsInstance(y, Logged)
        self.assertEqual(Logged.calls[-2:], ["add", "exp"])
        self.assertEqual(y.as_subclass(torch.Tensor), torch.full((3,), 2.0, device=device).exp())

    def test_torch_dispatch(self, device):
        inner = torch.randn(3, device=device)
        x = Scaled(inner)
        self.assertEqual(x.device, torch.device(device))
        y = x + 1
        self.assertIsInstance(y, Scaled)
        self.assertEqual(y.inner * 2, inner * 2 + 1)
        p = torch.nn.Parameter(Scaled(inner.clone()))
        (p * 3).sum().backward()
        self.assertEqual(p.grad.inner * 2, torch.full_like(inner, 3.0))

    def test_subclass_compiled(self, device):
        x = Scaled(torch.randn(3, device=device))
        y = torch.compile(lambda t: t.sin() + 1, backend="aot_eager")(x)
        self.assertEqual(y.inner, (x.sin() + 1).inner)

    def test_dispatch_mode(self, device):
        seen = []

        class Watch(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                seen.append(str(func))
                return func(*args, **(kwargs or {}))

        with Watch():
            torch.ones(3, device=device).add(1).to("cpu")
        self.assertIn("aten.add.Tensor", seen)
        self.assertIn("aten._to_copy.default", seen)

    def test_function_mode(self, device):
        class Everywhere(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                return func(*args, **(kwargs or {}))

        with Everywhere(), torch.device(device):
            self.assertEqual(torch.ones(3).device, torch.device(device))
            self.assertEqual(torch.nn.Linear(2, 2).weight.device, torch.device(device))

    def test_default_device(self, device):
        torch.set_default_device(device)
        try:
            self.assertEqual(torch.randn(2).device, torch.device(device))
            self.assertEqual(torch.tensor([1]).device, torch.device(device))
        finally:
            torch.set_default_device(None)

    def test_flop_counter(self, device):
        a, w = torch.randn(4, 8, device=device), torch.randn(8, 16, device=device, requires_grad=True)
        x, k = torch.randn(1, 2, 8, 8, device=device), torch.randn(4, 2, 3, 3, device=device)
        q = torch.randn(1, 2, 16, 8, device=device)
        with FlopCounterMode(display=False) as counter:
            (a @ w).sum().backward()
            F.conv2d(x, k)
        self.assertEqual(counter.get_total_flops(), 2 * 2 * 4 * 8 * 16 + 2 * 36 * 4 * 2 * 9)
        with FlopCounterMode(display=False) as counter:
            F.scaled_dot_product_attention(q, q, q)
        self.assertEqual(counter.get_total_flops(), 2 * 2 * 2 * 16 * 16 * 8)


SUITES = (TestCheckpoint, TestSavedTensors, TestHooks, TestFunctions, TestSubclassesAndModes)
NAMES = tuple(suite.__name__ for suite in SUITES)
for suite in SUITES:
    instantiate_device_type_tests(suite, globals(), only_for=("atalla",))
del suite


def test_count() -> None:
    assert sum(collected(globals(), name) for name in NAMES) >= 37
