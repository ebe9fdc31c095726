# SPDX-License-Identifier: BSD-3-Clause
"""DLPack in and out: aliasing, dtypes, layouts, devices, streams, lifetime, and what upstream refuses."""

import gc

import numpy as np
import torch
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests
from torch.testing._internal.common_dtype import all_types_and_complex_and
from torch.testing._internal.common_utils import TestCase
from torch.utils.dlpack import DLDeviceType, from_dlpack, to_dlpack

EXCHANGED = all_types_and_complex_and(
    torch.half, torch.bfloat16, torch.bool, torch.uint16, torch.uint32, torch.uint64, torch.complex32
)


def sample(dtype, *shape):
    """Values 0, 1, 2, ... as far as the dtype goes."""
    n = 1
    for s in shape:
        n *= s
    return torch.arange(n).remainder(2 if dtype == torch.bool else 100).to(dtype).reshape(shape)


class Producer:
    """An array of another library: nothing but the protocol, and what the consumer asked of it."""

    def __init__(self, tensor, takes=("stream", "max_version", "dl_device", "copy")):
        self.tensor, self.takes, self.asked = tensor, takes, []

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **kwargs):
        unknown = set(kwargs) - set(self.takes)
        if unknown:
            raise TypeError(f"unexpected {sorted(unknown)}")
        self.asked.append(kwargs)
        return self.tensor.__dlpack__(**kwargs)


class TestDLPack(TestCase):
    @dtypes(*EXCHANGED)
    def test_round_trip_aliases(self, device, dtype):
        for version in (None, (0, 8), (1, 0), (1, 1)):
            x = sample(dtype, 3, 4).to(device)
            y = from_dlpack(x.__dlpack__(max_version=version))
            self.assertEqual((y.dtype, y.device, y.shape), (x.dtype, x.device, x.shape))
            self.assertEqual(y.data_ptr(), x.data_ptr())
            self.assertEqual(y.cpu(), x.cpu())
            y[1] = x[0]
            self.assertEqual(x.cpu(), y.cpu())
            x[2].copy_(y[0])
            self.assertEqual(y[2].cpu(), sample(dtype, 3, 4)[0])

    @dtypes(*EXCHANGED)
    def test_to_and_from_the_host(self, device, dtype):
        x = sample(dtype, 5)
        self.assertEqual(torch.from_dlpack(x, device=device).cpu(), x)
        self.assertEqual(torch.from_dlpack(x.to(device), device="cpu"), x)

    def test_layouts(self, device):
        base = torch.arange(60.0).reshape(3, 4, 5)
        for view in (
            lambda t: t.transpose(0, 2), lambda t: t[1:, ::2, 3:], lambda t: t[2, 1, 4], lambda t: t[:, :0],
            lambda t: t[0].expand(2, 4, 5), lambda t: t.as_strided((2, 2), (7, 3), 5), lambda t: t[1],
        ):  # fmt: skip
            x = view(base.to(device))
            y = torch.from_dlpack(x)
            self.assertEqual((y.shape, y.device), (x.shape, x.device))
            self.assertEqual(y.cpu(), view(base))
            if x.numel():
                self.assertEqual(y.data_ptr(), x.data_ptr())
            if x.numel() > 1:
                self.assertEqual(y.stride(), x.stride())

    def test_capsules(self, device):
        x = torch.arange(4.0, device=device)
        capsule = to_dlpack(x)
        self.assertIn('"dltensor"', repr(capsule))
        y = from_dlpack(capsule)
        y.add_(1)
        self.assertEqual(x.cpu(), torch.arange(1.0, 5.0))
        with self.assertRaisesRegex(RuntimeError, "consumed only once"):
            from_dlpack(capsule)
        self.assertIn('"dltensor_versioned"', repr(x.__dlpack__(max_version=(1, 0))))

    def test_device(self, device):
        for index in range(torch.atalla.device_count()):
            x = torch.arange(3.0, device=f"atalla:{index}")
            self.assertEqual(x.__dlpack_device__(), (DLDeviceType.kDLExtDev, index))
            for current in range(torch.atalla.device_count()):
                with torch.atalla.device(current):
                    y = torch.from_dlpack(x)
                self.assertEqual(y.device, x.device)
                self.assertEqual(y.data_ptr(), x.data_ptr())

    def test_other_device(self, device):
        x = torch.arange(3.0, device="atalla:0")
        y = torch.from_dlpack(x, device="atalla:1")
        self.assertEqual((y.device.index, y.cpu()), (1, x.cpu()))
        self.assertEqual(torch.from_dlpack(x, device="atalla:0").data_ptr(), x.data_ptr())
        host = from_dlpack(x.__dlpack__(dl_device=(DLDeviceType.kDLCPU, 0)))
        self.assertEqual((host.device.type, host), ("cpu", x.cpu()))
        with self.assertRaisesRegex(ValueError, "without copying"):
            torch.from_dlpack(x, device="cpu", copy=False)
        with self.assertRaisesRegex((ValueError, BufferError), "cannot move"):
            x.__dlpack__(dl_device=(DLDeviceType.kDLCPU, 0), copy=False)

    def test_copy(self, device):
        x = torch.arange(3.0, device=device)
        y = torch.from_dlpack(x, copy=True)
        self.assertNotEqual(y.data_ptr(), x.data_ptr())
        self.assertEqual(y, x)
        self.assertEqual(torch.from_dlpack(x, copy=False).data_ptr(), x.data_ptr())

    def test_refused(self, device):
        x = torch.ones(3, device=device)
        with self.assertRaisesRegex(BufferError, "require gradient"):
            x.clone().requires_grad_().__dlpack__()
        with self.assertRaisesRegex(BufferError, "conjugate bit"):
            x.to(torch.complex64).conj().__dlpack__()
        with self.assertRaisesRegex(TypeError, "stream must be"):
            x.__dlpack__(stream=object())
        with self.assertRaisesRegex(BufferError, "unsupported stream"):
            x.__dlpack__(stream=12345)

    def test_old_protocols(self, device):
        x = torch.arange(3.0, device=device)
        for takes in (("stream", "max_version"), ("stream",), ()):
            producer = Producer(x, takes)
            self.assertEqual(torch.from_dlpack(producer).data_ptr(), x.data_ptr())
            self.assertEqual(torch.from_dlpack(producer, copy=True), x)
        producer = Producer(x)
        torch.from_dlpack(producer, device=device)
        self.assertEqual(producer.asked[-1]["dl_device"], x.__dlpack_device__())

    def test_streams(self, device):
        """The consumer's stream is made to wait for the producer's: simulated time shows the order."""
        clock = torch.Event(device, enable_timing=True)
        clock.record()
        side = torch.Stream(device)
        x = torch.ones(256, 256, device=device)
        y = x @ x
        for stream in (side.native_handle, None, 0):
            consumer = side if stream else torch.atalla.default_stream(device)
            with torch.Stream(device) if not stream else torch.atalla.default_stream(device):
                y = y @ x
                produced = torch.accelerator.current_stream().record_event(torch.Event(device, enable_timing=True))
                capsule = y.__dlpack__(stream=stream)
            consumed = consumer.record_event(torch.Event(device, enable_timing=True))
            consumed.synchronize()
            self.assertGreaterEqual(clock.elapsed_time(consumed), clock.elapsed_time(produced))
            self.assertEqual(from_dlpack(capsule), y)

    def test_lifetime(self, device):
        """The capsule and what was made of it keep the memory; nothing is left when they are gone."""
        gc.collect()
        before = torch.atalla.memory_allocated()
        x = torch.full((1 << 18,), 3.0, device=device)
        taken = torch.atalla.memory_allocated()
        self.assertGreater(taken, before)
        capsule = to_dlpack(x)
        del x
        self.assertEqual(torch.atalla.memory_allocated(), taken)
        y = from_dlpack(capsule)
        del capsule
        self.assertEqual(torch.atalla.memory_allocated(), taken)
        self.assertTrue(bool((y == 3).all()))
        z = y[5:9]
        del y
        self.assertEqual(z.cpu(), torch.full((4,), 3.0))
        del z
        self.assertEqual(torch.atalla.memory_allocated(), before)
        unused = torch.ones(1000, device=device).__dlpack__(max_version=(1, 0))
        self.assertGreater(torch.atalla.memory_allocated(), before)
        del unused
        self.assertEqual(torch.atalla.memory_allocated(), before)

    def test_foreign_memory_on_streams(self, device):
        """A tensor that came by DLPack may begin inside a block of the allocator."""
        x = torch.arange(1000.0, device=device)
        y = torch.from_dlpack(x[500:])
        side = torch.Stream(device)
        y.record_stream(side)
        with side:
            z = y * 2
        side.synchronize()
        self.assertEqual(z.cpu(), torch.arange(500.0, 1000.0) * 2)
        with self.assertRaisesRegex(RuntimeError, "not resizable"):
            y.untyped_storage().resize_(8000)

    def test_numpy(self, device):
        x = torch.arange(6.0, device=device).reshape(2, 3)
        self.assertEqual(np.from_dlpack(x.cpu()), x.cpu().numpy())
        self.assertEqual(np.from_dlpack(x, device="cpu"), x.cpu().numpy())
        with self.assertRaisesRegex((BufferError, RuntimeError), "[Uu]nsupported device"):
            np.from_dlpack(x)
        self.assertEqual(torch.from_dlpack(np.arange(4)).to(device).cpu(), torch.arange(4))


class TestOthers(TestCase):
    def test_the_host_goes_on_working(self):
        x = torch.arange(3.0)
        self.assertEqual(x.__dlpack_device__(), (DLDeviceType.kDLCPU, 0))
        self.assertEqual(torch.from_dlpack(x).data_ptr(), x.data_ptr())
        with self.assertRaisesRegex(ValueError, "Unknown device type"):
            torch.empty(1, device="meta").__dlpack_device__()

    def test_torch_function(self):
        class Logged(torch.Tensor):
            calls: list = []

            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                cls.calls.append(func.__name__)
                return super().__torch_function__(func, types, args, kwargs or {})

        x = torch.arange(3.0, device="atalla").as_subclass(Logged)
        Logged.calls.clear()
        self.assertEqual(x.__dlpack_device__(), (DLDeviceType.kDLExtDev, 0))
        from_dlpack(x.__dlpack__())
        self.assertIn("__dlpack__", Logged.calls)
        self.assertIn("__dlpack_device__", Logged.calls)


class TestInstantiated(TestCase):
    def test_least_number(self):
        names = [n for c in SUITES for n in dir(c) if n.startswith("test_")]
        self.assertGreaterEqual(len(names), 40)


instantiate_device_type_tests(TestDLPack, globals(), only_for=("atalla",))
SUITES = [c for name, c in list(globals().items()) if name.startswith("TestDLPack")]
