# SPDX-License-Identifier: BSD-3-Clause
"""Products with weights of 8 and 4 bits, and fake quantization."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import torch_atalla

FLOATS = [torch.float32, torch.bfloat16, torch.float16]


@pytest.fixture(autouse=True)
def native():
    with torch_atalla.fallback.mode("error"):
        yield


def int8(*shape: int) -> torch.Tensor:
    return torch.randint(-128, 128, shape, dtype=torch.int8)


def packed(n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A weight of values 0 to 15, and its pairs as bytes."""
    weight = torch.randint(0, 16, (n, k), dtype=torch.uint8)
    return weight, weight[:, ::2] << 4 | weight[:, 1::2]


@pytest.mark.parametrize("m, k, n", [(1, 8, 8), (17, 64, 24), (40, 300, 33)])
def test_int_mm(m: int, k: int, n: int) -> None:
    a, b = int8(m, k), int8(n, k).t()
    expected = a.int() @ b.int()
    assert torch.equal(torch._int_mm(a.to("atalla"), b.to("atalla")).cpu(), expected)
    out = torch.empty(0, dtype=torch.int32, device="atalla")
    torch._int_mm(a.to("atalla"), b.contiguous().to("atalla"), out=out)
    assert torch.equal(out.cpu(), expected)


def test_int_mm_errors() -> None:
    a = int8(3, 4).to("atalla")
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch._int_mm(a, a)
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch._int_mm(a.float(), a.t())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("m, k, n", [(1, 32, 32), (5, 96, 40), (33, 1056, 64)])
def test_int8_weights(m: int, k: int, n: int, dtype: torch.dtype) -> None:
    a, b, scales = torch.randn(m, k, dtype=dtype), int8(n, k), torch.rand(n, dtype=dtype) / 50
    found = torch._weight_int8pack_mm(a.to("atalla"), b.to("atalla"), scales.to("atalla"))
    assert found.dtype == dtype
    expected = (a.double() @ (b.double() * scales.double()[:, None]).t()).to(dtype)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-2 if dtype != torch.float32 else 1e-4, atol=1e-2)


@pytest.mark.parametrize("group", [32, 128])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_int4_weights(dtype: torch.dtype, group: int) -> None:
    m, k, n = 6, 256, 40
    weight, pairs = packed(n, k)
    parameters = torch.stack([torch.rand(k // group, n) / 10, torch.randn(k // group, n)], 2).to(dtype)
    converted = torch._convert_weight_to_int4pack(pairs.to("atalla"), 2)
    assert (converted.dtype, converted.shape) == (torch.int32, (n // 8, k // 32, 32, 1))
    a = torch.randn(m, k, dtype=dtype)
    found = torch._weight_int4pack_mm(a.to("atalla"), converted, group, parameters.to("atalla"))
    scales, zeros = (parameters[..., i].double().repeat_interleave(group, 0).t() for i in (0, 1))
    expected = (a.double() @ ((weight.double() - 8) * scales + zeros).t()).to(dtype)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-2, atol=1e-3 if dtype == torch.float32 else 0.3)


def test_int4_errors() -> None:
    _, pairs = packed(8, 64)
    weight = torch._convert_weight_to_int4pack(pairs.to("atalla"), 2)
    a, parameters = torch.randn(2, 64).to("atalla"), torch.ones(2, 8, 2).to("atalla")
    with pytest.raises(RuntimeError, match="qGroupSize to be 32, 64, 128 or 256, got 48"):
        torch._weight_int4pack_mm(a, weight, 48, parameters)
    with pytest.raises(RuntimeError, match="qScaleAndZeros"):
        torch._weight_int4pack_mm(a, weight, 64, parameters)
    with pytest.raises(RuntimeError, match="multiple of 8 and k one of 128"):
        torch._convert_weight_to_int4pack(pairs.to("atalla"), 8)


def bytes_read(call) -> int:
    torch_atalla.telemetry.reset()
    call()
    torch.atalla.synchronize()
    return torch_atalla.telemetry.counters().dram_bytes_read


def test_traffic_is_that_of_the_stored_weights() -> None:
    n, k = 256, 1024
    a = torch.randn(4, k).bfloat16().to("atalla")
    parameters = torch.ones(k // 128, n, 2, dtype=torch.bfloat16, device="atalla")
    weight4 = torch._convert_weight_to_int4pack(packed(n, k)[1].to("atalla"), 8)
    weight8, scales = int8(n, k).to("atalla"), torch.ones(n, dtype=torch.bfloat16, device="atalla")
    activations, per_column = a.nbytes, 2 * n
    assert bytes_read(lambda: torch._weight_int8pack_mm(a, weight8, scales)) == activations + n * k + per_column
    four = bytes_read(lambda: torch._weight_int4pack_mm(a, weight4, 128, parameters))
    assert four == activations + n * k // 2 + parameters.nbytes


def test_loadable(tmp_path: Path) -> None:
    """Also of a dynamic number of rows."""

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", int8(24, 64))
            self.register_buffer("scales", torch.rand(24) / 50)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch._weight_int8pack_mm(x, self.weight, self.scales).relu()

    module, x = Layer(), torch.randn(4, 64)
    exported = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("m", min=2, max=9)},))
    torch_atalla.save_loadable(exported, tmp_path / "m.atl", fallback="error")
    program = torch_atalla.load_loadable(tmp_path / "m.atl", device="atalla")
    for rows in (2, 7):
        given = torch.randn(rows, 64).to("atalla")
        assert torch.equal(program(given).cpu(), module.to("atalla")(given).cpu())
        module.to("cpu")


VALUES = torch.tensor([-9.0, -1.26, -1.25, -0.05, 0.0, 0.049, 0.05, 0.15, 0.25, 1.55, 7.0, float("inf"), float("-inf")])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("zero_point", [0, 3, 127])
def test_fake_quantize(dtype: torch.dtype, zero_point: int) -> None:
    finite = VALUES[:-2].to(dtype)
    for x in (finite, torch.randn(3, 50, 2, dtype=dtype).transpose(0, 1)):
        gradients, results = [], []
        for device in ("cpu", "atalla"):
            leaf = x.detach().to(device).requires_grad_()
            out = torch.fake_quantize_per_tensor_affine(leaf, 0.1, zero_point, 0, 127)
            out.backward(torch.arange(out.numel(), dtype=dtype).view_as(out).to(device))
            results.append(out.detach().cpu())
            gradients.append(leaf.grad.cpu())
        # The CPU rounds the scale to float32 in some of its loops over float64.
        near = 1e-7 if dtype == torch.float64 else 0
        torch.testing.assert_close(*results, rtol=near, atol=0)
        torch.testing.assert_close(*gradients, rtol=0, atol=0)
    infinite = torch.fake_quantize_per_tensor_affine(VALUES[-2:].to(dtype).to("atalla"), 0.5, 0, -8, 7)
    assert infinite.tolist() == [3.5, -4.0]


@pytest.mark.parametrize("zero_dtype", [torch.int32, torch.float32], ids=str)
def test_fake_quantize_by_channel(zero_dtype: torch.dtype) -> None:
    x, scale = torch.randn(3, 4, 5), torch.tensor([0.1, 0.25, 0.5, 1.0])
    x[0, 1] = torch.tensor([0.125, 0.375, -0.125, -0.625, 2.0])  # ties
    zero = torch.tensor([0, 3, 1, 7]).to(zero_dtype)
    gradients, results = [], []
    for device in ("cpu", "atalla"):
        leaf = x.detach().to(device).requires_grad_()
        out = torch.fake_quantize_per_channel_affine(leaf, scale.to(device), zero.to(device), 1, -8, 7)
        out.sum().backward()
        results.append(out.detach().cpu())
        gradients.append(leaf.grad.cpu())
    torch.testing.assert_close(*results, rtol=0, atol=0)
    torch.testing.assert_close(*gradients, rtol=0, atol=0)


@pytest.mark.parametrize("enabled", [0, 1])
def test_fake_quantize_by_tensors(enabled: int) -> None:
    def run(device: str) -> tuple[torch.Tensor, torch.Tensor]:
        one = [torch.tensor([0.1]), torch.tensor([2], dtype=torch.int32), torch.tensor([enabled])]
        op = torch.ops.aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams
        return op(VALUES[:-2].to(device), *(t.to(device) for t in one), -8, 7)

    for mine, cpu in zip(run("atalla"), run("cpu"), strict=True):
        torch.testing.assert_close(mine.cpu(), cpu, rtol=0, atol=0)


def test_fake_quantize_errors() -> None:
    x = torch.randn(3, device="atalla")
    with pytest.raises(RuntimeError, match="quant_min"):
        torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 5, 3)
    with pytest.raises(RuntimeError, match="zero_point"):
        torch.fake_quantize_per_tensor_affine(x, 0.1, 9, 0, 7)


@pytest.mark.parametrize("observe", [True, False])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("by_channel", [False, True])
def test_moving_average_and_fake_quantization(by_channel: bool, symmetric: bool, observe: bool) -> None:
    """Several steps of upstream's fused module's op: state, values, mask and gradient are the CPU's."""
    torch.manual_seed(3)
    scales = [1.0, 3.0, 1e-6, 0.0, 1e-12]
    steps = [torch.randn(5, 6) * scale + shift for scale, shift in zip(scales, (0.0, 9.0, 0.0, 0.0, 0.0))]
    results = []
    for device in ("cpu", "atalla"):
        start = 0 if by_channel else 1
        state = [torch.full((start,), torch.inf), torch.full((start,), -torch.inf), torch.ones(start)]
        state = [t.to(device) for t in (*state, torch.zeros(start, dtype=torch.int32))]
        found = []
        for i, x in enumerate(steps):
            leaf = x.clone().to(device).requires_grad_()
            flags = [torch.tensor([int(on)], device=device) for on in (observe or i == 0, i != 1)]
            out = torch.fused_moving_avg_obs_fake_quant(leaf, *flags, *state, 0.2, -128, 127, 0, by_channel, symmetric)
            out.sum().backward()
            found += [t.detach().cpu().clone() for t in (out, leaf.grad, *state)]
        results.append(found)
    torch.testing.assert_close(results[1], results[0], rtol=1e-6, atol=0)
    assert len(results[1][2]) == (5 if by_channel else 1)


def test_moving_average_errors() -> None:
    x, one = torch.randn(2, 3, device="atalla"), torch.ones(1, device="atalla")
    state = [one.clone() for _ in range(3)] + [one.int()]
    with pytest.raises(RuntimeError, match="only supported on axis == 0, got axis 1"):
        torch.fused_moving_avg_obs_fake_quant(x, one, one, *state, 0.1, 0, 255, 1, True)
    with pytest.raises(RuntimeError, match="observer_on to have one element"):
        torch.fused_moving_avg_obs_fake_quant(x, x, one, *state, 0.1, 0, 255, 0)
