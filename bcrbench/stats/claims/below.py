"""`below`: a condition solves fewer items than a reference."""

from __future__ import annotations

from functools import partial

from bcrbench.stats.claims.direction import Sided, decide
from bcrbench.stats.claims.kind import Kind

KIND = Kind(Sided, partial(decide, side=-1))
