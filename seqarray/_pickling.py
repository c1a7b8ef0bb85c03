"""What of a sequence is pickled and deep-copied.

A base from which many chunks are used is kept as it is, so that all sequences around it that are pickled or copied
together share it; of a base from which few are used, these are copied out.
"""

from __future__ import annotations

from itertools import chain, groupby
from math import prod
from typing import Any

from seqarray._blocks import Block, Blocks, from_arrays, settled, trimmed
from seqarray._dtypes import ONNX_TYPES
from seqarray._engines import engine_for
from seqarray._kind import Kind, kind_of_all
from seqarray._libraries import NUMPY, Array, Library
from seqarray._transfer import move, packed


def declared_type(kind: Kind) -> Any:
    """Return what an empty sequence is declared with: the element type, or the dtype if that tells more."""
    tells_more = kind.element_type == "string" or kind.element_type not in ONNX_TYPES
    return kind.dtype if tells_more and kind.dtype is not None else kind.element_type


def pickled(kind: Kind, blocks: Blocks) -> tuple[Any, str | None, Any, Blocks]:
    """Return what is pickled of a sequence: element type, name of the namespace, device, blocks.

    The device is one that elements have to be moved to, or that an empty sequence was declared with; else None.
    """
    library = kind.library
    xp = None if library is None else str(library.namespace.__name__)
    device = kind.device if library is None else library.device_name(kind.device)
    if library is not None and library.pickles_on_host and blocks:
        # CuPy itself would pickle every element, and unpickle it on whichever device is current.
        return kind.element_type, xp, device, move(blocks, kind, NUMPY, "cpu", None)
    declared = kind.element_type if blocks else declared_type(kind)
    return declared, xp, None if blocks else device, _picklable(owned(blocks, kind), library)


def _picklable(blocks: Blocks, library: Library | None) -> Blocks:
    """Return blocks with something in place of arrays that cannot be unpickled."""
    if library is None or type(library).to_pickle is Library.to_pickle:
        return blocks

    def replaced(block: Block) -> Block:
        if isinstance(block, tuple):
            return tuple(map(library.to_pickle, block))
        base = library.to_pickle(block.base)
        return block if base is block.base else block.around(base)

    return tuple(map(replaced, blocks))


def kind_of_pickled(blocks: Blocks) -> Kind:
    """Return the kind of unpickled elements; those of a run are all like its first."""
    some = [block if isinstance(block, tuple) else (block[0],) for block in blocks]
    return kind_of_all(list(chain.from_iterable(some)), "ArraySequence")[0]


def owned(blocks: Blocks, kind: Kind) -> Blocks:
    """Return blocks of the same elements that hold at most twice the memory of these."""
    blocks = settled(blocks)
    used: dict[int, int] = {}
    for block in blocks:
        if not isinstance(block, tuple):
            used[id(block.base)] = used.get(id(block.base), 0) + block.size
    parts = [
        (block,)
        if isinstance(block, tuple) or 2 * used[id(block.base)] >= prod(block.base.shape)
        else [_without_gaps(part, kind) for part in trimmed((block,))]
        for block in blocks
    ]
    library = kind.library
    if library is None:
        return tuple(chain.from_iterable(parts))
    held: list[Block] = []
    for are_arrays, group in groupby(chain.from_iterable(parts), lambda block: isinstance(block, tuple)):
        if are_arrays:
            held += _owned_arrays(list(chain.from_iterable(group)), kind, library)
        else:
            held += [_owned_run(block, library) for block in group]
    return tuple(held)


def _without_gaps(block: Block, kind: Kind) -> Block:
    """Return a part of a run around arrays without gaps, which NumPy pickles out of band, not by another copy."""
    library, arrays = kind.library, block if isinstance(block, tuple) else (block.base,)
    # Of several dtypes, as of text, the engine would make the common one.
    if library is None or not kind.exact or all(map(library.is_row_major, arrays)):
        return block
    engine = engine_for(kind, "ArraySequence")
    copies = tuple([array if library.is_row_major(array) else engine.duplicate(array, kind) for array in arrays])
    return copies if isinstance(block, tuple) else block.around(copies[0])


def _owned_run(block: Any, library: Library) -> Block:
    """Return a run whose pickle contains no more than itself: that of a torch view contains its whole storage."""
    owned: Block = block.around(library.alone(block.base)) if library.is_part_of_larger(block.base) else block
    return owned


def _owned_arrays(arrays: list[Array], kind: Kind, library: Library) -> Blocks:
    """Return blocks of arrays, of which those that are parts of larger ones, as all chunks of a split, are packed."""

    def can_be_packed(array: Array) -> bool:
        return library.is_part_of_larger(array) and library.is_only_values(array)

    blocks: list[Block] = []
    for packable, group in groupby(arrays, can_be_packed):
        found = list(group)
        if packable and len(found) > 1:
            blocks.append(packed(from_arrays(found), kind))
        else:
            blocks += from_arrays(
                [library.alone(array) if library.is_part_of_larger(array) else array for array in found]
            )
    return tuple(blocks)
