"""Frames: the bodies of requests and answers, each with a checksum and maybe compressed.

Layout: four bytes CRC-32 of all that follows (little-endian), one byte 0 or 1 (Zstandard), and the
content. Messages are frames of MessagePack, of which nothing is made but numbers, texts, bytes,
lists and mappings.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import msgpack

from calor.errors import FormatError
from calor_http.checksums import Content, begun, crc32

# The most bytes of one request or answer, and of the pieces in which large values travel.
MESSAGE: Final = 1 << 24
CHUNK: Final = 1 << 22
PLAIN: Final = 0
ZSTD: Final = 1
# The bytes of a frame before its content.
HEAD: Final = 5
_PLAIN_HEAD: Final = bytes((PLAIN,))
_ZSTD_HEAD: Final = bytes((ZSTD,))
# Shorter content is not worth the work.
_SMALL: Final = 512

# None where the extra "zstd" is not installed.
zstandard: Any = import_module("zstandard") if find_spec("zstandard") else None


def compresses() -> bool:
    """Return whether this process can read and write Zstandard."""
    return zstandard is not None


def seal(content: Content, compress: bool = False) -> bytes:
    """Return content as a frame."""
    return b"".join(seal_parts(content, compress))


def seal_parts(content: Content, compress: bool = False) -> tuple[bytes, Content]:
    """Return a frame as its head and its content, which is not copied."""
    kind = _PLAIN_HEAD
    if compress and zstandard is not None and len(content) >= _SMALL:
        made = zstandard.ZstdCompressor(level=1).compress(content)
        if len(made) < len(content):
            kind, content = _ZSTD_HEAD, made
    check = crc32(content, crc32(kind))
    return check.to_bytes(4, "little") + kind, content


def sealed(content: Content, compress: bool = False) -> Callable[[], tuple[bytes, Content]]:
    """Begin to make a frame; return what waits for its head, and returns that and its content."""
    if compress:
        made = seal_parts(content, compress)
        return lambda: made
    check = begun(content, crc32(_PLAIN_HEAD))
    return lambda: (check().to_bytes(4, "little") + _PLAIN_HEAD, content)


def fits(head: Content, content: Content) -> bool:
    """Return whether a frame's head fits its content."""
    return fitting(head, content)()


def fitting(head: Content, content: Content) -> Callable[[], bool]:
    """Begin to look whether a frame's head fits its content; return what waits for the answer."""
    check = begun(content, crc32(head[4:]))
    return lambda: check() == int.from_bytes(head[:4], "little")


def unseal(frame: Content, limit: int) -> Content:
    """Return the content of a frame; FormatError if it is damaged or longer than a limit."""
    if len(frame) < HEAD:
        raise FormatError(f"a frame has {len(frame)} bytes; it was cut off")
    view = memoryview(frame)
    if not fits(view[:HEAD], view[HEAD:]):
        raise FormatError("the checksum of a frame does not fit; it was damaged on the way")
    kind, content = view[4], view[HEAD:]
    if kind == PLAIN:
        if len(content) > limit:
            raise FormatError(f"a frame holds {len(content)} bytes, more than {limit}")
        return content
    if kind != ZSTD or zstandard is None:
        raise FormatError(f'a frame is of kind {kind}; pip install "calor-http[zstd]" reads kind 1')
    try:
        size = zstandard.frame_content_size(content)
        if not 0 <= size <= limit:
            raise FormatError(f"a compressed frame says {size} bytes, more than {limit}")
        made: bytes = zstandard.ZstdDecompressor().decompress(content, max_output_size=limit)
    except zstandard.ZstdError as error:
        raise FormatError(f"a compressed frame is damaged: {error}") from None
    return made


def pack(message: Any, compress: bool = False) -> bytes:
    """Return a message as a frame."""
    return seal(msgpack.packb(message, use_bin_type=True), compress)


def unpack(frame: Content, limit: int) -> Any:
    """Return the message in a frame; FormatError for whatever is wrong with it."""
    return message_of(unseal(frame, limit))


def message_of(content: Content) -> Any:
    """Return the message in the content of a frame; FormatError for what is none."""
    try:
        return msgpack.unpackb(content, raw=False, strict_map_key=False, max_ext_len=0)
    except Exception as error:
        raise FormatError(f"a message is no MessagePack: {type(error).__name__}") from None
