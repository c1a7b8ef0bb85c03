"""Thresholds of the NumPy engine for threads and recycled memory: measured, in one object that tests may change."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Settings:
    """Sizes in bytes at which the NumPy engine changes its way of copying.

    Attributes
    ----------
    threads_from : int
        Minimum total size for several threads.
    piece_from : int
        Minimum mean size of the pieces for several threads: NumPy re-acquires the GIL once for each piece.
    head_start : int
        Bytes that the calling thread copies before another one has woken up.
    wide_row : int
        Minimum size of a row of a piece for threads to divide the rows; below it they divide the columns.
    block : int
        Size of the blocks of rows in which equal chunks are copied, chosen to fit in the second-level cache.
    range_from : int
        Minimum mean size of ranges of rows that are copied one by one; shorter ones are copied by an index.
    items_from, items_up_to : int
        In copies from `items_from` on, rows of at most `items_up_to` bytes are copied as single items.
    tensors_from : int
        Minimum size from which plain tensors of torch are copied as NumPy arrays: NumPy asks for large pages, without
        which new memory takes longer to enter than to write.
    pool_from : int
        Minimum size of a result in recycled memory; smaller blocks are recycled by the C library.
    """

    threads_from: int = 8 << 20
    piece_from: int = 64 << 10
    head_start: int = 512 << 10
    wide_row: int = 1 << 10
    block: int = 512 << 10
    range_from: int = 1 << 10
    items_from: int = 64 << 10
    items_up_to: int = 256
    tensors_from: int = 4 << 20
    pool_from: int = 32 << 20


settings = Settings()
