# SPDX-License-Identifier: BSD-3-Clause
"""Random ops as tests see them: how to draw from each, and the law that the numbers follow.

Keys of CASES are overloads of aten (a word after a blank tells variants apart), so that a test can ask whether one is
missing. A draw takes a generator or None, and returns about N numbers of one law, independent of each other.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

DEVICE = "atalla"
N = 40_000
aten = torch.ops.aten
Draw = Callable[[Any], torch.Tensor]


# ------------------------------------------------------------------------------------------------ laws
@dataclass(frozen=True)
class Continuous:
    cdf: Callable[[torch.Tensor], torch.Tensor]
    mean: float | None  # None: the law has none (and no variance)
    variance: float = 0

    def check(self, values: torch.Tensor) -> None:
        """Kolmogorov-Smirnov: the greatest distance from the distribution function is below its 0.01 % point."""
        x = values.double().sort().values
        n, p = len(x), self.cdf(x)
        rank = torch.arange(n + 1, dtype=torch.float64) / n
        distance = torch.maximum((p - rank[:-1]).abs().max(), (p - rank[1:]).abs().max()).item()
        assert distance < 2.23 / math.sqrt(n), f"distance {distance:.5f} of {n} values"


@dataclass(frozen=True)
class Discrete:
    mass: Callable[[torch.Tensor], torch.Tensor]  # of 0, 1, 2, ...
    mean: float
    variance: float

    def check(self, values: torch.Tensor) -> None:
        """Chi-squared, of the values that are expected ten times at least; the rest is one cell."""
        assert (values == values.floor()).all() and values.min() >= 0
        n, top = len(values), int(values.max()) + 1
        expected = self.mass(torch.arange(top, dtype=torch.float64)) * n
        found = torch.bincount(values.long(), minlength=top).double()
        assert (found[expected == 0] == 0).all(), "values that the law does not have"
        large = expected >= 10
        cells = torch.cat([expected[large], (n - expected[large].sum()).reshape(1)])
        counts = torch.cat([found[large], (n - found[large].sum()).reshape(1)])
        if cells[-1] < 5:
            cells, counts = cells[:-1], counts[:-1]
        freedom = max(len(cells) - 1, 1)
        statistic = ((counts - cells) ** 2 / cells).sum().item()
        assert statistic < freedom + 4 * math.sqrt(2 * freedom) + 8, f"chi-squared {statistic:.1f}, freedom {freedom}"


Law = Continuous | Discrete


def uniform(low: float, high: float) -> Continuous:
    return Continuous(lambda x: (x - low) / (high - low), (low + high) / 2, (high - low) ** 2 / 12)


def normal(mean: float, deviation: float) -> Continuous:
    return Continuous(lambda x: torch.special.ndtr((x - mean) / deviation), mean, deviation**2)


def integers(low: int, high: int) -> Discrete:
    """low to high - 1, as numbers from 0 on: draws subtract `low`."""
    n = high - low
    return Discrete(lambda k: torch.where(k < n, 1 / n, 0.0), (n - 1) / 2, (n * n - 1) / 12)


def bernoulli(p: float) -> Discrete:
    return Discrete(lambda k: torch.where(k == 1, p, torch.where(k == 0, 1 - p, 0.0)), p, p * (1 - p))


def table(*p: float) -> Discrete:
    weights = torch.tensor(p, dtype=torch.float64)
    k = torch.arange(len(p), dtype=torch.float64)
    mean = (weights * k).sum().item()
    variance = (weights * k * k).sum().item() - mean * mean
    return Discrete(lambda x: torch.where(x < len(p), weights[x.long().clamp_max(len(p) - 1)], 0.0), mean, variance)


def poisson(rate: float) -> Discrete:
    return Discrete(lambda k: torch.exp(k * math.log(rate) - rate - torch.lgamma(k + 1)), rate, rate)


def binomial(n: int, p: float) -> Discrete:
    def mass(k: torch.Tensor) -> torch.Tensor:
        log_choose = math.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma((n - k).clamp_min(0) + 1)
        return torch.where(k <= n, torch.exp(log_choose + k * math.log(p) + (n - k) * math.log1p(-p)), 0.0)

    return Discrete(mass, n * p, n * p * (1 - p))


def geometric(p: float) -> Discrete:
    return Discrete(lambda k: torch.where(k > 0, p * (1 - p) ** (k - 1), 0.0), 1 / p, (1 - p) / p**2)


def gamma(alpha: float) -> Continuous:
    return Continuous(lambda x: torch.special.gammainc(x * 0 + alpha, x), alpha, alpha)


def log_normal(mean: float, s: float) -> Continuous:
    first = math.exp(mean + s * s / 2)
    cdf = lambda x: torch.special.ndtr((x.log() - mean) / s)  # noqa: E731
    return Continuous(cdf, first, (math.exp(s * s) - 1) * first**2)


# ------------------------------------------------------------------------------------------------ draws
def empty(dtype: torch.dtype = torch.float32, n: int = N) -> torch.Tensor:
    return torch.empty(n, dtype=dtype, device=DEVICE)


def full(value: float, dtype: torch.dtype = torch.float64, n: int = N) -> torch.Tensor:
    return torch.full((n,), value, dtype=dtype, device=DEVICE)


def zeros(*sizes: int) -> torch.Tensor:
    return torch.zeros(sizes, device=DEVICE)


def kept(result: torch.Tensor, p: float) -> torch.Tensor:
    """Which of the ones of a dropout's input survived; they must have been scaled."""
    value = result.cpu()
    assert (value == 0).logical_or((value - 1 / (1 - p)).abs() < 1e-6).all()
    return (value != 0).float()


def channels(result: torch.Tensor, p: float) -> torch.Tensor:
    """The same of dropout by channels, which are dropped as a whole."""
    survivors = kept(result, p)
    assert (survivors == survivors[:, :, :1]).all()
    return survivors[:, :, 0].flatten()


def alpha_kept(result: torch.Tensor, p: float) -> torch.Tensor:
    """Zeros become the shift b where they are kept and another, lower value where they are not (alpha' of the paper on
    self-normalizing networks by Klambauer and others, 2017)."""
    alpha = 1.7580993408473766
    scale = 1 / math.sqrt((alpha * alpha * p + 1) * (1 - p))
    shift, dropped = scale * alpha * p, scale * alpha * p - scale * alpha
    value = result.cpu()
    assert ((value - shift).abs() < 1e-5).logical_or((value - dropped).abs() < 1e-5).all()
    return ((value - shift).abs() < 1e-5).float()


def permutations(g: Any) -> torch.Tensor:
    """Numbers of the 24 permutations of four."""
    drawn = torch.stack([torch.randperm(4, device=DEVICE, generator=g) for _ in range(3000)]).cpu()
    assert (drawn.sort(1).values == torch.arange(4)).all()
    smaller = [(drawn[:, i + 1 :] < drawn[:, i : i + 1]).sum(1) for i in range(3)]
    return smaller[0] * 6 + smaller[1] * 2 + smaller[2]


def pairs(g: Any) -> torch.Tensor:
    """Two of three without replacement, as the number 3 i + j."""
    p = torch.tensor([0.2, 0.3, 0.5], device=DEVICE).expand(N, 3)
    both = torch.multinomial(p, 2, generator=g).cpu()
    return 3 * both[:, 0] + both[:, 1]


PAIRS = [0, 0.2 * 0.3 / 0.8, 0.2 * 0.5 / 0.8, 0.3 * 0.2 / 0.7, 0, 0.3 * 0.5 / 0.7, 0.5 * 0.2 / 0.5, 0.5 * 0.3 / 0.5, 0]


def attention(f: Callable[..., Any], p: float) -> Draw:
    """Equal scores and the unit matrix as values: the result is the matrix of weights, of which some are dropped."""

    def draw(g: Any) -> torch.Tensor:
        n = 8
        query, value = zeros(1, 600, n, 4), torch.eye(n, device=DEVICE).expand(1, 600, n, n)
        result = f(query, query, value, dropout_p=p)
        weights = (result[0] if isinstance(result, tuple) else result).cpu() * n * (1 - p)
        assert (weights < 1e-4).logical_or((weights - 1).abs() < 1e-4).all()
        return (weights > 0.5).float().flatten()

    return draw


WEIGHTS = (0.1, 0.0, 0.6, 0.3)


def weights() -> torch.Tensor:
    return torch.tensor(WEIGHTS, device=DEVICE)


# Ops that take no generator draw from the device's own: their cases ignore `g`.
CASES: dict[str, tuple[Draw, Law]] = {
    "rand": (lambda g: torch.rand(N, device=DEVICE), uniform(0, 1)),
    "rand.generator": (lambda g: torch.rand(N, device=DEVICE, generator=g), uniform(0, 1)),
    "rand.out": (lambda g: torch.rand(N, out=empty()), uniform(0, 1)),
    "rand.generator_out": (lambda g: torch.rand(N, out=empty(), generator=g), uniform(0, 1)),
    "rand_like": (lambda g: torch.rand_like(empty(torch.float64)), uniform(0, 1)),
    "rand_like.generator": (lambda g: aten.rand_like.generator(empty(), generator=g), uniform(0, 1)),
    "uniform_": (lambda g: empty().uniform_(-1, 3, generator=g), uniform(-1, 3)),
    "uniform_ float64": (lambda g: empty(torch.float64).uniform_(-1, 3, generator=g), uniform(-1, 3)),
    "randn": (lambda g: torch.randn(N, device=DEVICE), normal(0, 1)),
    "randn.generator": (lambda g: torch.randn(N, device=DEVICE, generator=g), normal(0, 1)),
    "randn.out": (lambda g: torch.randn(N, out=empty()), normal(0, 1)),
    "randn.generator_out": (lambda g: torch.randn(N, out=empty(), generator=g), normal(0, 1)),
    "randn_like": (lambda g: torch.randn_like(empty(torch.float64)), normal(0, 1)),
    "randn_like.generator": (lambda g: aten.randn_like.generator(empty(), generator=g), normal(0, 1)),
    "normal_": (lambda g: empty().normal_(1, 2, generator=g), normal(1, 2)),
    "normal_ float64": (lambda g: empty(torch.float64).normal_(1, 2, generator=g), normal(1, 2)),
    "normal_functional": (lambda g: aten.normal_functional(empty(), 1, 2, generator=g), normal(1, 2)),
    "normal.float_float": (lambda g: torch.normal(1, 2, (N,), device=DEVICE, generator=g), normal(1, 2)),
    "normal.float_float_out": (lambda g: torch.normal(1, 2, (N,), out=empty(), generator=g), normal(1, 2)),
    "normal.Tensor_float": (lambda g: torch.normal(full(1), 2, generator=g), normal(1, 2)),
    "normal.Tensor_float_out": (
        lambda g: torch.normal(full(1), 2, out=empty(torch.float64), generator=g),
        normal(1, 2),
    ),
    "normal.float_Tensor": (lambda g: torch.normal(1, full(2), generator=g), normal(1, 2)),
    "normal.float_Tensor_out": (
        lambda g: torch.normal(1, full(2), out=empty(torch.float64), generator=g),
        normal(1, 2),
    ),
    "normal.Tensor_Tensor": (lambda g: torch.normal(full(1), full(2), generator=g), normal(1, 2)),
    "normal.Tensor_Tensor_out": (
        lambda g: torch.normal(full(1), full(2), out=empty(torch.float64), generator=g),
        normal(1, 2),
    ),
    "randint": (lambda g: torch.randint(10, (N,), device=DEVICE), integers(0, 10)),
    "randint.generator": (lambda g: torch.randint(10, (N,), device=DEVICE, generator=g), integers(0, 10)),
    "randint.low": (lambda g: torch.randint(-3, 8, (N,), device=DEVICE) + 3, integers(-3, 8)),
    "randint.low_generator": (
        lambda g: torch.randint(-3, 8, (N,), device=DEVICE, generator=g, dtype=torch.int8) + 3,
        integers(-3, 8),
    ),
    "randint.out": (lambda g: torch.randint(10, (N,), out=empty(torch.int32)), integers(0, 10)),
    "randint.generator_out": (
        lambda g: torch.randint(10, (N,), out=empty(torch.int64), generator=g),
        integers(0, 10),
    ),
    "randint.low_out": (lambda g: torch.randint(2, 9, (N,), out=empty(torch.int64)) - 2, integers(2, 9)),
    "randint.low_generator_out": (
        lambda g: torch.randint(2, 9, (N,), out=empty(torch.float32), generator=g) - 2,
        integers(2, 9),
    ),
    "randint_like": (lambda g: torch.randint_like(empty(torch.int16), 100), integers(0, 100)),
    "randint_like.generator": (lambda g: aten.randint_like.generator(empty(), 100, generator=g), integers(0, 100)),
    "randint_like.Tensor": (
        lambda g: aten.randint_like.Tensor(empty(torch.int64), torch.tensor(100)),
        integers(0, 100),
    ),
    "randint_like.Tensor_generator": (
        lambda g: aten.randint_like.Tensor_generator(empty(torch.int64), torch.tensor(100), generator=g),
        integers(0, 100),
    ),
    "randint_like.low_dtype": (lambda g: torch.randint_like(empty(torch.int64), -7, 7) + 7, integers(-7, 7)),
    "randint_like.low_generator_dtype": (
        lambda g: aten.randint_like.low_generator_dtype(empty(torch.int64), -7, 7, generator=g) + 7,
        integers(-7, 7),
    ),
    "random_": (lambda g: empty(torch.uint8).random_(generator=g), integers(0, 256)),
    "random_ int8": (lambda g: empty(torch.int8).random_(generator=g), integers(0, 128)),
    "random_ bool": (lambda g: empty(torch.bool).random_(generator=g), integers(0, 2)),
    "random_ bfloat16": (lambda g: empty(torch.bfloat16).random_(generator=g), integers(0, 257)),
    "random_.from": (lambda g: empty(torch.int64).random_(-5, 20, generator=g) + 5, integers(-5, 20)),
    "random_.to": (lambda g: empty(torch.int32).random_(7, generator=g), integers(0, 7)),
    "randperm": (permutations, integers(0, 24)),
    "bernoulli": (lambda g: torch.bernoulli(full(0.3), generator=g), bernoulli(0.3)),
    "bernoulli.out": (lambda g: torch.bernoulli(full(0.3), out=empty(torch.float64), generator=g), bernoulli(0.3)),
    "bernoulli.p": (lambda g: aten.bernoulli.p(empty(), 0.3, generator=g), bernoulli(0.3)),
    "bernoulli_.Tensor": (lambda g: empty().bernoulli_(full(0.7), generator=g), bernoulli(0.7)),
    "bernoulli_.float": (lambda g: empty(torch.int8).bernoulli_(0.02, generator=g), bernoulli(0.02)),
    "exponential_": (
        lambda g: empty().exponential_(2, generator=g),
        Continuous(lambda x: 1 - torch.exp(-2 * x), 0.5, 0.25),
    ),
    "cauchy_": (
        lambda g: empty(torch.float64).cauchy_(1, 2, generator=g),
        Continuous(lambda x: torch.atan((x - 1) / 2) / math.pi + 0.5, None),
    ),
    "log_normal_": (lambda g: empty().log_normal_(0.5, 0.7, generator=g), log_normal(0.5, 0.7)),
    "geometric_": (lambda g: empty(torch.int64).geometric_(0.3, generator=g), geometric(0.3)),
    "geometric_ rare": (lambda g: empty().geometric_(0.01, generator=g), geometric(0.01)),
    "poisson": (lambda g: torch.poisson(full(0.7), generator=g), poisson(0.7)),
    "poisson 9": (lambda g: torch.poisson(full(9, torch.float32), generator=g), poisson(9)),
    "poisson 25": (lambda g: torch.poisson(full(25), generator=g), poisson(25)),
    "binomial": (lambda g: torch.binomial(full(20), full(0.1), generator=g), binomial(20, 0.1)),
    "binomial 60": (lambda g: torch.binomial(full(60), full(0.4), generator=g), binomial(60, 0.4)),
    "binomial reflected": (lambda g: torch.binomial(full(60), full(0.9), generator=g), binomial(60, 0.9)),
    "_standard_gamma": (lambda g: torch._standard_gamma(full(0.3), generator=g), gamma(0.3)),
    "_standard_gamma 7.5": (lambda g: torch._standard_gamma(full(7.5, torch.float32), generator=g), gamma(7.5)),
    "_sample_dirichlet": (
        lambda g: torch._sample_dirichlet(full(1).unsqueeze(1).expand(N, 2), generator=g)[:, 0],
        uniform(0, 1),
    ),
    "_sample_dirichlet 2, 1": (
        lambda g: torch._sample_dirichlet(torch.tensor([2.0, 1.0], device=DEVICE).expand(N, 2), generator=g)[:, 0],
        Continuous(lambda x: x * x, 2 / 3, 1 / 18),
    ),
    "multinomial": (lambda g: torch.multinomial(weights().expand(N, 4), 1, generator=g)[:, 0], table(*WEIGHTS)),
    "multinomial replacement": (lambda g: torch.multinomial(weights(), N, True, generator=g), table(*WEIGHTS)),
    "multinomial pairs": (pairs, table(*PAIRS)),
    "multinomial.out": (
        lambda g: torch.multinomial(weights(), N, True, generator=g, out=empty(torch.int64)),
        table(*WEIGHTS),
    ),
    "dropout": (lambda g: kept(F.dropout(full(1, torch.float32), 0.2), 0.2), bernoulli(0.8)),
    "dropout_": (lambda g: kept(F.dropout(full(1, torch.float32), 0.6, inplace=True), 0.6), bernoulli(0.4)),
    "native_dropout": (lambda g: kept(torch.native_dropout(full(1), 0.2, True)[0], 0.2), bernoulli(0.8)),
    "feature_dropout": (lambda g: channels(F.dropout1d(zeros(200, 100, 3) + 1, 0.3), 0.3), bernoulli(0.7)),
    "feature_dropout_": (
        lambda g: channels(F.dropout2d(zeros(200, 100, 2, 2) + 1, 0.3, inplace=True).flatten(2), 0.3),
        bernoulli(0.7),
    ),
    "alpha_dropout": (lambda g: alpha_kept(F.alpha_dropout(zeros(N), 0.3, True), 0.3), bernoulli(0.7)),
    "alpha_dropout_": (lambda g: alpha_kept(F.alpha_dropout(zeros(N), 0.3, True, True), 0.3), bernoulli(0.7)),
    "feature_alpha_dropout": (
        lambda g: alpha_kept(F.feature_alpha_dropout(zeros(200, 100, 2), 0.3, True)[:, :, 0], 0.3),
        bernoulli(0.7),
    ),
    "feature_alpha_dropout_": (
        lambda g: alpha_kept(F.feature_alpha_dropout(zeros(200, 100, 2), 0.3, True, True)[:, :, 1], 0.3),
        bernoulli(0.7),
    ),
    "rrelu": (lambda g: -F.rrelu(full(-1, torch.float32), 0.1, 0.3, True), uniform(0.1, 0.3)),
    "rrelu_": (lambda g: -F.rrelu(full(-1, torch.float32), 0.1, 0.3, True, True), uniform(0.1, 0.3)),
    "rrelu_with_noise": (
        lambda g: -aten.rrelu_with_noise(full(-1), empty(torch.float64), 0.1, 0.3, True, g),
        uniform(0.1, 0.3),
    ),
    "rrelu_with_noise_": (
        lambda g: -aten.rrelu_with_noise_(full(-1), empty(torch.float64), 0.1, 0.3, True, g),
        uniform(0.1, 0.3),
    ),
    "rrelu_with_noise.out": (
        lambda g: (
            -aten.rrelu_with_noise.out(full(-1), empty(torch.float64), 0.1, 0.3, True, g, out=empty(torch.float64))
        ),
        uniform(0.1, 0.3),
    ),
    "scaled_dot_product_attention": (attention(F.scaled_dot_product_attention, 0.25), bernoulli(0.75)),
    "_scaled_dot_product_attention_math": (attention(aten._scaled_dot_product_attention_math, 0.25), bernoulli(0.75)),
}


def digest() -> str:
    """Of what all cases draw, each at a seed of its own."""
    sha = hashlib.sha256()
    for seed, (draw, _) in enumerate(CASES.values()):
        torch.manual_seed(seed)
        sha.update(draw(None).cpu().double().contiguous().numpy().tobytes())
    return sha.hexdigest()


_OTHER_DEVICE = "a kernel of another vendor's library"
_BY_DROPOUT = "between layers it calls dropout, which has cases of its own"
_SAME_DRAW = "draws as randperm does"
# Overloads that upstream tags as random and that have no case, with the reason.
WITHOUT_CASE: dict[str, str] = {
    **dict.fromkeys(
        "_cudnn_rnn _cudnn_init_dropout_state _fused_dropout miopen_rnn _lstm_mps _triton_scaled_dot_attention "
        "_scaled_dot_product_attention_math_for_mps _scaled_dot_product_flash_attention "
        "_scaled_dot_product_flash_attention.quantized _scaled_dot_product_flash_attention_for_cpu "
        "_scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward "
        "_scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward _flash_attention_forward "
        "_flash_attention_forward.quantized _flash_attention_forward_no_dropout_inplace _efficient_attention_forward "
        "_cudnn_attention_forward _cudnn_attention_forward_no_dropout_inplace _cudnn_attention_backward "
        "_fill_mem_eff_dropout_mask_".split(),
        _OTHER_DEVICE,
    ),
    **dict.fromkeys(
        "lstm.input lstm.data gru.input gru.data rnn_tanh.input rnn_tanh.data rnn_relu.input rnn_relu.data".split(),
        _BY_DROPOUT,
    ),
    **dict.fromkeys("randperm.generator randperm.out randperm.generator_out".split(), _SAME_DRAW),
    "_nested_tensor_softmax_with_shape": "nested tensors; draws nothing",
    "_fused_sdp_choice": "chooses a kernel; draws nothing",
    "_scaled_dot_product_fused_attention_overrideable": "attention with dropout does not choose it",
}
