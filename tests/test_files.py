"""`save` and `load`: every value comes back, and a file of a stranger gives values or an error that names it."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqarray as sa
from seqarray._dtypes import ONNX_TYPES
from seqarray._files import reading
from seqarray.testing import assert_arrays_equal, assert_sequences_equal, to_numpy
from tests.fuzz.files import outcomes
from tests.processes import output_of

PAGE = Path(__file__).parents[1] / "docs" / "files.md"
NAMES = ["x", "file", "path", "self", "a/b", "x.0", "x.npy", "é", " ", "", "/x", "../x", "a\\b", "a\0b", "\ud800", "~"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "values.npz"


def back(path, /, **values):
    """Save values and load them again."""
    sa.save(path, **values)
    loaded = sa.load(path)
    assert list(loaded) == list(values)
    return loaded


def numpy_values(element_type, count=6):
    """Some values of an element type, as a NumPy array."""
    if element_type == "string":
        return np.asarray([f"é{i}" for i in range(count)], dtype=object)
    return np.arange(count).astype(sa.sequence_empty(element_type, xp="numpy").dtype)


# Round trips.


@pytest.mark.parametrize("element_type", ONNX_TYPES)
def test_values_of_every_element_type_and_library(element_type, backend, path):
    if not backend.holds(element_type):
        pytest.skip(f"{backend.name} cannot hold {element_type}")
    values = numpy_values(element_type)
    matrix = backend.array(values.reshape(2, 3))
    with backend.current():
        ragged = [backend.array(values[:1]), backend.array(values[1:])]
        mixed = [backend.array(values.reshape(3, 2)), backend.array(values[:1].reshape(()))]
    loaded = back(path, matrix=matrix, ragged=ragged, mixed=sa.ArraySequence(mixed))
    assert_arrays_equal(loaded["matrix"], to_numpy(matrix))
    assert_sequences_equal(loaded["ragged"], [to_numpy(element) for element in ragged])
    assert_sequences_equal(loaded["mixed"], [to_numpy(element) for element in mixed])
    assert loaded["ragged"].device == "cpu"


@pytest.mark.parametrize("element_type", [*ONNX_TYPES, "datetime64[ns]", "bytes"])
def test_empty_sequences_keep_their_type(element_type, path):
    loaded = back(path, s=sa.sequence_empty(element_type))["s"]
    assert (len(loaded), loaded.element_type) == (0, element_type)


def test_an_empty_sequence_takes_elements_of_any_library(path, backend):
    loaded = back(path, s=sa.sequence_empty("float32", xp=backend.xp))["s"]
    x = backend.array([1], dtype="float32")
    assert sa.sequence_insert(loaded, x)[0] is x


OTHERS = {
    "datetime64": np.asarray(["2020-01-01", "NaT"], dtype="datetime64[s]"),
    "timedelta64": np.asarray([1, 2], dtype="timedelta64[D]"),
    "structured": np.asarray([(1, [2.5, 3])], dtype=[("é", "<i4"), ("b", ">f8", (2,))]),
    "bytes": np.asarray([b"a", b"bcd"]),
    "void": np.asarray([b"abc"], dtype="V3"),
    "longdouble": np.asarray([1.5], dtype=np.longdouble),
    "other byte order": np.asarray([1, 2], dtype=">i4"),
    "str_": np.asarray(["a", "bé\U0001f600"]),
    "column-major": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "strided": np.arange(12).reshape(3, 4)[::-1, ::2],
    "a scalar": np.float32(2),
    "0-d": np.asarray(3),
    "no items": np.ones((0, 3)),
    "read-only": np.broadcast_to(np.float32(1), (2, 2)),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_arrays_are_what_numpy_saves(case, path):
    loaded = back(path, x=OTHERS[case])["x"]
    np.testing.assert_array_equal(loaded, OTHERS[case], strict=True)
    assert loaded.dtype == OTHERS[case].dtype
    assert loaded.flags.writeable
    with np.load(path) as stored:
        assert list(stored) == ["x"]
        np.testing.assert_array_equal(stored["x"], OTHERS[case], strict=True)


@pytest.mark.parametrize("dtype", [object, np.dtypes.StringDType(), np.dtypes.StringDType(na_object=None)])
def test_text_of_any_length_and_with_any_character(dtype, path):
    text = np.asarray([["a", "", "b\0"], ["é\U0001f600", "x" * 1000, "\0"]], dtype=dtype)
    loaded = back(path, x=text, s=[text, text[0, :1], text[0, 0:0]], one=text[0, :1].reshape(()))
    assert loaded["x"].dtype == (object if dtype is object else np.dtypes.StringDType())
    assert loaded["x"].tolist() == text.tolist()
    assert [element.tolist() for element in loaded["s"]] == [text.tolist(), ["a"], []]
    assert loaded["one"].shape == ()
    assert loaded["one"].tolist() == "a"


def test_text_that_utf_8_does_not_have(path):
    text = np.asarray(["\ud800"], dtype=object)
    assert back(path, x=text)["x"].tolist() == ["\ud800"]


def test_mixed_elements_are_of_their_common_dtype(path):
    narrow, wide, objects = np.asarray(["a"]), np.asarray(["bcd"]), np.asarray(["e"], dtype=object)
    loaded = back(
        path, widths=[narrow, wide], kinds=[narrow, objects], orders=[np.arange(2), np.arange(1).astype(">i8")]
    )
    assert (loaded["widths"].dtype, loaded["kinds"].dtype) == (np.dtype("U3"), np.dtype(object))
    assert loaded["orders"].dtype == np.int64
    assert [element.tolist() for element in loaded["orders"]] == [[0, 1], [0]]


def test_names_may_be_any_strings(path):
    values = {name: [np.asarray([i]), np.zeros(0, int)] if i % 3 else np.asarray(i) for i, name in enumerate(NAMES)}
    for loaded in (back(path, **values), back(path, **dict(reversed(values.items())))):
        for name, value in values.items():
            (assert_sequences_equal if isinstance(value, list) else assert_arrays_equal)(loaded[name], value)
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    assert len(set(names)) == len(names)
    assert not any(name.startswith("/") or ".." in name.split("/") for name in names)


def test_names_that_are_those_of_parts(path):
    parts = [np.ones(2), np.ones(3)]
    values = {"s/values": np.zeros(1), "s": parts, "s/offsets": np.ones(2), "seqarray.json": np.ones(1), "t": None}
    loaded = back(path, **values)
    assert_sequences_equal(loaded["s"], parts)
    assert [loaded[name].tolist() for name in ("s/values", "s/offsets", "seqarray.json")] == [[0], [1, 1], [1]]


def test_nothing_and_none(path):
    assert back(path) == {}
    assert back(path, x=None) == {"x": None}


# What is in a file.


def entries(path):
    with np.load(path) as stored:
        return {name: stored[name] for name in stored if name != "seqarray.json"}


def test_elements_that_differ_along_one_axis_are_values_and_offsets(path):
    sa.save(path, s=[np.zeros((2, 1)), np.ones((2, 3))], t=[np.zeros((2, 1)), np.ones((1, 1))], e=[np.zeros(2)] * 3)
    stored = entries(path)
    assert {name: array.shape for name, array in stored.items()} == {
        "s/values": (2, 4),
        "s/offsets": (3,),
        "t/values": (3, 1),
        "t/offsets": (3,),
        "e/values": (6,),
        "e/offsets": (4,),
    }
    assert stored["s/offsets"].tolist() == [0, 1, 4]


def test_other_elements_are_values_and_shapes(path):
    sa.save(path, s=[np.zeros((2, 1)), np.ones((1, 3))], t=[np.asarray(1.0), np.ones((1, 2))], u=[np.asarray(1)] * 2)
    stored = entries(path)
    assert stored["s/shapes"].tolist() == [[2, 1], [1, 3]]
    assert stored["t/shapes"].tolist() == [[-1, -1], [1, 2]]
    assert stored["u/shapes"].tolist() == [[-1], [-1]]
    assert stored["s/values"].shape == (5,)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("copy", [True, None])
@pytest.mark.parametrize("axis", [0, 1])
def test_chunks_of_a_split(axis, copy, keepdims, path):
    s = sa.split_to_sequence(np.arange(12.0).reshape(3, 4), axis=axis, copy=copy, keepdims=keepdims)
    for sequence in (s, s[1:], s[::-1], s[::2], sa.sequence_insert(s, s[0], 1)):
        assert_sequences_equal(back(path, s=sequence)["s"], list(sequence))


def test_loaded_elements_are_views_of_one_array(path):
    loaded = back(path, s=[np.zeros(3), np.ones(200)], t=[np.zeros((3, 2)), np.ones(5)])
    assert {id(element.base) for element in loaded["s"]} == {id(loaded["s"][0].base)}
    assert (loaded["s"].nbytes_held, loaded["t"].nbytes_held) == (203 * 8, 11 * 8)


@pytest.mark.engine
def test_joined_chunks_of_one_array_are_written_without_a_copy(path, count_calls):
    from seqarray._engines import numpy as engine

    calls = count_calls(engine, "join")
    sa.save(path, s=sa.split_to_sequence(np.arange(12.0).reshape(3, 4), axis=1, copy=None))
    assert calls == []
    sa.save(path, s=[np.zeros(2), np.zeros(3)])
    assert len(calls) == 1


def test_the_same_values_give_the_same_bytes(path):
    values = {"x": np.arange(3), "s": [np.ones(2)]}
    sa.save(path, **values)
    first = path.read_bytes()
    sa.save(path, **values)
    assert path.read_bytes() == first
    with zipfile.ZipFile(path) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_files_of_numpy_are_read(path):
    values = {"x": np.arange(3), "y.npy": np.ones((2, 2)), "a/b": np.asarray(["t"])}
    for write in (np.savez, np.savez_compressed):
        write(path, **values)
        loaded = sa.load(path)
        assert list(loaded) == list(values)
        assert all(np.array_equal(loaded[name], values[name]) for name in values)


def test_lazy_and_differentiable_values_are_written(path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    weights = torch.ones(2, requires_grad=True)
    loaded = back(path, w=weights, s=[weights * 2, weights], c=torch.asarray([1j]).conj())
    assert_arrays_equal(loaded["w"], np.ones(2, np.float32))
    assert_sequences_equal(loaded["s"], [np.full(2, 2, np.float32), np.ones(2, np.float32)])
    assert loaded["c"].tolist() == [-1j]
    with pytest.raises(TypeError, match="save"):
        sa.save(path, x=torch.ones(2, device="meta"))


def test_arrays_of_unknown_lengths_are_computed(path):
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    x = da.arange(10, chunks=4)
    loaded = back(path, s=sa.ArraySequence([x[x > 3], x]), x=x[x > 7])
    assert_sequences_equal(loaded["s"], [np.arange(4, 10), np.arange(10)])
    assert loaded["x"].tolist() == [8, 9]


@pytest.mark.cupy_host
def test_elements_on_a_device_cross_in_one_transfer(path, counting):
    import cupy

    s = sa.split_to_sequence(cupy.arange(100.0), 3)
    with counting() as counts:
        sa.save(path, s=s)
    assert (counts.device_to_host, counts.host_to_device) == (1, 0)
    assert_sequences_equal(sa.load(path)["s"], [to_numpy(element) for element in s])


def test_no_call_imports_a_module(path):
    script = """
import sys, numpy as np, seqarray as sa
text = np.asarray(["a"], dtype=object)
values = {"x": np.ones(2), "s": [np.ones(2), np.ones(3)], "t": text, "u": np.asarray(["a"]), "r": [text, text[0:0]]}
before = set(sys.modules)
sa.save(sys.argv[1], **values)
sa.load(sys.argv[1])
print(*(set(sys.modules) - before))
"""
    assert output_of(script, path) == ""


def test_the_limits_are_those_on_the_page():
    assert (reading.MAX_UNPACKED, reading.MAX_RATIO) == (1 << 30, 100)
    assert "may take 1 GiB, or 100 times the size" in PAGE.read_text(encoding="utf-8")


# Mistakes.

BAD = {
    "a number": (3, TypeError, "'x'"),
    "a list of numbers": ([1, 2], TypeError, "'x': element 0"),
    "elements of two types": ([np.ones(1), np.ones(1, int)], TypeError, "'x': element 1"),
    "objects": (np.asarray([{}]), TypeError, "'x'"),
    "missing text": (
        np.asarray([None], dtype=np.dtypes.StringDType(na_object=None)),
        TypeError,
        "'x'",
    ),
    "objects in fields": (np.zeros(1, dtype=[("a", object)]), TypeError, "'x'"),
    "items without bytes": (np.zeros(2, dtype=[]), TypeError, "'x'"),
    "a masked array": (np.ma.ones(2), TypeError, "'x'"),
    "a dict": ({"a": np.ones(1)}, TypeError, "'x'"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_saved_is_refused_and_the_old_file_stays(case, path):
    value, error, mention = BAD[case]
    sa.save(path, y=np.ones(2))
    before = path.read_bytes()
    with pytest.raises(error, match=r"^save: ") as caught:
        sa.save(path, y=np.ones(3), x=value)
    assert mention in str(caught.value)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_an_extension_type_inside_a_structured_one_is_refused(path):
    bfloat16 = sa.sequence_empty("bfloat16", xp="numpy").dtype
    with pytest.raises(TypeError, match="bfloat16"):
        sa.save(path, x=np.zeros(1, dtype=[("a", bfloat16)]))
    assert not path.exists()


def test_nothing_is_left_when_writing_fails(path, monkeypatch):
    sa.save(path, x=np.ones(2))
    before = path.read_bytes()

    def fail(*_, **__):
        raise OSError("the disk is full")

    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(OSError, match="full"):
        sa.save(path, x=np.ones(3))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_places_that_are_no_files(tmp_path):
    with pytest.raises(ValueError, match="not a file"):
        sa.save(tmp_path, x=np.ones(1))
    with pytest.raises(FileNotFoundError, match=r"^save: there is no folder .*nowhere$"):
        sa.save(tmp_path / "nowhere" / "x.npz", x=np.ones(1))
    with pytest.raises(OSError, match="nowhere"):
        sa.load(tmp_path / "nowhere.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_followed(tmp_path, path):
    link = tmp_path / "link.npz"
    link.symlink_to(path)
    sa.save(str(link), x=np.ones(1))
    assert link.is_symlink()
    assert sa.load(path).keys() == {"x"}


# Files of strangers.


def npy(array):
    """The bytes of an array as an entry."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array))
    return buffer.getvalue()


def header(text, data=b"", version=(1, 0)):
    """The bytes of an entry with this header."""
    length = len(text).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + length + text.encode() + data


def described(shape, descr="'<f8'", order="False"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}"


def refused(path, content, *mentions, compression=zipfile.ZIP_STORED):
    """Assert that a file with these entries is refused by an error that names it."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    with pytest.raises(ValueError, match=r"^load: ") as caught:
        sa.load(path)
    assert all(mention in str(caught.value) for mention in (str(path), *mentions)), str(caught.value)


HEADERS = {
    "more items than bytes": described("(9999999999,)"),
    "less items than bytes": described("()") + "12345678" * 2,
    "an impossible shape": described(f"(0, {1 << 62}, {1 << 62})"),
    "a number too large for a shape": described(f"(0, {'9' * 300})"),
    "a shape of bools": described("(True,)"),
    "a negative length": described("(-1,)"),
    "a list as a shape": described("[0]"),
    "too many axes": described((0,) * 65),
    "items without bytes": described(f"({1 << 62},)", "'|S0'"),
    "objects": described("(0,)", "'|O'"),
    "objects in fields": described("(0,)", "[('a', '|O')]"),
    "arrays as items": described("(0,)", "('<f8', (2,))"),
    "no such dtype": described("(0,)", "'<f3'"),
    "no such order": described("(0,)", order="1"),
    "calls": "__import__('os').abort()",
    "deep nesting": "[" * 5000,
    "many signs": "-" * 9000 + "1",
    "a sum": "1+" * 4000 + "1j",
    "NUL": "\0" * 9,
    "no dict": "()",
    "no descr": "{}",
}


@pytest.mark.parametrize("case", HEADERS)
def test_headers_of_strangers(case, path):
    refused(path, {"x.npy": header(HEADERS[case])}, "x.npy")


@pytest.mark.parametrize(
    ("entry", "mention"),
    [
        (header(described("(2,)", "'|b1'"), b"\x01\x02"), "bools"),
        (header(described("(1,)", "[('a', '|b1')]"), b"\x02"), "bools"),
        (header(described("(1,)", "'<U1'"), b"\xff" * 4), "characters"),
        (header(described("(0,)"), version=(4, 0)), "version"),
        (header(described("(0,)") + " " * 20_000, version=(2, 0)), "header"),
        (b"nothing", "magic"),
        (b"", "magic"),
        (npy(np.ones(9))[:-1], "bytes"),
    ],
)
def test_entries_of_strangers(entry, mention, path):
    refused(path, {"x.npy": entry}, "x.npy", mention)


SEQUENCE = {"kind": "sequence", "values": "v", "axis": 0, "offsets": "o"}
PACKED = {"kind": "sequence", "values": "v", "shapes": "o"}
TEXT = {"kind": "array", "values": "v", "ends": "o", "dtype": "object"}
ARRAY = {"kind": "array", "values": "v"}
#: What the index tells of a value, the arrays `v` and `o`, and what the error mentions.
INDICES = {
    "no such dtype": (ARRAY | {"dtype": "finfo"}, 1, 1, "finfo"),
    "a dtype that is none": (ARRAY | {"dtype": []}, 1, 1, "dtype"),
    "a dtype that npy has": (ARRAY | {"dtype": "float32"}, 1, 1, "float32"),
    "bits of another width": (ARRAY | {"dtype": "bfloat16"}, np.uint8(1), 1, "bfloat16"),
    "no kind": ({"values": "v"}, 1, 1, "'x'"),
    "no object": ([], 1, 1, "'x'"),
    "no values": ({"kind": "array"}, 1, 1, "values"),
    "values that are not there": (ARRAY | {"values": "w"}, 1, 1, "'w'"),
    "values that are used twice": (SEQUENCE | {"offsets": "v"}, [0], 1, "'v'"),
    "values that are not used": (ARRAY, 1, 1, "'o.npy'"),
    "a bool as an axis": (SEQUENCE | {"axis": True}, np.ones((2, 2)), [0, 2], "axis True"),
    "an axis out of range": (SEQUENCE, 1, [0, 1], "axis"),
    "decreasing offsets": (SEQUENCE, [1, 2], [0, 3, 2], "decrease"),
    "offsets before the begin": (SEQUENCE, [1, 2], [-1, 2], "decrease"),
    "offsets behind the end": (SEQUENCE, [1, 2], [0, 3], "decrease"),
    "no offsets": (SEQUENCE, [], np.zeros(0, int), "offsets"),
    "offsets in two dimensions": (SEQUENCE, [1, 2], [[0, 2]], "offsets"),
    "offsets of another dtype": (SEQUENCE, [1, 2], [0.0, 2.0], "int64"),
    "shapes of too few items": (PACKED, [1, 2], [[1]], "items"),
    "shapes of too many items": (PACKED, [1, 2], [[1, 3]], "items"),
    "shapes whose items would wrap around": (PACKED, np.zeros(2, np.uint8), [[2], *[[1 << 62]] * 4], "items"),
    "a negative length": (PACKED, [1, 2], [[1, 1], [-2, -1]], "[-2, -1]"),
    "a length behind the end of a shape": (PACKED, [1, 2], [[-1, 2]], "[-1, 2]"),
    "an impossible shape": (PACKED, np.zeros(0), [[0, 1 << 62, 1 << 62]], "no shape"),
    "shapes without columns": (PACKED, np.zeros(0), np.zeros((1 << 40, 0), int), "shape"),
    "values in two dimensions": (PACKED, np.ones((1, 1)), [[1]], "shape"),
    "no UTF-8": (TEXT, np.asarray([255], np.uint8), [1], "text"),
    "half a character": (TEXT, np.frombuffer("é".encode(), np.uint8), [1, 2], "text"),
    "text of another dtype": (TEXT, [1], [1], "uint8"),
    "ends that decrease": (TEXT, np.zeros(3, np.uint8), [2, 1, 3], "decrease"),
    "ends of another dtype": (TEXT, np.zeros(1, np.uint8), [1.0], "int64"),
}


@pytest.mark.parametrize("case", INDICES)
def test_indices_of_strangers(case, path):
    record, values, others, mention = INDICES[case]
    index = json.dumps({"version": 1, "values": {"x": record}})
    refused(path, {"v.npy": npy(values), "o.npy": npy(others), "seqarray.json": index}, mention)


@pytest.mark.parametrize(
    ("index", "mention"),
    [
        ("", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ("[]", "index"),
        ('{"version": 2, "values": {}}', "version 2"),
        ('{"version": 1, "values": []}', "index"),
    ],
)
def test_what_is_no_index(index, mention, path):
    refused(path, {"seqarray.json": index}, "seqarray.json", mention)


def test_archives_of_strangers(path):
    refused(path, {"folder/": b""}, "folder/")
    refused(path, {"note.txt": b""}, "note.txt")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", npy(np.ones(3)))
        archive.filelist *= 2
    with pytest.raises(ValueError, match=r"^load: .* entry 'x.npy' is there twice"):
        sa.load(path)
    refused(path, {"x.npy": npy(np.ones(3))}, "x.npy", "method", compression=zipfile.ZIP_BZIP2)
    index = '{"version": 1, "values": {}' + " " * (2 << 20) + "}"
    refused(path, {"seqarray.json": index}, "more than the file", compression=zipfile.ZIP_DEFLATED)
    for content in (b"", b"PK", b"nothing"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"^load: .* is no \.npz"):
            sa.load(path)


def test_what_unpacks_to_much_is_refused_before_it_is_unpacked(path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_UNPACKED", 1 << 18)
    np.savez_compressed(path, x=np.zeros(1 << 14), y=np.zeros(1 << 14))
    monkeypatch.setattr(reading, "MAX_RATIO", 1000)
    assert sa.load(path).keys() == {"x", "y"}
    monkeypatch.setattr(reading, "MAX_RATIO", 100)
    monkeypatch.setattr(zipfile.ZipFile, "open", None)
    with pytest.raises(ValueError, match=r"unpack to .* limit is 262144"):
        sa.load(path)


def test_entries_that_are_said_to_be_larger_than_they_are(path):
    """Change the sizes in the directory of an archive."""
    sa.save(path, x=np.zeros(4))
    with zipfile.ZipFile(path) as archive:
        size = archive.getinfo("x.npy").file_size
    whole = path.read_bytes()
    at = whole.rindex(size.to_bytes(4, "little"))  # of the directory, which is at the end
    path.write_bytes(whole[:at] + (1 << 31).to_bytes(4, "little") + whole[at + 4 :])
    with pytest.raises(ValueError, match=r"entry 'x.npy' is said to have 2147483648 bytes"):
        sa.load(path)


def test_entries_that_share_their_bytes(path):
    """Let many entries of the directory be in one place, so that a small file unpacks to many times its size."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x0.npy", npy(np.zeros(1000)))
        for number in range(1, 9):
            entry = copy.copy(archive.getinfo("x0.npy"))
            entry.filename = f"x{number}.npy"
            archive.filelist.append(entry)
    with pytest.raises(ValueError, match="its entries are said to take"):
        sa.load(path)


def test_damaged_files_give_values_or_an_error_that_names_them():
    counts = outcomes(1, 150)
    assert counts.keys() == {"values", "error"}, counts
    assert min(counts.values()) >= 10


# Any sequences.

SHAPES = st.lists(st.lists(st.integers(0, 3), max_size=3).map(tuple), max_size=6)


@settings(max_examples=60)
@given(shapes=SHAPES, element_type=st.sampled_from(["float32", "string", "bfloat16", "int4", "complex128"]))
def test_sequences_of_any_shapes(shapes, element_type, tmp_path_factory):
    elements = [numpy_values(element_type, int(np.prod(shape))).reshape(shape) for shape in shapes]
    path = tmp_path_factory.getbasetemp() / "any.npz"
    sequence = sa.ArraySequence(elements, dtype=element_type)
    assert_sequences_equal(back(path, s=sequence)["s"], sequence)
