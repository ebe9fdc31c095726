# SPDX-License-Identifier: BSD-3-Clause
"""Signed files: Ed25519 over the content of every section but the signature's (docs/reference/loadable-format.md)."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

from torch_atalla.loadable.file.container import Checksum, Container, SectionData
from torch_atalla.loadable.file.format import Section

from ..errors import ExportError

KEY_BYTES, SIGNATURE_BYTES = 32, 64


def add_signature(data: bytes, private_key: bytes, crc32c: Checksum) -> bytes:
    """The file with a SIGNATURE section: the public key (32 bytes) and the signature (64)."""
    if len(private_key) != KEY_BYTES:
        raise ExportError(f"expected an Ed25519 private key of {KEY_BYTES} bytes, got {len(private_key)}")
    key = _ed25519().Ed25519PrivateKey.from_private_bytes(private_key)
    container = Container.read(data)
    if container.find(Section.SIGNATURE) is not None:
        raise ExportError("the file is signed already")
    content = key.public_key().public_bytes_raw() + key.sign(_message(container))
    kinds = [section.kind for section in container.sections]
    at = kinds.index(Section.WEIGHTS) if Section.WEIGHTS in kinds else len(kinds)
    container.sections.insert(at, SectionData(Section.SIGNATURE, content))
    return container.pack(crc32c)


def is_signed(data: bytes) -> bool:
    return Container.read(data).find(Section.SIGNATURE) is not None


def verify_signature(data: bytes, public_key: bytes | None = None) -> bytes:
    """The public key that signed the file. Raises ExportError for a file that is not signed, whose signature is wrong,
    or that another key than `public_key` signed."""
    container = Container.read(data)
    content = container.find(Section.SIGNATURE)
    if content is None:
        raise ExportError("the file is not signed")
    if len(content) != KEY_BYTES + SIGNATURE_BYTES:
        raise ExportError(f"a signature of {len(content)} bytes, expected {KEY_BYTES + SIGNATURE_BYTES}")
    signer, signature = content[:KEY_BYTES], content[KEY_BYTES:]
    if public_key is not None and signer != public_key:
        raise ExportError(f"the file is signed by {signer.hex()}, expected {public_key.hex()}")
    from cryptography.exceptions import InvalidSignature

    try:
        _ed25519().Ed25519PublicKey.from_public_bytes(signer).verify(signature, _message(container))
    except InvalidSignature:
        raise ExportError("the signature does not fit the file's content") from None
    return signer


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ExportError("signatures need the package cryptography: pip install cryptography") from None
    return ed25519


def _message(container: Container) -> bytes:
    """SHA-256 of: versions of the header; for each other section kind, flags, stride, length and content."""
    versions = (container.major, container.minor, container.min_runtime, container.isa_version)
    digest = hashlib.sha256(b"atalla loadable\0" + struct.pack("<HHII", *versions))
    for section in container.sections:
        if section.kind != Section.SIGNATURE:
            digest.update(struct.pack("<IIIQ", section.kind, section.flags, section.stride, len(section.content)))
            digest.update(section.content)
    return digest.digest()


__all__ = ["add_signature", "is_signed", "verify_signature"]
