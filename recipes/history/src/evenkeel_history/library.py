# SPDX-License-Identifier: Apache-2.0
"""The functions and structs in C, which src/history.h declares."""

import ctypes
import functools
import os

NAME = "libek-history.so.0"
address = ctypes.addressof


class Head(ctypes.Structure):
    """What a period begins with: struct ek_history_head."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("ms", "names", "flows", "apps", "devices")]


class Sums(ctypes.Structure):
    """Where periods are added up: struct ek_history_sums. The pointers are addresses."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("apps", "devices")),
        *((name, ctypes.c_void_p) for name in ("flows", "blame", "stalls", "mix")),
    ]


class Shown(ctypes.Structure):
    """What a chart shows: struct ek_history_spot. The pointers are addresses."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("bytes", "buckets", "whole", "bands")),
        *((name, ctypes.c_uint64) for name in ("first", "width", "length")),
    ]


@functools.cache
def library() -> ctypes.CDLL:
    """The loaded library. Raises OSError. Tests set EK_HISTORY_LIBRARY."""
    found = ctypes.CDLL(os.environ.get("EK_HISTORY_LIBRARY", NAME))
    pointer, text = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_size_t)
    found.ek_history_grow.restype = ctypes.c_int64
    found.ek_history_grow.argtypes = (*text, *text, ctypes.c_uint, pointer, ctypes.c_size_t)
    found.ek_history_head.argtypes = (*text, pointer)
    found.ek_history_add.argtypes = (*text, pointer, pointer, pointer)
    found.ek_history_spot.restype = None
    found.ek_history_spot.argtypes = (pointer, ctypes.c_size_t, ctypes.c_uint, pointer)
    return found
