# SPDX-License-Identifier: BSD-3-Clause
"""The versions of torch that the package supports. setup.py and tools/build.py read this file without torch."""

from __future__ import annotations

from collections.abc import Iterable

TESTED = ("2.13", "2.15")  # minor versions, lowest first: the suite runs with each of them


def minor(version: str) -> str:
    """Return the minor version, for example "2.13" of "2.13.0+cpu". The C++ interface of torch changes between them."""
    return ".".join(version.split(".")[:2])


def folder_name(version: str) -> str:
    """Return the name of the folder in torch_atalla/lib that has the extension for torch `version`."""
    return f"torch-{minor(version)}"


def order(version: str) -> tuple[int, ...]:
    """Return the key that sorts minor versions."""
    return tuple(int(part) for part in minor(version).split("."))


def since(version: str) -> bool:
    """Return whether the torch that is imported is of a minor version, such as "2.15", or of a later one."""
    import torch

    return order(torch.__version__) >= order(version)


def requirement(minors: Iterable[str]) -> str:
    """Return the requirement that admits exactly the minor versions, for example "torch>=2.13,<2.16,!=2.14.*"."""
    wanted = sorted(set(minors), key=order)
    (major, first), (last_major, last) = order(wanted[0]), order(wanted[-1])
    if major != last_major:
        raise ValueError(f"{wanted}: expected minor versions of one major version of torch")
    gaps = [f"!={major}.{number}.*" for number in range(first, last + 1) if f"{major}.{number}" not in wanted]
    return ",".join([f"torch>={wanted[0]}", f"<{major}.{last + 1}", *gaps])
