# SPDX-License-Identifier: BSD-3-Clause
"""Code of the child processes of test_multiprocessing.py, in a module that a spawned process imports quickly."""

import gc

import torch


def serve(orders, replies):
    """Runs the functions of this module that it is sent, until it is sent None. Tensors in `kept` live on."""
    kept = {}
    while (order := orders.get()) is not None:
        name, args = order
        try:
            replies.put(globals()[name](kept, *args))
        except Exception as error:  # noqa: BLE001  (the parent judges)
            replies.put(error)
        del order
        args = None


def keep(kept, name, tensor):
    kept[name] = tensor
    return describe(tensor)


def describe(tensor):
    return str(tensor.device), tensor.tolist(), tensor.stride(), tensor.requires_grad, type(tensor).__name__


def drop(kept, *names):
    for name in names:
        del kept[name]
    gc.collect()
    return sorted(kept)


def fill(kept, name, value):
    with torch.no_grad():
        kept[name].fill_(value)
    torch.atalla.synchronize(kept[name].device)


def read(kept, name):
    return kept[name].tolist()


def same_storage(kept, a, b):
    return kept[a].untyped_storage()._cdata == kept[b].untyped_storage()._cdata


def make(kept, name, device):
    """A tensor of this process, for the caller."""
    kept[name] = torch.arange(4.0, device=device)
    return kept[name]


def give(kept, name):
    return kept[name]


def compute(kept, name):
    """Every way to reach the memory: kernels, both copies, a matrix product, a view, a clone."""
    x = kept[name]
    y = x @ x.t() + 1
    x[0] = 9
    x[1].copy_(torch.full_like(x[1], 7, device="cpu"))
    return (y.tolist(), x.clone().tolist(), x.t().contiguous().tolist(), x.to("atalla:1").tolist(), x.cpu().tolist())


def refuse(kept, name):
    """What shared memory does not allow."""
    found = []
    for action in (lambda t: t.untyped_storage().resize_(1 << 20), lambda t: t.resize_(1 << 20)):
        try:
            action(kept[name])
        except RuntimeError as error:
            found.append(str(error))
    return found


def train(kept, name):
    model = kept[name]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(2, 3, device=next(model.parameters()).device)).sum().backward()
    optimizer.step()
    torch.atalla.synchronize()


def keep_module(kept, name, module):
    kept[name] = module


def allocated(kept):
    gc.collect()
    torch.atalla.ipc_collect()
    return torch.atalla.memory_allocated()


def argument(tensor, connection):
    tensor.add_(1)
    torch.atalla.synchronize()
    connection.send(tensor.tolist())
    connection.recv()
