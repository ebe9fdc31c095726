"""Models of which the tests make reports."""

import torch
from torch import nn

from tools import model_zoo


@torch.library.custom_op("report_tests::scale", mutates_args=())
def scale(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@scale.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Scale(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.report_tests.scale(x)


class FallbackModel(nn.Module):
    """Two layers on the chip around an op that only the host has."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.scale, self.second = nn.Linear(8, 8), Scale(), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.scale(self.first(x).relu()))


class Encoder(nn.Module):
    """A small BERT in bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        model, self.inputs = model_zoo.MODELS["BERT"]()
        self.model = model.bfloat16()

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
