# SPDX-License-Identifier: BSD-3-Clause
"""Some architectures of tools/architectures run as loadables and match the CPU, one for each kind of input."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch

from tools.architectures import page
from tools.architectures.choices import Choices
from tools.architectures.measure import Result, allowed, check, check_inputs, measure
from tools.architectures.registry import model_types
from tools.architectures.rules import RULES, rule_of

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="needs requirements-demo.txt"),
    pytest.mark.filterwarnings("ignore"),
]

# Kind of input -> model type.
EXAMPLES = {
    "words": "glm4",
    "words of two sequences": "pegasus",
    "pixels": "yolos",
    "words around an image": "internvl",
    "a spectrum": "qwen2_audio_encoder",
    "words, with the rule filled": "hunyuan_v1_dense",
    "patches with their places": "gemma4_vision",
    "pixels, of which scores choose queries": "rt_detr",
    "images, of which a mask chooses": "idefics2",
    "words, of which a mask chooses": "higgs_audio_v2",
    "pixels, with results of as many rows as points are found": "superpoint",
    "sizes that follow from numbers of a table": "mimi_decoder",
    "words, with counts between the bounds of the data": "hunyuan_v1_moe",
}


@pytest.mark.parametrize("model_type", EXAMPLES.values())
def test_architecture(model_type: str) -> None:
    result = measure(model_type, Result(model_type))
    assert result.right, result.reason
    assert result.exported and result.launches > 0 and result.cycles > 0 and result.outputs > 0
    assert result.error < 1e-4


def test_registry() -> None:
    assert len(model_types()) > 400
    assert {"llama", "bert", "vit", *EXAMPLES.values()} <= set(model_types())


def test_rules() -> None:
    values: dict[str, Any] = {"hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": None}
    values |= {"patch_size": 16, "stage_channels": [64, 512, 1024], "vocab_size": 32000, "num_hidden_layers": 24}
    values |= {"image_size": 256}
    rules = {rule: rule_of(rule, values) for rule in RULES}
    found = {rule: {name: rules[rule](name, value, values) for name, value in values.items()} for rule in RULES}
    assert all(small["vocab_size"] == 128 and small["num_hidden_layers"] == 2 for small in found.values())
    assert [found[rule]["hidden_size"] for rule in RULES] == [64, 64, 64, 512]
    assert [found[rule]["stage_channels"] for rule in RULES[1:]] == [[16, 128, 256], [8, 64, 128], [64, 512, 1024]]
    assert [found[rule]["head_dim"] for rule in RULES] == [None, 16, None, None]
    assert all(small["num_key_value_heads"] == small["num_attention_heads"] for small in found.values())
    assert [found[rule]["image_size"] for rule in RULES] == [32, 32, 128, 256]


def test_check_finds_wrong_outputs() -> None:
    one, two = torch.rand(4), torch.rand(4)
    result = Result("a")
    check(result, [[one], [two]], [[one], [two]])
    assert result.error == 0
    for found, expected, message in (
        ([[one], [two + 0.1]], [[one], [two]], "differences of the outputs"),
        ([[one], [one]], [[one], [two]], "differences of the outputs"),
        ([[one], []], [[one], [two]], "0 outputs, expected 1"),
    ):
        with pytest.raises(ValueError, match=message):
            check(result, found, expected)
    with pytest.raises(ValueError, match="do not depend on the inputs"):
        check_inputs([[one], [one]])
    with pytest.raises(ValueError, match="no finite value"):
        check_inputs([[one * torch.nan], [two]])


def test_outputs_must_depend_on_the_inputs() -> None:
    one = torch.rand(4)
    with pytest.raises(ValueError, match="do not depend on the inputs"):
        check_inputs([[one], [one * (1 + 1e-6)]])
    check_inputs([[one], [one * 1.01]])


@pytest.mark.parametrize(
    ("scores", "choose", "clear"),
    [
        ([3.0, 1.0, 2.0, 2.0], lambda x: x.topk(1), True),
        ([3.0, 1.0, 2.0, 2.0], lambda x: x.topk(2), False),
        ([3.0, 1.0, 2.0, 2.0], lambda x: x.topk(1, largest=False), True),
        ([3.0, 1.0, 1.000001, 2.0], lambda x: x.argmin(), False),
        ([3.0, 1.0, 1.000001, 2.0], lambda x: x.argmax(0), True),
        ([3.0, 1.0, 1.000001, 2.0], lambda x: x[:, None].argsort(0, descending=True), False),
        ([-torch.inf, 1.0, -torch.inf, 2.0], lambda x: x.sort(), True),
        ([0.0, 0.0], lambda x: x.topk(1), True),
    ],
)
def test_choices_by_near_scores_are_not_clear(scores: list[float], choose: Any, clear: bool) -> None:
    with Choices() as choices:
        choose(torch.tensor(scores))
    assert choices.are_clear == clear


class Magnifies(torch.nn.Module):
    """Two outputs, of which the second is what rounding leaves of a number, times a factor."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [x, 1 + (x / 3 * 3.3 - x * 1.1) * self.factor]


def test_outputs_that_magnify_rounding() -> None:
    x = torch.linspace(1, 2, 1000)
    for factor, least, most in ((0.0, 1e-4, 1e-4), (1e3, 1e-4, 1e-3), (1e6, 1e-3, 1e-3)):
        module = Magnifies(factor)
        first, second = allowed(module, [{"x": x}], [module(x)])[0]
        assert first == 1e-4 and least <= second <= most
    one = torch.ones(4)
    check(Result("a"), [[one * 1.0004]], [[one]], [[5e-4]])
    with pytest.raises(ValueError, match="differences of the outputs"):
        check(Result("a"), [[one * 1.0006]], [[one]], [[5e-4]])


def test_page() -> None:
    done: dict[str, Any] = {"stage": "done", "exporter": "torch.export", "rule": "narrow", "inputs": ["input_ids"]}
    done |= {"launches": 30, "cycles": 1000}
    results = [
        Result("bert", "BertModel", **done),
        Result("glm4", "Glm4Model", error=1e-6, **done),
        Result("sam", "SamModel", "save", "UnsupportedOpsError: aten::x\n /a/b/c/d.py:1", exporter="torch.export"),
        Result("slow", "SlowModel", "time-out", "save: more than 90 s", exporter="torch.export"),
        Result("loop", "LoopModel", stage="export", reason="Could not guard"),
    ]
    text = page.page(results, 9)
    assert "- 5 of 9 architectures" in text and "- 4 of these are exported" in text
    assert "- 2 of these 4 run" in text and "- 1 of 3 (33.3 %) without those of" in text
    assert "| Glm4Model | glm4 | input_ids | torch.export | narrow | 0 | 30 | 1,000 | 1.0e-06 |" in text
    assert "| SamModel | sam | not compiled | UnsupportedOpsError: aten::x d.py:1 |" in text
    assert "| LoopModel | loop | not exported | Could not guard |" in text
