"""`save`: values into a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

import numpy as np

from seqarray._arguments import Shape, check_text
from seqarray._blocks import Blocks, lengths_of, shapes_of, to_arrays
from seqarray._dtypes import ONNX_TYPES
from seqarray._engines import numpy_copies, pool
from seqarray._engines.segments import offsets_of
from seqarray._files.layout import ENDING, EXTENSIONS, INDEX, MAX_HEADER, SURROGATES, VERSION, bits_dtype
from seqarray._kind import Kind, as_array, kind_of
from seqarray._libraries import NUMPY, HostArray
from seqarray._sequence import ArraySequence, as_sequence
from seqarray._transfer import kind_of_blocks, to_host
from seqarray._views import Run

OPERATOR = "save"


def save(path: Any, /, **values: Any) -> None:
    """Write arrays and sequences to one .npz file, without pickle.

    Parameters
    ----------
    path : str or path
        The file, which need not end in ``.npz``.  One that is there is replaced when the new one is complete.
    **values : array, ArraySequence, list or tuple of arrays, or None
        What to write.  Any string may be a name: ``save(path, **{"a/b": x})``.

    Raises
    ------
    TypeError
        If something is not an array, or of a dtype that needs pickle (objects that are not str) or that is not known
        from its name.
    ValueError
        If `path` is something else than a file.
    OSError
        If the file cannot be written; one that was there is as before.

    See Also
    --------
    load : reads the file.

    Notes
    -----
    Arrays of other libraries are written by their values: those on a device are copied to the host, lazy ones are
    computed, and gradients are left behind.  All element types of ONNX can be written, and what `numpy.save` writes
    without pickle, such as datetime64 and structured dtypes.

    Arrays of these dtypes, but not text in object arrays or `StringDType`, are entries that `numpy.load` reads.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import seqarray as sa
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name) / "values.npz"
    >>> sa.save(path, x=np.arange(3), parts=[np.zeros((2, 3)), np.ones((1, 3))])
    >>> sa.load(path)
    {'x': array([0, 1, 2]), 'parts': <ArraySequence of 2 float64 arrays, numpy on cpu: (2, 3), (1, 3)>}
    >>> folder.cleanup()
    """
    checked = {name: _checked(name, value) for name, value in values.items()}
    with _replacing(path) as file, ZipFile(file, "w") as archive:
        writer = _Writer(archive)
        for name, value in checked.items():
            writer.write(name, value)
        writer.finish()


def _checked(name: str, value: Any) -> Any:
    """Return a value as an array, an ArraySequence or None if it can be saved; raise a TypeError otherwise."""
    label = f"{OPERATOR}: {name!r}"
    if value is None:
        return None
    if isinstance(value, (ArraySequence, list, tuple)):
        value = as_sequence(value, operator=label)
        kind = value._kind
        if len(value) and kind.library is None:
            raise TypeError(f"{label}: the elements of the sequence are not arrays")
    else:
        value = as_array(value, operator=OPERATOR, label=repr(name))
        kind = kind_of(value)
    dtype = _host_dtype(kind, label)
    if dtype.itemsize == 0 and kind.library is not None:
        raise TypeError(f"{label} has dtype {dtype}, whose items have no bytes")
    if not (dtype.kind in "OT" or dtype.name in EXTENSIONS or _is_known_to_npy(dtype)):
        raise TypeError(f"{label} has dtype {dtype}, which cannot be stored without pickle")
    return value


def _host_dtype(kind: Kind, label: str) -> np.dtype[Any]:
    """Return the dtype that the values of a kind have on the host."""
    if isinstance(kind.dtype, np.dtype):
        return kind.dtype
    if kind.element_type in ONNX_TYPES:
        dtype: np.dtype[Any] = NUMPY.dtype_for(kind.element_type, operator=label)
        return dtype
    try:
        return np.dtype(kind.element_type)
    except TypeError:
        raise TypeError(f"{label} has element type {kind.element_type}, which NumPy does not know by name") from None


def _is_known_to_npy(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is the same after it has been written to a .npy file."""
    if dtype.hasobject:
        return False
    described = np.lib.format.dtype_to_descr(dtype)
    return bool(np.lib.format.descr_to_dtype(described) == dtype) and len(repr(described)) < MAX_HEADER - 1000


@contextmanager
def _replacing(path: Any) -> Iterator[Any]:
    """Open a new file beside `path`, which takes its place at the end, or is deleted after an error."""
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        raise ValueError(f"{OPERATOR}: {path} is not a file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{OPERATOR}: there is no folder {target.parent}")
    beside = target.with_name(f".{os.urandom(8).hex()}.tmp")
    try:
        with beside.open("xb") as file:
            yield file
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


class _Writer:
    """Writes values into an archive, and what is to be known of them into the index."""

    def __init__(self, archive: ZipFile) -> None:
        self._archive = archive
        self._values: dict[str, Any] = {}
        self._entries: set[str] = set()
        #: Whether all values are what `numpy.savez` would have written.
        self._plain = True

    def write(self, name: str, value: Any) -> None:
        """Write one value."""
        if value is None:
            self._values[name] = None
            self._plain = False
        elif isinstance(value, ArraySequence):
            self._values[name] = self._write_sequence(name, value)
            self._plain = False
        else:
            ((array,),) = to_host(((value,),), kind_of(value), operator=OPERATOR)
            record = self._values[name] = {"kind": "array", **self._write_array(name, name, array)}
            self._plain = self._plain and record == {"kind": "array", "values": name}

    def finish(self) -> None:
        """Write the index, unless the file is an ordinary .npz without it."""
        if not self._plain:
            index = json.dumps({"version": VERSION, "values": self._values})
            self._archive.writestr(ZipInfo(INDEX), index)

    def _write_sequence(self, name: str, sequence: ArraySequence[Any]) -> dict[str, Any]:
        kind, blocks = sequence._kind, sequence._blocks
        if not blocks:
            values = np.empty(0, dtype=_host_dtype(kind, f"{OPERATOR}: {name!r}"))
            layout = {"axis": 0, "offsets": np.zeros(1, dtype=np.int64)}
        else:
            blocks = to_host(blocks, kind, operator=OPERATOR)
            values, layout = _laid_out(blocks, kind if kind.library is NUMPY else kind_of_blocks(blocks))
        record = {"kind": "sequence", **self._write_array(name, f"{name}/values", values)}
        for key, column in layout.items():
            record[key] = self._add(f"{name}/{key}", column) if isinstance(column, np.ndarray) else column
        return record

    def _write_array(self, name: str, entry: str, array: HostArray) -> dict[str, Any]:
        """Write an array, and return what the index has to tell of it."""
        if array.dtype.kind in "OT":
            check_text(array, label=f"{OPERATOR}: {name!r}")
            kind_of_text = "object" if array.dtype.kind == "O" else "StringDType"
            texts = [text.encode("utf-8", SURROGATES) for text in array.reshape(-1).tolist()]
            ends = np.fromiter(accumulate(map(len, texts)), dtype=np.int64, count=len(texts))
            utf8 = np.frombuffer(b"".join(texts), dtype=np.uint8)
            return {
                "values": self._add(f"{name}/utf8", utf8),
                "ends": self._add(f"{name}/ends", ends.reshape(array.shape)),
                "dtype": kind_of_text,
            }
        if array.dtype.name in EXTENSIONS:
            bits = bits_dtype(array.dtype)
            native = array.astype(array.dtype.newbyteorder("="), copy=False)
            stored = np.ascontiguousarray(native).reshape(array.shape).view(bits.newbyteorder("="))
            return {"values": self._add(entry, stored), "dtype": array.dtype.name}
        return {"values": self._add(entry, array)}

    def _add(self, entry: str, array: HostArray) -> str:
        """Add an array as an entry, and return the name that it has got."""
        if not _can_be_entry(entry):
            entry = f"value {len(self._entries)}"
        while entry in self._entries:
            entry += "~"
        self._entries.add(entry)
        # An entry with a date would make two files of the same values differ.
        with self._archive.open(ZipInfo(entry + ENDING), "w", force_zip64=True) as file:
            np.lib.format.write_array(file, array, allow_pickle=False)
        return entry


def _laid_out(blocks: Blocks, kind: Kind) -> tuple[HostArray, dict[str, Any]]:
    """Return the values of all elements as one array, and what tells them apart again."""
    block = blocks[0]
    run = block if isinstance(block, Run) and len(blocks) == 1 and not block.cut.dropped else None
    axis = _axis_of_difference(shapes_of(blocks)) if run is None else run.cut.axis
    if axis is None:
        packed = numpy_copies.packed(to_arrays(blocks), kind.dtype, pool.empty)
        return packed.base, {"shapes": _table(packed.shapes)}
    view = None if run is None else run.rejoined()
    values = NUMPY.engine.join(blocks, axis, False, kind) if view is None else view
    return values, {"axis": axis, "offsets": offsets_of(lengths_of(blocks, axis, operator=OPERATOR))}


def _axis_of_difference(shapes: Sequence[Shape]) -> int | None:
    """Return the axis along which alone shapes differ, the first if they are equal; None if they differ in more."""
    distinct = set(shapes)
    if len(set(map(len, distinct))) != 1 or shapes[0] == ():
        return None
    different = [axis for axis, lengths in enumerate(zip(*distinct, strict=True)) if len(set(lengths)) > 1]
    return 0 if not different else different[0] if len(different) == 1 else None


def _table(shapes: Sequence[Shape]) -> HostArray:
    """Return shapes as the rows of an array, filled with -1; a shape without axes is a row of one -1."""
    width = max(1, *map(len, shapes))
    if len(shapes[0]) == width and len(set(map(len, shapes))) == 1:
        return np.asarray(shapes, dtype=np.int64)
    return np.asarray([(*shape, *(-1,) * (width - len(shape))) for shape in shapes], dtype=np.int64)


def _can_be_entry(name: str) -> bool:
    """Return whether an archive keeps a name as it is, and a program that unpacks it stays in its folder."""
    try:
        length = len(name.encode("utf-8"))
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return length < 60_000 and not name.startswith("/") and not {"\0", "\\"} & {*name} and ".." not in name.split("/")
