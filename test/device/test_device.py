# SPDX-License-Identifier: BSD-3-Clause
"""The device as torch sees it: registration, memory, streams, events, generators, storage, faults."""

import signal
import subprocess
import sys
import warnings

import torch
from torch.testing._internal.common_utils import TestCase

import torch_atalla


def child(code: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


class TestRegistration(TestCase):
    def test_import_torch_is_enough(self):
        result = child("import torch; print(torch.ones(2, device='atalla').sum().item())")
        self.assertEqual(result.stdout.strip(), "2.0", result.stderr)

    def test_accelerator(self):
        self.assertTrue(torch.accelerator.is_available())
        self.assertEqual(torch.accelerator.current_accelerator().type, "atalla")
        self.assertEqual(torch.accelerator.device_count(), torch.atalla.device_count())
        self.assertEqual(torch.atalla.device_count(), 2)

    def test_import_opens_no_device(self):
        result = child("import torch; print(torch.atalla.is_initialized(), torch.atalla.device_count())")
        self.assertEqual(result.stdout.split(), ["False", "2"], result.stderr)

    def test_bad_ordinal(self):
        with self.assertRaisesRegex(RuntimeError, "9"):
            torch.empty(1, device="atalla:9")
        with self.assertRaisesRegex(ValueError, "atalla"):
            torch.atalla.set_device("cpu")

    def test_current_device(self):
        self.assertEqual(torch.atalla.current_device(), 0)
        with torch.atalla.device(1):
            self.assertEqual(torch.empty(1, device="atalla").device.index, 1)
        self.assertEqual(torch.empty(1, device="atalla").device.index, 0)

    def test_properties(self):
        p = torch.atalla.get_device_properties(0)
        self.assertEqual((p.array_rows, p.array_columns, p.vector_lanes), (32, 32, 32))
        self.assertEqual(p.total_memory, torch.atalla.mem_get_info(0)[1])


class TestMemory(TestCase):
    def test_host_dereference_faults(self):
        """The address that a tensor carries has no access rights on the host."""
        code = "import torch, ctypes; t = torch.ones(4, device='atalla'); print('address taken', flush=True); "
        result = child(code + "print(ctypes.c_float.from_address(t.data_ptr()).value)")
        self.assertEqual(result.stdout.strip(), "address taken")
        self.assertEqual(result.returncode, -signal.SIGSEGV)

    def test_statistics(self):
        torch.atalla.empty_cache()
        before = torch.atalla.memory_allocated()
        t = torch.empty(1 << 20, device="atalla")
        self.assertEqual(torch.atalla.memory_allocated() - before, 4 << 20)
        self.assertGreaterEqual(torch.atalla.max_memory_allocated(), before + (4 << 20))
        self.assertEqual(torch.accelerator.memory_allocated(), torch.atalla.memory_allocated())
        del t
        self.assertEqual(torch.atalla.memory_allocated(), before)

    def test_out_of_memory(self):
        with self.assertRaises(torch.OutOfMemoryError):
            torch.empty(1 << 40, device="atalla")
        self.assertEqual(torch.ones(3, device="atalla").sum().item(), 3)

    def test_copies(self):
        x = torch.randn(5, 7)
        for y in (x, x.t(), x[::2, 1:], x.expand(3, 5, 7), torch.empty(0, 3), torch.tensor(2.5)):
            self.assertEqual(y.to("atalla").cpu(), y)
            self.assertEqual(y.to("atalla:0").to("atalla:1").cpu(), y)
            self.assertEqual(y.to("atalla", torch.float64).cpu(), y.double())
        d = torch.zeros(7, 5, device="atalla")
        d.t().copy_(x)
        self.assertEqual(d.cpu(), x.t())

    def test_casts(self):
        from torch_atalla.testing import CHIP_DTYPES

        for a in CHIP_DTYPES:
            for b in CHIP_DTYPES:
                signed = a.is_signed and b.is_signed and torch.bool not in (a, b)
                x = torch.tensor([0.0, -1.5 if signed else 1.5, 2.75, 100.0, 3.0]).to(a)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # complex to real discards the imaginary part
                    self.assertEqual(x.to("atalla").to(b).cpu(), x.to(b), msg=f"{a} to {b}")


class TestStorage(TestCase):
    def test_views_alias(self):
        base = torch.arange(24.0).reshape(2, 3, 4)
        views = {
            "view": lambda t: t.view(6, 4), "permute": lambda t: t.permute(2, 0, 1), "select": lambda t: t[1],
            "slice": lambda t: t[:, 1:, ::2], "unfold": lambda t: t.unfold(2, 2, 1), "diagonal": lambda t: t.diagonal(),
            "as_strided": lambda t: t.as_strided((2, 2), (5, 1), 3), "unsqueeze": lambda t: t.unsqueeze(1),
            "narrow": lambda t: t.narrow(2, 1, 2), "split": lambda t: t.split(2, 2)[1],
            "view_dtype": lambda t: t.view(torch.int32),
            "movedim": lambda t: t.movedim(0, 2), "unbind": lambda t: t.unbind(1)[2], "detach": lambda t: t.detach(),
            "t": lambda t: t[0].t(), "chunk": lambda t: t.chunk(2, 1)[0], "alias": lambda t: torch.ops.aten.alias(t),
        }  # fmt: skip
        for name, view in views.items():
            host, device = base.clone(), base.to("atalla")
            view(host).fill_(7)
            view(device).fill_(7)
            self.assertEqual(device.cpu(), host, msg=name)

    def test_view_as_real_aliases(self):
        x = torch.randn(3, dtype=torch.complex64)
        d = x.to("atalla")
        torch.view_as_real(d)[:, 1].zero_()
        torch.view_as_real(x)[:, 1].zero_()
        self.assertEqual(d.cpu(), x)
        self.assertEqual(torch.view_as_complex(torch.view_as_real(d)).cpu(), x)

    def test_resize(self):
        t = torch.arange(4.0, device="atalla")
        t.resize_(2, 4)
        self.assertEqual(t.shape, (2, 4))
        self.assertEqual(t[0].cpu(), torch.arange(4.0))
        t.untyped_storage().resize_(64)
        self.assertEqual(t.untyped_storage().nbytes(), 64)
        self.assertEqual(t[0].cpu(), torch.arange(4.0))

    def test_set(self):
        a, b = torch.zeros(4, device="atalla"), torch.arange(6.0, device="atalla")
        a.set_(b.untyped_storage(), 2, (2, 2), (2, 1))
        self.assertEqual(a.cpu(), torch.tensor([[2.0, 3.0], [4.0, 5.0]]))
        a.add_(10)
        self.assertEqual(b.cpu(), torch.tensor([0.0, 1, 12, 13, 14, 15]))

    def test_item_and_equal(self):
        for dtype in (torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex64):
            self.assertEqual(torch.ones(1, dtype=dtype, device="atalla").item(), torch.ones(1, dtype=dtype).item())
        x = torch.arange(5, device="atalla")
        self.assertTrue(torch.equal(x, x.clone()))
        self.assertFalse(torch.equal(x, x + 1))

    def test_save_and_load(self):
        import io

        x = {"w": torch.randn(3, 4, device="atalla").t()}
        buffer = io.BytesIO()
        torch.save(x, buffer)
        for where in ("cpu", "atalla:1", None):
            buffer.seek(0)
            y = torch.load(buffer, map_location=where)["w"]
            self.assertEqual(y.cpu(), x["w"].cpu())


class TestStreams(TestCase):
    def test_events_carry_simulated_time(self):
        a, b = (torch.Event("atalla", enable_timing=True) for _ in range(2))
        x = torch.ones(64, 64, device="atalla")
        a.record()
        before = torch_atalla.telemetry.counters().cycles
        for _ in range(3):
            x = x @ x * 1e-2
        cycles = torch_atalla.telemetry.counters().cycles - before
        b.record()
        clock = torch.atalla.get_device_properties().clock_hz
        self.assertAlmostEqual(a.elapsed_time(b), cycles / clock * 1e3, places=9)

    def test_stream_context(self):
        s = torch.Stream("atalla")
        with s:
            self.assertEqual(torch.accelerator.current_stream(), s)
            y = torch.ones(3, device="atalla") * 2
        s.synchronize()
        self.assertTrue(s.query())
        self.assertEqual(y.cpu(), torch.full((3,), 2.0))
        self.assertEqual(torch.atalla.current_stream(), torch.atalla.default_stream())


class TestRandom(TestCase):
    def test_reproducible(self):
        torch.manual_seed(3)
        a = torch.randn(1000, device="atalla")
        b = torch.rand(1000, device="atalla")
        torch.manual_seed(3)
        self.assertEqual(torch.randn(1000, device="atalla"), a)
        self.assertEqual(torch.rand(1000, device="atalla"), b)
        self.assertNotEqual(torch.rand(1000, device="atalla").cpu().tolist(), b.cpu().tolist())

    def test_threads_do_not_change_values(self):
        threads = torch_atalla.chip.get_num_threads()
        found = []
        for n in (1, 2):
            torch_atalla.chip.set_num_threads(n)
            torch.manual_seed(5)
            x = torch.randn(300, 400, device="atalla")
            found.append((x.cpu(), x.sum().cpu(), (x @ x.t()).cpu(), x.softmax(0).cpu()))
        torch_atalla.chip.set_num_threads(threads)
        for a, b in zip(*found):
            self.assertTrue(torch.equal(a, b))

    def test_state(self):
        g = torch.Generator("atalla").manual_seed(7)
        state = g.get_state()
        a = torch.rand(9, device="atalla", generator=g)
        g.set_state(state)
        self.assertEqual(torch.rand(9, device="atalla", generator=g), a)
        state = torch.atalla.get_rng_state()
        a = torch.rand(9, device="atalla")
        torch.atalla.set_rng_state(state)
        self.assertEqual(torch.rand(9, device="atalla"), a)

    def test_moments(self):
        torch.manual_seed(11)
        n = torch.randn(100_000, device="atalla")
        u = torch.rand(100_000, device="atalla")
        self.assertLess(abs(n.mean().item()), 0.02)
        self.assertLess(abs(n.std().item() - 1), 0.02)
        self.assertLess(abs(u.mean().item() - 0.5), 0.01)
        self.assertGreaterEqual(u.min().item(), 0)
        self.assertLess(u.max().item(), 1)


class TestTelemetry(TestCase):
    def work(self):
        torch_atalla.telemetry.reset()
        x = torch.ones(40, 50, device="atalla")
        (x @ x.t()).relu().sum().item()
        return torch_atalla.telemetry.counters()

    def test_counters(self):
        c = self.work()
        self.assertEqual(c.macs, 40 * 40 * 50)
        self.assertEqual(c.host_bytes_from_device, 4)
        self.assertGreater(c.cycles, 0)
        for share in c.utilisation().values():
            self.assertTrue(0 <= share <= 1)

    def test_cycles_do_not_depend_on_the_machines_load(self):
        found = {self.work() for _ in range(5)}
        burn = "while True: pass"
        burners = [subprocess.Popen([sys.executable, "-c", burn]) for _ in range(4)]
        try:
            found |= {self.work() for _ in range(5)}
        finally:
            for process in burners:
                process.kill()
                process.wait()
        self.assertEqual(len(found), 1)

    def test_trace(self):
        import json
        import tempfile
        from pathlib import Path

        self.work()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            torch_atalla.telemetry.trace(path)
            names = [e["name"] for e in json.loads(path.read_text())["traceEvents"]]
        self.assertIn("gemm", names)


class TestFaults(TestCase):
    def test_index_out_of_range(self):
        x = torch.arange(6.0, device="atalla")
        with self.assertRaises((IndexError, RuntimeError)):
            x.index_select(0, torch.tensor([7], device="atalla"))
            torch.atalla.synchronize()
        self.assertEqual((x + 1).sum().item(), 21)

    def test_devices_do_not_mix(self):
        with self.assertRaisesRegex(RuntimeError, "same device"):
            torch.ones(2, device="atalla:0") + torch.ones(2, device="atalla:1")
        with self.assertRaisesRegex(RuntimeError, "same device"):
            torch.ones(2, 2, device="atalla") @ torch.ones(2, 2)


class TestExit(TestCase):
    def test_right_after_backward(self):
        """Autograd's device thread must not meet an interpreter that is being finalized."""
        code = (
            "import torch, torch_atalla\n"
            "x = torch.ones(4, device='atalla', requires_grad=True)\n"
            "(x * 2).backward(torch.ones(4, device='atalla'))\n"
        )
        for _ in range(3):
            done = child(code)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
