# SPDX-License-Identifier: BSD-3-Clause
"""Signed files: Ed25519 over the content of every section but the signature's (docs/reference/loadable-format.md)."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from typing import Any

from ..errors import ExportError
from .records import _ENTRY, _HEADER, Section

KEY_BYTES, SIGNATURE_BYTES = 32, 64


def add_signature(data: bytes, private_key: bytes, crc32c: Callable[[bytes | bytearray], int]) -> bytes:
    """The file with a SIGNATURE section: the public key (32 bytes) and the signature (64)."""
    if len(private_key) != KEY_BYTES:
        raise ExportError(f"expected an Ed25519 private key of {KEY_BYTES} bytes, got {len(private_key)}")
    key = _ed25519().Ed25519PrivateKey.from_private_bytes(private_key)
    header, entries = _read(data)
    if any(kind == Section.SIGNATURE for kind, *_ in entries):
        raise ExportError("the file is signed already")
    public = key.public_key().public_bytes_raw()
    content = public + key.sign(_message(data, header, entries))
    return _append(data, header, entries, content, crc32c)


def is_signed(data: bytes) -> bool:
    return any(kind == Section.SIGNATURE for kind, *_ in _read(data)[1])


def verify_signature(data: bytes, public_key: bytes | None = None) -> bytes:
    """The public key that signed the file. Raises ExportError for a file that is not signed, whose signature is wrong,
    or that another key than `public_key` signed."""
    header, entries = _read(data)
    found = [(offset, size) for kind, _, offset, size, _, _ in entries if kind == Section.SIGNATURE]
    if not found:
        raise ExportError("the file is not signed")
    offset, size = found[0]
    content = data[offset : offset + size]
    if len(content) != KEY_BYTES + SIGNATURE_BYTES:
        raise ExportError(f"a signature of {len(content)} bytes, expected {KEY_BYTES + SIGNATURE_BYTES}")
    signer, signature = content[:KEY_BYTES], content[KEY_BYTES:]
    if public_key is not None and signer != public_key:
        raise ExportError(f"the file is signed by {signer.hex()}, expected {public_key.hex()}")
    from cryptography.exceptions import InvalidSignature

    try:
        _ed25519().Ed25519PublicKey.from_public_bytes(signer).verify(signature, _message(data, header, entries))
    except InvalidSignature:
        raise ExportError("the signature does not fit the file's content") from None
    return signer


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ExportError("signatures need the package cryptography: pip install cryptography") from None
    return ed25519


def _read(data: bytes) -> tuple[tuple, list[tuple]]:
    header = _HEADER.unpack_from(data)
    count, stride = header[8], header[9]
    return header, [_ENTRY.unpack_from(data, 128 + stride * k) for k in range(count)]


def _message(data: bytes, header: tuple, entries: list[tuple]) -> bytes:
    """SHA-256 of: versions of the header; for each other section kind, flags, stride, length and content."""
    digest = hashlib.sha256(b"atalla loadable\0" + struct.pack("<HHII", header[1], header[2], header[4], header[5]))
    for kind, flags, offset, size, stride, _ in entries:
        if kind != Section.SIGNATURE:
            digest.update(struct.pack("<IIIQ", kind, flags, stride, size))
            digest.update(memoryview(data)[offset : offset + size])
    return digest.digest()


def _append(
    data: bytes,
    header: tuple,
    entries: list[tuple],
    content: bytes,
    crc32c: Callable[[bytes | bytearray], int],
) -> bytes:
    """Puts the section before the weights. Sections keep their order; offsets are made anew."""
    new = (int(Section.SIGNATURE), 0, 0, len(content), 1, crc32c(content))
    at = next((k for k, entry in enumerate(entries) if entry[0] == Section.WEIGHTS), len(entries))
    order = [*entries[:at], new, *entries[at:]]
    table, parts, offset = bytearray(), [], 128 + _ENTRY.size * len(order)
    for kind, flags, old, size, stride, crc in order:
        alignment = 4096 if kind == Section.WEIGHTS else 64
        place = -(-offset // alignment) * alignment
        table += _ENTRY.pack(kind, flags, place, size, stride, crc)
        parts += [bytes(place - offset), content if kind == Section.SIGNATURE else memoryview(data)[old : old + size]]
        offset = place + size
    file_bytes = -(-offset // 64) * 64
    fields = list(header)
    fields[6], fields[8], fields[9], fields[10] = file_bytes, len(order), _ENTRY.size, crc32c(table)
    packed = _HEADER.pack(*fields)
    packed += struct.pack("<I", crc32c(packed))
    return b"".join([packed, table, *parts, bytes(file_bytes - offset)])


__all__ = ["add_signature", "is_signed", "verify_signature"]
