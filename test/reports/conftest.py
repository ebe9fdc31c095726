"""Fixtures of the tests of reports."""

from pathlib import Path

import pytest
from report_models import Encoder

import torch_atalla


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A loadable of a small BERT, with Atalla code."""
    path = tmp_path_factory.mktemp("report") / "bert.atl"
    model = Encoder().eval()
    args = (model.inputs["input_ids"], model.inputs["attention_mask"])
    torch_atalla.save_loadable(model, path, args=args, engine="isa")
    return path
