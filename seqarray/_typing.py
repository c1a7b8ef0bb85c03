"""Types that signatures share: an array type goes through an operator as it came in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, TypeVar


class SupportsArray(Protocol):
    """What every array has, of whichever library."""

    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...


#: The type of the arrays that go in, and come out.
ArrayT = TypeVar("ArrayT", bound=SupportsArray)
#: That of arrays that a function of the caller returns.
ResultT = TypeVar("ResultT", bound=SupportsArray)
#: A host integer, or an array of one element.
AnyInteger: TypeAlias = int | SupportsArray
#: A list, a tuple or an array of integers.
AnyIntegers: TypeAlias = Sequence[int] | SupportsArray
