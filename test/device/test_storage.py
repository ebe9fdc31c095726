# SPDX-License-Identifier: BSD-3-Clause
"""Storages, the conversions between tensors and what the host has, copies of objects."""

import copy
import gc
import io
import pickle
import warnings

import numpy as np
import torch
from torch import nn
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests
from torch.testing._internal.common_dtype import all_types_and_complex_and
from torch.testing._internal.common_utils import TestCase

ALL = all_types_and_complex_and(torch.half, torch.bfloat16, torch.bool)


def quiet(f, *args, **kwargs):
    """TypedStorage warns of its removal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return f(*args, **kwargs)


def storages_equal(a, b):
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


class TestStorage(TestCase):
    def test_untyped(self, device):
        s = torch.UntypedStorage(10, device=device)
        self.assertEqual(
            (s.device, s.nbytes(), s.size(), len(s), s.element_size()), (torch.device(device), 10, 10, 10, 1)
        )
        self.assertEqual((s.is_atalla, s.is_cuda, s.resizable(), s.get_device()), (True, False, True, s.device.index))
        self.assertIs(s.fill_(7), s)
        self.assertEqual(s.tolist(), [7] * 10)
        s[3] = 250
        self.assertEqual((s[3], s[-1]), (250, 7))
        self.assertIn("of size 10", repr(s))
        with self.assertRaisesRegex((IndexError, RuntimeError), "out of range"):
            s[10]
        empty = torch.UntypedStorage(device=device)
        self.assertEqual((empty.nbytes(), empty.data_ptr(), empty.tolist()), (0, 0, []))
        self.assertEqual(torch.UntypedStorage(4, device="atalla").device.index, torch.atalla.current_device())
        self.assertEqual(torch.UntypedStorage(4, device="atalla:1").device, torch.device("atalla:1"))

    def test_bad_device(self, device):
        with self.assertRaisesRegex(RuntimeError, "9"):
            torch.UntypedStorage(4, device="atalla:9")

    def test_copies(self, device):
        s = torch.arange(8, dtype=torch.uint8, device=device).untyped_storage()
        c = s.clone()
        self.assertNotEqual(c.data_ptr(), s.data_ptr())
        self.assertEqual((c.device, c.tolist()), (s.device, list(range(8))))
        host = s.cpu()
        self.assertEqual((host.device.type, host.tolist()), ("cpu", list(range(8))))
        back = torch.UntypedStorage(8, device=device)
        self.assertEqual(back.copy_(host).tolist(), list(range(8)))
        for there in ("cpu", "atalla:0", "atalla:1"):
            moved = s.to(device=there)
            self.assertEqual((moved.device, moved.tolist()), (torch.device(there), list(range(8))))
        self.assertIs(s.to(device=s.device), s)
        self.assertEqual(host.atalla(1).device.index, 1)
        self.assertEqual(copy.copy(s).tolist(), s.tolist())
        with self.assertRaisesRegex(RuntimeError, "size"):
            torch.UntypedStorage(4, device=device).copy_(s)

    def test_typed_conversions(self, device):
        s = torch.arange(4, dtype=torch.uint8, device=device).untyped_storage()
        self.assertEqual(quiet(lambda: s.float().tolist()), [0.0, 1.0, 2.0, 3.0])
        self.assertEqual(quiet(lambda: s.float().device), s.device)

    def test_lazy_copies_keep_their_values(self, device):
        """Whichever operand of a launch is written."""
        source = torch.arange(6.0, device=device)
        x = torch.ones(2, 6, 3, device=device)
        for write in (
            lambda t: t.normal_(),
            lambda t: t.exponential_(),
            lambda t: torch.mv(torch.ones(6, 6, device=device), torch.ones(6, device=device), out=t),
            lambda t: torch.cumsum(torch.ones(6, device=device), 0, out=t),
            lambda t: t.index_add_(0, torch.tensor([1, 2], device=device), torch.ones(2, device=device)),
            lambda t: torch.batch_norm(x, None, None, t, torch.ones(6, device=device), True, 0.1, 1e-5, False),
        ):
            lazy = torch._lazy_clone(source)
            write(lazy)
            self.assertEqual(source, torch.arange(6.0))
            self.assertNotEqual(lazy, source)

    def test_resize(self, device):
        """Fully sharded modules free and regrow a parameter's storage under its views."""
        t = torch.arange(1024.0, device=device)
        view, s = t[10:20], t.untyped_storage()
        gc.collect()
        held = torch.atalla.memory_allocated()
        s.resize_(0)
        self.assertEqual((s.nbytes(), s.data_ptr(), t.shape, held - torch.atalla.memory_allocated()),
                         (0, 0, (1024,), 4096))  # fmt: skip
        s.resize_(4096)
        self.assertEqual(torch.atalla.memory_allocated(), held)
        t.copy_(torch.arange(1024.0))
        self.assertEqual(view.cpu(), torch.arange(10.0, 20.0))
        s.resize_(8192)
        self.assertEqual(t.cpu(), torch.arange(1024.0))
        s.resize_(4096 - 4)
        self.assertEqual(t[:1023].cpu(), torch.arange(1023.0))
        self.assertEqual(s.nbytes(), 4092)

    def test_resize_on_another_stream(self, device):
        side = torch.Stream(device)
        t = torch.arange(4096.0, device=device)
        torch.accelerator.synchronize(t.device)
        with side:
            t.untyped_storage().resize_(1 << 16)
            again = torch.zeros(4096, device=device)
            t.mul_(2)
        side.synchronize()
        self.assertEqual(t.cpu(), torch.arange(4096.0) * 2)
        self.assertEqual(again.cpu(), torch.zeros(4096))

    def test_resize_refused(self, device):
        x = torch.ones(4, device=device)
        y = torch.from_dlpack(x)
        self.assertFalse(y.untyped_storage().resizable())
        with self.assertRaisesRegex(RuntimeError, "not resizable"):
            y.untyped_storage().resize_(64)

    def test_set(self, device):
        source = torch.arange(12.0, device=device)
        t = torch.empty(0, device=device)
        t.set_(source)
        self.assertTrue(storages_equal(t, source))
        self.assertEqual((t.shape, t.stride()), (source.shape, source.stride()))
        t.set_(source.untyped_storage())
        self.assertEqual(t.shape, (12,))
        t.set_(source.untyped_storage(), 2, (2, 3), (4, 1))
        self.assertEqual(t.cpu(), torch.tensor([[2.0, 3, 4], [6, 7, 8]]))
        t.set_(quiet(source.storage), 1, (3,))
        self.assertEqual(t.cpu(), torch.tensor([1.0, 2, 3]))
        t.set_()
        self.assertEqual((t.numel(), t.untyped_storage().nbytes(), t.device), (0, 0, source.device))
        self.assertEqual(source.cpu(), torch.arange(12.0))
        with self.assertRaisesRegex(RuntimeError, "device"):
            torch.empty(0, device=device).set_(torch.ones(3).untyped_storage())
        with self.assertRaisesRegex(RuntimeError, "dtype|type"):
            torch.empty(0, device=device).set_(torch.ones(3, dtype=torch.int64, device=device))

    def test_views_share(self, device):
        t = torch.arange(24.0, device=device).reshape(2, 3, 4)
        for view in (t[1], t.transpose(0, 2), t.view(-1), t.detach(), t.data, t.view(torch.int32), t.unfold(2, 2, 1)):
            self.assertTrue(storages_equal(t, view))
            self.assertEqual(view.untyped_storage().data_ptr(), t.untyped_storage().data_ptr())
        self.assertFalse(storages_equal(t, t.clone()))
        self.assertEqual(t[1].data_ptr() - t.untyped_storage().data_ptr(), 48)

    def test_data(self, device):
        p = nn.Parameter(torch.zeros(3, device=device))
        p.data = torch.arange(4.0, device=device)
        self.assertEqual((p.shape, p.requires_grad, p.cpu().detach()), ((4,), True, torch.arange(4.0)))
        p.data.add_(1)
        self.assertEqual(p.detach().cpu(), torch.arange(1.0, 5.0))
        (p * 3).sum().backward()
        p.data = torch.ones(2)
        self.assertEqual(p.device.type, "cpu")
        p.grad = None
        (p * 3).sum().backward()
        self.assertEqual(p.grad, torch.full((2,), 3.0))
        with self.assertRaisesRegex(RuntimeError, "incompatible tensor type"):
            p.data = torch.ones(2, device="meta")

    def test_modules_keep_their_parameters(self, device):
        """Moving a module changes its parameters in place: ties and optimizers hold, as on CUDA."""
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        before = list(net.parameters())
        net(torch.randn(5, 4)).square().sum().backward()
        for there in (device, "atalla:1", "cpu", device):
            self.assertIs(net.to(there), net)
            self.assertIs(net.tied.weight, net.first.weight)
            for p, q in zip(net.parameters(), before):
                self.assertIs(p, q)
                self.assertEqual((p.device, p.grad.device, p.grad.shape), (torch.device(there),) * 2 + (p.shape,))
        weight = net.first.weight.detach().clone()
        optimizer.zero_grad()
        net(torch.randn(5, 4, device=device)).square().sum().backward()
        optimizer.step()
        self.assertNotEqual(net.tied.weight, weight)
        self.assertEqual(net.half().first.weight.dtype, torch.half)

    @dtypes(*ALL)
    def test_typed(self, device, dtype):
        t = torch.ones(3, dtype=dtype, device=device)
        s = quiet(t.storage)
        name = torch.storage._dtype_to_storage_type_map()[dtype]
        legacy = getattr(torch.atalla, name)
        self.assertEqual(quiet(s.type), f"torch.atalla.{name}")
        self.assertTrue(isinstance(s, legacy))
        self.assertFalse(isinstance(quiet(t.cpu().storage), legacy))
        self.assertEqual(quiet(s.tolist), t.tolist())
        quiet(s.__setitem__, 1, 0)
        self.assertEqual(t.tolist()[1], 0)
        made = quiet(legacy, 5)
        self.assertEqual((made.dtype, made.device.type, quiet(len, made)), (dtype, "atalla", 5))
        self.assertEqual(quiet(made.cpu).device.type, "cpu")
        self.assertEqual(quiet(s.atalla, 1).device.index, 1)
        typed = quiet(torch.TypedStorage, 4, dtype=dtype, device=device)
        self.assertEqual(quiet(typed.nbytes), 4 * dtype.itemsize)
        self.assertEqual(quiet(lambda: quiet(torch.TypedStorage, [1, 0], dtype=dtype, device=device).tolist()),
                         torch.tensor([1, 0]).to(dtype).tolist())  # fmt: skip

    def test_what_only_the_host_has(self, device):
        s = torch.UntypedStorage(4, device=device)
        with self.assertRaises((RuntimeError, NotImplementedError, TypeError)):
            s.pin_memory()
        with self.assertRaisesRegex(RuntimeError, "from_buffer"):
            torch.atalla.FloatStorage.from_buffer(b"1234")
        self.assertIs(s.share_memory_(), s)
        self.assertIsNone(s.filename)


class TestHost(TestCase):
    """numpy, lists, numbers, printing."""

    @dtypes(*ALL)
    def test_numpy_refused(self, device, dtype):
        t = torch.ones(3, dtype=dtype, device=device)
        for convert in (t.numpy, lambda: np.asarray(t), lambda: np.array(t), t.__array__):
            with self.assertRaisesRegex(
                TypeError, rf"can't convert {device} device type tensor to numpy. Use Tensor.cpu\(\)"
            ):
                convert()

    def test_numpy_forced(self, device):
        x = torch.arange(6.0).reshape(2, 3)
        self.assertEqual(x.to(device).numpy(force=True), x.numpy())
        self.assertEqual(x.to(device).requires_grad_().t().numpy(force=True), x.t().numpy())
        z = torch.tensor([1 + 2j, 3 - 4j])
        self.assertEqual(z.to(device).conj().numpy(force=True), z.numpy().conj())
        self.assertEqual(np.asarray(x.to(device).cpu()), x.numpy())

    def test_no_other_array_interface(self, device):
        t = torch.ones(3, device=device)
        with self.assertRaisesRegex(AttributeError, "Can't get __cuda_array_interface__ on non-CUDA tensor type"):
            _ = t.__cuda_array_interface__
        self.assertFalse(hasattr(t, "__cuda_array_interface__"))
        self.assertFalse(hasattr(t, "__array_interface__"))

    @dtypes(*ALL)
    def test_numbers(self, device, dtype):
        x = torch.tensor([[1, 0], [1, 1]]).to(dtype)
        self.assertEqual(x.to(device).tolist(), x.tolist())
        self.assertEqual(x.to(device)[0, 0].item(), x[0, 0].item())
        self.assertEqual(x.t().to(device).tolist(), x.t().tolist())
        with self.assertRaisesRegex(RuntimeError, "cannot be converted to Scalar"):
            x.to(device).item()
        if not dtype.is_complex:
            self.assertEqual(
                (float(x.to(device)[1, 1]), int(x.to(device)[1, 1]), bool(x.to(device)[0, 1])), (1.0, 1, False)
            )
        self.assertEqual(format(x.to(device)[0, 0]), format(x[0, 0]))
        if not dtype.is_floating_point and not dtype.is_complex:
            self.assertEqual([10, 20][x.to(device)[0, 0]], 20)

    def test_from_the_host(self, device):
        array = np.arange(6, dtype=np.float32).reshape(2, 3)
        sources = [array, array.T, array[:, ::2], array.tolist(), [torch.tensor(1.0)]]
        for make in (torch.as_tensor, torch.asarray, torch.tensor):
            for source in sources + [torch.from_numpy(array)] * (make is not torch.tensor):
                found = make(source, device=device)
                self.assertEqual(found.device, torch.device(device))
                self.assertEqual(found.cpu(), torch.as_tensor(source))
        self.assertEqual(torch.from_numpy(array.T).to(device).cpu().numpy(), array.T)
        self.assertEqual(torch.as_tensor(np.float64(2.5), device=device).item(), 2.5)
        t = torch.ones(2, device=device)
        self.assertEqual(torch.as_tensor(t).data_ptr(), t.data_ptr())
        self.assertEqual(torch.asarray(t, device=device, copy=False).data_ptr(), t.data_ptr())
        self.assertNotEqual(torch.asarray(t, copy=True).data_ptr(), t.data_ptr())
        with self.assertRaisesRegex(ValueError, "can't alias"):
            torch.asarray(t, device="cpu", copy=False)

    def test_new(self, device):
        t = torch.ones(2, device=device)
        self.assertEqual(t.new_tensor([1, 2]).device, t.device)
        self.assertEqual(t.new(3).device, t.device)
        self.assertEqual(t.new([1.0, 2.0]).cpu(), torch.tensor([1.0, 2.0]))
        self.assertEqual(t.type(), "torch.atalla.FloatTensor")
        self.assertEqual(t.type(torch.int64).cpu(), torch.ones(2, dtype=torch.int64))

    def test_memory_formats(self, device):
        x = torch.randn(2, 3, 4, 5)
        for y in (x.to(memory_format=torch.channels_last), x.permute(3, 1, 0, 2), x[:, ::2], x.expand(2, 2, 3, 4, 5)):
            there = y.to(device)
            again = there.cpu()
            kept = torch.empty_like(y).stride()
            self.assertEqual((there.stride(), again.stride(), again), (kept, kept, y))
            self.assertEqual(there.clone().stride(), kept)
            self.assertTrue(there.to("cpu", memory_format=torch.contiguous_format).is_contiguous())

    def test_printing(self, device):
        for x in (torch.arange(3.0), torch.tensor([1 + 2j]), torch.tensor([True]), torch.zeros(0, 3), torch.tensor(2),
                  torch.randn(2000)):  # fmt: skip
            text = repr(x.to(device))
            self.assertIn(f"device='{device}'", text)
            self.assertEqual(text.split(",")[0].rstrip(")"), repr(x).split(",")[0].rstrip(")"))

    def test_iteration(self, device):
        t = torch.arange(4, device=device)
        self.assertEqual([x.item() for x in t], [0, 1, 2, 3])
        self.assertIn(2, t)
        self.assertEqual(list(reversed(t.tolist())), [3, 2, 1, 0])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.first.weight
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("view", self.norm.running_mean[1:3])

    def forward(self, x):
        return self.norm(self.tied(self.first(x)))


class TestCopies(TestCase):
    def test_tensor(self, device):
        base = torch.arange(12.0, device=device)
        pair = {"base": base, "view": base[2:8].view(2, 3), "again": base}
        other = copy.deepcopy(pair)
        self.assertIs(other["again"], other["base"])
        self.assertTrue(storages_equal(other["view"], other["base"]))
        self.assertFalse(storages_equal(other["base"], base))
        other["base"].fill_(1)
        self.assertEqual(other["view"].cpu(), torch.ones(2, 3))
        self.assertEqual(base.cpu(), torch.arange(12.0))
        self.assertEqual(other["view"].device, base.device)

    def test_tensor_state(self, device):
        p = torch.ones(3, device=device, requires_grad=True)
        p.note = "kept"
        (p * 2).sum().backward()
        q = copy.deepcopy(p)
        self.assertEqual((q.requires_grad, q.note, q.grad.cpu()), (True, "kept", torch.full((3,), 2.0)))
        self.assertNotEqual(q.grad.data_ptr(), p.grad.data_ptr())
        with self.assertRaisesRegex(RuntimeError, "graph leaves"):
            copy.deepcopy(p * 2)
        z = torch.tensor([1 + 2j], device=device).conj()
        self.assertEqual(copy.deepcopy(z).cpu(), z.cpu())
        channels_last = torch.randn(1, 2, 3, 4, device=device).to(memory_format=torch.channels_last)
        self.assertEqual(copy.deepcopy(channels_last).stride(), channels_last.stride())

    def test_shallow(self, device):
        t = torch.ones(3, device=device)
        s = copy.copy(t)
        self.assertEqual(s.data_ptr(), t.data_ptr())

    def test_module(self, device):
        net = Net().to(device)
        other = copy.deepcopy(net)
        self.assertIs(other.tied.weight, other.first.weight)
        x = torch.randn(5, 4, device=device)
        self.assertEqual(other(x), net(x))
        with torch.no_grad():
            other.first.weight.zero_()
        self.assertGreater(net.first.weight.abs().sum().item(), 0)

    def test_optimizer(self, device):
        net = Net().to(device)
        optimizer = torch.optim.Adam(net.parameters())

        def step(net, optimizer):
            net(torch.ones(3, 4, device=device) * torch.arange(3.0, device=device)[:, None]).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        step(net, optimizer)
        both = copy.deepcopy((net, optimizer))
        step(net, optimizer)
        step(*both)
        for a, b in zip(net.parameters(), both[0].parameters()):
            self.assertEqual(a, b)
            self.assertNotEqual(a.data_ptr(), b.data_ptr())
        self.assertEqual(optimizer.state_dict()["state"], both[1].state_dict()["state"])

    def test_pickle(self, device):
        base = torch.arange(6.0, device=device)
        for protocol in (2, pickle.HIGHEST_PROTOCOL):
            for x in (
                base,
                base[::2],
                nn.Parameter(base.clone()),
                base.to(torch.bfloat16),
                base.bool(),
                base.new_empty(0),
            ):
                y = pickle.loads(pickle.dumps(x, protocol))
                self.assertEqual(
                    (type(y), y.device, y.requires_grad, y.stride()), (type(x), x.device, x.requires_grad, x.stride())
                )
                self.assertEqual(y.detach().cpu(), x.detach().cpu())
        net = pickle.loads(pickle.dumps(Net().to(device)))
        self.assertIs(net.tied.weight, net.first.weight)
        s = pickle.loads(pickle.dumps(base._typed_storage()))
        self.assertEqual((s.device, s.dtype), (base.device, base.dtype))
        self.assertEqual(s._untyped_storage.tolist(), base.untyped_storage().tolist())

    def test_copyreg_state(self, device):
        generator_state = torch.atalla.get_rng_state()
        self.assertEqual(pickle.loads(pickle.dumps(generator_state)), generator_state)
        buffer = io.BytesIO()
        pickle.dump({torch.device(device): torch.ones(2, device=device)}, buffer)
        buffer.seek(0)
        self.assertEqual(list(pickle.load(buffer)), [torch.device(device)])


class TestInstantiated(TestCase):
    def test_least_number(self):
        names = [n for c in SUITES for n in dir(c) if n.startswith("test_")]
        self.assertGreaterEqual(len(names), 60)


for suite in (TestStorage, TestHost, TestCopies):
    instantiate_device_type_tests(suite, globals(), only_for=("atalla",))
SUITES = [c for n, c in list(globals().items()) if n.startswith(("TestStorage", "TestHost", "TestCopies"))]
