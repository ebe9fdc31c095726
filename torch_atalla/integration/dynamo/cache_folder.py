# SPDX-License-Identifier: BSD-3-Clause
"""The folder of torch.compile's on-disk cache: files named by hexadecimal digests, which only this user can change.

The folder is beside Inductor's caches (TORCHINDUCTOR_CACHE_DIR). Files are replaced atomically, so processes may share
it, and a killed writer leaves no partial file. When the folder exceeds TORCH_ATALLA_CACHE_LIMIT bytes, the least
recently used files are removed.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch._inductor.runtime.cache_dir_utils import cache_dir

from torch_atalla.driver.files import write_whole

log = logging.getLogger(__name__)

LIMIT = 1 << 30  # bytes, by default
_SUFFIX = ".entry"
_KEY = re.compile(r"[0-9a-f]{64}", re.ASCII)


def directory() -> Path:
    return Path(cache_dir()) / "atalla"


def limit() -> int:
    """Return the size limit in bytes. Raises ValueError if the setting is not a number of bytes."""
    text = os.environ.get("TORCH_ATALLA_CACHE_LIMIT", str(LIMIT))
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"TORCH_ATALLA_CACHE_LIMIT: expected a number of bytes, got {text!r}")
    return int(text)


def check_key(key: str) -> None:
    """Raise ValueError for a key that is not the digest of a program, such as one that leads out of the folder."""
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        raise ValueError(f"a cache key is {str(key)[:80]!r}; expected 64 hexadecimal digits")


def read(key: str) -> bytes | None:
    """Return the content of a file, or None if there is no such file or the folder is not safe to use."""
    folder = _usable()
    if folder is None:
        return None
    try:
        with open(_path(folder, key), "rb") as file:
            owner = os.fstat(file.fileno()).st_uid
            if owner != os.getuid():
                _warn(f"the cache entry {file.name} belongs to user {owner}; it is ignored. Delete it")
                return None
            content = file.read()
        os.utime(_path(folder, key))
    except OSError:
        return None
    return content


def write(key: str, content: bytes) -> None:
    """Write a file, and remove the least recently used ones down to the limit."""
    folder = _usable(create=True)
    if folder is None:
        return
    try:
        write_whole(_path(folder, key), content)
    except OSError as error:
        _warn(f"compiled programs cannot be stored in {folder}: {error}. Set TORCHINDUCTOR_CACHE_DIR to another folder")
        return
    _shrink(folder)


def remove(key: str) -> None:
    folder = _usable()
    if folder is not None:
        _path(folder, key).unlink(missing_ok=True)


def statistics() -> dict[str, Any]:
    """Return the folder, the number of entries, their total bytes and the limit."""
    sizes = [path.stat().st_size for path in directory().glob("*" + _SUFFIX)]
    return {"directory": str(directory()), "entries": len(sizes), "bytes": sum(sizes), "limit": limit()}


def clear() -> int:
    """Remove all entries and return how many there were."""
    paths = list(directory().glob("*" + _SUFFIX))
    for path in paths:
        path.unlink(missing_ok=True)
    return len(paths)


def _path(folder: Path, key: str) -> Path:
    check_key(key)
    return folder / (key + _SUFFIX)


def _usable(*, create: bool = False) -> Path | None:
    """Return the folder if it belongs to this user and no other user can write to it. Warn once if it does not."""
    folder = directory()
    try:
        if create:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
        status = os.stat(folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        _warn(f"the cache folder {folder} cannot be used: {error}. Set TORCHINDUCTOR_CACHE_DIR to another folder")
        return None
    if not stat.S_ISDIR(status.st_mode):
        _warn(f"{folder} is not a folder; compiled programs are not cached. Delete it")
    elif status.st_uid != os.getuid():
        _warn(
            f"the cache folder {folder} belongs to user {status.st_uid}, not to you; compiled programs are not cached. "
            "Set TORCHINDUCTOR_CACHE_DIR to a folder of yours"
        )
    elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        _warn(
            f"other users can write to the cache folder {folder} (mode {stat.S_IMODE(status.st_mode):o}); compiled "
            "programs are not cached. Delete the folder, or run chmod 700 on it if you trust its entries"
        )
    else:
        return folder
    return None


@lru_cache(maxsize=256)
def _warn(text: str) -> None:
    log.warning("%s", text)


def _shrink(folder: Path) -> None:
    """Remove the least recently used files, down to the limit. Other processes may do this at the same time."""
    found = []
    for path in folder.glob("*" + _SUFFIX):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        found.append((status.st_mtime_ns, status.st_size, path))
    total, most = sum(size for _, size, _ in found), limit()
    for _, size, path in sorted(found)[:-1]:
        if total <= most:
            break
        path.unlink(missing_ok=True)
        total -= size
