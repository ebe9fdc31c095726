# SPDX-License-Identifier: BSD-3-Clause
"""On-disk cache of compiled programs, keyed by content: the graph, its sizes, ambient state, the chip and the versions.

An entry holds facts as JSON and the bytes of a program. Both are data: reading an entry runs no code. A damaged entry
is reported and deleted, and its program is compiled again. One key may have several entries, for sizes that took other
ways through the compiler; the facts of an entry say for which sizes it is valid.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch._dynamo.utils import counters
from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

from torch_atalla.driver.extension import _C
from torch_atalla.driver.paths import GENERATED, PACKAGE

from . import cache_folder
from .ambient import ambient_text

log = logging.getLogger(__name__)

_DIGEST = hashlib.sha256().digest_size
_VARIANTS = 8  # entries of one key
T = TypeVar("T")


class InvalidEntry(ValueError):
    """An entry whose checksum is right and whose content is not what this version writes."""


def enabled() -> bool:
    return not torch.compiler.config.force_disable_caches


def key_of(parts: Iterable[str]) -> str:
    """Return the cache key of a program that depends on `parts`, on ambient state and on the software's versions."""
    return _digest(_versions(), ambient_text(), *parts)


def _digest(start: bytes, *parts: str) -> str:
    digest = hashlib.sha256(start)
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


@lru_cache(maxsize=1)
def _versions() -> bytes:
    """Return a digest of the torch version, and of this package's code, extension and generated tables."""
    digest = hashlib.sha256(torch.__version__.encode())
    digest.update(Path(str(_C.__file__)).read_bytes())
    for path in (*sorted(PACKAGE.glob("**/*.py")), *sorted(GENERATED.glob("*.json"))):
        digest.update(str(path.relative_to(PACKAGE)).encode())
        digest.update(path.read_bytes())
    return digest.digest()


def find(key: str, accept: Callable[[dict[str, Any], bytes], T | None]) -> T | None:
    """Return what `accept` makes of the facts and bytes of an entry, or None if it accepts none.

    `accept` returns None for an entry that is for other sizes. It raises InvalidEntry for one that is damaged.
    """
    if not enabled():
        return None
    for name in _names(key):
        content = cache_folder.read(name)
        if content is None:
            continue
        try:
            found = accept(*_read(content))
        except InvalidEntry as error:
            log.warning("the cache entry %s is damaged (%s); the program is compiled again", name, error)
            cache_folder.remove(name)
            counters["atalla"]["cache_damaged"] += 1
            return None
        if found is not None:
            counters["atalla"]["cache_hit"] += 1
            _record(name, content)
            return found
    counters["atalla"]["cache_miss"] += 1
    return None


def put(key: str, facts: dict[str, Any], data: bytes = b"") -> None:
    """Store an entry beside the others of its key. If there are too many, it replaces one of them."""
    if not enabled():
        return
    head = json.dumps(facts).encode()
    body = len(head).to_bytes(8, "little") + head + data
    content = hashlib.sha256(body).digest() + body
    names = list(_names(key))
    name = next((name for name in names if cache_folder.read(name) in (None, content)), names[content[0] % _VARIANTS])
    cache_folder.write(name, content)
    _record(name, content)


def _names(key: str) -> Iterator[str]:
    """Yield the names of the entries of a key."""
    cache_folder.check_key(key)
    yield key
    for number in range(1, _VARIANTS):
        yield _digest(key.encode(), str(number))


def _read(content: bytes) -> tuple[dict[str, Any], bytes]:
    body = content[_DIGEST:]
    if hashlib.sha256(body).digest() != content[:_DIGEST]:
        raise InvalidEntry("its checksum is wrong")
    end = 8 + int.from_bytes(body[:8], "little")
    if not 8 <= end <= len(body):
        raise InvalidEntry("its facts are cut off")
    try:
        facts = json.loads(body[8:end])
    except (ValueError, RecursionError) as error:
        raise InvalidEntry(f"its facts are not JSON: {error}") from error
    if not isinstance(facts, dict):
        raise InvalidEntry("its facts are not an object")
    return facts, body[end:]


@CacheArtifactFactory.register
class AtallaProgramArtifact(CacheArtifact):
    """A cache entry in the artifacts of torch.compiler.save_cache_artifacts."""

    def populate_cache(self) -> None:
        try:
            cache_folder.check_key(self.key)
            _read(self.content)
        except ValueError as error:
            log.warning("an artifact of torch.compiler.load_cache_artifacts is ignored: %s", error)
            return
        cache_folder.write(self.key, self.content)

    @staticmethod
    def type() -> str:
        return "atalla_program"


def _record(key: str, content: bytes) -> None:
    CacheArtifactManager.record_artifact(AtallaProgramArtifact.type(), key, content)
