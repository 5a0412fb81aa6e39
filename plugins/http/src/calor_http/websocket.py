"""WebSocket frames (RFC 6455), as far as streams of requests need them: binary messages, pings.

Requirements: no copy of large contents but the one that masking makes; a message may come in
several frames; control frames are short.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from typing import Any, Final

import numpy as np

CONTINUED: Final = 0
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10
CONTROL: Final = 125
FINAL: Final = 0x80
# The mask that changes nothing.
NO_MASK: Final = bytes(4)
_MASKED: Final = 0x80
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
# Up to this size Python's integers mask faster than NumPy does.
_SHORT: Final = 2048
_TWO: Final = struct.Struct(">BBH")
_EIGHT: Final = struct.Struct(">BBQ")
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def accept_of(key: bytes) -> bytes:
    """Return what a server answers to the key of a handshake."""
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())


def head(opcode: int, nbytes: int, mask: bytes = b"") -> bytes:
    """Return the header of a whole message; with a mask, that of a client."""
    first, masked = FINAL | opcode, _MASKED if mask else 0
    if nbytes <= CONTROL:
        return bytes((first, masked | nbytes)) + mask
    if nbytes < 1 << 16:
        return _TWO.pack(first, masked | 126, nbytes) + mask
    return _EIGHT.pack(first, masked | 127, nbytes) + mask


def parse_head(data: memoryview) -> tuple[int, bool, int, bytes, int] | None:
    """Return what the header at the beginning of some bytes says; None if it is not whole.

    Parameters
    ----------
    data : memoryview
        What has arrived.

    Returns
    -------
    tuple or None
        The opcode, whether the frame ends its message, the bytes of its content, the mask (empty
        without one), and the bytes of the header.
    """
    if len(data) < 2:
        return None
    first, second = data[0], data[1]
    nbytes, at = second & 0x7F, 2
    if nbytes >= 126:
        at = 4 if nbytes == 126 else 10
        if len(data) < at:
            return None
        nbytes = int.from_bytes(data[2:at], "big")
    mask = b""
    if second & _MASKED:
        if len(data) < at + 4:
            return None
        mask = bytes(data[at : at + 4])
        at += 4
    # Bits of extensions are left in the opcode, where they match none.
    return first & 0x7F, bool(first & FINAL), nbytes, mask, at


def masked(content: bytes, mask: bytes) -> bytes:
    """Return short content with a mask laid over it; a second time, the content."""
    nbytes = len(content)
    if nbytes > _SHORT:
        made = np.empty(nbytes, np.uint8)
        mask_into(made, np.frombuffer(content, np.uint8), mask)
        return made.tobytes()
    over = (mask * (nbytes // 4 + 1))[:nbytes]
    return (int.from_bytes(content, "little") ^ int.from_bytes(over, "little")).to_bytes(
        nbytes, "little"
    )


def mask_into(target: Bytes, content: Bytes, mask: bytes) -> None:
    """Write content with a mask laid over it to a target of its size, which it may be itself."""
    if mask == NO_MASK:
        if target is not content:
            target[:] = content
        return
    whole = len(content) // 8 * 8
    key = np.frombuffer(mask * 2, np.uint64)
    np.bitwise_xor(content[:whole].view(np.uint64), key, out=target[:whole].view(np.uint64))
    rest = len(content) - whole
    over = np.frombuffer((mask * 2)[:rest], np.uint8)
    np.bitwise_xor(content[whole:], over, out=target[whole:])
