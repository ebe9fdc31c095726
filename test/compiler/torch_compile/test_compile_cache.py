# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile's programs on disk: found again, shared by processes, whole or not there, equal to eager mode."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import logging
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters
from torch.testing._internal.common_utils import TestCase, run_tests

import torch_atalla
from torch_atalla.cli import cache as command
from torch_atalla.driver.paths import PACKAGE
from torch_atalla.integration.dynamo import ambient, cache, cache_folder

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


VALUES = [
    None, True, -1, 2**70, 1.5, "", "__import__('os').abort()", [], {}, ["symbol", "zz"], ["eval", "1"], ["add"],
    ["true"], ["false"], ["integer", "1"], ["power", ["integer", "9" * 60], ["integer", "8"]], ["not", ["true"]],
    ["equal", ["python_modulo", ["integer", "1"], ["integer", "0"]], ["integer", "1"]],
    ["less", ["modulo", ["integer", "-1"], ["integer", "3"]], ["symbol", "s77"]],
]  # fmt: skip


def changed_entry(content: bytes, generator: random.Random) -> bytes:
    """Return a cache entry with a random change of its facts, at times of its program, and with the right checksum."""
    end = 40 + int.from_bytes(content[32:40], "little")
    facts, program = json.loads(content[40:end]), bytearray(content[end:])
    places: list[tuple[Any, Any]] = []

    def visit(value: Any) -> None:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            places.append((value, key))
            if isinstance(item, (dict, list)):
                visit(item)

    visit(facts)
    holder, key = generator.choice(places)
    if generator.random() < 0.2:
        del holder[key]
    else:
        holder[key] = copy.deepcopy(generator.choice(VALUES))
    if program and generator.random() < 0.3:
        program[generator.randrange(len(program))] ^= 1 << generator.randrange(8)
    head = json.dumps(facts).encode()
    body = len(head).to_bytes(8, "little") + head + program
    return hashlib.sha256(body).digest() + body


class CacheTestCase(TestCase):
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


class TestCache(CacheTestCase):
    def compile(self, function=lambda x: x.exp() + 1, x=None, **options):
        torch._dynamo.reset()
        counters.clear()
        x = torch.ones(3, device="atalla") if x is None else x
        self.assertEqual(torch.compile(function, backend="atalla", **options)(x), function(x))
        return dict(counters["atalla"])

    def entries(self) -> list[Path]:
        return sorted(cache_folder.directory().glob("*.entry"))

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
                cache_folder.limit()

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
        cache_folder.clear()
        torch.compiler.load_cache_artifacts(saved[0])
        self.assertEqual(self.compile(), {"cache_hit": 2})

    def test_keys_are_digests(self):
        body = (2).to_bytes(8, "little") + b"{}"
        content = hashlib.sha256(body).digest() + body
        for key in ("../" + "0" * 61, "0" * 63, "0" * 65, "A" * 64, "0" * 64 + "\n", "", "\u0660" * 64):
            with self.assertLogs("torch_atalla.integration.dynamo.cache", "WARNING"):
                cache.AtallaProgramArtifact(key, content).populate_cache()
            with self.assertRaisesRegex(ValueError, "expected 64 hexadecimal digits"):
                cache.put(key, {})
        found = [path for path in Path(self.environment["TORCHINDUCTOR_CACHE_DIR"]).rglob("*") if path.is_file()]
        self.assertEqual(found, [])

    def test_a_folder_that_others_can_write_is_not_used(self):
        self.compile()
        self.assertEqual(cache_folder.directory().stat().st_mode & 0o777, 0o700)
        cache_folder._warn.cache_clear()
        cache_folder.directory().chmod(0o770)
        with self.assertLogs("torch_atalla.integration.dynamo.cache_folder", "WARNING") as logs:
            self.assertEqual(self.compile(), {"cache_miss": 2})
        self.assertEqual(len(logs.output), 1)
        self.assertIn("chmod 700", logs.output[0])
        cache_folder.directory().chmod(0o700)
        self.assertEqual(self.compile(), {"cache_hit": 2})
        with mock.patch.object(os, "getuid", lambda: 12345):
            with self.assertLogs("torch_atalla.integration.dynamo.cache_folder", "WARNING") as logs:
                self.assertEqual(self.compile(), {"cache_miss": 2})
        self.assertIn("Set TORCHINDUCTOR_CACHE_DIR", logs.output[0])

    def test_changed_entries(self):
        """Entries with random changes and right checksums: the same results, no error, and no code runs."""
        generator, x = random.Random(3), torch.arange(6.0, device="atalla")

        def f(x, k):
            return torch.cat([torch.linalg.eigvals(torch.outer(x, x)).abs()[k:], x[k:] * k, x[:k]])

        def compiled() -> torch.Tensor:
            torch._dynamo.reset()
            return torch.compile(f, dynamic=True)(x, 2)

        expected = compiled()
        files = {path: path.read_bytes() for path in self.entries()}
        logging.disable(logging.WARNING)
        self.addCleanup(logging.disable, logging.NOTSET)
        for _ in range(12):
            changed = {path: changed_entry(content, generator) for path, content in files.items()}
            for path, content in changed.items():
                path.write_bytes(content)
            self.assertEqual(compiled(), expected, msg=f"{changed}")
        self.assertGreater(counters["atalla"]["cache_damaged"], 0)

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
        self.assertIsNone(cache.find("0" * 64, lambda *entry: entry))
        cache.put("0" * 64, {"a": 1}, b"program")
        self.assertEqual(cache.find("0" * 64, lambda *entry: entry), ({"a": 1}, b"program"))


STEPS, SEED = int(os.environ.get("TEST_CACHE_STEPS", "40")), int(os.environ.get("TEST_CACHE_SEED", "7"))

# Functions of a vector x and an integer k, whose ways through the compiler depend on both.
PARTS: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "tail": lambda x, k: x[k:],
    "head": lambda x, k: x[: x.shape[0] - k],
    "middle": lambda x, k: x[k : k + 2],
    "select": lambda x, k: x[k] + x,
    "narrow": lambda x, k: x.narrow(0, k, x.shape[0] - k),
    "roll": lambda x, k: x.roll(k),
    "pad": lambda x, k: F.pad(x, (k, 1), value=2.0),
    "cat": lambda x, k: torch.cat([x[:k], x * 2, x[k:]]),
    "triangle": lambda x, k: torch.outer(x, x).tril(k).sum(0),
    "chunk": lambda x, k: x.chunk(2)[0] * 2,
    "chunks": lambda x, k: x.chunk(3)[0].sum() + x.chunk(3)[-1],
    "split": lambda x, k: x.split(max(x.shape[0] // 2, 1))[0] - k,
    "repeat": lambda x, k: x[None].repeat(k + 1, 1).chunk(2, 1)[0].sum(0),
    "softmax": lambda x, k: torch.softmax(x[k:], 0),
    "windows": lambda x, k: x.unfold(0, 2, k + 1).sum(1),
    "behind": lambda x, k: x[::2][k:],
    "every": lambda x, k: x[:: k + 1],
    "resize": lambda x, k: F.interpolate(x[None, None], size=x.shape[0] + k)[0, 0],
    "blend": lambda x, k: F.interpolate(x[None, None], size=x.shape[0] + k, mode="linear")[0, 0],
    "full": lambda x, k: torch.full((x.shape[0],), 0.1, device=x.device) * x,
    "range": lambda x, k: torch.arange(0.0, 1.0, 0.1, device=x.device).sum() * x,
    "divide": lambda x, k: ((torch.arange(k + 1, device=x.device) / 3) * 1e9).to(torch.int64),
    "root": lambda x, k: torch.sqrt(torch.arange(k + 2, device=x.device)),
    "constant": lambda x, k: x + torch.tensor(0.1, device=x.device),
    "negative_zero": lambda x, k: torch.copysign(torch.ones_like(x), torch.full_like(x, -0.0 if k else 0.0)),
    "product": lambda x, k: torch.outer(x, x) @ torch.outer(x, x),
    "conditional": lambda x, k: x * 2 if x.shape[0] > 4 else x + 7,
    "fraction": lambda x, k: x * (k / 7),
    "dtype": lambda x, k: (x * 3).to(torch.get_default_dtype()).sum(),
}

STATES: dict[str, Callable[[], contextlib.AbstractContextManager]] = {
    "plain": contextlib.nullcontext,
    "float64": lambda: _default_dtype(torch.float64),
    "float16": lambda: _default_dtype(torch.float16),
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("atalla", torch.bfloat16),
    "autocast_half": lambda: torch.autocast("atalla", torch.float16),
    "deterministic": lambda: _deterministic(),
    "device": lambda: torch.device("atalla"),
}


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def _deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def _argument(kind: str, size: int) -> torch.Tensor:
    whole = torch.linspace(-1.0, 2.0, 2 * size + 4, dtype=torch.float32).to("atalla")
    return {"dense": whole[:size], "offset": whole[3 : 3 + size], "strided": whole[: 2 * size : 2]}[kind]


class TestState(CacheTestCase):
    def check(self, name, k, size, kind, state, dynamic):
        def function(x, k):
            return PARTS[name](x, k) * 2 + k

        torch._dynamo.reset()
        with STATES[state](), torch_atalla.fallback.mode("error"):
            try:
                expected = function(_argument(kind, size), k)
            except (RuntimeError, IndexError):
                return
            found = torch.compile(function, dynamic=dynamic)(_argument(kind, size), k)
        text = f"{name}(size={size}, k={k}), {kind}, {state}, dynamic={dynamic}"
        self.assertEqual(found.cpu(), expected.cpu(), rtol=0, atol=0, exact_stride=True, msg=text)

    def test_random_calls(self):
        generator = random.Random(SEED)
        names = generator.sample(sorted(PARTS), 9)
        for _ in range(STEPS):
            self.check(
                generator.choice(names),
                generator.choice([0, 0, 1, 2, 3, 5]),
                generator.choice([1, 2, 3, 4, 6, 8]),
                generator.choice(["dense", "dense", "offset", "strided"]),
                generator.choice(["plain", *STATES]),
                generator.choice([True, True, True, None]),
            )
        self.assertGreater(counters["atalla"]["cache_hit"], 0)
        self.assertEqual(counters["atalla"]["cache_damaged"], 0)


class TestAmbient(TestCase):
    def test_each_state_enters_keys(self):
        found = {name: STATES[name] for name in STATES if name != "plain"}
        texts = {"plain": ambient.ambient_text()}
        for name, context in found.items():
            with context():
                texts[name] = ambient.ambient_text()
        self.assertEqual(len(set(texts.values())), len(texts))

    def test_environment_variables_are_classified(self):
        names = set()
        for path in (*PACKAGE.glob("**/*.py"), *Path(PACKAGE.parent / "csrc").glob("**/*.cpp")):
            text = path.read_text()
            for line in re.findall(r"^.*(?:getenv|environ).*$", text, re.MULTILINE):
                names |= set(re.findall(r"\b(?:TORCH_)?ATALLA_[A-Z_]+\b", line))
        self.assertGreater(len(names), 5)
        self.assertEqual(names - {*ambient.PROGRAM_VARIABLES, *ambient.OTHER_VARIABLES}, set())


if __name__ == "__main__":
    run_tests()
