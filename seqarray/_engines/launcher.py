"""Launching the copy kernel of `copy_pieces.cu`: plain integers in, one launch (or one plain copy) out.

The matrix is the large array of a join or split; the pieces partition its columns.  All lengths, strides and distances
are in bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

#: An integer for every piece: int64.
IntegerColumn = np.ndarray[Any, np.dtype[np.int64]]

#: Layouts of the kernel: equal widths and distances, equal widths, any widths.
UNIFORM, EQUAL, RAGGED = range(3)

#: The beginning of the arguments of the kernel: addresses and sizes as in its `Header`.
HEADER = struct.Struct("<6q2I")
#: All arguments for uniform pieces: the header, then first address, step, row stride, row stride of the last.
UNIFORM_ARGUMENTS = struct.Struct("<6q2I4q")

#: From this many pieces on, NumPy combines their addresses faster than a loop.
LOOK_WITH_NUMPY_FROM = 64

_SOURCE = Path(__file__).with_name("copy_pieces.cu")


class Variant(NamedTuple):
    """One way of compiling the kernel; its macros explain the fields."""

    vector_bytes: int
    scatter: bool
    layout: int
    table_bytes: int
    wide: bool

    def options(self, block_threads: int) -> tuple[str, ...]:
        """Return the options with which the kernel is compiled."""
        return (
            "-std=c++17",
            f"-DVECTOR_BYTES={self.vector_bytes}",
            f"-DSCATTER={self.scatter:d}",
            f"-DLAYOUT={self.layout}",
            f"-DTABLE_BYTES={self.table_bytes}",
            f"-DWIDE={self.wide:d}",
            f"-DBLOCK_THREADS={block_threads}",
        )


def kernel_source() -> str:
    """Return the CUDA C++ source of the kernel."""
    return _SOURCE.read_text(encoding="utf-8")


class Cuda:
    """The functions of CUDA that the launcher calls, with its device current."""

    def __init__(self) -> None:
        import cupy  # noqa: PLC0415, TID251  (this module can be imported without it)

        self._cupy = cupy

    def function(self, variant: Variant, block_threads: int) -> Callable[..., None]:
        """Compile the kernel for the current device; the result is called with grid, block and arguments."""
        kernel = self._cupy.RawKernel(kernel_source(), "copy_pieces", options=variant.options(block_threads))
        function: Callable[..., None] = kernel.kernel
        return function

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the device, on the current stream."""
        cuda = self._cupy.cuda
        stream = cuda.get_current_stream().ptr
        cuda.runtime.memcpyAsync(target, source, nbytes, cuda.runtime.memcpyDeviceToDevice, stream)

    def upload(self, table: IntegerColumn) -> Any:
        """Upload a table from pinned memory, in one transfer on the current stream; its address is `data.ptr`.

        It may be freed as soon as the launch that reads it is on the stream: CuPy frees in the order of the stream.
        """
        return self._cupy.asarray(table)

    def is_capturing(self) -> bool:
        """Return whether the current stream is captured: a graph would read the uploaded memory at each replay."""
        capturing: bool = self._cupy.cuda.get_current_stream().is_capturing()
        return capturing

    def takes_large_arguments(self) -> bool:
        """Return whether kernels of the current device take 32 764 bytes of arguments: from CUDA 12.1 and Volta on."""
        cuda = self._cupy.cuda
        if cuda.runtime.is_hip:
            return False
        return (
            min(cuda.runtime.driverGetVersion(), cuda.runtime.runtimeGetVersion()) >= 12010
            and tuple(cuda.nvrtc.getVersion()) >= (12, 1)
            and int(cuda.Device().compute_capability) >= 70
        )


def _common_bits(column: np.ndarray[Any, Any]) -> int:
    """Return an integer whose lowest set bit is the lowest of all entries."""
    return int(np.bitwise_or.reduce(column))


def _packed_in_pairs(column: IntegerColumn) -> IntegerColumn:
    """Return the entries as 32-bit integers, two in each int64."""
    packed = np.zeros((len(column) + 1) // 2 * 2, np.uint32)
    packed[: len(column)] = column
    return packed.view(np.int64)


class Launcher:
    """Launches the copy kernel on one device, which is current whenever a method is called.

    Every method copies between a matrix and the pieces that partition its columns: to the pieces with `scatter`, to the
    matrix without it.  Piece i is a matrix with as many rows, at its own address.  A call makes one launch on the
    current stream; one plain copy for a single piece if neither side has gaps; nothing if there is nothing to copy.
    It allocates nothing unless the table of the pieces exceeds the arguments of a kernel: then the table is uploaded,
    or, while a graph is captured, the pieces are copied in groups with one launch each.

    Nothing is checked.  Source and target must not overlap, nor the pieces of a scatter.  Pieces without bytes are
    skipped; callers leave them out, since a single piece is copied plainly.

    Parameters
    ----------
    cuda : Cuda
        The functions of CUDA.
    """

    #: Threads of a block.
    block_threads = 256
    #: Bytes of a table in the arguments, which have 4 096 bytes altogether, or 32 760 on devices that take so many.
    small_table_bytes = 4096 - HEADER.size
    large_table_bytes = 32760 - HEADER.size
    #: From this row length on, columns are 64-bit integers: a column plus a tile must fit in 32 bits.
    wide_from = (1 << 32) - (16 << 10)

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self._block = (self.block_threads,)
        self._functions: dict[tuple[int, bool, int, int, bool], tuple[Callable[..., None], int]] = {}
        self._packers: dict[tuple[int, int, bool, bool], Callable[..., None]] = {}
        self._argument_types = {
            size: np.dtype(("V", HEADER.size + size)) for size in (0, self.small_table_bytes, self.large_table_bytes)
        }
        self._small_type = self._argument_types[self.small_table_bytes]
        self._uniform_type = np.dtype(("V", UNIFORM_ARGUMENTS.size))
        self._most_by_value = 0  # bytes of a table; 0 until the device has been queried

    def copy_few(
        self,
        scatter: bool,
        matrix: int,
        rows: int,
        addresses: Sequence[int],
        bounds: Sequence[int] | int,
        strides: Sequence[int] | None = None,
        matrix_stride: int | None = None,
    ) -> None:
        """Copy between a matrix and pieces given as Python integers.

        For up to 336 pieces (201 with strides), or 505 of equal widths; for more, `copy_many` is faster.

        Parameters
        ----------
        scatter : bool
            True: pieces <- matrix.  False: matrix <- pieces.
        matrix : int
            Address of the matrix.
        rows : int
            Rows of the matrix and of every piece.
        addresses : list of int
            Address of every piece; n of them, one at least.
        bounds : list of int, or int
            The starts of the pieces in a row of the matrix, from 0 on, and the stop of the last one: n + 1.  Or the
            width of all pieces, if it is the same: the table is smaller, and the kernel searches for nothing.
        strides : list of int, optional
            Row stride of every piece; of any sign if not `scatter`.  Default: no gaps.
        matrix_stride : int, optional
            Row stride of the matrix.  Default: no gaps.
        """
        count = len(addresses)
        if isinstance(bounds, int):
            layout, width, bounds = EQUAL, bounds, ()
            pitch = width * count
        else:
            layout, width, pitch = RAGGED, 0, bounds[-1]
        total = rows * pitch
        if not total:
            return
        if rows == 1:
            strides = matrix_stride = None
        has_strides = strides is not None
        wide = pitch >= self.wide_from
        if count * (8 << has_strides) + len(bounds) * (4 << wide) > self.small_table_bytes:
            self.copy_many(
                scatter,
                matrix,
                rows,
                np.array(addresses, dtype=np.int64),
                np.array(bounds, dtype=np.int64) if bounds else width,
                None if strides is None else np.array(strides, dtype=np.int64),
                matrix_stride,
            )
            return
        bits = matrix | pitch | width
        if matrix_stride is None:
            matrix_stride = pitch
        else:
            bits |= matrix_stride
        if count == 1 and matrix_stride == pitch and (strides is None or strides[0] == pitch):
            self._copy_plainly(scatter, matrix, addresses[0], total)
            return
        pack = self._packers.get((count, len(bounds), has_strides, wide))
        if pack is None:
            pack = self._packer(count, len(bounds), has_strides, wide)
        arguments = bytearray(HEADER.size + self.small_table_bytes)
        if strides is None:
            pack(arguments, 0, matrix, matrix_stride, pitch, total, width, 0, count, 0, *addresses, *bounds)
        else:
            pack(arguments, 0, matrix, matrix_stride, pitch, total, width, 0, count, 1, *addresses, *strides, *bounds)
        if count < LOOK_WITH_NUMPY_FROM:
            bits = reduce(or_, bounds, reduce(or_, addresses, bits))
            if strides is not None:
                bits = reduce(or_, strides, bits)
        else:
            words = count << has_strides
            bits |= _common_bits(np.ndarray(words, np.int64, arguments, HEADER.size))
            if bounds:
                bits |= _common_bits(
                    np.ndarray(count + 1, np.int64 if wide else np.uint32, arguments, HEADER.size + 8 * words)
                )
        argument = np.ndarray((), self._small_type, arguments)
        self._launch(bits, scatter, layout, self.small_table_bytes, pitch, total, argument)

    def copy_many(
        self,
        scatter: bool,
        matrix: int,
        rows: int,
        addresses: IntegerColumn,
        bounds: IntegerColumn | int,
        strides: IntegerColumn | None = None,
        matrix_stride: int | None = None,
    ) -> None:
        """Copy between a matrix and pieces given as int64 columns; otherwise as `copy_few`."""
        count = len(addresses)
        if isinstance(bounds, int):
            layout, width, pitch = EQUAL, bounds, bounds * count
        else:
            layout, width, pitch = RAGGED, 0, int(bounds[-1])
        total = rows * pitch
        if not total:
            return
        if rows == 1:
            strides = matrix_stride = None
        bits = matrix | pitch | width | _common_bits(addresses)
        if matrix_stride is None:
            matrix_stride = pitch
        else:
            bits |= matrix_stride
        if count == 1 and matrix_stride == pitch and (strides is None or int(strides[0]) == pitch):
            self._copy_plainly(scatter, matrix, int(addresses[0]), total)
            return
        parts = [addresses]
        if strides is not None:
            bits |= _common_bits(strides)
            parts.append(strides)
        if not isinstance(bounds, int):
            bits |= _common_bits(bounds)
            parts.append(bounds if pitch >= self.wide_from else _packed_in_pairs(bounds))
        words = sum(map(len, parts))
        table_bytes = self._table_bytes_for(8 * words)
        if not table_bytes and self._cuda.is_capturing():
            self._copy_in_groups(scatter, matrix, rows, addresses, bounds, strides, matrix_stride)
            return

        head = HEADER.size // 8
        arguments = np.empty(head + (table_bytes // 8 or words), np.int64)
        np.concatenate(parts, out=arguments[head : head + words])
        uploaded = None if table_bytes else self._cuda.upload(arguments[head:])
        table = 0 if uploaded is None else uploaded.data.ptr
        header = (matrix, matrix_stride, pitch, total, width, table, count, strides is not None)
        HEADER.pack_into(arguments.data, 0, *header)
        argument = np.ndarray((), self._argument_types[table_bytes], arguments)
        self._launch(bits, scatter, layout, table_bytes, pitch, total, argument)

    def copy_uniform(
        self,
        scatter: bool,
        matrix: int,
        rows: int,
        pitch: int,
        width: int,
        first: int,
        step: int,
        stride: int | None = None,
        last_stride: int | None = None,
        matrix_stride: int | None = None,
    ) -> None:
        """Copy between a matrix and pieces of equal widths whose addresses are equally far apart: any number of them.

        Parameters
        ----------
        scatter, matrix, rows, matrix_stride
            As in `copy_few`.
        pitch : int
            Bytes of a row of the matrix.
        width : int
            Bytes of a row of any piece but the last, which has the rest.
        first : int
            Address of the first piece.
        step : int
            Distance from one piece to the next; of any sign.
        stride : int, optional
            Row stride of a piece; of any sign if not `scatter`.  Default: no gaps.
        last_stride : int, optional
            Row stride of the last piece.  Default: `stride` if given, else no gaps.
        """
        total = rows * pitch
        if not total:
            return
        left = pitch % width or width
        if last_stride is None:
            last_stride = left if stride is None else stride
        if stride is None:
            stride = width
        bits = matrix | first | pitch | width
        if width < pitch:
            bits |= step
        else:
            width = step = pitch
            stride = last_stride
        if rows == 1:
            matrix_stride = pitch
        else:
            if matrix_stride is None:
                matrix_stride = pitch
            bits |= matrix_stride | stride | last_stride
        if step == width and (rows == 1 or (width == pitch == stride == matrix_stride)):
            self._copy_plainly(scatter, matrix, first, total)
            return
        arguments = bytearray(UNIFORM_ARGUMENTS.size)
        UNIFORM_ARGUMENTS.pack_into(
            arguments, 0, matrix, matrix_stride, pitch, total, width, 0, 0, 0, first, step, stride, last_stride
        )
        self._launch(bits, scatter, UNIFORM, 0, pitch, total, np.ndarray((), self._uniform_type, arguments))

    def _copy_in_groups(
        self,
        scatter: bool,
        matrix: int,
        rows: int,
        addresses: IntegerColumn,
        bounds: IntegerColumn | int,
        strides: IntegerColumn | None,
        matrix_stride: int,
    ) -> None:
        """Copy groups of neighbouring pieces, one launch each, whose tables fit in the arguments."""
        entry_bytes = 8 if strides is None else 16
        if not isinstance(bounds, int):
            entry_bytes += 8
        length = self._most_by_value // entry_bytes - 1
        for low in range(0, len(addresses), length):
            group = slice(low, low + length)
            group_bounds: IntegerColumn | int = bounds
            if isinstance(bounds, int):
                start = low * bounds
            else:
                start = int(bounds[low])
                group_bounds = bounds[low : low + length + 1] - start
            group_strides = None if strides is None else strides[group]
            self.copy_many(scatter, matrix + start, rows, addresses[group], group_bounds, group_strides, matrix_stride)

    def _table_bytes_for(self, nbytes: int) -> int:
        """Return the size of the table in the arguments into which so many bytes fit; 0 if there is none."""
        if nbytes <= self.small_table_bytes:
            return self.small_table_bytes
        if not self._most_by_value:
            large = self._cuda.takes_large_arguments()
            self._most_by_value = self.large_table_bytes if large else self.small_table_bytes
        return self._most_by_value if nbytes <= self._most_by_value else 0

    def _packer(self, count: int, bounds: int, has_strides: bool, wide: bool) -> Callable[..., None]:
        """Make the function that packs the arguments for so many pieces."""
        packer = struct.Struct(f"{HEADER.format}{count << has_strides}q{bounds}{'q' if wide else 'I'}").pack_into
        self._packers[count, bounds, has_strides, wide] = packer
        return packer

    def _launch(
        self, bits: int, scatter: bool, layout: int, table_bytes: int, pitch: int, total: int, argument: Any
    ) -> None:
        """Launch the variant with the widest vectors to which all addresses, bounds and strides are aligned."""
        vector_bytes = bits & -bits & 15 or 16
        key = (vector_bytes, scatter, layout, table_bytes, pitch >= self.wide_from)
        found = self._functions.get(key)
        if found is None:
            function = self._cuda.function(Variant(*key), self.block_threads)
            found = self._functions[key] = (function, min(64, 16 * vector_bytes) * self.block_threads)
        function, tile_bytes = found
        function((-(-total // tile_bytes),), self._block, (argument,))

    def _copy_plainly(self, scatter: bool, matrix: int, piece: int, nbytes: int) -> None:
        if scatter:
            self._cuda.copy(piece, matrix, nbytes)
        else:
            self._cuda.copy(matrix, piece, nbytes)


_launchers: dict[int, Launcher] = {}


def launcher_for(device: int) -> Launcher:
    """Return the launcher of a device, which is current whenever the launcher is used."""
    launcher = _launchers.get(device)
    if launcher is None:
        launcher = _launchers.setdefault(device, Launcher(Cuda()))
    return launcher
