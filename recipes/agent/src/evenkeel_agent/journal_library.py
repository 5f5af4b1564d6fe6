# SPDX-License-Identifier: Apache-2.0
"""Reads the journal with libsystemd. A journalctl for each request would take several times as long.

python3-systemd decodes all fields of each line, which takes twice as long; its functions for a single field are private.
"""

import ctypes
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType

NAME = "libsystemd.so.0"
# sd-journal.h: the files of this machine, and of its services rather than of its users
LOCAL_ONLY, SYSTEM = 1 << 0, 1 << 2
# the value of a field, by its name
Field = Callable[[bytes], bytes]


@functools.cache
def library() -> ctypes.CDLL:
    """The loaded library, with the types of those functions that do not only take the journal. Raises OSError."""
    found = ctypes.CDLL(NAME)
    journal, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64
    out = ctypes.POINTER
    for name, types in {
        "open": (out(journal), ctypes.c_int),
        "open_directory": (out(journal), ctypes.c_char_p, ctypes.c_int),
        "close": (journal,),
        "add_match": (journal, ctypes.c_char_p, size),
        "add_disjunction": (journal,),
        "add_conjunction": (journal,),
        "seek_tail": (journal,),
        "seek_realtime_usec": (journal, number),
        "set_data_threshold": (journal, size),
        "previous": (journal,),
        "get_realtime_usec": (journal, out(number)),
        "get_data": (journal, ctypes.c_char_p, out(journal), out(size)),
    }.items():
        getattr(found, f"sd_journal_{name}").argtypes = types
    return found


class Journal:
    """The journal of the board, or the files in FOLDER. Raises OSError. Invalid after a fork.

    MOST: a field is truncated after so many bytes.
    """

    def __init__(self, most: int, folder: str = "") -> None:
        self._library = library()
        self._journal = ctypes.c_void_p()
        self._most = most
        opened = ctypes.byref(self._journal)
        if folder:
            _check(self._library.sd_journal_open_directory(opened, os.fsencode(folder), 0))
        else:
            _check(self._library.sd_journal_open(opened, LOCAL_ONLY | SYSTEM))
        # It only limits what the library decompresses. The name of the field is a part of it.
        self._library.sd_journal_set_data_threshold(self._journal, most + 100)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._library.sd_journal_close(self._journal)

    def require(self, alternatives: Sequence[Sequence[str]]) -> None:
        """From now on, only lines that match one of ALTERNATIVES, and what was required before.

        An alternative is a list of FIELD=VALUE. Each field in it must have one of its values.
        """
        for matches in alternatives:
            for match in matches:
                content = match.encode()
                _check(self._library.sd_journal_add_match(self._journal, content, len(content)))
            _check(self._library.sd_journal_add_disjunction(self._journal))
        _check(self._library.sd_journal_add_conjunction(self._journal))

    def newest_first(self, until_us: int | None) -> Iterator[tuple[int, Field]]:
        """The time of each line, in microseconds since 1970, and a function that returns a field of this line.

        UNTIL_US: the time of the newest line. The function returns b"" for a field that the line does not have. Of several
        values, it returns the first one.
        """
        if until_us is None:
            _check(self._library.sd_journal_seek_tail(self._journal))
        else:
            _check(self._library.sd_journal_seek_realtime_usec(self._journal, until_us))
        journal, at = self._journal, ctypes.c_uint64()
        previous, time_of = self._library.sd_journal_previous, self._library.sd_journal_get_realtime_usec
        at_pointer, field = ctypes.byref(at), self._field()
        while _check(previous(journal)):
            _check(time_of(journal, at_pointer))
            yield at.value, field

    def _field(self) -> Field:
        start, size = ctypes.c_void_p(), ctypes.c_size_t()
        start_pointer, size_pointer = ctypes.byref(start), ctypes.byref(size)
        journal, get, most = self._journal, self._library.sd_journal_get_data, self._most

        def field(name: bytes) -> bytes:
            # A field that is damaged counts as missing, so that the rest of the line is shown.
            if get(journal, name, start_pointer, size_pointer) < 0 or start.value is None:
                return b""
            skip = len(name) + 1  # the library returns NAME=VALUE
            return ctypes.string_at(start.value + skip, min(size.value - skip, most))

        return field


def _check(result: int) -> int:
    """The result of a function, which is a negative error number if the function failed. Raises OSError."""
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result
