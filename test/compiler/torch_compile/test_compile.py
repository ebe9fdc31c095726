# SPDX-License-Identifier: BSD-3-Clause
"""FakeTensor, torch.export, torch.compile and Dynamo's device interface with tensors of the device."""

from __future__ import annotations

import copy
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch._dynamo.device_interface import DeviceGuard, get_interface_for_device, get_registered_device_interfaces
from torch._dynamo.testing import CompileCounter, CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase, parametrize

import torch_atalla

BACKENDS = ("eager", "aot_eager")


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(10, 8)
        self.norm = torch.nn.LayerNorm(8)
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        self.conv = torch.nn.Conv1d(8, 8, 3, padding=1)
        self.out = torch.nn.Linear(8, 5)

    def forward(self, ids):
        x = self.norm(self.embed(ids))
        x = x + self.attention(x, x, x, need_weights=False)[0]
        x = x + self.conv(x.transpose(1, 2)).relu().transpose(1, 2)
        return self.out(x)


def make_block(device):
    torch.manual_seed(0)
    return Block().to(device)


class TestFakeTensor(TestCase):
    def test_touches_no_memory(self, device):
        index = torch.device(device).index or 0
        before = torch.atalla.memory_stats(index).get("allocation.all.allocated", 0)
        launches = torch_atalla.telemetry.counters(index).launches
        with FakeTensorMode():
            a = torch.empty(1 << 20, 1 << 12, device=device)  # 16 GiB: more than the device has
            b = (a @ a.t()).softmax(-1).sum()
            self.assertIsInstance(b, FakeTensor)
            self.assertEqual(b.device, torch.device("atalla", index))
            c = torch.randn(3, 4).to(device)
            self.assertEqual(c.device, torch.device("atalla", index))
            self.assertEqual(c.cpu().device, torch.device("cpu"))
            self.assertEqual(torch.nn.Linear(4, 5, device=device)(c).shape, (3, 5))
        self.assertEqual(torch.atalla.memory_stats(index).get("allocation.all.allocated", 0), before)
        self.assertEqual(torch_atalla.telemetry.counters(index).launches, launches)

    def test_from_real(self, device):
        real = torch.randn(4, 3, device=device).t()
        mode = FakeTensorMode()
        fake = mode.from_tensor(real)
        self.assertEqual((fake.device, fake.shape, fake.stride()), (real.device, real.shape, real.stride()))
        self.assertEqual(fake.fake_device, real.device)
        self.assertTrue(fake.is_atalla)
        with mode:
            self.assertEqual(copy.deepcopy(fake).device, real.device)

    def test_device_index(self, device):
        """`atalla` without an index is the current device, in fake mode too."""
        torch.empty(1, device="atalla")
        with torch.atalla.device(1), FakeTensorMode():
            self.assertEqual(torch.empty(2, device="atalla").device, torch.device("atalla:1"))

    def test_mixed_devices_are_refused(self, device):
        with FakeTensorMode():
            a, b = torch.empty(2, device="atalla:0"), torch.empty(2, device="atalla:1")
            with self.assertRaisesRegex(RuntimeError, "on the same device.*atalla:0 and atalla:1"):
                a + b
            self.assertEqual((a + torch.tensor(1.0)).device, a.device)

    @parametrize("op", ["convolution", "attention", "batch_norm", "sort", "cumsum", "max_pool", "lstm", "index"])
    def test_shapes_and_strides_are_eager_modes(self, device, op):
        def run(make):
            if op == "convolution":
                return F.conv2d(make(2, 3, 8, 8).to(memory_format=torch.channels_last), make(4, 3, 3, 3))
            if op == "attention":
                return F.scaled_dot_product_attention(make(2, 2, 6, 8), make(2, 2, 6, 8), make(2, 2, 6, 8))
            if op == "batch_norm":
                return F.batch_norm(make(4, 3, 5), None, None, training=True)
            if op == "sort":
                return make(4, 5).t().sort(0)
            if op == "cumsum":
                return make(4, 5).t().cumsum(1)
            if op == "max_pool":
                return F.max_pool2d(make(2, 3, 8, 8), 2, return_indices=True)
            if op == "lstm":
                return torch.lstm_cell(
                    make(2, 3), (make(2, 4), make(2, 4)), make(16, 3), make(16, 4), make(16), make(16)
                )
            return make(5, 4)[make(3).abs().long()]

        def make(*shape):
            return torch.randn(*shape, device=device)

        real = torch.utils._pytree.tree_leaves(run(make))
        with FakeTensorMode(allow_non_fake_inputs=True):
            fake = torch.utils._pytree.tree_leaves(run(make))
        for a, b in zip(real, fake, strict=True):
            self.assertEqual((a.shape, a.stride(), a.dtype, a.device), (b.shape, b.stride(), b.dtype, b.device))


class TestExport(TestCase):
    @parametrize("strict", [True, False])
    def test_program(self, device, strict):
        model = make_block(device).eval()
        ids = torch.randint(10, (2, 6), device=device)
        program = torch.export.export(model, (ids,), strict=strict)
        self.assertEqual({p.device for p in program.state_dict.values()}, {torch.device(device)})
        want = model(ids)
        self.assertEqual(program.module()(ids), want, atol=1e-6, rtol=1e-5)
        self.assertEqual(copy.deepcopy(program.module())(ids), want, atol=1e-6, rtol=1e-5)
        decomposed = program.run_decompositions()
        self.assertEqual(decomposed.module()(ids), want, atol=1e-5, rtol=1e-5)
        for node in decomposed.graph.nodes:
            if isinstance(node.meta.get("val"), torch.Tensor):
                self.assertEqual(node.meta["val"].device, torch.device(device))

    @parametrize("strict", [True, False])
    def test_loadable(self, device, strict):
        model = make_block(device).eval()
        ids = torch.randint(10, (2, 6), device=device)
        program = torch.export.export(model, (ids,), strict=strict)
        with tempfile.TemporaryDirectory() as folder:
            report = torch_atalla.save_loadable(program, f"{folder}/model.atl", fallback="error")
            self.assertEqual(report.coverage_ops, 1.0)
            loaded = torch_atalla.load_loadable(f"{folder}/model.atl", device=device)
            self.assertEqual(loaded(ids), model(ids), atol=1e-6, rtol=1e-5)
            host = torch.export.export(make_block("cpu").eval(), (ids.cpu(),))
            torch_atalla.save_loadable(host, f"{folder}/host.atl", fallback="error")
            self.assertEqual(torch_atalla.load_loadable(f"{folder}/host.atl", device=device)(ids), loaded(ids))

    def test_tied_weights_are_stored_once(self, device):
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embed, self.out = torch.nn.Embedding(64, 32), torch.nn.Linear(32, 64, bias=False)
                self.out.weight = self.embed.weight

            def forward(self, ids):
                return self.out(self.embed(ids))

        sizes = {}
        for where in ("cpu", device):
            model, ids = Tied().to(where), torch.arange(5, device=where)
            self.assertIs(model.out.weight, model.embed.weight)
            with tempfile.TemporaryDirectory() as folder:
                sizes[where] = torch_atalla.save_loadable(
                    torch.export.export(model, (ids,)), f"{folder}/m.atl", fallback="error"
                ).file_bytes
        # Half of the weight's 8 KiB: the section of weights begins at a multiple of 4096.
        self.assertEqual(sizes["cpu"], sizes[device], atol=4096, rtol=0)

    def test_constants_made_in_forward(self, device):
        class Masked(torch.nn.Module):
            def forward(self, x):
                n = x.shape[-1]
                mask = torch.ones(n, n, device=x.device).tril() > 0
                steps = torch.arange(n, device=x.device, dtype=x.dtype) + torch.tensor([0.5], device=x.device)
                return torch.where(mask, x, steps)

        x = torch.randn(4, 4, device=device)
        program = torch.export.export(Masked(), (x,))
        with tempfile.TemporaryDirectory() as folder:
            torch_atalla.save_loadable(program, f"{folder}/m.atl", fallback="error")
            self.assertEqual(torch_atalla.load_loadable(f"{folder}/m.atl", device=device)(x), Masked()(x))

    @parametrize("strict", [True, False])
    def test_dynamic_shapes(self, device, strict):
        model = torch.nn.Linear(4, 3).to(device)
        batch = torch.export.Dim("batch", min=2, max=64)
        program = torch.export.export(
            model, (torch.randn(5, 4, device=device),), dynamic_shapes=({0: batch},), strict=strict
        )
        for n in (2, 9):
            x = torch.randn(n, 4, device=device)
            self.assertEqual(program.module()(x), model(x))
        with self.assertRaises((RuntimeError, AssertionError)):
            program.module()(torch.randn(65, 4, device=device))

    def test_saved_and_loaded_by_torch(self, device):
        model, x = torch.nn.Linear(4, 3).to(device), torch.randn(2, 4, device=device)
        program = torch.export.export(model, (x,))
        with tempfile.TemporaryDirectory() as folder:
            torch.export.save(program, f"{folder}/m.pt2")
            self.assertEqual(torch.export.load(f"{folder}/m.pt2").module()(x), model(x))


class TestCompile(TestCase):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()

    @parametrize("backend", BACKENDS)
    def test_module(self, device, backend):
        model = make_block(device).eval()
        counter = CompileCounterWithBackend(backend)
        compiled = torch.compile(model, backend=counter, fullgraph=True)
        ids = torch.randint(10, (2, 6), device=device)
        self.assertEqual(compiled(ids), model(ids), atol=1e-5, rtol=1e-5)
        self.assertEqual(compiled(ids.flip(1)), model(ids.flip(1)), atol=1e-5, rtol=1e-5)
        self.assertEqual(counter.frame_count, 1)

    @parametrize("backend", BACKENDS)
    def test_gradients(self, device, backend):
        model = make_block(device)
        compiled = torch.compile(model, backend=backend, fullgraph=True)
        ids, target = torch.randint(10, (2, 6), device=device), torch.randint(5, (12,), device=device)

        def gradients(f):
            return torch.autograd.grad(F.cross_entropy(f(ids).flatten(0, 1), target), list(model.parameters()))

        for a, b in zip(gradients(compiled), gradients(model)):
            self.assertEqual(a, b, atol=1e-5, rtol=1e-4)

    @parametrize("backend", BACKENDS)
    def test_dynamic_shapes(self, device, backend):
        counter = CompileCounterWithBackend(backend)

        @torch.compile(backend=counter, dynamic=True, fullgraph=True)
        def f(x):
            return x.reshape(-1, 2).sum(0) * x.shape[0]

        for n in (4, 6, 10):
            x = torch.randn(n, 4, device=device, requires_grad=True)
            want = x.reshape(-1, 2).sum(0) * n
            self.assertEqual(f(x), want)
            self.assertEqual(torch.autograd.grad(f(x).sum(), x), torch.autograd.grad(want.sum(), x))
        self.assertLessEqual(counter.frame_count, 2)

    @parametrize("backend", BACKENDS)
    def test_graph_break(self, device, backend):
        seen = []

        @torch.compile(backend=backend)
        def f(x):
            y = x.sin()
            seen.append(float(y.sum()))  # needs the value
            return y.cos() if seen[-1] > 0 else y.exp()

        x = torch.rand(5, device=device) + 0.1
        self.assertEqual(f(x), x.sin().cos())
        self.assertEqual(f(-x), (-x).sin().exp())

    @parametrize("backend", BACKENDS)
    def test_mutation_and_views(self, device, backend):
        @torch.compile(backend=backend, fullgraph=True)
        def f(x):
            x[:, 1].mul_(2)
            x.add_(1)
            return x.t(), x[0]

        x = torch.randn(3, 4, device=device)
        want = x.clone()
        want[:, 1] *= 2
        want += 1
        t, row = f(x)
        self.assertEqual(x, want)
        self.assertEqual(t.data_ptr(), x.data_ptr())
        self.assertEqual(row, want[0])

    @parametrize("backend", BACKENDS)
    @parametrize("way", ["foreach", "fused"])
    def test_training_step(self, device, backend, way):
        def train(compiled):
            torch._dynamo.reset()
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).to(device)
            rate = torch.tensor(0.05, device=device) if way == "fused" else 0.05
            optimizer = torch.optim.AdamW(model.parameters(), lr=rate, **{way: True})

            def step(x):
                optimizer.zero_grad()
                loss = model(x).square().mean()
                loss.backward()
                optimizer.step()
                return loss

            run = torch.compile(step, backend=backend) if compiled else step
            losses = [run(torch.ones(3, 4, device=device) * k).item() for k in range(1, 4)]
            return losses, [p.detach() for p in model.parameters()]

        got, want = train(True), train(False)
        self.assertEqual(got[0], want[0], atol=1e-5, rtol=1e-4)
        for a, b in zip(got[1], want[1]):
            self.assertEqual(a, b, atol=1e-5, rtol=1e-4)

    def test_optimizer_step_alone(self, device):
        p = torch.nn.Parameter(torch.ones(4, device=device))
        p.grad = torch.full_like(p, 0.5)
        optimizer = torch.optim.SGD([p], lr=0.1)
        torch.compile(optimizer.step, backend="aot_eager")()
        self.assertEqual(p, torch.full_like(p, 0.95))

    @parametrize("backend", BACKENDS)
    def test_autocast(self, device, backend):
        counter = CompileCounterWithBackend(backend)

        @torch.compile(backend=counter, fullgraph=True)
        def f(a, w):
            with torch.autocast("atalla", dtype=torch.bfloat16):
                b = a @ w
                with torch.autocast("atalla", enabled=False):
                    c = b.float() @ w
            return b, c, (a @ w)

        a, w = torch.randn(4, 4, device=device), torch.randn(4, 4, device=device, requires_grad=True)
        b, c, d = f(a, w)
        self.assertEqual([t.dtype for t in (b, c, d)], [torch.bfloat16, torch.float32, torch.float32])
        self.assertEqual(d, a @ w)
        self.assertEqual(b, (a.bfloat16() @ w.bfloat16()))
        (gradient,) = torch.autograd.grad(b.float().sum() + c.sum(), w)
        self.assertEqual(gradient.dtype, torch.float32)
        self.assertEqual(counter.frame_count, 1)

    def test_recompiled_when_autocast_changes(self, device):
        counter = CompileCounter()
        f = torch.compile(lambda a: a @ a, backend=counter)
        a = torch.randn(4, 4, device=device)
        self.assertEqual(f(a).dtype, torch.float32)
        with torch.autocast("atalla"):
            self.assertEqual(f(a).dtype, torch.float16)
        self.assertEqual(f(a).dtype, torch.float32)
        self.assertEqual(counter.frame_count, 2)

    @parametrize("backend", BACKENDS)
    def test_devices(self, device, backend):
        # AOTAutograd's own backend drops the context and keeps the device without ordinal, as for torch.cuda.
        place = "atalla:1" if backend == "aot_eager" else "atalla"

        @torch.compile(backend=backend)
        def f(x):
            y = x.to("atalla:1") + 1
            with torch.atalla.device(1):
                z = torch.ones(3, device=place)
            return y + z, x.device.index, torch.atalla.current_device()

        x = torch.randn(3, device="atalla:0")
        out, index, current = f(x)
        self.assertEqual(out.device, torch.device("atalla:1"))
        self.assertEqual(out.cpu(), x.cpu() + 2)
        self.assertEqual((index, current), (0, torch.atalla.current_device()))

    @parametrize("backend", BACKENDS)
    def test_random_numbers(self, device, backend):
        """Dropout in a compiled region draws what eager mode draws."""

        def f(x):
            return F.dropout(x, 0.5) + torch.rand_like(x)

        x = torch.ones(64, device=device)
        torch.atalla.manual_seed(5)
        want = f(x)
        torch.atalla.manual_seed(5)
        self.assertEqual(torch.compile(f, backend=backend)(x), want, atol=0, rtol=0)

    @parametrize("backend", BACKENDS)
    def test_streams(self, device, backend):
        side = torch.atalla.Stream(device)

        @torch.compile(backend=backend)
        def f(x):
            y = x * 2
            current = torch.atalla.current_stream(device)
            side.wait_stream(current)
            with torch.atalla.stream(side):
                z = y + 1
            current.wait_stream(side)
            return z.sum()

        x = torch.randn(16, device=device)
        self.assertEqual(f(x), (x * 2 + 1).sum())
        self.assertEqual(torch.atalla.current_stream(device), torch.atalla.default_stream(device))

    @parametrize("backend", BACKENDS)
    def test_events(self, device, backend):
        @torch.compile(backend=backend)
        def f(x):
            event = torch.Event("atalla")
            y = x * 2
            event.record()
            event.wait()
            event.synchronize()
            return y + 1

        x = torch.randn(16, device=device)
        self.assertEqual(f(x), x * 2 + 1)

    def test_checkpoint(self, device):
        model = make_block(device)

        @torch.compile(backend="aot_eager", fullgraph=True)
        def f(ids):
            return torch.utils.checkpoint.checkpoint(model, ids, use_reentrant=False).square().sum()

        ids = torch.randint(10, (2, 6), device=device)
        want = torch.autograd.grad(model(ids).square().sum(), list(model.parameters()))
        for a, b in zip(torch.autograd.grad(f(ids), list(model.parameters())), want):
            self.assertEqual(a, b, atol=1e-4, rtol=1e-4)

    def test_ahead_of_time_inductor_is_refused(self, device):
        program = torch.export.export(torch.nn.Linear(4, 2).to(device), (torch.randn(3, 4, device=device),))
        with self.assertRaisesRegex(Exception, "no code generator for the atalla device.*save_loadable"):
            torch._inductor.aoti_compile_and_package(program)


class TestDeviceInterface(TestCase):
    def test_registered(self, device):
        names = dict(get_registered_device_interfaces())
        interface = get_interface_for_device("atalla")
        for name in ("atalla", "atalla:0", "atalla:1"):
            self.assertIs(names[name], interface)
        self.assertIs(get_interface_for_device(torch.device("atalla:1")), interface)

    def test_devices(self, device):
        interface = get_interface_for_device("atalla")
        self.assertTrue(interface.is_available())
        self.assertEqual(interface.device_count(), torch.atalla.device_count())
        before = interface.current_device()
        with interface.device(1):
            self.assertEqual(interface.current_device(), 1)
        with DeviceGuard(interface, 1):
            self.assertEqual(torch.atalla.current_device(), 1)
        self.assertEqual(interface.exchange_device(1), before)
        self.assertEqual(interface.maybe_exchange_device(-1), 1)
        interface.set_device(before)
        self.assertEqual(torch.atalla.current_device(), before)

    def test_streams_and_events(self, device):
        interface = get_interface_for_device("atalla")
        self.assertTrue(issubclass(interface.Stream, torch.Stream))
        self.assertTrue(issubclass(interface.Event, torch.Event))
        default, side = interface.current_stream(), interface.Stream()
        with interface.stream(side):
            self.assertEqual(interface.current_stream(), side)
            self.assertEqual(interface.get_raw_stream(interface.current_device()), side.stream_id)
        interface.set_stream(side)
        interface._set_stream_by_id(default.stream_id, default.device_index, default.device_type)
        self.assertEqual(interface.current_stream(), default)
        event = interface.Event(enable_timing=True)
        event.record()
        interface.synchronize(interface.current_device())
        self.assertTrue(event.query())

    def test_properties(self, device):
        interface = get_interface_for_device("atalla")
        self.assertEqual(interface.get_device_properties("atalla:1").ordinal, 1)
        self.assertEqual(interface.Worker.get_device_properties(1), torch.atalla.get_device_properties(1))
        self.assertEqual(interface.Worker.get_device_properties("atalla:0"), torch.atalla.get_device_properties(0))
        self.assertEqual(interface.Worker.current_device(), torch.atalla.current_device())
        self.assertEqual(interface.get_compute_capability(), torch.atalla.get_device_name())
        self.assertTrue(interface.is_bf16_supported())
        self.assertTrue(interface.is_dtype_supported(torch.bfloat16))
        self.assertFalse(interface.is_triton_capable())
        with self.assertRaisesRegex(RuntimeError, "Triton"):
            interface.raise_if_triton_unavailable()
        keep = torch.empty(1 << 16, device="atalla:1")
        self.assertGreaterEqual(interface.memory_allocated(1), keep.nbytes)

    def test_dynamo_is_imported_on_demand(self, device):
        """Importing torch and the device does not import Dynamo; importing it later registers the device."""
        code = (
            "import sys, torch; assert torch.atalla.device_count(); assert 'torch._dynamo' not in sys.modules\n"
            "from torch._dynamo.device_interface import get_interface_for_device as get\n"
            "print(get('atalla:1').device_count() == torch.atalla.device_count())"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.strip(), "True")


instantiate_device_type_tests(TestFakeTensor, globals(), only_for=("atalla",))
instantiate_device_type_tests(TestExport, globals(), only_for=("atalla",))
instantiate_device_type_tests(TestCompile, globals(), only_for=("atalla",))
instantiate_device_type_tests(TestDeviceInterface, globals(), only_for=("atalla",))


def test_count() -> None:
    tests = [n for c in list(globals().values()) if isinstance(c, type) and issubclass(c, TestCase) for n in dir(c)]
    assert sum(name.startswith("test_") for name in tests) >= 45
