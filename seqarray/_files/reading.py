"""`load`: values from a file, which may come from strangers.

Every size that a file declares is compared with the bytes that are there before anything is allocated, and nothing that
it holds is run.
"""

from __future__ import annotations

import ast
import encodings.cp437  # noqa: F401  (zipfile would import it in a call, for names that are not marked as UTF-8)
import json
import struct
import sys
import zlib
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, NoReturn
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np

from seqarray._arguments import LONG_COLUMN, Shape
from seqarray._blocks import Blocks
from seqarray._files.layout import (
    ENDING,
    EXTENSIONS,
    INDEX,
    MAX_HEADER,
    SURROGATES,
    TEXT_DTYPES,
    VERSION,
    bits_dtype,
)
from seqarray._kind import Kind, kind_of
from seqarray._libraries import NUMPY, HostArray
from seqarray._sequence import ArraySequence, make
from seqarray._views import Cut, PackedRun, Run

#: The most that the values of a compressed file may take: so many bytes, or so many times the size of the file.
MAX_UNPACKED = 1 << 30
MAX_RATIO = 100

#: deflate makes at most so much of one byte.
_MOST_OF_A_BYTE = 1032
_MAX_RANK = 64
#: The bytes of the largest array, if lengths of 0 are taken for 1; numbers of this size are exact enough as floats.
_LARGEST_SHAPE = 2.0**62
#: The maximum size of an index that is compressed to less than itself.
_MAX_PACKED_INDEX = 1 << 20
#: How many bytes are read at once.
_AT_ONCE = 1 << 22
_LAST_CODE_POINT = 0x10FFFF

#: What zipfile raises for damaged files.
_DAMAGE = (
    BadZipFile,
    EOFError,
    IndexError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
    struct.error,
    zlib.error,
)


def load(path: Any, /) -> dict[str, Any]:
    """Read the arrays and sequences of a file that `save`, `numpy.savez` or `numpy.savez_compressed` has written.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    dict
        The values by name, in the order in which they were saved: NumPy arrays, sequences of them, and None.
        ``s.to(xp="torch")`` and the like move a sequence to another library.

    Raises
    ------
    ValueError
        If the file is damaged or holds what cannot be loaded; the message names the file and the entry.
    TypeError
        If NumPy cannot hold an element type without the ml_dtypes package.
    OSError
        If there is no such file.

    See Also
    --------
    save : writes the file.

    Notes
    -----
    Files from strangers are safe to load: nothing is unpickled, and sizes are compared with what is there before memory
    is allocated.  The values take about as much memory as the file, text some times as much.  Those of a compressed
    file may take 1 GiB, or 100 times its size if that is more; `numpy.load` reads others.

    Elements of a sequence are views of one array.  They are those that were saved, except that ``str_`` elements
    of different widths are of the largest, and that elements of mixed kinds of text are object arrays.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import seqarray as sa
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name) / "values.npz"
    >>> sa.save(path, s=sa.sequence_empty("bfloat16"), nothing=None)
    >>> sa.load(path)
    {'s': <ArraySequence of 0 bfloat16 arrays>, 'nothing': None}
    >>> folder.cleanup()
    """
    path = Path(path)
    with path.open("rb") as file:
        size = path.stat().st_size
        try:
            archive = ZipFile(file)
        except _DAMAGE as error:
            raise ValueError(f"load: {path} is no .npz file: {error}") from error
        with archive:
            return _Reader(archive, path, size).read()


class _Reader:
    """Reads the values of an archive."""

    def __init__(self, archive: ZipFile, path: Path, size: int) -> None:
        self._archive = archive
        self._path = path
        #: The entries that no value has taken yet.
        self._entries: dict[str, ZipInfo] = {}
        self._size = size
        for entry in archive.infolist():
            if entry.filename in self._entries:
                self._refuse(entry.filename, "is there twice")
            self._entries[entry.filename] = entry
        self._check_sizes()

    def read(self) -> dict[str, Any]:
        """Return all values by name."""
        if INDEX not in self._entries:
            return {name.removesuffix(ENDING): self._array(name) for name in list(self._entries)}
        records = self._index()
        values = {name: self._value(name, record) for name, record in records.items()}
        for entry in self._entries:
            self._refuse(entry, "is not in the index")
        return values

    def _refuse(self, entry: str, reason: object) -> NoReturn:
        raise ValueError(f"load: {self._path}: entry {entry!r} {reason}")

    def _check_sizes(self) -> None:
        """Check that entries do not unpack to much more than the file, and that none is part of another."""
        packed = unpacked = 0
        for name, entry in self._entries.items():
            if entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
                self._refuse(name, f"is compressed by method {entry.compress_type}, which numpy.savez does not use")
            most = entry.compress_size * (1 if entry.compress_type == ZIP_STORED else _MOST_OF_A_BYTE)
            if entry.file_size > most:
                self._refuse(name, f"is said to have {entry.file_size} bytes, but holds {entry.compress_size}")
            packed += entry.compress_size
            unpacked += entry.file_size
        if packed > self._size:
            raise ValueError(f"load: {self._path} has {self._size} bytes; its entries are said to take {packed}")
        limit = max(MAX_UNPACKED, MAX_RATIO * self._size)
        if unpacked > limit:
            raise ValueError(f"load: {self._path} would unpack to {unpacked} bytes; the limit is {limit}")

    def _index(self) -> dict[str, Any]:
        """Return what the index tells of each value."""
        entry = self._entries.pop(INDEX)
        if entry.file_size > max(self._size, _MAX_PACKED_INDEX):  # objects take many times as much as their JSON
            self._refuse(INDEX, f"has {entry.file_size} bytes, more than the file")
        try:
            index = json.loads(self._archive.read(entry))
        except _DAMAGE as error:
            self._refuse(INDEX, f"cannot be read: {error}")
        if not isinstance(index, dict) or not isinstance(index.get("values"), dict):
            self._refuse(INDEX, "is no index")
        if index.get("version") != VERSION:
            self._refuse(INDEX, f"is of version {index.get('version')!r}; this seqarray reads version {VERSION}")
        records: dict[str, Any] = index["values"]
        return records

    def _value(self, name: str, record: Any) -> Any:
        if record is None:
            return None
        if not isinstance(record, dict) or record.get("kind") not in ("array", "sequence"):
            self._refuse(INDEX, f"does not say whether {name!r} is an array or a sequence")
        values = self._described_array(record)
        return values if record["kind"] == "array" else self._sequence(values, record)

    def _described_array(self, record: dict[str, Any]) -> HostArray:
        """Return an array whose dtype the index tells, or else its entry."""
        dtype = record.get("dtype")
        if dtype is None:
            return self._named(record, "values")
        if not isinstance(dtype, str) or dtype not in {*TEXT_DTYPES, *EXTENSIONS}:
            self._refuse(INDEX, f"has the dtype {dtype!r}, which is not known")
        if dtype in TEXT_DTYPES:
            return self._text(record, TEXT_DTYPES[dtype])
        known = NUMPY.dtype_for(dtype, operator=f"load: {self._path}")
        stored = self._named(record, "values")
        if stored.dtype != bits_dtype(known):
            self._refuse(record["values"], f"has dtype {stored.dtype}, which does not hold {dtype}")
        array: HostArray = stored.astype(stored.dtype.newbyteorder("="), copy=False).view(known)
        return array

    def _text(self, record: dict[str, Any], dtype: np.dtype[Any]) -> HostArray:
        utf8, ends = self._named(record, "values"), self._named(record, "ends")
        if utf8.dtype != np.uint8 or utf8.ndim != 1:
            self._refuse(record["values"], f"has dtype {utf8.dtype} and shape {utf8.shape}; text is 1-D uint8")
        bounds = np.concatenate([np.zeros(1, dtype=np.int64), ends.reshape(-1)])
        self._check_bounds(bounds, len(utf8), record["ends"], ends.dtype)
        texts = np.empty(ends.size, dtype=object)
        data = utf8.tobytes()
        try:
            texts[:] = [data[start:stop].decode("utf-8", SURROGATES) for start, stop in pairwise(bounds.tolist())]
            return texts.reshape(ends.shape).astype(dtype, copy=False)
        except UnicodeError as error:
            self._refuse(record["values"], f"is no text: {error}")

    def _sequence(self, values: HostArray, record: dict[str, Any]) -> ArraySequence[Any]:
        blocks = self._packed(values, record) if "shapes" in record else self._chunks(values, record)
        kind, length = kind_of(values), sum(map(len, blocks))
        # An empty sequence takes elements of any library.
        return make(kind, blocks, length) if length else make(Kind(kind.element_type), (), 0)

    def _chunks(self, values: HostArray, record: dict[str, Any]) -> Blocks:
        """Return the chunks of an array along an axis."""
        axis, bounds = record.get("axis"), self._named(record, "offsets")
        if type(axis) is not int or not 0 <= axis < values.ndim:
            self._refuse(INDEX, f"has the axis {axis!r} for an array of rank {values.ndim}")
        if bounds.ndim != 1 or len(bounds) == 0:
            self._refuse(record["offsets"], f"has shape {bounds.shape}; offsets are 1-D, and one more than elements")
        self._check_bounds(bounds, values.shape[axis], record["offsets"], bounds.dtype)
        starts, stops = bounds[:-1], bounds[1:]
        if not len(starts):
            return ()
        if len(starts) <= LONG_COLUMN:
            starts, stops = starts.tolist(), stops.tolist()
        return (Run(values, Cut(values.shape, axis), starts, stops),)

    def _check_bounds(self, bounds: HostArray, length: int, entry: str, dtype: np.dtype[Any]) -> None:
        """Check that bounds begin with 0, do not decrease, and end with a length."""
        if dtype != np.int64:
            self._refuse(entry, f"has dtype {dtype}; bounds are int64")
        if bounds[0] != 0 or bounds[-1] != length or (bounds[1:] < bounds[:-1]).any():
            self._refuse(entry, f"must not decrease, from 0 to {length}")

    def _packed(self, values: HostArray, record: dict[str, Any]) -> Blocks:
        """Return elements of any shapes, which follow one another in an array."""
        table, entry = self._named(record, "shapes"), record["shapes"]
        if table.dtype != np.int64 or table.ndim != 2 or not 1 <= table.shape[1] <= _MAX_RANK or values.ndim != 1:
            self._refuse(entry, f"has dtype {table.dtype} and shape {table.shape}; shapes are rows of int64")
        known = table >= 0
        # An axis is known if all before it are.
        wrong = (table < -1).any(axis=1) | (known[:, 1:] > known[:, :-1]).any(axis=1)
        # Shapes without items, too, must be shapes that NumPy accepts.
        wrong |= np.maximum(table, 1).prod(axis=1, dtype=np.float64) * max(1, values.itemsize) > _LARGEST_SHAPE
        if wrong.any():
            self._refuse(entry, f"has the row {table[wrong.argmax()].tolist()}, which is no shape")
        sizes = np.where(known, table, 1).prod(axis=1)
        if (sizes > len(values)).any() or sizes.sum() != len(values):
            self._refuse(entry, f"has shapes of {sum(sizes.tolist())} items; there are {len(values)}")
        shapes: list[Shape] = list(map(tuple, table.tolist()))
        if not known.all():
            shapes = [shape[:rank] for shape, rank in zip(shapes, known.sum(axis=1).tolist(), strict=True)]
        return (PackedRun.of_shapes(values, shapes),) if shapes else ()

    def _named(self, record: dict[str, Any], key: str) -> HostArray:
        """Return the array of an entry that the index names."""
        entry = record.get(key)
        if not isinstance(entry, str) or entry + ENDING not in self._entries:
            self._refuse(INDEX, f"names the entry {entry!r} for {key}, which is not there or has been taken")
        return self._array(entry + ENDING)

    def _array(self, name: str) -> HostArray:
        """Return the array of an entry, which is then taken."""
        entry = self._entries.pop(name)
        if not name.endswith(ENDING):
            self._refuse(name, f"is no array; these end in {ENDING}")
        try:
            with self._archive.open(entry) as file:
                return _read_array(file, entry.file_size)
        except _DAMAGE as error:
            self._refuse(name, f"cannot be read: {error}")


def _read_array(file: Any, size: int) -> HostArray:
    """Read a .npy file of a size."""
    dtype, shape, column_major, begin = _read_header(file)
    needed = prod(shape) * dtype.itemsize
    if begin + needed != size:
        raise ValueError(f"dtype {dtype} and shape {shape} take {needed} bytes, but there are {size - begin}")
    array: HostArray = np.ndarray(shape, dtype, order="F" if column_major else "C")
    if needed:
        flat = array.reshape(-1, order="A")
        memory = memoryview(flat.view(np.uint8))  # type: ignore[arg-type]
        done = 0
        while done < needed:
            count = file.readinto(memory[done : done + _AT_ONCE])
            if not count:
                raise EOFError(f"{needed} bytes are needed, but there are {done}")
            done += count
        _check_items(flat)
    return array


def _read_header(file: Any) -> tuple[np.dtype[Any], Shape, bool, int]:
    """Return dtype, shape and order of a .npy file, and where its items begin; NumPy reads some headers in private."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"it has version {version} of the format")
    width = 2 if version == (1, 0) else 4
    length = int.from_bytes(file.read(width), "little")
    if length > MAX_HEADER:
        raise ValueError(f"its header has {length} bytes; the limit is {MAX_HEADER}")
    text = file.read(length).decode("utf-8" if version == (3, 0) else "latin1")
    try:
        header = ast.literal_eval(text)
        dtype = np.lib.format.descr_to_dtype(header["descr"])
        shape, column_major = header["shape"], header["fortran_order"]
    except Exception as error:  # what is written there may fail in every way
        raise ValueError(f"its header cannot be read: {type(error).__name__}: {error}") from error
    if dtype.hasobject:
        raise ValueError("it holds objects, which are not unpickled")
    if dtype.subdtype is not None:
        raise ValueError(f"its dtype {dtype} is that of an array")
    if type(column_major) is not bool or type(shape) is not tuple or not len(shape) <= _MAX_RANK:
        raise ValueError(f"its header has shape {shape!r} and order {column_major!r}")
    if dtype.itemsize == 0 and 0 not in shape:
        raise ValueError(f"its header has {shape} items without bytes")
    if not all(type(n) is int and n >= 0 for n in shape) or prod(max(1, n) for n in shape) > sys.maxsize:
        raise ValueError(f"its header has shape {shape!r}")
    return dtype, shape, column_major, 8 + width + length


def _check_items(flat: HostArray) -> None:
    """Check that items are values of their dtype, which NumPy trusts them to be."""
    for name in flat.dtype.names or ():
        _check_items(np.ascontiguousarray(flat[name]).reshape(-1))
    if flat.dtype == np.bool_ and flat.size and flat.view(np.uint8).max() > 1:
        raise ValueError("it holds bools other than 0 and 1")
    if flat.dtype.kind == "U" and flat.size:
        code_points = flat.view(np.dtype(np.uint32).newbyteorder(flat.dtype.byteorder))
        if code_points.max() > _LAST_CODE_POINT:
            raise ValueError("it holds characters that do not exist")
