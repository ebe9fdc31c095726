# SPDX-License-Identifier: BSD-3-Clause
"""accelerate, transformers' Trainer and Lightning: devices, ranks, precisions, checkpoints, the CPU on request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "test/support/library_training.py"
MODULES = {"accelerate": "accelerate", "trainer": "accelerate", "lightning": "lightning"}
# Two ranks round the mean of gradients, and the parts of a batch, otherwise than one.
TOLERANCE = {"no": 1e-5, "bf16": 5e-3, "fp16": 1e-3}


def run(words: list[str], cwd: Path = ROOT, **variables: str) -> str:
    given = {"TORCH_ATALLA_FALLBACK": "error", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "ATALLA_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=cwd,
        env=os.environ | given | variables,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@cache
def train(library: str, ranks: int) -> list[dict[str, Any]]:
    """Per rank, precision -> losses, device and backend; one rank has also `cpu`."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    for line in run([*launcher, str(SCRIPT), library]).splitlines():
        if line.startswith("RESULT "):
            return json.loads(line.removeprefix("RESULT "))
    raise AssertionError("no result was printed")


@pytest.mark.parametrize("library", MODULES)
class TestRanks:
    @pytest.fixture(autouse=True)
    def installed(self, library: str) -> None:
        pytest.importorskip(MODULES[library], reason="needs requirements-ecosystem.txt")
        pytest.importorskip("transformers", reason="needs requirements-demo.txt")

    def test_one_rank_is_on_the_device_and_equals_the_cpu(self, library: str) -> None:
        (found,) = train(library, 1)
        assert found["cpu"]["device"].startswith("cpu")
        expected = found["cpu"]["losses"]
        assert len(expected) == 5 and expected[-1] < expected[0] - 0.1
        for precision, tolerance in TOLERANCE.items():
            record = found[precision]
            assert record["device"].startswith("atalla") and record["backend"] is None
            torch.testing.assert_close(record["losses"], expected, rtol=tolerance, atol=tolerance)

    def test_two_ranks_equal_one(self, library: str) -> None:
        (expected,), ranks = train(library, 1), train(library, 2)
        assert len(ranks) == 2
        for rank, found in enumerate(ranks):
            for precision, record in found.items():
                assert record["device"] == f"atalla:{rank}" and record["backend"] == "accl"
                tolerance = TOLERANCE[precision]
                torch.testing.assert_close(
                    record["losses"], expected[precision]["losses"], rtol=tolerance, atol=tolerance
                )

    def test_precisions_are_not_float32(self, library: str) -> None:
        (found,) = train(library, 1)
        losses = {precision: tuple(found[precision]["losses"]) for precision in TOLERANCE}
        assert len(set(losses.values())) == 3


class TestAccelerate:
    @pytest.fixture(autouse=True)
    def installed(self) -> Any:
        pytest.importorskip("accelerate", reason="needs requirements-ecosystem.txt")
        from accelerate.state import AcceleratorState

        AcceleratorState._reset_state(reset_partial_state=True)
        yield
        AcceleratorState._reset_state(reset_partial_state=True)

    def test_the_variable_of_accelerate_goes_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from accelerate import PartialState

        monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "cpu")
        assert PartialState().device == torch.device("cpu")

    def test_state_has_the_generators(self, tmp_path: Path) -> None:
        from accelerate import Accelerator

        accelerator = Accelerator()
        torch.manual_seed(3)
        torch.rand(5, device="atalla")
        accelerator.save_state(str(tmp_path))
        expected = torch.rand(5, device="atalla")
        torch.rand(7, device="atalla")
        accelerator.load_state(str(tmp_path))
        assert torch.equal(torch.rand(5, device="atalla"), expected)

    def test_batch_size_shrinks_until_memory_suffices(self) -> None:
        from accelerate.utils import find_executable_batch_size

        tried = []

        @find_executable_batch_size(starting_batch_size=1000)
        def step(batch_size: int) -> int:
            tried.append(batch_size)
            torch.empty(batch_size, 2**24, device="atalla")  # 64 MiB per row, of 4 GiB
            return batch_size

        assert 0 < step() <= 64 and tried[0] == 1000

    def test_profile(self) -> None:
        from accelerate import Accelerator
        from accelerate.utils import ProfileKwargs

        with Accelerator(kwargs_handlers=[ProfileKwargs(activities=["cpu", "atalla"])]).profile() as profile:
            torch.ones(4, device="atalla").exp().cpu()
        assert any("exp" in event.key for event in profile.key_averages())

    def test_launch_starts_a_process_per_device(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text(
            "from accelerate import Accelerator\n"
            "a = Accelerator()\n"
            "line = f'{a.device} {a.num_processes} {a.state.backend}\\n'\n"
            "print(line, end='', flush=True)\n"  # in one piece: both processes write
            "a.end_training()\n"
        )
        home = {"HF_HOME": str(tmp_path)}  # no configuration of the user
        words = ["-m", "accelerate.commands.accelerate_cli", "launch", "--main_process_port", "0", str(script)]
        lines = run(words, cwd=tmp_path, **home).splitlines()
        assert sorted(lines) == ["atalla:0 2 accl", "atalla:1 2 accl"]
        assert (
            run(
                ["-m", "accelerate.commands.accelerate_cli", "launch", "--cpu", str(script)], cwd=tmp_path, **home
            ).split()[0]
            == "cpu"
        )


class TestLightning:
    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        pytest.importorskip("lightning", reason="needs requirements-ecosystem.txt")

    @pytest.mark.parametrize(
        "devices, ordinals",
        [(1, [0]), (2, [0, 1]), ("2", [0, 1]), (-1, [0, 1]), ("-1", [0, 1]), ([1], [1]), ("1,", [1])],
    )
    def test_devices(self, devices: Any, ordinals: list[int]) -> None:
        import lightning

        for accelerator in ("auto", "atalla", lightning.pytorch.accelerators.AtallaAccelerator()):
            trainer = lightning.Trainer(accelerator=accelerator, devices=devices, logger=False)
            assert trainer.device_ids == ordinals
            assert trainer.strategy.root_device == torch.device("atalla", ordinals[0])

    @pytest.mark.parametrize("devices", [3, [2], [0, 0], "0,5"])
    def test_devices_that_do_not_exist(self, devices: Any) -> None:
        import lightning

        with pytest.raises(ValueError, match="expected a number of atalla devices"):
            lightning.Trainer(accelerator="atalla", devices=devices)

    def test_fabric(self) -> None:
        from lightning.fabric import Fabric

        fabric = Fabric(devices=1, precision="bf16-mixed")
        model = torch.nn.Linear(4, 3)
        model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
        assert fabric.device == torch.device("atalla", 0)
        before = model.weight.detach().clone()
        fabric.backward(model(torch.ones(2, 4, device=fabric.device)).sum())
        optimizer.step()
        assert (before - model.weight - 0.2).abs().max() < 1e-3

    def test_isolated_generators(self) -> None:
        from lightning.pytorch.utilities.seed import isolate_rng

        torch.manual_seed(3)
        with isolate_rng():
            expected = torch.rand(5, device="atalla")
        assert torch.equal(torch.rand(5, device="atalla"), expected)

    def test_out_of_memory(self) -> None:
        from lightning.pytorch.utilities.memory import is_oom_error

        with pytest.raises(torch.OutOfMemoryError) as caught:
            torch.empty(2**40, device="atalla")
        assert is_oom_error(caught.value) and not is_oom_error(ValueError("no"))
