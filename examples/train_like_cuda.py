# SPDX-License-Identifier: BSD-3-Clause
"""A torch.cuda script on atalla
=============================

A training script as one writes it for torch.cuda, with the device's name changed and nothing else.

Usage::

    python examples/train_like_cuda.py
    python examples/train_like_cuda.py --steps 400 --save run.pt --trace trace.json
    sed 's/atalla/cuda/g; s/ATALLA/CUDA/g' examples/train_like_cuda.py > train.py    # the same script for a GPU

A character-level GPT learns to add numbers of two digits from text that is made up on the way ("48+7=55"). Used are:
autocast to float16 with a gradient scaler, a DataLoader with workers and pinned memory, a second stream that fetches
the next batch while the model works on this one, events, memory statistics, checkpoints and the profiler.

`--save` writes a checkpoint at the end and `--resume` goes on from one: the resumed run equals the uninterrupted one
bit for bit. Exits with 1 when the loss did not fall.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.data import DataLoader, Dataset

CHARACTERS = "0123456789+=\n"
BLOCK = 32  # characters of a sample
REPORT = 10  # steps between two lines of the report


class Sums(Dataset):
    """Sample i is BLOCK + 1 characters of lines such as "48+7=55", a function of i alone."""

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        source = random.Random(index)
        text = ""
        while len(text) <= BLOCK:
            a, b = source.randrange(50), source.randrange(50)
            text += f"{a}+{b}={a + b}\n"
        codes = torch.tensor([CHARACTERS.index(c) for c in text[: BLOCK + 1]])
        return codes[:-1], codes[1:]


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (t.reshape(shape).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.dropout(self.out(attended.transpose(1, 2).reshape(x.shape)), self.dropout, self.training)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2, dropout: float = 0.1) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(len(CHARACTERS), width), nn.Embedding(BLOCK, width)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, len(CHARACTERS))

    def forward(self, codes: Tensor) -> Tensor:
        positions = torch.arange(codes.shape[1], device=codes.device)
        return self.head(self.norm(self.blocks(self.token(codes) + self.position(positions))))


class Prefetcher:
    """Batches on the device. The next one is copied on a stream of its own while the current one is in use."""

    def __init__(self, loader: DataLoader) -> None:
        self.loader = loader
        self.stream = torch.atalla.Stream()

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        batches = iter(self.loader)
        upcoming = self.fetch(batches)
        while upcoming is not None:
            tensors, copied = upcoming
            current = torch.atalla.current_stream()
            current.wait_event(copied)
            for tensor in tensors:
                tensor.record_stream(current)  # its memory is the other stream's
            upcoming = self.fetch(batches)
            yield tensors

    def fetch(self, batches: Iterator) -> tuple[tuple[Tensor, Tensor], torch.atalla.Event] | None:
        host = next(batches, None)
        if host is None:
            return None
        with torch.atalla.stream(self.stream):
            x, y = (t.to("atalla", non_blocking=True) for t in host)
            copied = torch.atalla.Event()
            copied.record()
        return (x, y), copied


class Trainer:
    def __init__(self, steps: int, batch: int) -> None:
        self.steps, self.batch, self.step = steps, batch, 0
        self.model = GPT().atalla()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3, weight_decay=0.01)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: min(1.0, (step + 1) / 10))
        self.scaler = torch.amp.GradScaler("atalla", init_scale=2.0**12, growth_interval=20)

    def train_step(self, x: Tensor, y: Tensor) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        with record_function("forward"), torch.autocast("atalla", dtype=torch.float16):
            logits = self.model(x)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        with record_function("backward"):
            self.scaler.scale(loss).backward()
        with record_function("optimizer"):
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.schedule.step()
        self.step += 1
        return loss.detach()

    def save(self, path: Path) -> None:
        torch.save(
            {
                "step": self.step,
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "schedule": self.schedule.state_dict(),
                "scaler": self.scaler.state_dict(),
                "rng": {"cpu": torch.get_rng_state(), "device": torch.atalla.get_rng_state()},
            },
            path,
        )

    def load(self, path: Path) -> None:
        state = torch.load(path, map_location="cpu", weights_only=True)
        self.step = state["step"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.scaler.load_state_dict(state["scaler"])
        torch.set_rng_state(state["rng"]["cpu"])
        torch.atalla.set_rng_state(state["rng"]["device"])

    def batches(self, steps: int, workers: int) -> Prefetcher:
        """The batches of the next `steps` steps. Which samples they hold depends on the step alone."""
        samples = range(self.step * self.batch, (self.step + steps) * self.batch)
        # With a generator of its own the loader takes no seed for its workers from the default one, so that a resumed
        # run leaves that as an uninterrupted one does.
        loader = DataLoader(
            Sums(), self.batch, sampler=samples, num_workers=workers, pin_memory=True, drop_last=True,
            generator=torch.Generator(),
        )  # fmt: skip
        return Prefetcher(loader)

    def train(self, workers: int) -> list[float]:
        """Trains up to `steps` and returns the mean losses of the intervals between two lines of the report."""
        self.model.train()
        means: list[float] = []
        losses: list[Tensor] = []
        start, end = torch.atalla.Event(enable_timing=True), torch.atalla.Event(enable_timing=True)
        start.record()
        for x, y in self.batches(self.steps - self.step, workers):
            losses.append(self.train_step(x, y))
            if self.step % REPORT == 0 or self.step == self.steps:
                end.record()
                end.synchronize()
                means.append(torch.stack(losses).mean().item())
                milliseconds = start.elapsed_time(end) / len(losses)
                used = torch.atalla.memory_allocated() / 2**20
                print(
                    f"step {self.step:4}  loss {means[-1]:.4f}  {milliseconds:8.3f} ms a step on the device  "
                    f"{used:.1f} MiB in use  scale {self.scaler.get_scale():g}"
                )
                losses.clear()
                start.record()
        return means

    @torch.inference_mode()
    def answer(self, question: str) -> str:
        """What the model writes behind the question, up to the end of the line."""
        self.model.eval()
        codes = [CHARACTERS.index(c) for c in question]
        for _ in range(3):
            with torch.autocast("atalla", dtype=torch.float16):
                logits = self.model(torch.tensor([codes], device="atalla"))
            codes.append(int(logits[0, -1].argmax()))
            if CHARACTERS[codes[-1]] == "\n":
                break
        return "".join(CHARACTERS[c] for c in codes[len(question) :]).strip()


def profile_steps(trainer: Trainer, trace: Path | None) -> None:
    """Two more steps under the profiler, whose results are thrown away: prints where the device's time goes."""
    batches = list(trainer.batches(2, workers=0))
    torch.atalla.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.ATALLA]) as recorded:
        for x, y in batches:
            trainer.train_step(x, y)
        torch.atalla.synchronize()
    print(recorded.key_averages().table(sort_by="self_device_time_total", row_limit=8, max_name_column_width=40))
    if trace is not None:
        recorded.export_chrome_trace(str(trace))
        print(f"trace: {trace}")


def print_memory() -> None:
    stats = torch.atalla.memory_stats()
    free, total = torch.atalla.mem_get_info()
    print(
        f"memory: peak {torch.atalla.max_memory_allocated() / 2**20:.1f} MiB in use, "
        f"{torch.atalla.max_memory_reserved() / 2**20:.1f} MiB reserved; "
        f"{stats['allocation.all.allocated']} allocations from {stats['segment.all.allocated']} segments; "
        f"{free / 2**20:.0f} of {total / 2**20:.0f} MiB free"
    )


def print_fallbacks() -> None:
    """Which ops ran on the CPU instead; a device whose package does not count them has none."""
    counted = getattr(sys.modules.get("torch_atalla"), "fallback", None)
    found = counted.stats() if counted is not None else []
    print("ops that fell back to the CPU:", ", ".join(sorted({c.op for c in found})) or "none")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100, help="train up to this step (100)")
    parser.add_argument("--batch", type=int, default=16, help="samples a step (16)")
    parser.add_argument("--workers", type=int, default=2, help="processes of the DataLoader (2)")
    parser.add_argument("--save", type=Path, help="write a checkpoint at the end")
    parser.add_argument("--resume", type=Path, help="go on from a checkpoint")
    parser.add_argument("--trace", type=Path, help="write the profiled steps as a Chrome trace")
    options = parser.parse_args()

    torch.manual_seed(0)
    torch.atalla.set_device(0)
    torch.atalla.reset_peak_memory_stats()
    print(f"{torch.atalla.get_device_name()}, {torch.atalla.device_count()} devices, torch {torch.__version__}")
    trainer = Trainer(options.steps, options.batch)
    if options.resume is not None:
        trainer.load(options.resume)
        print(f"resumed at step {trainer.step}")
    means = trainer.train(options.workers)
    if options.save is not None:
        trainer.save(options.save)
    for question in ("2+3=", "20+30=", "48+7="):
        print(f"{question}{trainer.answer(question)}")
    print_memory()
    profile_steps(trainer, options.trace)
    print_fallbacks()
    fell = len(means) < 2 or means[-1] < means[0]
    print("ok" if fell else "FAILED: the loss did not fall")
    return int(not fell)


if __name__ == "__main__":
    sys.exit(main())
