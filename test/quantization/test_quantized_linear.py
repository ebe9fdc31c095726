# SPDX-License-Identifier: BSD-3-Clause
"""Weights in 8 and 4 bits: their encoding, `atalla::quantized_linear`, and modules that use it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import torch_atalla
from torch_atalla.quantization import QuantizedLinear, decode, encode, quantize_weights

ENCODINGS = ("int8", "int4", "int4_plain", "float8_e4m3fn", "float8_e5m2")
# The largest error of a decoded weight, relative to the largest element of its group: half a step of the encoding.
STEP = {"int8": 0.5 / 127, "int4": 1.01 / 15, "int4_plain": 1.01 / 15, "float8_e4m3fn": 1 / 16, "float8_e5m2": 1 / 8}


@pytest.fixture(autouse=True)
def native():
    with torch_atalla.fallback.mode("error"):
        yield


@pytest.mark.parametrize("group", [None, 32, 96])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_encoding(encoding: str, group: int | None) -> None:
    """The device encodes as the CPU does, and what is decoded is half a step away at most."""
    weight = torch.randn(24, 192)
    weight[3] = 0
    found = encode(weight, encoding, group)
    largest = weight.reshape(24, -1, group or 192).abs().amax(2, keepdim=True)
    error = (decode(*found, encoding) - weight).reshape(24, -1, group or 192).abs()
    assert (error <= STEP[encoding] * largest + 1e-6).all()
    on_device = encode(weight.to("atalla"), encoding, group)
    for mine, cpu in zip(on_device, found, strict=True):
        assert (mine is None and cpu is None) or torch.equal(mine.cpu().view(cpu.dtype), cpu)
    again = decode(*on_device, encoding)
    assert torch.equal(again.cpu(), decode(*found, encoding))


def test_encoding_errors() -> None:
    with pytest.raises(ValueError, match="expected an encoding of int8"):
        encode(torch.randn(4, 8), "int3")
    with pytest.raises(ValueError, match="multiple of 32 elements"):
        encode(torch.randn(4, 40), "int8", 32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("shape", [(96,), (1, 96), (2, 3, 96), (0, 96)], ids=str)
def test_product(shape: tuple[int, ...], encoding: str, dtype: torch.dtype) -> None:
    """Against the product in float64 of what the CPU decodes."""
    encoded = encode(torch.randn(40, 96, dtype=dtype), encoding, 32)
    x, bias = torch.randn(shape, dtype=dtype), torch.randn(40, dtype=dtype)
    expected = (x.double() @ decode(*encoded, encoding).double().t() + bias.double()).to(dtype)
    given = [None if t is None else t.to("atalla") for t in (x, *encoded, bias)]
    found = torch.ops.atalla.quantized_linear(*given, encoding)
    assert (found.dtype, found.shape) == (dtype, expected.shape)
    tolerance = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}[dtype]
    torch.testing.assert_close(found.cpu(), expected, rtol=tolerance, atol=tolerance)
    cpu = torch.ops.atalla.quantized_linear(x, *encoded, bias, encoding)
    torch.testing.assert_close(cpu, expected, rtol=tolerance, atol=tolerance)


def test_product_errors() -> None:
    weight, scales, _ = (None if t is None else t.to("atalla") for t in encode(torch.randn(8, 64), "int8"))
    x, op = torch.randn(2, 64).to("atalla"), torch.ops.atalla.quantized_linear
    with pytest.raises(RuntimeError, match="expected the encoding int8, int4"):
        op(x, weight, scales, None, None, "int3")
    with pytest.raises(RuntimeError, match="expected a matrix of"):
        op(x, weight, scales, None, None, "int4")
    with pytest.raises(RuntimeError, match="expected scales"):
        op(x, weight, scales[:, 1:], None, None, "int8")
    with pytest.raises(RuntimeError, match="matrix of 64 columns"):
        op(x[:, 1:], weight, scales, None, None, "int8")


def test_gradient() -> None:
    """Of the input and the bias, as of a linear layer with the decoded weight."""
    linear = QuantizedLinear.of(nn.Linear(64, 24), "int4", 32)
    results = []
    for device in ("cpu", "atalla"):
        module = linear.to(device)
        x = torch.arange(128.0).reshape(2, 64).div(64).to(device).requires_grad_()
        module(x).pow(2).sum().backward()
        results.append(x.grad.cpu())
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)
    x = torch.arange(128.0).reshape(2, 64).div(64).requires_grad_()
    linear = linear.cpu()
    nn.functional.linear(x, linear.decoded(), linear.bias).pow(2).sum().backward()
    torch.testing.assert_close(results[0], x.grad, rtol=1e-4, atol=1e-4)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, 64)
        self.first, self.second, self.odd = nn.Linear(64, 128), nn.Linear(128, 64), nn.Linear(60, 32)
        self.head = nn.Linear(64, 32, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.second(self.first(self.embed(ids)).relu())
        return self.head(x) + self.odd(x[..., :60])


def test_modules() -> None:
    """Shared weights and rows that groups do not divide stay; `choose` has the last word."""
    model = quantize_weights(Network(), "int4", group=64)
    kinds = {name: type(module) for name, module in model.named_children()}
    assert [name for name, kind in kinds.items() if kind is QuantizedLinear] == ["first", "second"]
    model = quantize_weights(Network(), choose=lambda name, _: "int8" if name == "odd" else None)
    assert isinstance(model.odd, QuantizedLinear) and isinstance(model.first, nn.Linear)
    assert "encoding=int8, group=60" in repr(model.odd)
    assert isinstance(quantize_weights(nn.Linear(8, 8)), QuantizedLinear)


@pytest.mark.parametrize("encoding", ["int8", "int4", "float8_e4m3fn"])
def test_loadable(tmp_path: Path, encoding: str) -> None:
    """The bits of eager mode, exported on the CPU and on the device, and of a dynamic number of rows."""
    model, ids = quantize_weights(Network().eval(), encoding).requires_grad_(False), torch.arange(12).reshape(3, 4)
    expected = model(ids)
    eager = model.to("atalla")(ids.to("atalla")).cpu()
    torch.testing.assert_close(eager, expected, rtol=1e-4, atol=1e-4)
    shapes = ({0: torch.export.Dim("rows", min=2, max=8)},)
    for device, dynamic in (("cpu", shapes), ("atalla", None)):
        exported = torch.export.export(model.to(device), (ids.to(device),), dynamic_shapes=dynamic)
        report = torch_atalla.save_loadable(exported, tmp_path / "model.atl", fallback="error")
        assert report.kernels["gemm_quantized"] == (2 if encoding == "int4" else 3)  # 60 is no multiple of 64
        program = torch_atalla.load_loadable(tmp_path / "model.atl", device="atalla")
        assert torch.equal(program(ids.to("atalla")).cpu(), eager)
    compiled = torch.compile(model, fullgraph=True)
    assert torch.equal(compiled(ids.to("atalla")).cpu(), eager)
