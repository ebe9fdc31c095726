# SPDX-License-Identifier: BSD-3-Clause
"""On-disk cache of compiled programs, keyed by content: the graph, its sizes, the chip and the versions.

Entries are files in a folder beside Inductor's caches (TORCHINDUCTOR_CACHE_DIR). Files are replaced atomically, so
processes may share the folder, and a killed writer leaves no partial entry. A damaged entry is reported and deleted,
and its program is compiled again. When the folder exceeds TORCH_ATALLA_CACHE_LIMIT bytes, the least recently used
entries are removed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

from torch_atalla.driver.files import write_whole
from torch_atalla.driver.paths import GENERATED, PACKAGE

log = logging.getLogger(__name__)

LIMIT = 1 << 30  # bytes, by default
_SUFFIX = ".entry"
_DIGEST = hashlib.sha256().digest_size


def directory() -> Path:
    return Path(cache_dir()) / "atalla"


def limit() -> int:
    """Return the size limit in bytes. Raises ValueError if the setting is not a number of bytes."""
    text = os.environ.get("TORCH_ATALLA_CACHE_LIMIT", str(LIMIT))
    if not text.isdecimal():
        raise ValueError(f"TORCH_ATALLA_CACHE_LIMIT: expected a number of bytes, got {text!r}")
    return int(text)


def enabled() -> bool:
    return not torch.compiler.config.force_disable_caches


def key_of(parts: Iterable[str]) -> str:
    """Return the cache key of a program that depends on `parts` and on the versions of the software."""
    digest = hashlib.sha256(_versions())
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


@lru_cache(maxsize=1)
def _versions() -> bytes:
    """Return a digest of the torch version, of this package's code and of its generated tables."""
    digest = hashlib.sha256(torch.__version__.encode())
    for path in (*sorted(PACKAGE.glob("**/*.py")), *sorted(GENERATED.glob("*.json"))):
        digest.update(str(path.relative_to(PACKAGE)).encode())
        digest.update(path.read_bytes())
    return digest.digest()


def get(key: str) -> tuple[dict[str, Any], bytes] | None:
    """Return the facts and bytes that `put` stored, or None."""
    if not enabled():
        return None
    path = directory() / (key + _SUFFIX)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        counters["atalla"]["cache_miss"] += 1
        return None
    entry = _read(content)
    if entry is None:
        log.warning("the cache entry %s is damaged; the program is compiled again", path)
        path.unlink(missing_ok=True)
        counters["atalla"]["cache_damaged"] += 1
        return None
    counters["atalla"]["cache_hit"] += 1
    os.utime(path)
    _record(key, content)
    return entry


def put(key: str, facts: dict[str, Any], data: bytes = b"") -> None:
    if not enabled():
        return
    head = json.dumps(facts).encode()
    body = len(head).to_bytes(8, "little") + head + data
    content = hashlib.sha256(body).digest() + body
    _store(key, content)
    _record(key, content)


def _read(content: bytes) -> tuple[dict[str, Any], bytes] | None:
    body = content[_DIGEST:]
    if hashlib.sha256(body).digest() != content[:_DIGEST]:
        return None
    end = 8 + int.from_bytes(body[:8], "little")
    return json.loads(body[8:end]), body[end:]


def _store(key: str, content: bytes) -> None:
    folder = directory()
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / (key + _SUFFIX), content)
    _shrink(folder)


def _shrink(folder: Path) -> None:
    """Remove the least recently used entries, down to the limit. Other processes may do this at the same time."""
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


@CacheArtifactFactory.register
class AtallaProgramArtifact(CacheArtifact):
    """A cache entry in the artifacts of torch.compiler.save_cache_artifacts."""

    def populate_cache(self) -> None:
        if _read(self.content) is not None:
            _store(self.key, self.content)

    @staticmethod
    def type() -> str:
        return "atalla_program"


def _record(key: str, content: bytes) -> None:
    CacheArtifactManager.record_artifact(AtallaProgramArtifact.type(), key, content)
