# SPDX-License-Identifier: BSD-3-Clause
"""Generators: seeds, offsets and states, what a value depends on (and what not), and who uses them. Whether the numbers
follow their laws is test_distributions.py's question."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
from pathlib import Path

import torch
import torch.utils.checkpoint
from random_cases import CASES, digest
from torch._prims.context import TorchRefsMode
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase, parametrize, subtest

import torch_atalla

# In-place draws, by the position of an element alone.
FILLS = {
    "uniform_": lambda t, g: t.uniform_(-1, 3, generator=g),
    "normal_": lambda t, g: t.normal_(1, 2, generator=g),
    "exponential_": lambda t, g: t.exponential_(2, generator=g),
    "cauchy_": lambda t, g: t.cauchy_(1, 2, generator=g),
    "log_normal_": lambda t, g: t.log_normal_(0.5, 0.7, generator=g),
    "geometric_": lambda t, g: t.geometric_(0.3, generator=g),
    "bernoulli_": lambda t, g: t.bernoulli_(0.3, generator=g),
    "random_": lambda t, g: t.random_(generator=g),
    "random_ from": lambda t, g: t.random_(-5, 100, generator=g),
    "poisson": lambda t, g: t.copy_(torch.poisson(torch.full_like(t, 12.0), generator=g)),
    "gamma": lambda t, g: t.copy_(torch._standard_gamma(torch.full_like(t, 0.5), generator=g)),
    "binomial": lambda t, g: t.copy_(torch.binomial(torch.full_like(t, 30.0), torch.full_like(t, 0.4), generator=g)),
    "rrelu": lambda t, g: torch.ops.aten.rrelu_with_noise_(t.fill_(-1), torch.empty_like(t), 0.1, 0.3, True, g),
}
FLOATS = {torch.float32: list(FILLS), torch.float64: list(FILLS), torch.float16: list(FILLS)[:9]}
SPLITTABLE = [
    subtest((name, dtype), name=f"{name.replace(' ', '_')}_{str(dtype)[6:]}")
    for dtype, names in FLOATS.items()
    for name in names
]


class TestGenerator(TestCase):
    def test_construction(self, device):
        self.assertEqual(torch.Generator("atalla:1").device, torch.device("atalla:1"))
        self.assertEqual(torch.Generator(device="atalla").device, torch.device("atalla:0"))
        with torch.atalla.device(1):
            self.assertEqual(torch.Generator(device="atalla").device, torch.device("atalla:1"))
        with self.assertRaisesRegex(RuntimeError, "Invalid device index"):
            torch.Generator(f"atalla:{torch.atalla.device_count()}")

    def test_seed(self, device):
        g = torch.Generator(device)
        self.assertEqual(g.initial_seed(), torch.Generator().initial_seed())  # upstream's default
        self.assertIs(g.manual_seed(17), g)
        self.assertEqual((g.initial_seed(), g.get_offset()), (17, 0))
        self.assertEqual(g.manual_seed(-1).initial_seed(), 2**64 - 1)
        drawn = g.seed()
        self.assertEqual(g.initial_seed(), drawn)
        self.assertNotEqual(drawn, g.seed())

    def test_offset_counts_elements(self, device):
        for fill in ("uniform_", "normal_", "bernoulli_", "random_", "poisson", "gamma"):
            for dtype in (torch.float32, torch.float64):
                g = torch.Generator(device).manual_seed(1)
                for n, total in ((5, 5), (0, 5), (7, 12), (1000, 1012)):
                    FILLS[fill](torch.empty(n, dtype=dtype, device=device), g)
                    self.assertEqual(g.get_offset(), total)

    def test_set_offset(self, device):
        g = torch.Generator(device).manual_seed(1)
        whole = torch.rand(100, device=device, generator=g)
        for offset in (0, 1, 3, 4, 50, 99):
            g.set_offset(offset)
            self.assertEqual(torch.rand(100 - offset, device=device, generator=g), whole[offset:], rtol=0, atol=0)
        g.set_offset(2**40 + 3)
        self.assertEqual(g.get_offset(), 2**40 + 3)
        self.assertTrue(0 <= torch.rand((), device=device, generator=g).item() < 1)

    def test_state(self, device):
        g = torch.Generator(device).manual_seed(2**63 + 5)
        torch.rand(11, device=device, generator=g)
        state = g.get_state()
        self.assertEqual((state.dtype, state.device.type, state.shape), (torch.uint8, "cpu", (16,)))
        self.assertEqual(state.view(torch.int64)[1].item(), 11)
        first = torch.randn(9, device=device, generator=g)
        self.assertIs(g.set_state(state), g)
        self.assertEqual((g.initial_seed(), g.get_offset()), (2**63 + 5, 11))
        self.assertEqual(torch.randn(9, device=device, generator=g), first)
        with self.assertRaisesRegex(RuntimeError, "RNG state is wrong size"):
            g.set_state(torch.zeros(15, dtype=torch.uint8))
        with self.assertRaisesRegex(TypeError, "RNG state must be a torch.ByteTensor"):
            g.set_state(torch.zeros(16))

    def test_clones(self, device):
        g = torch.Generator(device).manual_seed(4)
        torch.rand(3, device=device, generator=g)
        clone = g.clone_state()
        a, b = torch.rand(8, device=device, generator=g), torch.rand(8, device=device, generator=clone)
        self.assertEqual(a, b)
        torch.rand(8, device=device, generator=g)
        self.assertEqual((g.get_offset(), clone.get_offset()), (19, 11))

    def test_shared_states(self, device):
        g = torch.Generator(device).manual_seed(4)
        shared = g.graphsafe_get_state()
        torch.rand(3, device=device, generator=g)
        self.assertEqual(shared.get_offset(), 3)  # the state itself, not a copy
        other = torch.Generator(device).manual_seed(9)
        g.graphsafe_set_state(other)
        torch.rand(5, device=device, generator=g)
        self.assertEqual((g.initial_seed(), other.get_offset(), shared.get_offset()), (9, 5, 3))
        with self.assertRaisesRegex(RuntimeError, "Expected a 'atalla' device type for generator but found 'cpu'"):
            g.graphsafe_set_state(torch.Generator())

    def test_copies_and_pickles(self, device):
        g = torch.Generator("atalla:1").manual_seed(6)
        torch.rand(5, device="atalla:1", generator=g)
        expected = torch.rand(4, device="atalla:1", generator=g.clone_state())
        for other in (copy.deepcopy(g), pickle.loads(pickle.dumps(g))):
            self.assertEqual(other.device, torch.device("atalla:1"))
            self.assertEqual(torch.rand(4, device="atalla:1", generator=other), expected)

    def test_wrong_generators(self, device):
        cpu = torch.Generator()
        message = "Expected a 'atalla' device type for generator but found 'cpu'"
        with self.assertRaisesRegex(RuntimeError, message):
            torch.rand(3, device=device, generator=cpu)
        for fill in FILLS.values():
            with self.assertRaisesRegex(RuntimeError, message):
                fill(torch.ones(3, device=device), cpu)
        with self.assertRaisesRegex(RuntimeError, message):
            torch.randperm(3, device=device, generator=cpu)
        with self.assertRaisesRegex(RuntimeError, "Expected a 'cpu' device type for generator but found 'atalla'"):
            torch.rand(3, generator=torch.Generator(device))
        with self.assertRaisesRegex(RuntimeError, "Expected a 'atalla:0' generator device but found 'atalla:1'"):
            torch.empty(3, device="atalla:0").uniform_(generator=torch.Generator("atalla:1"))


class TestDeviceState(TestCase):
    """torch.atalla.random, torch.manual_seed, fork_rng."""

    def test_manual_seed_reaches_every_device(self, device):
        torch.manual_seed(77)
        self.assertEqual(torch.atalla.initial_seed(), 77)
        first, second = (torch.rand(50, device=f"atalla:{i}").cpu() for i in range(2))
        self.assertEqual(first, second)  # the same seed, the same numbers
        torch.atalla.manual_seed(78)  # of the current device only
        self.assertEqual(torch.atalla.random._generator(0).initial_seed(), 78)
        self.assertEqual(torch.atalla.random._generator(1).initial_seed(), 77)
        torch.atalla.manual_seed_all(79)
        self.assertEqual([torch.atalla.random._generator(i).initial_seed() for i in range(2)], [79, 79])

    def test_seed(self, device):
        torch.atalla.seed_all()
        a = [torch.atalla.random._generator(i).initial_seed() for i in range(2)]
        self.assertEqual(a[0], a[1])
        torch.atalla.seed()
        self.assertNotEqual(torch.atalla.initial_seed(), a[0])
        torch.seed()
        self.assertNotEqual(torch.atalla.random._generator(1).initial_seed(), a[1])

    def test_states(self, device):
        torch.manual_seed(3)
        states = torch.atalla.get_rng_state_all()
        self.assertEqual(len(states), torch.atalla.device_count())
        before = [torch.rand(6, device=f"atalla:{i}") for i in range(2)]
        torch.atalla.set_rng_state_all(states)
        self.assertEqual(before, [torch.rand(6, device=f"atalla:{i}") for i in range(2)])
        one = torch.atalla.get_rng_state("atalla:1")
        expected = torch.rand(6, device="atalla:1")
        for spelling in (1, "atalla:1", torch.device("atalla:1")):
            torch.atalla.set_rng_state(one, spelling)
            self.assertEqual(torch.rand(6, device="atalla:1"), expected)
        torch.atalla.set_rng_state(one.to("atalla:1"), 1)  # a state on the device is taken too
        with TorchRefsMode(strict=True):  # as upstream's tests freeze the state
            torch.atalla.set_rng_state(one, 1)
        self.assertEqual(torch.rand(6, device="atalla:1"), expected)

    def test_seeding_opens_no_device(self, device):
        code = (
            "import torch, torch_atalla._C as C\n"
            "torch.manual_seed(5)\n"
            "state = torch.atalla.get_rng_state(1)\n"
            "torch.atalla.set_rng_state(state, 1)\n"
            "assert not C.is_open(0) and not C.is_open(1)\n"
            "torch.rand(3, device='atalla:1')\n"
            "assert not C.is_open(0) and C.is_open(1)\n"
        )
        subprocess.run([sys.executable, "-c", code], check=True)

    def test_fork_rng(self, device):
        torch.manual_seed(11)
        torch.rand(3, device="atalla:0")
        states = torch.atalla.get_rng_state_all()
        with torch.random.fork_rng(devices=[0, 1], device_type="atalla"):
            torch.manual_seed(0)
            torch.rand(100, device="atalla:0"), torch.rand(100, device="atalla:1"), torch.rand(100)
        self.assertEqual(torch.atalla.get_rng_state_all(), states)
        with torch.random.fork_rng(devices=["atalla:1"]):  # of the accelerator, by default
            torch.rand(5, device="atalla:1"), torch.rand(5, device="atalla:0")
        after = torch.atalla.get_rng_state_all()
        self.assertEqual(after[1], states[1])
        self.assertNotEqual(after[0].tolist(), states[0].tolist())

    def test_tensor_factories_draw_from_their_device(self, device):
        torch.manual_seed(1)
        torch.rand(9, device="atalla:1")
        self.assertEqual([torch.atalla.random._generator(i).get_offset() for i in range(2)], [0, 9])


class TestReproducibility(TestCase):
    """A value depends on the seed and on its element's position in the sequence, and on nothing else."""

    @parametrize("name", list(CASES))
    def test_threads(self, device, name):
        draw = CASES[name][0]
        threads = torch_atalla.chip.get_num_threads()
        drawn = []
        try:
            for n in (1, 2, 8):
                torch_atalla.chip.set_num_threads(n)
                torch.manual_seed(13)
                drawn.append(draw(None).cpu())
        finally:
            torch_atalla.chip.set_num_threads(threads)
        for other in drawn[1:]:
            self.assertEqual(other, drawn[0], rtol=0, atol=0)

    @parametrize("name", [n for n in CASES if "generator" in n or n in ("uniform_", "multinomial", "poisson")])
    def test_a_generator_is_worth_its_seed(self, device, name):
        draw = CASES[name][0]
        g = torch.Generator(device).manual_seed(21)
        first = draw(g).cpu()
        self.assertFalse(torch.equal(draw(g).cpu(), first))
        self.assertEqual(draw(torch.Generator(device).manual_seed(21)).cpu(), first, rtol=0, atol=0)
        torch.manual_seed(21)
        self.assertEqual(draw(None).cpu(), first, rtol=0, atol=0)

    @parametrize("name,dtype", SPLITTABLE)
    def test_batch_splits(self, device, name, dtype):
        fill, n = FILLS[name], 5003

        def draw(*parts):
            g = torch.Generator(device).manual_seed(8)
            return torch.cat([fill(torch.ones(p, dtype=dtype, device=device), g) for p in parts]).cpu()

        whole = draw(n)
        for parts in ((1, n - 1), (3, 5, n - 8), (64, n - 64), (2500, 2503), (4999, 4)):
            self.assertEqual(draw(*parts), whole, rtol=0, atol=0, equal_nan=True)
        g = torch.Generator(device).manual_seed(8)  # fewer are the beginning of more
        self.assertEqual(fill(torch.ones(700, dtype=dtype, device=device), g).cpu(), whole[:700], rtol=0, atol=0)

    @parametrize("name,dtype", SPLITTABLE)
    def test_layouts(self, device, name, dtype):
        fill = FILLS[name]

        def seeded():
            return torch.Generator(device).manual_seed(8)

        plain = fill(torch.ones(30, 41, dtype=dtype, device=device), seeded()).cpu()
        for view in (
            torch.ones(41, 30, dtype=dtype, device=device).t(),
            torch.ones(30, 82, dtype=dtype, device=device)[:, ::2],
            torch.ones(90, 50, dtype=dtype, device=device)[1::3, 4:45],
        ):
            self.assertEqual(fill(view, seeded()).cpu(), plain, rtol=0, atol=0)
        self.assertEqual(fill(torch.ones(1230, dtype=dtype, device=device), seeded()).cpu(), plain.flatten())

    def test_dropout_splits(self, device):
        x = torch.ones(64, 33, device=device)
        torch.manual_seed(2)
        whole = torch.nn.functional.dropout(x, 0.4)
        torch.manual_seed(2)
        halves = [torch.nn.functional.dropout(part, 0.4) for part in (x[:10], x[10:])]
        self.assertEqual(torch.cat(halves), whole)

    def test_processes_and_launch_modes(self, device):
        """The same numbers in another process, whoever hands its launches to the chip."""
        mine = digest()
        code = "import sys; sys.path[:0] = ['test/support']; import torch_atalla, random_cases as r; print(r.digest())"
        for launch, threads in (("inline", "1"), ("queued", "3")):
            environment = {**os.environ, "ATALLA_LAUNCH": launch, "ATALLA_NUM_THREADS": threads}
            done = subprocess.run(
                [sys.executable, "-c", code],
                env=environment,
                cwd=Path(__file__).parents[2],
                capture_output=True,
                text=True,
                check=True,
            )
            self.assertEqual(done.stdout.split()[-1], mine)

    def test_known_answers(self, device):
        """Philox4x32-10 of counters 0 and 1 under key 0 (Random123's known answers give counter 0)."""
        g = torch.Generator(device).manual_seed(0)
        words = torch.tensor([0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], dtype=torch.int64)
        drawn = torch.rand(4, device=device, generator=g).cpu()
        self.assertEqual(drawn, ((words >> 8).double() * 2.0**-24).float(), rtol=0, atol=0)

    def test_streams(self, device):
        """The order of the draws counts, not the streams on which they run."""
        torch.manual_seed(6)
        expected = [torch.rand(100, device=device).cpu() for _ in range(4)]
        torch.manual_seed(6)
        drawn = []
        for _ in range(4):
            with torch.Stream(device=device):
                drawn.append(torch.rand(100, device=device).cpu())
        self.assertEqual(drawn, expected)


class TestUsers(TestCase):
    def _grads(self, device, checkpointed, **options):
        torch.manual_seed(0)
        layer = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 16)).to(device)
        x = torch.randn(8, 16).to(device).requires_grad_()
        torch.manual_seed(1)
        if checkpointed:
            y = torch.utils.checkpoint.checkpoint(layer, x, **options)
        else:
            y = layer(x)
        y.square().sum().backward()
        return [x.grad.cpu(), *(p.grad.cpu() for p in layer.parameters()), torch.rand(3, device=device).cpu()]

    @parametrize("use_reentrant", [True, False])
    def test_checkpoint(self, device, use_reentrant):
        expected = self._grads(device, False)
        self.assertEqual(self._grads(device, True, use_reentrant=use_reentrant), expected)
        other = self._grads(device, True, use_reentrant=use_reentrant, preserve_rng_state=False)
        self.assertNotEqual(other[1].tolist(), expected[1].tolist())  # the masks differ: the state matters

    def test_data_loader(self, device):
        """Workers are seeded by the CPU's generator, as ever, and leave the device's alone."""
        torch.manual_seed(4)
        state = torch.atalla.get_rng_state()
        data = list(range(8))

        def order():
            g = torch.Generator().manual_seed(3)
            return [b.tolist() for b in torch.utils.data.DataLoader(data, 2, shuffle=True, generator=g)]

        self.assertEqual(order(), order())
        self.assertEqual(torch.atalla.get_rng_state(), state)

    def test_save_and_load(self, device):
        torch.manual_seed(9)
        torch.rand(7, device=device)
        buffer = io.BytesIO()
        torch.save({"rng": torch.atalla.get_rng_state_all()}, buffer)
        expected = torch.rand(7, device=device)
        buffer.seek(0)
        torch.atalla.set_rng_state_all(torch.load(buffer)["rng"])
        self.assertEqual(torch.rand(7, device=device), expected)

    def test_init(self, device):
        """Modules that are made on the device draw there."""
        torch.manual_seed(5)
        made = torch.nn.Linear(32, 32, device=device)
        self.assertLess(made.weight.abs().max().item(), 32**-0.5)
        torch.manual_seed(5)
        self.assertEqual(torch.nn.Linear(32, 32, device=device).weight, made.weight)


for _suite in (TestGenerator, TestDeviceState, TestReproducibility, TestUsers):
    instantiate_device_type_tests(_suite, globals(), only_for=("atalla",))


def test_the_suites_are_there():
    names = [n for n, c in globals().items() if isinstance(c, type) and issubclass(c, TestCase) and c is not TestCase]
    assert sum(len([m for m in dir(globals()[n]) if m.startswith("test_")]) for n in names) >= 170
