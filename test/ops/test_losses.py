# SPDX-License-Identifier: BSD-3-Clause
"""Losses, recurrent cells and encoder layers where OpInfo does not look: errors, gradients, whole modules."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import torch_atalla

DEVICE = "atalla"


@pytest.fixture(autouse=True)
def strict():
    with torch_atalla.fallback.mode("error"):
        yield


def on_device(values):
    return [v.to(DEVICE) if isinstance(v, torch.Tensor) else v for v in values]


BAD = {
    "nll, index": lambda d: F.nll_loss(torch.randn(2, 3, device=d), torch.tensor([0, 3], device=d)),
    "nll, dtype": lambda d: F.nll_loss(torch.randn(2, 3, device=d), torch.tensor([0, 1], device=d).int()),
    "nll, sizes": lambda d: F.nll_loss(torch.randn(2, 3, device=d), torch.tensor([0, 1, 2], device=d)),
    "nll, weights": lambda d: F.nll_loss(
        torch.randn(2, 3, device=d), torch.tensor([0, 1], device=d), torch.ones(2, device=d)
    ),
    "nll, dtype of weights": lambda d: F.nll_loss(
        torch.randn(2, 3, device=d), torch.tensor([0, 1], device=d), torch.ones(3, device=d).half()
    ),
    "nll 2-d, dtype of weights": lambda d: F.nll_loss(
        torch.randn(2, 3, 1, 2, device=d), torch.zeros(2, 1, 2, device=d).long(), torch.ones(3, device=d).double()
    ),
    "nll 2-d, index": lambda d: F.nll_loss(torch.randn(2, 3, 1, 2, device=d), torch.full((2, 1, 2), -3, device=d)),
    "nll 2-d, sizes": lambda d: torch._C._nn.nll_loss2d(
        torch.randn(2, 3, 1, 2, device=d), torch.zeros(2, 2, 2, device=d).long()
    ),
    "multi margin, index": lambda d: F.multi_margin_loss(torch.randn(2, 3, device=d), torch.tensor([0, 3], device=d)),
    "multi margin, p": lambda d: torch.ops.aten.multi_margin_loss(
        torch.randn(2, 3, device=d), torch.tensor([0, 1], device=d), 3
    ),
    "multilabel, index": lambda d: F.multilabel_margin_loss(
        torch.randn(1, 3, device=d), torch.tensor([[0, 3, -1]], device=d)
    ),
    "ctc, lengths": lambda d: torch._ctc_loss(
        torch.randn(4, 1, 3, device=d), torch.ones(1, 2, device=d).long(), [5], [2]
    ),
    "ctc, targets": lambda d: torch._ctc_loss(torch.randn(4, 1, 3, device=d), torch.ones(2, device=d).long(), [4], [3]),
    "ctc, blank": lambda d: torch._ctc_loss(
        torch.randn(4, 1, 3, device=d), torch.ones(2, device=d).long(), [4], [2], blank=3
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_are_those_of_the_cpu(name: str) -> None:
    with pytest.raises(Exception) as expected:
        BAD[name]("cpu")
    with pytest.raises(type(expected.value)) as found:
        BAD[name](DEVICE).cpu()
    assert str(expected.value).splitlines()[0] in str(found.value)  # a fault is named by its launch


def test_empty_batches() -> None:
    for reduction in ("none", "mean", "sum"):
        for sizes, target in (((0, 3), (0,)), ((0, 3, 2, 2), (0, 2, 2))):
            want = F.nll_loss(torch.ones(sizes), torch.ones(target).long(), reduction=reduction)
            got = F.nll_loss(
                torch.ones(sizes, device=DEVICE), torch.ones(target, device=DEVICE).long(), reduction=reduction
            )
            torch.testing.assert_close(got.cpu(), want, equal_nan=True)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("kind", ["classes", "weights", "probabilities", "image"])
def test_cross_entropy_gradient(kind: str, smoothing: float) -> None:
    if kind == "weights" and smoothing > 0:
        pytest.skip("selects the weights of the targets by a mask")
    torch.manual_seed(0)
    x = torch.randn(6, 5, 3, 4) if kind == "image" else torch.randn(6, 5)
    target = torch.randint(0, 5, (6, 3, 4) if kind == "image" else (6,))
    if kind == "probabilities":
        target = torch.rand(6, 5).softmax(1)
    weight = torch.rand(5) if kind == "weights" else None
    results = []
    for device in ("cpu", DEVICE):
        leaf = x.to(device).detach().requires_grad_()
        w = weight.to(device) if weight is not None else None
        loss = F.cross_entropy(leaf, target.to(device), w, label_smoothing=smoothing)
        loss.backward()
        results.append((loss.detach().cpu(), leaf.grad.cpu()))
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("joined", [True, False])
def test_ctc_gradient(joined: bool) -> None:
    torch.manual_seed(1)
    x = torch.randn(12, 3, 6).log_softmax(2)
    lengths, steps = torch.tensor([3, 0, 5]), torch.tensor([12, 7, 4])  # the last target does not fit
    targets = torch.randint(1, 6, (8,) if joined else (3, 5))
    results = []
    for device in ("cpu", DEVICE):
        leaf = x.to(device).detach().requires_grad_()
        loss = F.ctc_loss(leaf, targets.to(device), steps, lengths, reduction="none", zero_infinity=True)
        loss.sum().backward()
        results.append((loss.detach().cpu(), leaf.grad.cpu()))
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("loss", [F.multi_margin_loss, F.multilabel_margin_loss])
def test_margin_gradients(loss) -> None:
    torch.manual_seed(2)
    x = torch.randn(5, 4)
    target = torch.randint(0, 4, (5,)) if loss is F.multi_margin_loss else torch.tensor([[1, 3, -1, 0]] * 5)
    for reduction in ("none", "mean", "sum"):
        gradients = []
        for device in ("cpu", DEVICE):
            leaf = x.to(device).detach().requires_grad_()
            loss(leaf, target.to(device), reduction=reduction).sum().backward()
            gradients.append(leaf.grad.cpu())
        torch.testing.assert_close(gradients[1], gradients[0])


@pytest.mark.parametrize("name", ["threshold_backward", "leaky_relu_backward"])
def test_gradients_with_the_order_of_the_schema(name: str) -> None:
    torch.manual_seed(6)
    gradient, x = torch.randn(40, 3), torch.randn(40, 3)
    arguments = (0.3,) if name == "threshold_backward" else (0.1, False)
    op = getattr(torch.ops.aten, name)
    want = op(gradient, x, *arguments)
    torch.testing.assert_close(op(gradient.to(DEVICE), x.to(DEVICE), *arguments).cpu(), want)


RECURRENT = {
    "lstm": lambda: nn.LSTM(5, 7, num_layers=2, bidirectional=True),
    "lstm with projection": lambda: nn.LSTM(5, 7, proj_size=3),
    "lstm without bias": lambda: nn.LSTM(5, 7, bias=False, batch_first=True),
    "gru": lambda: nn.GRU(5, 7, num_layers=2),
    "rnn": lambda: nn.RNN(5, 7, nonlinearity="relu"),
}


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_and_their_gradients(name: str) -> None:
    torch.manual_seed(3)
    module = RECURRENT[name]()
    x = torch.randn(4, 3, 5)
    results = []
    for device in ("cpu", DEVICE):
        module = module.to(device)
        module.zero_grad()
        leaf = x.to(device).detach().requires_grad_()
        out, state = module(leaf)
        states = state if isinstance(state, tuple) else (state,)
        (out.sum() + sum((s * s).sum() for s in states)).backward()
        results.append([t.detach().cpu() for t in (out, *states, leaf.grad, *(p.grad for p in module.parameters()))])
    torch.testing.assert_close(results[1], results[0], atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("mask", ["none", "padding", "causal"])
def test_encoder_layer(mask: str, norm_first: bool) -> None:
    torch.manual_seed(4)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=norm_first).eval()
    x = torch.randn(2, 6, 16)
    kwargs = {}
    if mask == "padding":
        kwargs["src_key_padding_mask"] = torch.arange(6) >= torch.tensor([[6], [4]])
    elif mask == "causal":
        kwargs["src_mask"] = torch.ones(6, 6).triu(1).bool()
    with torch.no_grad():
        want = layer(x, **kwargs)
        got = layer.to(DEVICE)(x.to(DEVICE), **{k: v.to(DEVICE) for k, v in kwargs.items()})
    torch.testing.assert_close(got.cpu(), want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("lengths", [[6, 4], [3, 5], [4, 4], [6, 0]])
@pytest.mark.parametrize("has_norm", [False, True])
def test_encoder_with_padding(has_norm: bool, lengths: list[int]) -> None:
    """The rows after the end of a sequence are zero, then normalized."""
    torch.manual_seed(7)
    layer, norm = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), nn.LayerNorm(16)
    encoder = nn.TransformerEncoder(layer, 2, norm if has_norm else None).eval()
    nn.init.ones_(norm.bias)
    x, padding = torch.randn(2, 6, 16), torch.arange(6) >= torch.tensor(lengths)[:, None]
    with torch.no_grad():
        want = encoder(x, src_key_padding_mask=padding)
        got = encoder.to(DEVICE)(x.to(DEVICE), src_key_padding_mask=padding.to(DEVICE)).cpu()
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


def test_encoder_with_padding_before_the_sequence() -> None:
    torch.manual_seed(7)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).eval()
    x, padding = torch.randn(2, 6, 16), torch.arange(6) < torch.tensor([[0], [2]])
    with torch.no_grad():
        want = encoder(x, src_key_padding_mask=padding)
        got = encoder.to(DEVICE)(x.to(DEVICE), src_key_padding_mask=padding.to(DEVICE)).cpu()
    torch.testing.assert_close(got[~padding], want[~padding], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_bias_and_scale_of_queries(dtype) -> None:
    qkv, bias = torch.randn(2, 5, 48).to(dtype), torch.randn(48).to(dtype)
    found = torch._transform_bias_rescale_qkv(qkv.to(DEVICE), bias.to(DEVICE), 4)
    for mine, cpu in zip(found, torch._transform_bias_rescale_qkv(qkv, bias, 4), strict=True):
        assert mine.shape == cpu.shape == (2, 4, 5, 4)
        torch.testing.assert_close(mine.cpu(), cpu)
    with pytest.raises(RuntimeError, match="multiple of 5 heads"):
        torch._transform_bias_rescale_qkv(qkv.to(DEVICE), bias.to(DEVICE), 5)


@pytest.mark.parametrize("average", [True, False])
def test_multi_head_attention_weights(average: bool) -> None:
    torch.manual_seed(5)
    module, x = nn.MultiheadAttention(12, 3, batch_first=True).eval(), torch.randn(2, 5, 12)
    with torch.no_grad():
        want = module(x, x, x, average_attn_weights=average)
        d = x.to(DEVICE)
        got = module.to(DEVICE)(d, d, d, average_attn_weights=average)
    for g, w in zip(got, want):
        torch.testing.assert_close(g.cpu(), w, atol=1e-5, rtol=1e-5)


def test_gradient_scaler_steps() -> None:
    found, scale, tracker = torch.zeros(1), torch.tensor([4.0]), torch.tensor([0], dtype=torch.int32)
    for device in ("cpu", DEVICE):
        f, s, t = (x.clone().to(device) for x in (found, scale, tracker))
        gradients = [torch.tensor([2.0, 4.0], device=device), torch.tensor([1.0, torch.inf], device=device)]
        torch._amp_foreach_non_finite_check_and_unscale_(gradients[:1], f, torch.tensor(0.25, device=device))
        assert f.item() == 0 and gradients[0].tolist() == [0.5, 1.0]
        torch._amp_update_scale_(s, t, f, 2.0, 0.5, 2)
        assert s.item() == 4 and t.item() == 1
        torch._amp_update_scale_(s, t, f, 2.0, 0.5, 2)
        assert s.item() == 8 and t.item() == 0
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, f, torch.tensor(1.0, device=device))
        assert f.item() == 1
        torch._amp_update_scale_(s, t, f, 2.0, 0.5, 2)
        assert s.item() == 4 and t.item() == 0


DTYPES_OF_TWO = [(torch.float32, torch.float64), (torch.float64, torch.float32), (torch.float16, torch.float32),
                 (torch.float32, torch.bfloat16), (torch.bfloat16, torch.float16)]  # fmt: skip


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtypes", DTYPES_OF_TWO, ids=str)
@pytest.mark.parametrize("loss", [F.huber_loss, F.soft_margin_loss, F.smooth_l1_loss, F.mse_loss, F.l1_loss])
def test_operands_of_two_dtypes(loss, dtypes, reduction) -> None:
    torch.manual_seed(0)
    x, target = torch.randn(6).to(dtypes[0]), torch.randn(6).sign().to(dtypes[1])

    def run(device: str) -> list[torch.Tensor]:
        leaf = x.clone().to(device).requires_grad_()
        result = loss(leaf, target.to(device), reduction=reduction)
        if loss is F.huber_loss:  # its gradient is refused on the CPU
            return [result.detach()]
        result.sum().backward()
        return [result.detach(), leaf.grad]

    for mine, cpu in zip(run(DEVICE), run("cpu"), strict=True):
        assert mine.dtype == cpu.dtype
        torch.testing.assert_close(mine.cpu(), cpu, rtol=2e-2, atol=2e-2)
