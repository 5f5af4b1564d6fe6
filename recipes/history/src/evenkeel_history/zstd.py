# SPDX-License-Identifier: Apache-2.0
"""Compression with zstd (RFC 8878), by the C library libzstd. A frame has the size of its text, and a checksum.

zlib needs twice the processor time of a level that makes texts as short.
"""

import ctypes
import functools
from types import TracebackType
from typing import Self

MAGIC = b"\x28\xb5\x2f\xfd"  # a frame begins with it
LEVEL = 1  # levels up to 9 make rows of the history 1 % shorter, and take up to five times as long
_LEVEL_KEY, _CHECKSUM_KEY = 100, 201  # ZSTD_c_compressionLevel, ZSTD_c_checksumFlag
_NO_SIZE = (1 << 64) - 2  # ZSTD_getFrameContentSize() returns this or more if the size is unknown


@functools.cache
def _library() -> ctypes.CDLL:
    """Raises OSError."""
    found = ctypes.CDLL("libzstd.so.1")
    size, pointer, number = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
    for name, result, arguments in (
        ("ZSTD_createCCtx", pointer, ()),
        ("ZSTD_freeCCtx", size, (pointer,)),
        ("ZSTD_CCtx_setParameter", size, (pointer, number, number)),
        ("ZSTD_compressBound", size, (size,)),
        ("ZSTD_compress2", size, (pointer, pointer, size, ctypes.c_char_p, size)),
        ("ZSTD_createDCtx", pointer, ()),
        ("ZSTD_freeDCtx", size, (pointer,)),
        ("ZSTD_decompressDCtx", size, (pointer, pointer, size, ctypes.c_char_p, size)),
        ("ZSTD_getFrameContentSize", ctypes.c_uint64, (ctypes.c_char_p, size)),
        ("ZSTD_isError", ctypes.c_uint, (size,)),
    ):
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found


def compress(text: bytes) -> bytes:
    """TEXT as one frame. Raises MemoryError."""
    z = _library()
    room = z.ZSTD_compressBound(len(text))
    found = ctypes.create_string_buffer(room)
    context = z.ZSTD_createCCtx()
    if not context:
        raise MemoryError
    try:
        z.ZSTD_CCtx_setParameter(context, _LEVEL_KEY, LEVEL)
        z.ZSTD_CCtx_setParameter(context, _CHECKSUM_KEY, 1)
        size = z.ZSTD_compress2(context, found, room, text, len(text))
    finally:
        z.ZSTD_freeCCtx(context)
    if z.ZSTD_isError(size):  # with so much room, only memory can be missing
        raise MemoryError
    return ctypes.string_at(found, size)


def length(data: bytes) -> int | None:
    """How long the text of the first frame of DATA is, as its head says. None: DATA does not begin with a whole head."""
    found: int = _library().ZSTD_getFrameContentSize(data, len(data))
    return None if found >= _NO_SIZE else found


class Decompressor:
    """Decompresses texts of up to ROOM bytes. A context manager; not thread-safe."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._bytes = ctypes.create_string_buffer(room)

    def __enter__(self) -> Self:
        self._context = _library().ZSTD_createDCtx()
        if not self._context:
            raise MemoryError
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _library().ZSTD_freeDCtx(self._context)

    def decompress(self, data: bytes) -> bytes | None:
        """The text that DATA is. None: DATA is damaged or cut off, or the text needs more room."""
        z = _library()
        size = z.ZSTD_decompressDCtx(self._context, self._bytes, self._room, data, len(data))
        return None if z.ZSTD_isError(size) else ctypes.string_at(self._bytes, size)
