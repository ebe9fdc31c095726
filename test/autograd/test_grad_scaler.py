# SPDX-License-Identifier: BSD-3-Clause
"""torch.amp.GradScaler on the device, with every way in which an optimizer steps."""

from __future__ import annotations

import pickle

import torch
import torch.nn.functional as F
from opinfo_suite import collected
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase, parametrize


def make_model(device):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to(device)


OPTIMIZERS = {
    "sgd": lambda p, **k: torch.optim.SGD(p, lr=0.05, momentum=0.9, **k),
    "adam": lambda p, **k: torch.optim.Adam(p, lr=0.05, **k),
    "adamw": lambda p, **k: torch.optim.AdamW(p, lr=0.05, **k),
    "adagrad": lambda p, **k: torch.optim.Adagrad(p, lr=0.05, **k),
}
WAYS = {"for": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


class TestGradScaler(TestCase):
    def train(self, device, name, steps=6, spoiled=(2,), clip=None, **options):
        """Steps with one infinite gradient. Gives the parameters, and the scale after each step."""
        model = make_model(device)
        optimizer = OPTIMIZERS[name](model.parameters(), **options)
        scaler = torch.amp.GradScaler(torch.device(device).type, init_scale=64.0, growth_interval=2)
        generator, scales = torch.Generator().manual_seed(1), []
        for step in range(steps):
            x = torch.randn(16, 8, generator=generator).to(device)
            optimizer.zero_grad()
            loss = model(x).square().mean()
            scaler.scale(loss).backward()
            if step in spoiled:
                model[0].weight.grad[1, 2] = float("inf") if step % 2 else float("nan")
            if clip is not None:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            scaler.step(optimizer)
            scaler.update()
            scales.append(scaler.get_scale())
        return [p.detach().cpu() for p in model.parameters()], scales

    @parametrize("way", sorted(WAYS))
    @parametrize("name", sorted(OPTIMIZERS))
    def test_training(self, device, name, way):
        if name == "adagrad" and way == "fused":
            want = self.train("cpu", name, foreach=False)
        else:
            want = self.train("cpu", name, **({"fused": True} if way == "fused" else {"foreach": False}))
        got = self.train(device, name, **WAYS[way])
        self.assertEqual(got[1], want[1])
        self.assertEqual(got[1], [64.0, 128.0, 64.0, 64.0, 128.0, 128.0])
        for a, b in zip(got[0], want[0]):
            self.assertEqual(a, b, atol=1e-5, rtol=1e-4)

    def test_unscale_and_clip(self, device):
        want, got = self.train("cpu", "sgd", clip=0.1), self.train(device, "sgd", clip=0.1)
        self.assertEqual(got[1], want[1])
        for a, b in zip(got[0], want[0]):
            self.assertEqual(a, b, atol=1e-5, rtol=1e-4)

    def test_skipped_step_changes_nothing(self, device):
        model = make_model(device)
        before = [p.detach().clone() for p in model.parameters()]
        for way in WAYS.values():
            optimizer = torch.optim.Adam(model.parameters(), **way)
            scaler = torch.amp.GradScaler("atalla")
            scaler.scale(model(torch.ones(2, 8, device=device)).sum()).backward()
            model[2].bias.grad.fill_(float("nan"))
            scaler.step(optimizer)
            scaler.update()
            self.assertEqual(scaler.get_scale(), 2.0**15)
            for p, old in zip(model.parameters(), before):
                self.assertEqual(p, old, atol=0, rtol=0)

    def test_state(self, device):
        scaler = torch.amp.GradScaler("atalla", init_scale=8.0, growth_factor=3.0, growth_interval=2)
        scaler.scale(torch.ones((), device=device))
        other = torch.amp.GradScaler("atalla")
        other.load_state_dict(scaler.state_dict())
        self.assertEqual(other.get_scale(), 8.0)
        self.assertEqual(other.get_growth_factor(), 3.0)
        again = pickle.loads(pickle.dumps(scaler))
        self.assertEqual(again.state_dict(), scaler.state_dict())
        scaler.update(torch.tensor(5.0, device=device))
        self.assertEqual(scaler.get_scale(), 5.0)

    def test_disabled(self, device):
        scaler = torch.amp.GradScaler("atalla", enabled=False)
        loss = torch.ones((), device=device)
        self.assertIs(scaler.scale(loss), loss)
        self.assertEqual(scaler.get_scale(), 1.0)

    def test_lists_and_errors(self, device):
        scaler = torch.amp.GradScaler("atalla", init_scale=4.0)
        one = torch.ones(2, device=device)
        nested = scaler.scale([one, (one, [one])])
        self.assertEqual(nested[1][1][0], 4 * one)
        p = torch.nn.Parameter(torch.ones(3, device=device, dtype=torch.float16))
        optimizer = torch.optim.SGD([p], lr=0.1)
        p.grad = torch.ones_like(p)
        with self.assertRaisesRegex(ValueError, "Attempting to unscale FP16 gradients"):
            scaler.unscale_(optimizer)
        with self.assertRaisesRegex(AssertionError, "No inf checks were recorded"):
            scaler.update()

    def test_kernels(self, device):
        """Unscaling, the flag and the rule of growth, number by number."""
        inverse = torch.full((), 0.25, device=device)
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            found = torch.zeros((), device=device)
            ts = [torch.full((3, 4), 8.0, dtype=dtype, device=device), torch.ones(5, dtype=dtype, device=device)[::2]]
            torch._amp_foreach_non_finite_check_and_unscale_(ts, found, inverse)
            self.assertEqual(found.item(), 0.0)
            self.assertEqual(ts[0], torch.full_like(ts[0], 2.0))
            self.assertEqual(ts[1], torch.full_like(ts[1], 0.25))
            ts[1][1] = float("-inf")
            torch._amp_foreach_non_finite_check_and_unscale_(ts, found, inverse)
            self.assertEqual(found.item(), 1.0)
        scale = torch.full((), 8.0, device=device)
        tracker = torch.zeros((), dtype=torch.int32, device=device)
        found, none = torch.ones((), device=device), torch.zeros((), device=device)
        states = []
        for flag in (none, none, none, found, none):
            torch._amp_update_scale_(scale, tracker, flag, 2.0, 0.5, 2)
            states.append((scale.item(), tracker.item()))
        self.assertEqual(states, [(8.0, 1), (16.0, 0), (16.0, 1), (8.0, 0), (8.0, 1)])

    def test_two_devices(self, device):
        """One optimizer over parameters of both devices: an infinity on one stops the step on both."""
        first = torch.nn.Parameter(torch.ones(4, device="atalla:0"))
        second = torch.nn.Parameter(torch.ones(4, device="atalla:1"))
        for way in (WAYS["for"], WAYS["foreach"], WAYS["fused"]):
            scaler = torch.amp.GradScaler("atalla", init_scale=4.0, growth_interval=1)
            optimizer = torch.optim.SGD([first, second], lr=0.5, **way)
            for spoiled in (True, False):
                optimizer.zero_grad()
                before = [p.detach().clone() for p in (first, second)]
                losses = [scaler.scale(first.sum()), scaler.scale(second.sum())]
                for loss in losses:
                    loss.backward()
                if spoiled:
                    second.grad[3] = float("inf")
                scaler.step(optimizer)
                scaler.update()
                for p, old in zip((first, second), before):
                    self.assertEqual(p, old if spoiled else old - 0.5)
            self.assertEqual(scaler.get_scale(), 4.0)

    def test_mixed_precision_training(self, device):
        """Half-precision autocast with a scaler learns what float32 learns."""
        torch.manual_seed(0)
        x = torch.randn(64, 8, device=device)
        y = x.sum(1, keepdim=True).tanh()
        losses = {}
        for enabled in (True, False):
            model = make_model(device)
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
            scaler = torch.amp.GradScaler("atalla", enabled=enabled)
            for _ in range(40):
                optimizer.zero_grad(set_to_none=True)
                with torch.autocast("atalla", enabled=enabled):
                    loss = F.mse_loss(model(x), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            losses[enabled] = loss.item()
        self.assertLess(losses[True], 0.1)
        self.assertEqual(losses[True], losses[False], atol=0.02, rtol=0.2)


instantiate_device_type_tests(TestGradScaler, globals(), only_for=("atalla",))


def test_count() -> None:
    assert collected(globals(), "TestGradScaler") >= 21
