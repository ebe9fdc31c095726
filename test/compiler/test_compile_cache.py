# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile's programs on disk: found again, shared by processes, whole or not there, within a limit."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import torch
from torch._dynamo.utils import counters
from torch.testing._internal.common_utils import TestCase, run_tests

from torch_atalla.cli import cache as command
from torch_atalla.integration.dynamo import cache

SCRIPT = """
import torch, sys
from torch._dynamo.utils import counters
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).to("atalla")
x = torch.ones(3, 8, device="atalla")
y = torch.compile(model, backend="atalla")(x)
y.sum().backward()
print(float(y.sum()), float(model[0].weight.grad.sum()), counters["atalla"]["cache_miss"])
"""


class TestCache(TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.environment = {"TORCHINDUCTOR_CACHE_DIR": folder.name}
        patch = mock.patch.dict(os.environ, self.environment)
        patch.start()
        self.addCleanup(patch.stop)
        torch._dynamo.reset()
        counters.clear()

    def compile(self, function=lambda x: x.exp() + 1, x=None, **options):
        torch._dynamo.reset()
        counters.clear()
        x = torch.ones(3, device="atalla") if x is None else x
        self.assertEqual(torch.compile(function, backend="atalla", **options)(x), function(x))
        return dict(counters["atalla"])

    def entries(self) -> list[Path]:
        return sorted(cache.directory().glob("*.entry"))

    def test_hits(self):
        self.assertEqual(self.compile(), {"cache_miss": 2})
        self.assertEqual(self.compile(), {"cache_hit": 2})
        self.assertEqual(self.compile(x=torch.ones(4, device="atalla")), {"cache_miss": 2})
        self.assertEqual(self.compile(options={"optimize": "none"}), {"cache_miss": 2})

    def test_constants_count(self):
        self.compile(lambda x: x + torch.tensor([1.0, 2.0, 3.0], device="atalla"))
        self.compile(lambda x: x + torch.tensor([1.0, 2.0, 4.0], device="atalla"))

    def test_dynamic_sizes(self):
        def f(x):
            return x.view(-1, 2).sum(1) if x.shape[0] > 4 else x * 2

        for rows in (6, 8, 3):
            self.compile(f, torch.ones(rows, 4, device="atalla"), dynamic=True)
        self.assertEqual(self.compile(f, torch.ones(10, 4, device="atalla"), dynamic=True).get("cache_miss", 0), 0)

    def test_nodes_that_run_eagerly_are_known(self):
        x = torch.randn(4, 4, device="atalla")
        self.assertIn("cache_miss", self.compile(lambda x: torch.linalg.eigvals(x @ x).abs() + 1, x))
        self.assertNotIn("cache_miss", self.compile(lambda x: torch.linalg.eigvals(x @ x).abs() + 1, x))

    def test_a_damaged_entry_is_made_again(self):
        self.compile()
        for path in self.entries():
            content = bytearray(path.read_bytes())
            content[-1] ^= 1
            path.write_bytes(content)
        with self.assertLogs("torch_atalla.integration.dynamo.cache", "WARNING") as logs:
            self.assertEqual(self.compile()["cache_damaged"], 2)
        self.assertEqual(len(logs.output), 2)
        self.assertEqual(self.compile(), {"cache_hit": 2})
        self.entries()[0].write_bytes(b"")
        self.assertEqual(self.compile()["cache_damaged"], 1)

    def test_limit(self):
        with mock.patch.dict(os.environ, {"TORCH_ATALLA_CACHE_LIMIT": "20000"}):
            for rows in range(2, 8):
                self.compile(x=torch.ones(rows, device="atalla"))
            self.assertLessEqual(sum(path.stat().st_size for path in self.entries()), 20000)
            self.assertEqual(self.compile(x=torch.ones(7, device="atalla")), {"cache_hit": 2})
        with mock.patch.dict(os.environ, {"TORCH_ATALLA_CACHE_LIMIT": "much"}):
            with self.assertRaisesRegex(ValueError, "TORCH_ATALLA_CACHE_LIMIT: expected a number of bytes, got 'much'"):
                cache.limit()

    def test_disabled(self):
        with torch.compiler.config.patch(force_disable_caches=True):
            self.assertEqual(self.compile(), {})
        self.assertEqual(self.entries(), [])

    def test_command(self):
        self.compile()
        self.assertEqual(command.main([]), 0)
        self.assertEqual(command.main(["--clear"]), 0)
        self.assertEqual(self.entries(), [])

    def test_artifacts(self):
        torch.compiler._cache.CacheArtifactManager.clear()
        self.compile()
        saved = torch.compiler.save_cache_artifacts()
        assert saved is not None
        self.assertEqual(len(saved[1].atalla_program_artifacts), 2)
        cache.clear()
        torch.compiler.load_cache_artifacts(saved[0])
        self.assertEqual(self.compile(), {"cache_hit": 2})

    def start(self) -> subprocess.Popen:
        return subprocess.Popen([sys.executable, "-W", "ignore", "-c", SCRIPT], stdout=subprocess.PIPE, text=True)

    def test_processes_share_it(self):
        found = [process.communicate()[0].split() for process in [self.start() for _ in range(2)]]
        self.assertEqual({tuple(row[:2]) for row in found}, {tuple(found[0][:2])})
        warm = self.start().communicate()[0].split()
        self.assertEqual(warm, [*found[0][:2], "0"])

    def test_a_killed_writer_leaves_nothing(self):
        code = (
            "import os; from torch_atalla.integration.dynamo import cache; from torch_atalla.driver import files\n"
            "files.os.replace = lambda *_: os.kill(os.getpid(), 9)\n"
            "cache.put('0' * 64, {}, b'program')"
        )
        self.assertEqual(subprocess.run([sys.executable, "-W", "ignore", "-c", code]).returncode, -9)
        self.assertEqual(self.entries(), [])
        self.assertIsNone(cache.get("0" * 64))
        cache.put("0" * 64, {"a": 1}, b"program")
        self.assertEqual(cache.get("0" * 64), ({"a": 1}, b"program"))


if __name__ == "__main__":
    run_tests()
