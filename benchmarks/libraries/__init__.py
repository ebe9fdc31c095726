# SPDX-License-Identifier: BSD-3-Clause
"""Examples of other libraries' own documentation, in small, with the device as an argument: a file per library.

A file is named as the library's module, with its distribution in `DISTRIBUTION`. Its first line says what it runs.
`run(device)` returns the results as tensors. What is random is drawn on the CPU, so that both devices get the same.
"""

from collections.abc import Iterable

import torch


def joined(tensors: Iterable[torch.Tensor | None]) -> torch.Tensor:
    """Gradients or parameters as one vector, so that they are compared by the largest of all.

    Some gradients are zero except for rounding, like that of a bias before a normalization.
    """
    return torch.cat([x.detach().flatten() for x in tensors if x is not None])
