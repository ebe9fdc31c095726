# SPDX-License-Identifier: BSD-3-Clause
"""Modules and optimizers on the device: moving, swapping, parametrizing, pruning, clipping, stepping."""

from __future__ import annotations

import copy

import torch
from opinfo_suite import DeviceTestCase, collected
from torch.nn.utils import parametrizations, parametrize, prune
from torch.testing._internal import common_utils
from torch.testing._internal.common_device_type import instantiate_device_type_tests

OPTIMIZERS = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Rprop", "ASGD", "Adadelta", "Adagrad")


class TestModules(DeviceTestCase):
    def test_swap_tensors(self, device):
        a, b = torch.randn(3, device=device), torch.ones(2, 2)
        first, values = id(a), a.clone()
        torch.utils.swap_tensors(a, b)
        self.assertEqual(id(a), first)
        self.assertEqual((a, b), (torch.ones(2, 2), values))
        self.assertEqual((a.device.type, b.device.type), ("cpu", "atalla"))

    @common_utils.parametrize("swap", [True, False])
    def test_module_moves(self, device, swap):
        torch.__future__.set_swap_module_params_on_conversion(swap)
        try:
            model = torch.nn.Linear(3, 2)
            weight, values = model.weight, model.weight.detach().clone()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model.to(device)
            self.assertIs(model.weight, weight)
            self.assertEqual(model.weight.device, torch.device(device))
            self.assertEqual(model.weight.cpu(), values)
            model(torch.ones(1, 3, device=device)).sum().backward()
            optimizer.step()
            self.assertNotEqual(model.weight.cpu(), values)
            model.half().cpu()
            self.assertEqual((model.weight.dtype, model.weight.device.type), (torch.float16, "cpu"))
            other = torch.nn.Linear(3, 2, device=device)
            other.load_state_dict(model.float().state_dict(), assign=False)
            self.assertEqual(other.weight.cpu(), model.weight)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)

    def test_tied_weights_stay_tied(self, device):
        model = torch.nn.ModuleDict({"a": torch.nn.Linear(3, 3), "b": torch.nn.Linear(3, 3)})
        model["b"].weight = model["a"].weight
        for move in (lambda: model.to(device), lambda: model.to("cpu"), lambda: model.atalla(), lambda: model.cpu()):
            move()
            self.assertIs(model["a"].weight, model["b"].weight)

    def test_moved_while_a_graph_lives(self, device):
        """The parameters stay the same objects, and train on, whatever refers to them."""
        model = torch.nn.Linear(3, 3)
        weight, loss = model.weight, model(torch.ones(1, 3)).sum()
        model.to(device)
        self.assertIs(model.weight, weight)
        self.assertEqual(weight.device, torch.device(device))
        del loss
        model(torch.ones(1, 3, device=device)).sum().backward()

    def test_meta_to_empty(self, device):
        model = torch.nn.Linear(3, 2, device="meta").to_empty(device=device)
        self.assertEqual(model.weight.device, torch.device(device))
        torch.nn.init.ones_(model.weight)
        self.assertEqual(model.weight.sum().item(), 6.0)

    @common_utils.parametrize("kind", ["weight_norm", "spectral_norm", "orthogonal"])
    def test_parametrizations(self, device, kind):
        def run(where):
            torch.manual_seed(0)
            layer = torch.nn.Linear(4, 4)
            getattr(parametrizations, kind)(layer)
            layer.to(where)
            x = torch.arange(8.0, device=where).reshape(2, 4)
            out = layer(x)
            gradients = torch.autograd.grad(out.sin().sum(), list(layer.parameters()))
            return [t.detach().cpu() for t in (out, layer.weight, *gradients)]

        for got, want in zip(run(device), run("cpu")):
            self.assertEqual(got, want, atol=1e-4, rtol=1e-4)

    def test_own_parametrization(self, device):
        class Symmetric(torch.nn.Module):
            def forward(self, x):
                return x.triu() + x.triu(1).T

        layer = torch.nn.Linear(3, 3).to(device)
        parametrize.register_parametrization(layer, "weight", Symmetric())
        self.assertEqual(layer.weight, layer.weight.T)
        with parametrize.cached():
            self.assertIs(layer.weight, layer.weight)
        parametrize.remove_parametrizations(layer, "weight")
        self.assertEqual(layer.weight, layer.weight.T)

    def test_old_weight_norm(self, device):
        with self.assertWarns(FutureWarning):
            layer = torch.nn.utils.weight_norm(torch.nn.Linear(4, 3)).to(device)
        layer(torch.ones(2, 4, device=device)).sum().backward()
        self.assertEqual(layer.weight_g.grad.device, torch.device(device))

    def test_prune(self, device):
        layer = torch.nn.Linear(8, 4).to(device)
        prune.l1_unstructured(layer, "weight", amount=8)
        self.assertEqual(int((layer.weight == 0).sum()), 8)
        prune.ln_structured(layer, "weight", amount=1, n=2, dim=0)
        prune.random_unstructured(layer, "bias", amount=0.5)
        self.assertEqual(layer(torch.ones(1, 8, device=device)).shape, (1, 4))
        prune.remove(layer, "weight")
        self.assertEqual(type(layer.weight), torch.nn.Parameter)
        prune.global_unstructured(((layer, "weight"),), pruning_method=prune.L1Unstructured, amount=0.5)

    def test_clip(self, device):
        for foreach in (True, False, None):
            p = [torch.nn.Parameter(torch.ones(n, device=device)) for n in (3, 5)]
            for t in p:
                t.grad = torch.full_like(t, 2.0)
            norm = torch.nn.utils.clip_grad_norm_(p, 1.0, foreach=foreach, error_if_nonfinite=True)
            self.assertEqual(norm.item(), 32**0.5, atol=1e-5, rtol=1e-5)
            self.assertEqual(p[0].grad, torch.full_like(p[0], 2 / 32**0.5), atol=1e-5, rtol=1e-5)
            torch.nn.utils.clip_grad_value_(p, 0.1, foreach=foreach)
            self.assertEqual(p[1].grad, torch.full_like(p[1], 0.1))
            self.assertEqual(
                torch.nn.utils.get_total_norm([t.grad for t in p], float("inf"), foreach=foreach).item(), 0.1
            )
        p[0].grad.fill_(float("nan"))
        with self.assertRaisesRegex(RuntimeError, "non-finite"):
            torch.nn.utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)

    def test_parameters_to_vector(self, device):
        model = torch.nn.Linear(3, 2).to(device)
        vector = torch.nn.utils.parameters_to_vector(model.parameters())
        torch.nn.utils.vector_to_parameters(vector * 2, model.parameters())
        self.assertEqual(torch.nn.utils.parameters_to_vector(model.parameters()), 2 * vector)

    @common_utils.parametrize("name", OPTIMIZERS)
    @common_utils.parametrize("foreach", [True, False])
    def test_capturable_optimizers(self, device, name, foreach):
        """State on the device, a learning rate that is a tensor: equal to the CPU's plain optimizer."""

        def run(where, **options):
            torch.manual_seed(0)
            p = [torch.nn.Parameter(torch.randn(n, 3).to(where)) for n in (2, 4)]
            optimizer = getattr(torch.optim, name)(p, lr=0.1, **options)
            for _ in range(3):
                for t in p:
                    t.grad = t.detach().sin()
                optimizer.step()
            return [t.detach().cpu() for t in p], optimizer

        got, optimizer = run(device, foreach=foreach, **({} if name == "Adagrad" else {"capturable": True}))
        for a, b in zip(got, run("cpu", foreach=False)[0]):
            self.assertEqual(a, b, atol=1e-5, rtol=1e-4)
        if name != "Adagrad":
            self.assertEqual({s["step"].device for s in optimizer.state.values()}, {torch.device(device)})

    def test_optimizer_state_moves(self, device):
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        twin = copy.deepcopy(model).to(device)
        other = torch.optim.Adam(twin.parameters())
        other.load_state_dict(optimizer.state_dict())
        self.assertEqual(other.state[twin.weight]["exp_avg"].device, torch.device(device))
        swa = torch.optim.swa_utils.AveragedModel(twin)
        swa.update_parameters(twin)
        self.assertEqual(swa.module.weight, twin.weight)


instantiate_device_type_tests(TestModules, globals(), only_for=("atalla",))


def test_count() -> None:
    assert collected(globals(), "TestModules") >= 36
