# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch on the second device. Build the library first, then:

ATALLA_DEVICE_LIBRARY=build/libsecond_device.so python examples/second_device/run_torch.py
"""

from __future__ import annotations

import torch

import torch_atalla


def show(name: str, value: torch.Tensor) -> None:
    fallbacks = ", ".join(f"{count.op} on the CPU" for count in torch_atalla.fallback.stats()) or "native"
    print(f"{name:24} {value.tolist()}  ({fallbacks})")
    torch_atalla.fallback.reset()


def main() -> None:
    torch_atalla.fallback.mode("silent")
    print(torch.atalla.get_device_name())
    ones = torch.ones(3, device="atalla")
    show("torch.ones(3) + 1", ones + 1)
    matrix = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device="atalla")
    show("transposed copy", matrix.t().contiguous())
    show("matrix @ matrix", matrix @ matrix)
    show("linear", torch.nn.functional.linear(matrix, matrix, torch.ones(2, device="atalla")))
    show("integers", torch.tensor([1, 2], device="atalla") + 3)
    show("softmax", torch.softmax(torch.zeros(4, device="atalla"), 0))
    show("sort", torch.sort(torch.tensor([2.0, 1.0], device="atalla")).values)


if __name__ == "__main__":
    main()
