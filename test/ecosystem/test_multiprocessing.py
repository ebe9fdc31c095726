# SPDX-License-Identifier: BSD-3-Clause
"""Tensors that several processes use, and processes that are forked."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import unittest
from multiprocessing.reduction import ForkingPickler

import torch
import torch.multiprocessing as mp
from sharing_child import (
    allocated,
    argument,
    compute,
    drop,
    fill,
    give,
    keep,
    keep_module,
    make,
    read,
    refuse,
    same_storage,
    serve,
    train,
)
from torch import nn
from torch.testing._internal.common_utils import TestCase

FORKED = (
    r"Cannot re-initialize atalla in forked subprocess\. To use atalla with multiprocessing, you must use the 'spawn'"
)


# Its children have the imports behind them, and no device of their parent's.
SERVER = mp.get_context("forkserver")
SERVER.set_forkserver_preload(["sharing_child", "torch_atalla"])


class Child:
    """A process that does what it is told."""

    def __init__(self):
        self.orders, self.replies = SERVER.Queue(), SERVER.Queue()
        self.process = SERVER.Process(target=serve, args=(self.orders, self.replies), daemon=True)
        self.process.start()

    def __call__(self, function, *args):
        self.orders.put((function.__name__, args))
        reply = self.replies.get(timeout=120)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def stop(self):
        self.orders.put(None)
        self.process.join(60)
        for queue in (self.orders, self.replies):
            queue.close()


class TestSharing(TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.child = Child()

    @classmethod
    def tearDownClass(cls):
        cls.child.stop()
        super().tearDownClass()

    def setUp(self):
        super().setUp()
        gc.collect()
        torch.atalla.ipc_collect()
        self.before = torch.atalla.memory_allocated()
        self.theirs = self.child(allocated)

    def assertNothingLeft(self):
        gc.collect()
        torch.atalla.ipc_collect()
        self.assertEqual(torch.atalla.memory_allocated(), self.before)
        self.assertEqual(self.child(allocated), self.theirs)

    def test_same_memory(self):
        for device in ("atalla:0", "atalla:1"):
            x = torch.arange(6.0, device=device).reshape(2, 3)
            self.assertEqual(self.child(keep, "x", x.t()), (device, x.t().tolist(), (1, 3), False, "Tensor"))
            x.fill_(5)
            torch.atalla.synchronize(device)
            self.assertEqual(self.child(read, "x"), [[5.0] * 2] * 3)
            self.child(fill, "x", 8)
            self.assertEqual(x.tolist(), [[8.0] * 3] * 2)
            self.child(drop, "x")
            del x
        self.assertNothingLeft()

    def test_dtypes(self):
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.uint8):
            x = torch.tensor([1, 0, 1]).to(dtype).to("atalla")
            self.assertEqual(self.child(keep, "x", x)[1], x.tolist())
            self.child(drop, "x")

    def test_kernels_and_copies(self):
        x = torch.arange(4.0).reshape(2, 2)
        there = x.to("atalla:0")
        self.child(keep, "x", there)
        product, *copies = self.child(compute, "x")
        self.assertEqual(product, (x @ x.t() + 1).tolist())
        written = torch.tensor([[9.0, 9], [7, 7]])
        self.assertEqual(copies, [written.tolist(), written.t().tolist(), written.tolist(), written.tolist()])
        self.assertEqual(there.cpu(), written)
        self.child(drop, "x")

    def test_storages_stay_shared(self):
        base = torch.arange(10.0, device="atalla")
        self.child(keep, "base", base)
        self.child(keep, "view", base[2:6])
        self.assertTrue(self.child(same_storage, "base", "view"))
        self.child(fill, "view", 1)
        self.assertEqual(base.tolist(), [0, 1, 1, 1, 1, 1, 6, 7, 8, 9][:2] + [1.0] * 4 + [6, 7, 8, 9])
        self.child(drop, "base")
        self.assertEqual(self.child(read, "view"), [1.0] * 4)
        self.child(drop, "view")
        del base
        self.assertNothingLeft()

    def test_lifetime(self):
        """The block stays until the receiver has let go, and is the allocator's again then."""
        x = torch.full((1 << 16,), 3.0, device="atalla")
        self.child(keep, "x", x)
        self.child(keep, "again", x)
        held = torch.atalla.memory_allocated()
        del x
        gc.collect()
        torch.atalla.ipc_collect()
        self.assertEqual(torch.atalla.memory_allocated(), held)
        others = [torch.zeros(1 << 16, device="atalla") for _ in range(4)]
        torch.atalla.synchronize()
        self.assertEqual(set(self.child(read, "x")), {3.0})
        self.child(drop, "x")
        torch.atalla.ipc_collect()
        del others
        self.assertEqual(torch.atalla.memory_allocated(), held)
        self.child(drop, "again")
        self.assertNothingLeft()

    def test_empty_cache_collects(self):
        x = torch.ones(1 << 16, device="atalla")
        self.child(keep, "x", x)
        del x
        self.child(drop, "x")
        torch.atalla.empty_cache()
        self.assertEqual(torch.atalla.memory_allocated(), self.before)

    def test_sent_back(self):
        """A tensor that comes home is the tensor that left, also if nobody here had kept it."""
        x = torch.arange(4.0, device="atalla")
        self.child(keep, "x", x)
        back = self.child(give, "x")
        self.assertEqual(back.untyped_storage()._cdata, x.untyped_storage()._cdata)
        address = x.data_ptr()
        del back, x
        gc.collect()
        home = self.child(give, "x")
        self.assertEqual((home.data_ptr(), home.tolist()), (address, [0.0, 1, 2, 3]))
        self.child(drop, "x")
        home.add_(1)
        self.assertEqual(home.tolist(), [1.0, 2, 3, 4])
        del home
        self.assertNothingLeft()

    def test_received(self):
        """The child is the sender."""
        x = self.child(make, "mine", "atalla:1")
        self.assertEqual((str(x.device), x.tolist()), ("atalla:1", [0.0, 1, 2, 3]))
        self.assertEqual(torch.atalla.memory_allocated(), self.before)
        x.mul_(2)
        y = x + 1
        torch.atalla.synchronize(1)
        self.assertEqual(self.child(read, "mine"), [0.0, 2, 4, 6])
        with self.assertRaisesRegex(RuntimeError, "not resizable"):
            x.untyped_storage().resize_(4096)
        x.record_stream(torch.Stream("atalla:1"))
        self.assertEqual(torch.from_dlpack(x).tolist(), y.sub(1).tolist())
        self.child(drop, "mine")
        self.assertEqual(x.tolist(), [0.0, 2, 4, 6])
        del x, y
        self.assertNothingLeft()

    def test_third_process(self):
        """It gets what the second one got from the first; and when it is killed, nothing is left of that."""
        third = Child()
        try:
            x = self.child(make, "mine", "atalla")
            third(keep, "x", x)
            del x
            gc.collect()
            third(fill, "x", 4)
            self.assertEqual(self.child(read, "mine"), [4.0] * 4)
            self.child(drop, "mine")
            self.assertEqual(third(read, "x"), [4.0] * 4)
            y = torch.ones(1 << 16, device="atalla")
            third(keep, "y", y)
            del y
            gc.collect()
            torch.atalla.ipc_collect()
            self.assertGreater(torch.atalla.memory_allocated(), self.before)
            self.assertGreater(self.child(allocated), self.theirs)
            os.kill(third.process.pid, signal.SIGKILL)
        finally:
            third.stop()
        self.assertNothingLeft()
        self.assertEqual(torch.ones(3, device="atalla").sum().item(), 3)

    def test_killed_sender(self):
        """What was received lives on; what was not is an error."""
        victim = Child()
        x = victim(make, "x", "atalla")
        victim.orders.put(("give", ("x",)))
        reply = victim.replies._reader.recv_bytes()
        os.kill(victim.process.pid, signal.SIGKILL)
        victim.process.join(60)
        with self.assertRaisesRegex(RuntimeError, "the process that sent it has ended"):
            ForkingPickler.loads(reply)
        self.assertEqual((x + 1).tolist(), [1.0, 2, 3, 4])
        del x
        victim.stop()
        self.assertNothingLeft()

    def test_refused(self):
        x = torch.ones(4, device="atalla")
        self.child(keep, "x", x)
        for text in self.child(refuse, "x"):
            self.assertIn("not resizable", text)
        self.assertEqual(len(self.child(refuse, "x")), 2)
        self.child(drop, "x")
        y = x.requires_grad_() * 2
        with self.assertRaisesRegex(RuntimeError, "non-leaf"):
            ForkingPickler.dumps(y)

    def test_parameters_and_modules(self):
        p = nn.Parameter(torch.ones(2, device="atalla"))
        self.assertEqual(self.child(keep, "p", p), ("atalla:0", [1.0, 1.0], (1,), True, "Parameter"))
        self.child(drop, "p")
        model = nn.Linear(3, 2).to("atalla")
        before = model.weight.detach().clone()
        self.child(keep_module, "model", model.share_memory())
        self.child(train, "model")
        self.assertEqual(model.weight.cpu(), (before - 0.2).cpu())
        self.child(drop, "model")

    def test_empty(self):
        self.assertEqual(self.child(keep, "x", torch.empty(0, 2, device="atalla:1"))[:2], ("atalla:1", []))
        self.child(drop, "x")

    def test_process_arguments(self):
        context = mp.get_context("spawn")
        here, there = context.Pipe()
        x = torch.zeros(3, device="atalla")
        process = context.Process(target=argument, args=(x, there))
        process.start()
        self.assertTrue(here.poll(120))
        self.assertEqual(here.recv(), [1.0] * 3)
        self.assertEqual(x.tolist(), [1.0] * 3)
        here.send("end")
        process.join(60)
        self.assertEqual(process.exitcode, 0)
        del x
        self.assertNothingLeft()

    def test_host_tensors_as_ever(self):
        x = torch.zeros(3)
        self.child(keep, "x", x)
        self.child(drop, "x")
        self.assertTrue(x.is_shared())


class TestNotShared(TestCase):
    def test_fewer_devices_there(self):
        code = (
            "import os, sys, torch\n"
            "from multiprocessing.reduction import ForkingPickler\n"
            "from torch_atalla.integration import sharing\n"
            "class Reference:\n"
            "    def detach(self): return os.open(os.devnull, os.O_RDONLY)\n"
            "try:\n"
            "    sharing._rebuild(1, Reference(), (0, 0), 0, 16)\n"
            "except RuntimeError as error:\n"
            "    print(error)\n"
        )
        environment = {**os.environ, "ATALLA_DEVICE_COUNT": "1"}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        self.assertIn("atalla device 1, but", done.stdout.replace(": torch", ", but torch"), done.stderr)

    def test_bad_descriptor(self):
        from torch_atalla.driver.extension import _C

        with open(os.devnull) as file:
            with self.assertRaisesRegex(RuntimeError, "leave the sender's DRAM"):
                _C.receive_storage(0, os.dup(file.fileno()), 0, 16)


def in_fork(function):
    """What `function` returns in a forked child, as text; or the text of what it raises."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.close(reader)
            try:
                text = str(function())
            except BaseException as error:  # noqa: BLE001
                text = f"{type(error).__name__}: {error}"
            os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    return text if status == 0 else f"status {status}"


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((2,), float(index))


class Touching(Rows):
    def __getitem__(self, index):
        return torch.full((2,), float(index), device="atalla")


@unittest.skipUnless(hasattr(os, "fork"), "needs fork")
class TestFork(TestCase):
    def setUp(self):
        super().setUp()
        self.x = torch.arange(3.0, device="atalla")

    def test_refused(self):
        for use in (
            lambda: torch.ones(2, device="atalla"), lambda: torch.zeros(2).to("atalla"), lambda: self.x + 1,
            lambda: self.x.cpu(), lambda: self.x.tolist(), lambda: torch.empty_like(self.x),
            lambda: torch.atalla.synchronize(), lambda: torch.atalla.init(), lambda: torch.Stream("atalla"),
            lambda: torch.atalla.mem_get_info(), lambda: self.x.fill_(1), lambda: torch.randn(2, device="atalla:1"),
        ):  # fmt: skip
            self.assertRegex(in_fork(use), f"^RuntimeError: {FORKED}")
        self.assertEqual(self.x.tolist(), [0.0, 1, 2])

    def check_autograd(self, used):
        leaf = torch.ones(2, device="atalla", requires_grad=True)
        if used:
            (leaf * 2).sum().backward()
        kept = leaf * 3
        for use in (
            lambda: (leaf * 2).sum().backward(), lambda: kept.sum().backward(), lambda: leaf.view(2, 1) + 1,
            lambda: torch.autograd.grad(kept, leaf, torch.ones_like(kept)),
        ):  # fmt: skip
            self.assertRegex(in_fork(use), "^RuntimeError: ")
        self.assertEqual(in_fork(lambda: leaf.detach().requires_grad_().view(-1).shape), "torch.Size([2])")

    def test_autograd_is_refused(self):
        """Also for leaves of the parent: their accumulators ask for a stream where an exception ends the process."""
        for used in (False, True):
            self.check_autograd(used)

    def test_what_goes_on_working(self):
        self.assertEqual(in_fork(lambda: torch.atalla._is_in_bad_fork()), "True")
        self.assertEqual(in_fork(lambda: torch.atalla.is_initialized()), "False")
        self.assertEqual(in_fork(lambda: torch.atalla.device_count()), "2")
        self.assertEqual(in_fork(lambda: (torch.manual_seed(1), torch.rand(2).shape)[1]), "torch.Size([2])")
        self.assertEqual(
            in_fork(lambda: (self.x.shape, self.x.device)), "(torch.Size([3]), device(type='atalla', index=0))"
        )
        self.assertFalse(torch.atalla._is_in_bad_fork())

    def test_freed_in_the_child(self):
        def free():
            del self.x
            gc.collect()

        before = torch.atalla.memory_allocated()
        self.assertEqual(in_fork(free), "None")
        self.assertEqual(torch.atalla.memory_allocated(), before)
        self.assertEqual(self.x.tolist(), [0.0, 1, 2])

    def test_a_child_of_the_child(self):
        self.assertRegex(in_fork(lambda: in_fork(lambda: torch.ones(1, device="atalla"))), FORKED)

    def test_multiprocessing_fork(self):
        context = mp.get_context("fork")
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(target=lambda: writer.send(in_bad_fork()))
        process.start()
        self.assertTrue(reader.poll(60))
        self.assertRegex(reader.recv(), FORKED)
        process.join(60)
        self.assertEqual(process.exitcode, 0)

    def test_before_the_first_use(self):
        """A child that was forked before the device was opened has a device of its own; so has its parent."""
        code = (
            "import os, torch, torch_atalla\n"
            "torch.manual_seed(0)\n"
            "child = os.fork()\n"
            "x = torch.ones(4, device='atalla') * (2 if child else 3)\n"
            "status = os.waitpid(child, 0)[1] if child else 0\n"
            "print(x.sum().item(), status, flush=True)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        self.assertEqual(sorted(done.stdout.split()), ["0", "0", "12.0", "8.0"], done.stderr)

    def test_data_loader(self):
        """Workers that leave the device alone are forked as ever."""
        loader = torch.utils.data.DataLoader(Rows(), batch_size=4, num_workers=2)
        rows = torch.cat([batch.to("atalla") for batch in loader])
        self.assertEqual(rows[:, 0].cpu(), torch.arange(8.0))
        with self.assertRaisesRegex(RuntimeError, FORKED):
            list(torch.utils.data.DataLoader(Touching(), num_workers=1))


def in_bad_fork():
    try:
        return str(torch.ones(1, device="atalla"))
    except RuntimeError as error:
        return str(error)
