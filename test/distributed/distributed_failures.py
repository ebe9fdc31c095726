# SPDX-License-Identifier: BSD-3-Clause
"""One of two processes, for test_distributed_training.py: rank 1 comes too late to one group and dies in another.

python distributed_failures.py DIRECTORY RANK
"""

import os
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist


def attempt(name: str, call) -> None:
    try:
        call()
    except dist.DistBackendError as error:
        print(f"{name}: {error}".replace("\n", " "), flush=True)
    else:
        sys.exit(f"{name}: expected a DistBackendError")


def main(directory: str, rank: int) -> None:
    store = dist.FileStore(os.path.join(directory, "store"), 2)
    dist.init_process_group("accl", store=store, rank=rank, world_size=2)
    late = dist.new_group(timeout=timedelta(seconds=1))
    t = torch.ones(3, device="atalla")
    dist.all_reduce(t)
    if rank == 1:
        store.wait(["rank 0 saw the timeout"])
        os.kill(os.getpid(), signal.SIGKILL)
    # Nobody but the stream waits for a collective, so the device's next synchronisation tells that it failed.
    delayed = t.clone()
    dist.all_reduce(delayed, group=late)
    attempt("late", delayed.cpu)
    del delayed
    # The failure before is that of a group; this one still has its peer, until it dies with the call under way.
    work = dist.all_reduce(t.clone(), async_op=True)
    store.set("rank 0 saw the timeout", "yes")
    limit = timedelta(seconds=60)
    attempt("dead", lambda work=work: work.wait(limit))
    attempt("next", lambda t=t: (dist.all_reduce(t.clone()), torch.atalla.synchronize()))  # whichever meets it
    print("device:", t.sum().item(), flush=True)  # goes on
    dist.destroy_process_group()
    del t, work
    torch.atalla.synchronize()
    print("allocated:", torch.atalla.memory_allocated(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
