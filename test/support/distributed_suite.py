# SPDX-License-Identifier: BSD-3-Clause
"""Shared code of the tests of several processes. The processes of a class start once and run all of its tests."""

from __future__ import annotations

import multiprocessing as mp
import sys
import traceback
from datetime import timedelta
from pathlib import Path

import torch
from torch.testing._internal.common_distributed import MultiProcContinuousTest

import torch_atalla

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))

import ddp_gpt  # noqa: E402

__all__ = ["ROOT", "DistributedTest", "ddp_gpt", "some"]


def some(rank: int, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Rank's values on the CPU: small integers, so that sums and products are exact in every dtype."""
    generator = torch.Generator().manual_seed(100 + rank)
    if dtype == torch.bool:
        return torch.randint(2, shape, generator=generator).to(dtype)
    low = 0 if not dtype.is_signed else -3
    values = torch.randint(low, 4, shape, generator=generator)
    if dtype.is_complex:
        imaginary = torch.randint(low, 4, shape, generator=generator)
        return torch.complex(values.double(), imaginary.double()).to(dtype)
    return values.to(dtype)


class DistributedTest(MultiProcContinuousTest):
    timeout = timedelta(seconds=60)

    @classmethod
    def backend_str(cls):
        return "cpu:gloo,atalla:accl"

    @classmethod
    def _spawn_processes(cls, world_size):
        # The base asks for spawned processes, but takes those of the default context if a test before fixed it.
        before = mp.get_start_method(allow_none=True)
        mp.set_start_method("spawn", force=True)
        try:
            super()._spawn_processes(world_size)
        finally:
            mp.set_start_method(before, force=True)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        # A worker that steals tests may come back to the class, whose processes have ended then.
        cls._processes_spawned = cls.poison_pill = False

    @classmethod
    def _run_test_given_id(cls, test_id, **kwargs):
        try:
            super()._run_test_given_id(test_id, **kwargs)
        except Exception:
            traceback.print_exc()  # the base reports one process, which may only have waited for another that failed
            raise

    @classmethod
    def _init_pg(cls, rank, world_size, rdvz_file):
        torch.set_num_threads(1)
        torch_atalla.chip.set_num_threads(1)
        torch_atalla.fallback.mode("error")
        device = torch.device("atalla", rank % torch.accelerator.device_count())
        torch.accelerator.set_device_index(device.index)
        super()._init_pg(rank, world_size, rdvz_file)

    @property
    def device(self) -> torch.device:
        return torch.device("atalla", torch.accelerator.current_device_index())

    def all(self, dtype: torch.dtype, *shape: int) -> list[torch.Tensor]:
        """The CPU values of every rank."""
        return [some(r, dtype, *shape) for r in range(self.world_size)]

    def mine(self, dtype: torch.dtype, *shape: int) -> torch.Tensor:
        return some(self.rank, dtype, *shape).to(self.device)

    def empty_like(self, t: torch.Tensor) -> torch.Tensor:
        return torch.empty(t.shape, dtype=t.dtype, device=self.device)
