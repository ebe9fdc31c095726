# SPDX-License-Identifier: BSD-3-Clause
"""Trains one small model with a library, on as many ranks as the launcher started, and prints the losses as JSON.

    python library_training.py accelerate
    torchrun --nproc-per-node 2 library_training.py lightning

The library chooses the device, in three precisions; one rank trains also on the CPU, on request. The global batch is
the same for any number of ranks.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from typing import Any

WORLD = int(os.environ.get("WORLD_SIZE", 1))
BATCH, STEPS, WORDS = 8, 5, 31
PRECISIONS = ("no", "bf16", "fp16")

Record = dict[str, Any]


def model() -> Any:
    """A GPT-2 in small: it gives the loss of `labels`, and logits of (batch, time, words)."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    config = GPT2Config(vocab_size=WORDS, n_embd=16, n_layer=1, n_head=2, n_positions=16, **dropout)
    return GPT2LMHeadModel(config)


def examples() -> list[dict[str, Any]]:
    """Rows that count up from a random number, each once."""
    import torch

    starts = torch.randint(WORDS, (BATCH * STEPS, 1), generator=torch.Generator().manual_seed(1))
    return [{"input_ids": row, "labels": row} for row in (starts + torch.arange(12)) % WORDS]


def train_accelerate(precision: str, cpu: bool = False) -> Record:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState
    from torch.optim import AdamW
    from torch.utils.data import DataLoader

    AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = Accelerator(mixed_precision=precision, cpu=cpu)
    net = model()
    loader = DataLoader(examples(), batch_size=BATCH // WORLD)  # type: ignore[arg-type]
    net, optimizer, loader = accelerator.prepare(net, AdamW(net.parameters(), lr=1e-2), loader)
    losses = []
    for batch in loader:
        optimizer.zero_grad()
        loss = net(**batch).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        losses.append(accelerator.reduce(loss.detach(), "mean").item())
    return {"losses": losses, "device": str(accelerator.device), "backend": accelerator.state.backend}


def train_trainer(precision: str, cpu: bool = False) -> Record:
    from accelerate.state import PartialState
    from transformers import Trainer, TrainingArguments, set_seed

    set_seed(0)
    chosen = {} if precision == "no" else {precision: True}
    arguments = TrainingArguments(
        tempfile.mkdtemp(), per_device_train_batch_size=BATCH // WORLD, num_train_epochs=1, learning_rate=1e-2,
        lr_scheduler_type="constant", logging_steps=1, logging_first_step=True, report_to=[], save_strategy="no",
        disable_tqdm=True, train_sampling_strategy="sequential", use_cpu=cpu, **chosen,
    )  # fmt: skip
    trainer = Trainer(model(), arguments, train_dataset=examples())  # type: ignore[arg-type]
    trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    return {"losses": losses, "device": str(arguments.device), "backend": PartialState().backend}


def train_lightning(precision: str, cpu: bool = False) -> Record:
    import lightning
    import torch
    from torch.utils.data import DataLoader, DistributedSampler

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.losses = model(), []

        def training_step(self, batch: Any, index: int) -> Any:
            loss = self.net(**batch).loss
            self.losses.append(self.all_gather(loss.detach()).mean().item())
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    module = Module()
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)
    trainer = lightning.Trainer(
        devices=WORLD, precision={"no": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}[precision],
        accelerator="cpu" if cpu else "auto", max_epochs=1, gradient_clip_val=1.0, use_distributed_sampler=False,
        **quiet,
    )  # fmt: skip
    data: Any = examples()
    rows = DistributedSampler(data, WORLD, int(os.environ.get("RANK", 0)), shuffle=False)
    trainer.fit(module, DataLoader(data, batch_size=BATCH // WORLD, sampler=rows))
    backend = torch.distributed.get_backend() if torch.distributed.is_initialized() else None
    return {"losses": module.losses, "device": str(trainer.strategy.root_device), "backend": backend}


def main() -> None:
    warnings.simplefilter("ignore")
    train = globals()[f"train_{sys.argv[1]}"]
    found = {precision: train(precision) for precision in PRECISIONS}
    if WORLD == 1:
        found["cpu"] = train("no", cpu=True)

    import torch.distributed as dist

    everyone: list[Any] = [found]
    if dist.is_initialized():
        everyone = [None] * WORLD
        dist.all_gather_object(everyone, found)
    if int(os.environ.get("RANK", 0)) == 0:
        print("RESULT", json.dumps(everyone))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
