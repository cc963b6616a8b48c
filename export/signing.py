"""Checksums and signatures of models, in the model file itself.

`sign` writes a SHA-256 of the model into its JSON, and with a key an HMAC-SHA256 too; `verify`
refuses a model where they are missing or wrong. The file stays a model like any other: `load`
reads it here and on a board, and checks only its CRC-32.

>>> import edgeforest
>>> text = edgeforest.train([[1], [2]] * 9, ["a", "b"] * 9, n_trees=2).to_json()
>>> signed = sign(text, "a key that nobody knows")
>>> edgeforest.load(signed).to_json() == text
True
>>> load_signed(signed, "a key that nobody knows").predict([2])
'b'
>>> load_signed(signed, "another key, of some other")
Traceback (most recent call last):
ValueError: the signature of the model does not fit the key; do not use it
"""

from __future__ import annotations

import hashlib
import hmac
import io
import os
import re
from pathlib import Path
from typing import TypeAlias
from zlib import crc32

from edgeforest import files
from edgeforest.engines import load
from edgeforest.forest import Forest

Source: TypeAlias = "str | bytes | bytearray | os.PathLike[str]"
LEAST = 16  # bytes of a key: a shorter one can be guessed
# What follows the model proper. Each part has a fixed length and the end is fixed: nothing can
# stand in between that no checksum covers.
_SEALS = re.compile(
    rb'(?:,"sha256":"([0-9a-f]{64})")?(?:,"hmac":"([0-9a-f]{64})")?,"crc32":"([0-9a-f]{8})"}\Z'
)
_LONGEST = 186  # bytes of all of them


def sign(source: Source, key: str | bytes | None = None) -> str:
    """The text of a model with its SHA-256; with a key, signed too. A file is changed in place.

    Give a path, or the text of a model. An older signature is replaced. A key is text or bytes, at
    least 16 of them, best random ones: `secrets.token_bytes(32)`.

    >>> import edgeforest
    >>> edgeforest.train([[1], [2]] * 9, [0, 1] * 9, n_trees=2).save("model.json")
    >>> text = sign("model.json", b"0123456789abcdef")
    >>> verify("model.json", b"0123456789abcdef")
    """
    secret = _secret(key)
    text = _read(source)
    load(io.BytesIO(text))  # refuses what is not a model
    body = _parts(text)[0]
    seals = b',"sha256":"%s"' % hashlib.sha256(body).hexdigest().encode()
    if secret is not None:
        seals += b',"hmac":"%s"' % _mark(body, secret)
    signed = body + seals
    signed += b',"crc32":"%08x"}' % crc32(signed)
    path = _path(source)
    if path is not None:
        files.write(path, (signed, b"\n"))
    return signed.decode()


def verify(source: Source, key: str | bytes | None = None) -> None:
    """Raise a ValueError if a model, given as a path or its text, is not what was signed.

    With a key, the model must have a signature that fits the key. Without one, its SHA-256 must
    fit: that finds only accidents, since whoever changes a model can write another SHA-256.

    >>> import edgeforest
    >>> text = edgeforest.train([[1], [2]] * 9, [0, 1] * 9, n_trees=2).to_json()
    >>> verify(sign(text))
    >>> verify(sign(text), "0123456789abcdef")
    Traceback (most recent call last):
    ValueError: the model has no signature; sign it first, or do not use it
    """
    _verify(_read(source), _secret(key))


def load_signed(source: Source, key: str | bytes | None = None) -> Forest:
    """Read a model, given as a path or its text, that passes `verify`.

    >>> import edgeforest
    >>> forest = edgeforest.train([[1], [2]] * 9, [0, 1] * 9, n_trees=2)
    >>> load_signed(forest.to_json())
    Traceback (most recent call last):
    ValueError: the model has no SHA-256; sign it first
    """
    text = _read(source)  # once: what is verified is what is loaded
    _verify(text, _secret(key))
    return load(io.BytesIO(text))


def _verify(text: bytes, secret: bytes | None) -> None:
    body, sha256, mark = _parts(text)
    if secret is not None:
        if mark is None:
            raise ValueError("the model has no signature; sign it first, or do not use it")
        if not hmac.compare_digest(mark, _mark(body, secret)):
            raise ValueError("the signature of the model does not fit the key; do not use it")
    if sha256 is None:
        raise ValueError("the model has no SHA-256; sign it first")
    if not hmac.compare_digest(sha256, hashlib.sha256(body).hexdigest().encode()):
        raise ValueError("the model was altered: its SHA-256 does not fit; copy the file again")


def _parts(text: bytes) -> tuple[bytes, bytes | None, bytes | None]:
    """The model proper, its SHA-256 and its signature; None for one that is missing."""
    start = max(0, len(text) - _LONGEST)
    found = _SEALS.search(text, start)
    if found is None or found[3] != b"%08x" % crc32(text[: found.start(3) - 10]):
        load(io.BytesIO(text))  # says what is wrong with it
        raise ValueError("the model is damaged inside; train or copy it again")
    return text[: found.start()], found[1], found[2]


def _mark(body: bytes, secret: bytes) -> bytes:
    return hmac.new(secret, body, hashlib.sha256).hexdigest().encode()


def _secret(key: str | bytes | None) -> bytes | None:
    if key is None:
        return None
    if not isinstance(key, (str, bytes, bytearray)):
        raise TypeError(f"key must be text or bytes, got {type(key).__name__}")
    secret = key.encode() if isinstance(key, str) else bytes(key)
    if len(secret) < LEAST:
        raise ValueError(f"key must have at least {LEAST} bytes, got {len(secret)}")
    return secret


def _path(source: Source) -> Path | None:
    """The path that was given, or None for the text of a model."""
    if isinstance(source, (str, bytes, bytearray)) and source[:1] in ("{", b"{"):
        return None
    if isinstance(source, (str, bytes)):
        return Path(os.fsdecode(source))
    if isinstance(source, os.PathLike):
        return Path(source)
    raise TypeError(f"source must be a path or the text of a model, got {type(source).__name__}")


def _read(source: Source) -> bytes:
    path = _path(source)
    if path is not None:
        return path.read_bytes().strip()
    assert not isinstance(source, os.PathLike)
    return (source.encode() if isinstance(source, str) else bytes(source)).strip()
