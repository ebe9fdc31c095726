# SPDX-License-Identifier: BSD-3-Clause
"""One of two processes, for test_distributed_training.py: rank 0 is done before rank 1 comes.

python distributed_ends.py WAY DIRECTORY RANK

WAY "destroys": rank 0 submits a call, destroys its group and ends. "leaves": it ends without destroying the group. A
reference to the group is kept, as by DistributedDataParallel.
"""

import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

SECONDS = 1.0  # that rank 1 is late


def attempt(call) -> None:
    try:
        call()
    except dist.DistBackendError as error:
        print(f"error: {error}".replace("\n", " "), flush=True)
    else:
        sys.exit("expected a DistBackendError")


if __name__ == "__main__":
    way, directory, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
    store = dist.FileStore(os.path.join(directory, "store"), 2)
    dist.init_process_group("accl", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=60))
    t = torch.ones(3, device="atalla")
    dist.all_reduce(t)
    t.cpu()
    kept = dist.group.WORLD
    if rank == 1:
        store.wait(["rank 0 has submitted"])
        time.sleep(SECONDS)
    work = dist.all_reduce(t, async_op=True)
    start = time.monotonic()
    if rank == 0:
        store.set("rank 0 has submitted", "yes")
    if way == "destroys":
        dist.destroy_process_group()
        print("destroyed:", work.is_completed(), t.tolist(), flush=True)
        print("waited:", time.monotonic() - start > SECONDS / 2, flush=True)
    elif rank == 1:
        attempt(lambda: (work.wait(), dist.all_reduce(t), t.cpu()))  # rank 0 leaves the second call out
