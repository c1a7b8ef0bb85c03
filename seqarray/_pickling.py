"""What of a sequence is pickled and deep-copied: its library by name, and no more memory than the elements use."""

from __future__ import annotations

from itertools import chain
from typing import Any

from seqarray._blocks import Block, Blocks, trimmed
from seqarray._engines import engine_for
from seqarray._kind import Kind, kind_of_all
from seqarray._libraries import NUMPY
from seqarray._transfer import move


def pickled(kind: Kind, blocks: Blocks) -> tuple[str, str | None, Any, Blocks]:
    """Return what is pickled of a sequence: element type, name of the namespace, device, blocks.

    The device is one that elements have to be moved to, or that an empty sequence was declared with; else None.
    """
    library = kind.library
    xp = None if library is None else str(library.namespace.__name__)
    device = kind.device if library is None else library.device_name(kind.device)
    if library is not None and library.pickles_on_host and blocks:
        # CuPy itself would pickle every element, and unpickle it on whichever device is current.
        return kind.element_type, xp, device, move(blocks, kind, NUMPY, "cpu", None)
    owned = tuple([_owned(block, kind) for block in trimmed(blocks)])
    return kind.element_type, xp, None if blocks else device, owned


def kind_of_pickled(blocks: Blocks) -> Kind:
    """Return the kind of unpickled elements; those of a run are all like its first."""
    some = [block if isinstance(block, tuple) else (block[0],) for block in blocks]
    return kind_of_all(list(chain.from_iterable(some)), "ArraySequence")[0]


def _owned(block: Block, kind: Kind) -> Block:
    """Return a block whose pickle contains no more than itself: that of a torch view contains its whole storage."""
    library, arrays = kind.library, block if isinstance(block, tuple) else (block.base,)
    if library is None or not any(map(library.is_part_of_larger, arrays)):
        return block
    engine = engine_for(kind, "ArraySequence")
    owned = tuple([engine.duplicate(array, kind) if library.is_part_of_larger(array) else array for array in arrays])
    return owned if isinstance(block, tuple) else block.around(owned[0])
