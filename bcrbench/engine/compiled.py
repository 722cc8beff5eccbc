"""Loops compiled for the CPU that they run on; the only place that knows how numba is asked.

Types are given, so everything is compiled, or read from numba's cache, on import and never inside a timed call. Arrays
have their rows one after another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Loop = TypeVar("Loop", bound=Callable[..., None])
ROW, ROWS = numba.float32[::1], numba.float32[:, ::1]
POSITION, POSITIONS = numba.int64, numba.int64[::1]
_SUMS: Any = {"reassoc", "contract", "nsz"}  # sums may be taken in lanes; numbers need not be finite


def compiled(*types: Any, reordered: bool = True) -> Callable[[Loop], Loop]:
    """Compile a function that returns nothing, of arguments of these types; without `reordered`, each operation's bits
    are as written.
    """
    made: Callable[[Loop], Loop] = numba.njit(
        numba.void(*types), nogil=True, cache=True, error_model="numpy", fastmath=_SUMS if reordered else False
    )
    return made


inlined: Callable[[Any], Any] = numba.njit(inline="always")  # for a function that compiled ones call
