"""What is found out about the elements of a sequence when they are first joined, and kept with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seqarray._arguments import Shape

Join = Callable[[Any, int, int, "Facts"], Any]


class Facts:
    """What joining needs to know about elements that do not change.

    Attributes
    ----------
    join : callable or None
        The quickest way to join them, from (blocks, axis, stack, facts), the axis as it was given.  ValueError, or None
        instead of it, leaves them to the engine's `join`.
    common_shape : tuple of int or None
        Their shape, if they have one.
    nbytes : int
        Bytes of all elements; a guess until they have been joined.
    streams : bool
        Their bytes may be joined as such: they are many and tiny, and have been joined before.
    result_shape, dtype : optional
        Of their join along axis 0, once there has been one.
    prepared : optional
        What an engine has prepared for joining them, by axis and way.
    """

    __slots__ = ("common_shape", "dtype", "join", "nbytes", "prepared", "result_shape", "streams")

    def __init__(self, join: Join | None = None, *, common_shape: Shape | None = None, nbytes: int = 0) -> None:
        self.join = join
        self.common_shape = common_shape
        self.nbytes = nbytes
        self.streams = False
        self.result_shape: Any = None
        self.dtype: Any = None
        self.prepared: Any = None
