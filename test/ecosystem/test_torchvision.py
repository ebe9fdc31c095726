# SPDX-License-Identifier: BSD-3-Clause
"""torchvision on the device: its ops in its own modules, and its detectors, which run and train as on the CPU."""

from __future__ import annotations

import copy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_atalla

torchvision = pytest.importorskip("torchvision", reason="torchvision is not installed (requirements-ecosystem.txt)")

from detectors import NAMES, detector, images, moved, targets  # noqa: E402
from region_cases import boxes  # noqa: E402
from torchvision import ops  # noqa: E402

from torch_atalla.detection import FixedDetector  # noqa: E402

SUPPORT = Path(__file__).parent.parent / "support"


def close(actual, expected, tolerance=1e-8):
    """The same structure, with the same values."""
    actual, expected = (torch.utils._pytree.tree_flatten(value) for value in (actual, expected))
    assert actual[1] == expected[1]
    for a, e in zip(actual[0], expected[0], strict=True):
        torch.testing.assert_close(a.cpu(), e, rtol=tolerance, atol=tolerance)


@pytest.mark.skipif(not (shutil.which("cc") and shutil.which("nm")), reason="needs a C compiler and nm")
def test_kernels_agree_with_those_of_its_own_library(tmp_path):
    """In a process in which its own library loads: CUDA's libraries are replaced by empty ones."""
    script = SUPPORT / "torchvision_library.py"
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, timeout=600)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip().endswith("calls agree")


def test_imports_with_ops():
    assert torchvision.extension._has_ops()
    code = "import torch, torchvision; print(torchvision.ops.nms(torch.eye(4), torch.ones(4), 0.5).tolist())"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[0, 1, 2, 3]"


def test_modules_and_their_gradients():
    torch.manual_seed(0)
    source = torch.randn(2, 8, 16, 20, dtype=torch.float64)
    rois = [boxes(5, 40, dtype=torch.float64), boxes(3, 40, seed=1, dtype=torch.float64)]
    features = {"0": source, "1": torch.randn(2, 8, 8, 10, dtype=torch.float64)}
    offset, mask = torch.randn(2, 18, 16, 20, dtype=torch.float64), torch.rand(2, 9, 16, 20, dtype=torch.float64)
    convolution = ops.DeformConv2d(8, 6, 3, padding=1).double()
    pools = {
        "RoIAlign": (ops.RoIAlign(3, 0.5, 2), source, rois),
        "RoIPool": (ops.RoIPool(3, 0.5), source, rois),
        "PSRoIAlign": (ops.PSRoIAlign(2, 0.5, 2), source, rois),
        "PSRoIPool": (ops.PSRoIPool(2, 0.5), source, rois),
        "MultiScaleRoIAlign": (ops.MultiScaleRoIAlign(["0", "1"], 3, 2), features, rois, [(32, 40)] * 2),
        "DeformConv2d": (convolution, source, offset, mask),
    }
    for name, (module, *arguments) in pools.items():
        results = []
        for device in ("cpu", "atalla"):
            moved_module = copy.deepcopy(module).to(device)
            given = moved(arguments, device)
            given[0] = torch.utils._pytree.tree_map(lambda t: t.detach().clone().requires_grad_(), given[0])
            leaves = torch.utils._pytree.tree_leaves(given[0])
            out = moved_module(*given)
            assert out.requires_grad, name
            (out * torch.arange(out.numel(), dtype=out.dtype, device=device).cos().view_as(out)).sum().backward()
            gradients = [t.grad for t in leaves] + [p.grad for p in moved_module.parameters()]
            results.append([out.detach(), *gradients])
        close(results[1], results[0])


def test_gradients_by_finite_differences():
    torch.manual_seed(0)
    source = torch.randn(1, 4, 5, 6, dtype=torch.float64, device="atalla", requires_grad=True)
    rois = torch.tensor([[0, 0.3, 0.7, 4.1, 3.9]], dtype=torch.float64, device="atalla")
    assert torch.autograd.gradcheck(lambda x: ops.roi_align(x, rois, 2, sampling_ratio=2), source)
    assert torch.autograd.gradcheck(lambda x: ops.ps_roi_align(x, rois, 2, sampling_ratio=2), source)
    weight = torch.randn(2, 4, 2, 2, dtype=torch.float64, device="atalla", requires_grad=True)
    offset = torch.rand(1, 8, 4, 5, dtype=torch.float64, device="atalla") * 0.8 + 0.1
    mask = torch.rand(1, 4, 4, 5, dtype=torch.float64, device="atalla", requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda x, o, w, m: ops.deform_conv2d(x, o, w, mask=m), (source, offset.requires_grad_(), weight, mask)
    )


def test_second_derivatives_are_refused():
    source = torch.randn(1, 2, 5, 6, device="atalla", requires_grad=True)
    rois = torch.tensor([[0, 0.0, 0, 4, 4]], device="atalla")
    (first,) = torch.autograd.grad(ops.roi_align(source, rois, 2).square().sum(), source, create_graph=True)
    with pytest.raises(RuntimeError, match="double backwards on roi_align not supported"):
        first.sum().backward()


@pytest.mark.parametrize("n", [0, 1, 300, 2000])
def test_batched_nms(n):
    dets, labels = boxes(n, 100.0), torch.arange(n) % 7
    scores = torch.rand(n, generator=torch.Generator().manual_seed(2))
    expected = ops.batched_nms(dets, scores, labels, 0.4)
    assert torch.equal(ops.batched_nms(*moved([dets, scores, labels], "atalla"), 0.4).cpu(), expected)


@pytest.mark.parametrize("name", NAMES)
def test_detector_finds_what_it_finds_on_the_cpu(name):
    model = detector(name)
    with torch.no_grad():
        expected = model(images())
        fixed = FixedDetector(model)(images())
        found = model.to("atalla")(moved(images(), "atalla"))
    assert all(len(result["scores"].unique()) > 1 for result in expected)
    close(found, expected, 1e-6)
    close([{key: values[result["scores"] >= 0] for key, values in result.items()} for result in fixed], expected, 1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_detector_trains_as_on_the_cpu(name):
    losses, steps = [], []
    model = detector(name).train()
    for device in ("cpu", "atalla"):
        trained = copy.deepcopy(model).to(device)
        found = trained(moved(images(), device), moved(targets(name), device))
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)
        sum(found.values()).backward()
        optimizer.step()
        losses.append({key: loss.detach() for key, loss in found.items()})
        steps.append([p.detach() - q.to(device) for p, q in zip(trained.parameters(), model.parameters())])
    assert all(loss.isfinite() for loss in losses[0].values())
    close(losses[1], losses[0], 1e-7)
    close(steps[1], steps[0], 1e-6)


def saved(model, inputs, path):
    """The results of the model's loadable, which has no part that runs on the host."""
    program = torch.export.export(model, inputs)
    torch_atalla.save_loadable(program, path, fallback="error")
    loadable = torch_atalla.load_loadable(path)
    return loadable, loadable(*moved(inputs, "atalla"))


class Pools(torch.nn.Module):
    def forward(self, source, rois):
        aligned = ops.roi_align(source, rois, (3, 2), 0.5, 2, True)
        maxima = ops.roi_pool(source, rois, (3, 2), 0.5)
        return aligned, maxima, ops.ps_roi_align(source, rois, 2, 0.5, 2), ops.ps_roi_pool(source, rois, 2, 0.5)


def test_pools_in_a_loadable(tmp_path):
    rois = torch.cat([torch.tensor([[0.0], [1], [1]]), boxes(3, 30)], 1)
    inputs = torch.randn(2, 8, 16, 16), rois
    _, results = saved(Pools(), inputs, tmp_path / "pools.atl")
    close(list(results), list(Pools()(*inputs)), 1e-5)


def test_deformable_convolution_in_a_loadable(tmp_path):
    torch.manual_seed(0)
    model = ops.DeformConv2d(4, 6, 3, padding=1).eval()
    inputs = torch.randn(1, 4, 9, 8), torch.randn(1, 18, 9, 8), torch.rand(1, 9, 9, 8)
    with torch.no_grad():
        _, results = saved(model, inputs, tmp_path / "deform.atl")
        close(results, model(*inputs), 1e-5)


class Nms(torch.nn.Module):
    def __init__(self, size=None):
        super().__init__()
        self.size = size

    def forward(self, dets, scores):
        if self.size is None:
            return ops.nms(dets, scores, 0.4)
        return torch.ops.atalla.nms_static(dets, scores, 0.4, size=self.size)


def test_nms_in_a_loadable_has_a_fixed_size(tmp_path):
    inputs = boxes(50, 60.0), torch.rand(50, generator=torch.Generator().manual_seed(0))
    _, result = saved(Nms(20), inputs, tmp_path / "nms.atl")
    assert torch.equal(result.cpu(), Nms(20)(*inputs))
    with pytest.raises(Exception, match="torch.ops.atalla.nms_static has a fixed one"):
        saved(Nms(), inputs, tmp_path / "dynamic.atl")


@pytest.mark.parametrize("name", NAMES)
def test_detector_in_a_loadable(name, tmp_path):
    """All of a detector: the transformation of the images, the network, and the selection of boxes."""
    fixed = FixedDetector(detector(name, torch.float32))
    inputs = (images(torch.float32),)
    with torch.no_grad():
        _, found = saved(fixed, inputs, tmp_path / "detector.atl")
        expected = fixed.to("atalla")(*moved(inputs, "atalla"))
    assert all((result["scores"] >= 0).any() for result in expected)
    found, expected = (torch.utils._pytree.tree_leaves(results) for results in (found, expected))
    assert all(torch.equal(a.cpu(), e.cpu()) for a, e in zip(found, expected, strict=True))


def test_fixed_detector_refuses_other_models_and_training():
    with pytest.raises(TypeError, match=r"got Linear, expected a detector of torchvision.models.detection"):
        FixedDetector(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="train the wrapped model"):
        FixedDetector(detector("fcos_resnet50_fpn")).train()
