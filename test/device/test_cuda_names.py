# SPDX-License-Identifier: BSD-3-Clause
"""torch.atalla has torch.cuda's public names, or a reason for each that it lacks; what it has can be called alike."""

import inspect
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch.testing._internal.common_utils import TestCase
from torch_version import recorded

from tools.names import cuda_names, features

ROOT = Path(__file__).resolve().parents[2]

# Callables whose parameters differ from torch.cuda's on purpose -> why.
OTHER_PARAMETERS: dict[str, str] = {}


def parameters(function) -> list[str]:
    return [
        p.name for p in inspect.signature(function).parameters.values()
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name not in ("self", "cls")
    ]  # fmt: skip


@recorded
@pytest.mark.skipif(torch.version.cuda is not None, reason="the record is of a build for the CPU")
class TestNames(TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.names = cuda_names.collect()

    def test_every_name_is_there_or_has_a_reason(self):
        self.assertEqual(cuda_names.name_problems(self.names, cuda_names.load_reasons()), [])

    def test_reasons_lack_what_the_product_lacks(self):
        """A reason such as "no thermal model" fails when a thermal model exists."""
        self.assertEqual(cuda_names.feature_problems(cuda_names.load_missing_features()), [])

    def test_a_feature_that_landed_is_found(self):
        missing = {"thermal model": ["temperature"], "energy model": ["power_draw"], "warp drive": ["warp_size"]}
        landed, unknown = cuda_names.feature_problems(missing)
        self.assertRegex(landed, "power_draw: the reason is that there is no energy model, which the product has")
        self.assertRegex(unknown, "warp_size: .*no feature 'warp drive'")
        with mock.patch.object(features, "parameters", lambda: ("thermal.resistance",)):
            self.assertRegex(cuda_names.feature_problems(missing)[0], "temperature: .* no thermal model")

    def test_reasons_name_what_exists(self):
        reasons = {"a": "torch.atalla.no_such_name() does this", "b": "see torch_atalla.telemetry and torch.profiler."}
        self.assertEqual(
            cuda_names.dangling(reasons), ["the reason for a names torch.atalla.no_such_name, which does not exist"]
        )

    def test_the_walk_finds_what_torch_cuda_lists(self):
        """The names come from source files: they must hold at least what the imported module shows."""
        paths = {n.path for n in self.names}
        self.assertGreaterEqual(paths, set(torch.cuda.__all__))
        for module in ("amp", "memory", "nvtx", "random", "streams", "graphs", "nccl"):
            public = getattr(getattr(torch.cuda, module), "__all__", [])
            self.assertTrue({f"{module}.{n}" for n in public} <= paths, module)
        expected = {
            "Stream.wait_event", "Stream.priority_range", "Stream.cuda_stream", "Event.elapsed_time",
            "Event.ipc_handle", "CUDAGraph.replay", "MemPool.id", "_CudaDeviceProperties.total_memory",
            "OutOfMemoryError", "amp.GradScaler", "memory.mem_get_info",
        }  # fmt: skip
        self.assertEqual(expected - paths, set())
        self.assertFalse({"os", "Any", "torch", "warnings", "lru_cache"} & paths)

    def test_kinds_agree(self):
        """A function stands for a function and a class for a class."""
        for name in self.names:
            if not name.present or not cuda_names.lookup(torch.cuda, name.path):
                continue
            theirs, ours = torch.cuda, torch.atalla
            for part in name.path.split("."):
                theirs = getattr(theirs, part)
            for part in name.on_atalla.split("."):
                ours = getattr(ours, part)
            if name.path != "amp.autocast":  # a function that makes torch.autocast
                self.assertEqual(inspect.isclass(theirs), inspect.isclass(ours), name.path)
            self.assertEqual(inspect.ismodule(theirs), inspect.ismodule(ours), name.path)
            self.assertEqual(callable(theirs), callable(ours), name.path)

    def test_functions_take_the_same_parameters(self):
        compared, wrong = 0, []
        for name in self.names:
            if not name.present or "." in name.path or not cuda_names.lookup(torch.cuda, name.path):
                continue
            theirs, ours = getattr(torch.cuda, name.path), getattr(torch.atalla, name.on_atalla)
            if not inspect.isfunction(theirs):
                continue
            compared += 1
            if parameters(theirs) != parameters(ours)[: len(parameters(theirs))] and name.path not in OTHER_PARAMETERS:
                wrong.append((name.path, parameters(theirs), parameters(ours)))
        self.assertEqual(wrong, [])
        self.assertGreater(compared, 50)

    def test_problems_are_found(self):
        Name = cuda_names.Name
        names = [Name("here", "", True), Name("gone", "", False), Name("gone.x", "gone", False)]
        self.assertEqual(cuda_names.name_problems(names, {"gone": "why"}), [])
        self.assertEqual(len(cuda_names.name_problems(names, {})), 2)
        self.assertRegex(cuda_names.name_problems(names, {"gone": "why", "here": "why"})[0], "exists")
        self.assertRegex(cuda_names.name_problems(names, {"gone": "why", "other": "why"})[0], "no name of torch.cuda")
        self.assertIn("| `x` | absent: as `gone` |", cuda_names.render(names, {"gone": "why"}))

    def test_submodules_can_be_imported(self):
        code = "from torch.atalla.memory import memory_allocated; import torch.atalla.random, torch.atalla.streams\n"
        code = "import torch\n" + code + "assert memory_allocated is torch.atalla.memory_allocated"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=120)

    def test_all_lists_what_is_there(self):
        for name in torch.atalla.__all__:
            self.assertTrue(hasattr(torch.atalla, name), name)
        self.assertEqual(len(set(torch.atalla.__all__)), len(torch.atalla.__all__))
        with self.assertRaisesRegex(AttributeError, "no_such_name"):
            torch.atalla.no_such_name  # noqa: B018
