"""Compressed bytes, unpacked piece by piece: no more is held than was asked for, whatever a header says of the size.

What a codec keeps of its own between two pieces is small: 32 KiB of gzip, the blocks of lz4 and xerial snappy, a window
of at most ZSTD_WINDOW_BYTES of zstd. Where that is not so (snappy in one piece, a wider window of zstd) the whole is
unpacked for every piece and dropped again, and is refused above a limit.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Protocol


def _found(module: str) -> Any:
    """None where it cannot be imported: a start names the codec, see `missing_codecs`."""
    try:
        return import_module(module)
    except ImportError:
        return None


cramjam, lz4_frame, zstandard = (_found(module) for module in ("cramjam", "lz4.frame", "zstandard"))

PIECE_BYTES = 1 << 20
"""What is asked for at once, and may be kept of a whole that came in one piece."""
ZSTD_WINDOW_BYTES = 1 << 23
"""The least that every decoder of zstd has to take (RFC 8878), and what levels up to 19 use."""
_ZSTD_WIDEST_BYTES = 1 << 27
"""The most that a decoder of zstd takes which was not told otherwise."""
_GZIP = 16 + zlib.MAX_WBITS
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16

LZ4 = 3
"""In the attributes of a batch, as gzip is 1, snappy 2 and zstd 4; 0: not compressed."""


def missing_codecs() -> list[str]:
    """Which codecs cannot be unpacked in this environment."""
    found = {"snappy": cramjam, "lz4": lz4_frame, "zstd": zstandard}
    return [codec for codec, module in found.items() if module is None]


class Unpackable(Exception):
    """These bytes do not unpack, or not within the limit."""


class Unpacker(Protocol):
    """One compressed batch."""

    def read(self, size: int) -> bytes:
        """The next bytes, `size` at most; none at the end. Whatever the codec raises is raised as it is."""


def unpacker(codec: int, packed: memoryview, most_bytes: int) -> Unpacker:
    """Of a batch's records. `most_bytes`: of what is not unpacked piece by piece. Raises Unpackable."""
    match codec:
        case 1:
            return _Gzip(packed)
        case 2:
            if packed[: len(_XERIAL)] == _XERIAL:
                return _Xerial(packed, most_bytes)
            return _Whole(partial(_snappy, packed, most_bytes))
        case _ if codec == LZ4:
            return _Lz4(packed)
        case 4:
            if zstandard.get_frame_parameters(packed).window_size <= ZSTD_WINDOW_BYTES:
                return _zstd_reader(packed, ZSTD_WINDOW_BYTES)
            return _Whole(partial(_zstd, packed, most_bytes))
    raise Unpackable(f"there is no codec {codec}")


def read(unpacker: Unpacker, size: int) -> bytes:
    """So much, if there is so much left."""
    pieces = []
    while size > 0 and (piece := unpacker.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


class _Gzip:
    def __init__(self, packed: memoryview) -> None:
        self._left: bytes | memoryview = packed
        self._member = zlib.decompressobj(_GZIP)

    def read(self, size: int) -> bytes:
        while True:
            piece = self._member.decompress(self._left, size)
            self._left = self._member.unconsumed_tail
            if piece:
                return piece
            if not self._member.eof:
                raise Unpackable("the gzip stream is cut")
            self._left = self._member.unused_data.lstrip(b"\0")
            if not self._left:
                return b""
            self._member = zlib.decompressobj(_GZIP)


class _Lz4:
    def __init__(self, packed: memoryview) -> None:
        self._left: bytes | memoryview = packed
        self._frame = lz4_frame.LZ4FrameDecompressor()
        self._ended = False

    def read(self, size: int) -> bytes:
        while not self._ended or self._left:
            if self._ended:
                self._frame = lz4_frame.LZ4FrameDecompressor()
            piece: bytes = self._frame.decompress(self._left, max_length=size)
            # Said of the last call alone.
            self._ended = bool(self._frame.eof)
            self._left = self._frame.unused_data or b"" if self._ended else b""
            if piece:
                return piece
            if not self._ended:
                raise Unpackable("the lz4 frame is cut")
        return b""


class _Xerial:
    """Blocks of raw snappy, as Java writes them."""

    def __init__(self, packed: memoryview, most_bytes: int) -> None:
        self._left = packed[_XERIAL_HEADER_BYTES:]
        self._most_bytes = most_bytes
        self._block: Unpacker = _Whole(bytes)

    def read(self, size: int) -> bytes:
        while not (piece := self._block.read(size)):
            if not self._left:
                return b""
            (block_bytes,) = struct.unpack_from(">i", self._left)
            block, self._left = self._left[4 : 4 + block_bytes], self._left[4 + block_bytes :]
            if block_bytes <= 0 or len(block) < block_bytes:
                raise Unpackable("the snappy stream is cut")
            self._block = _Whole(partial(_snappy, block, self._most_bytes))
        return piece


class _Whole:
    """What cannot be unpacked piece by piece. Only a small whole is kept until the next piece is asked for."""

    def __init__(self, unpack: Callable[[], bytes]) -> None:
        self._unpack = unpack
        self._kept: bytes | None = None
        self._at = 0

    def read(self, size: int) -> bytes:
        whole = self._unpack() if self._kept is None else self._kept
        if len(whole) <= PIECE_BYTES:
            self._kept = whole
        piece = whole[self._at : self._at + size]
        self._at += len(piece)
        return piece


def _snappy(packed: memoryview, most_bytes: int) -> bytes:
    # The decoder allocates what the header says, and refuses to write more.
    size = cramjam.snappy.decompress_raw_len(packed)
    if size > most_bytes:
        raise Unpackable(f"it unpacks to {size} bytes in one piece, {most_bytes} are allowed")
    return bytes(cramjam.snappy.decompress_raw(packed))


def _zstd(packed: memoryview, most_bytes: int) -> bytes:
    whole = _zstd_reader(packed, _ZSTD_WIDEST_BYTES).read(most_bytes + 1)
    if len(whole) > most_bytes:
        raise Unpackable(
            f"it unpacks to more than {most_bytes} bytes with a window above {ZSTD_WINDOW_BYTES} bytes: compress "
            "with a level of zstd below 20"
        )
    return whole


def _zstd_reader(packed: memoryview, window_bytes: int) -> Unpacker:
    reader: Unpacker = zstandard.ZstdDecompressor(max_window_size=window_bytes).stream_reader(
        packed, read_across_frames=True
    )
    return reader
