# SPDX-License-Identifier: Apache-2.0
"""The functions in C, which src/history.h declares. Only the service calls them, not the panel."""

import functools
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

NAME = "libek-history.so.0"


@functools.cache
def library() -> "ctypes.CDLL":
    """The loaded library. Raises OSError. Tests set EK_HISTORY_LIBRARY."""
    import ctypes  # the panel does not need its memory

    found = ctypes.CDLL(os.environ.get("EK_HISTORY_LIBRARY", NAME))
    values, text = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_size_t)
    found.ek_history_grow.restype = ctypes.c_int64
    found.ek_history_grow.argtypes = (*text, *text, values, ctypes.c_size_t)
    found.ek_history_attribute.argtypes = (values, values, ctypes.c_size_t, ctypes.c_uint64, values)
    return found
