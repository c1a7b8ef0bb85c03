"""Sequences in other element types, and what sequences show of themselves."""

from __future__ import annotations

import warnings
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import seqarray as sa
from conftest import Backend
from seqarray.testing import to_numpy


@pytest.mark.parametrize(("source", "target"), [("int32", "float32"), ("float32", "int8"), ("uint8", "bool")])
def test_astype(backend: Backend, source: str, target: str) -> None:
    with backend.current():
        x = backend.array(np.arange(14).reshape(7, 2), source)
        views = sa.split_to_sequence(x, [3, 0, 4], copy=None)
        for sequence in (views, views[1:], views[::-1], sa.ArraySequence(list(views)), sa.split_to_sequence(x, 3)):
            expected = [backend.array(to_numpy(element).astype(target)) for element in sequence]
            converted = sequence.astype(target)
            sa.testing.assert_sequences_equal(converted, sa.ArraySequence(expected))
            assert converted.device == sequence.device
            assert sequence.element_type == source
        dtype = sa.sequence_empty(target, xp=backend.xp, device=backend.device).dtype
        assert views.astype(dtype).element_type == target
        assert sa.sequence_empty(source, xp=backend.xp).astype(target).element_type == target


def test_astype_to_the_same_type(backend: Backend) -> None:
    with backend.current():
        sequence = sa.ArraySequence([backend.array([1.0, 2.0], "float32")])
        assert sequence.astype("float32", copy=False) is sequence
        copied = sequence.astype("float32")
        assert copied is not sequence
        assert copied[0] is not sequence[0]
        sa.testing.assert_sequences_equal(copied, sequence)


@pytest.mark.engine
def test_astype_converts_what_the_chunks_of_one_array_use_and_no_more() -> None:
    chunks = sa.split_to_sequence(np.zeros(1000, np.float32), 10, copy=None)[:3].astype("float64")
    assert chunks.nbytes_held == chunks.nbytes == 240


@pytest.mark.parametrize(
    ("values", "target", "message"),
    [
        (np.zeros(1, "complex64"), "float32", "ArraySequence.astype: complex64 to float32 would lose the imaginary"),
        (np.asarray(["1"]), "int64", "ArraySequence.astype: string is not converted to int64"),
        (np.zeros(1), "string", "ArraySequence.astype: float64 is not converted to string"),
        (np.zeros(1), "number", "ArraySequence.astype: dtype is 'number'"),
    ],
)
def test_astype_refuses_what_would_lose_values(values: Any, target: str, message: str) -> None:
    with warnings.catch_warnings(), pytest.raises(TypeError, match=message):
        sa.ArraySequence([values]).astype(target)


def test_astype_to_what_the_library_cannot_hold(backend: Backend) -> None:
    if backend.holds("int64"):
        return
    with pytest.raises(TypeError, match=r"ArraySequence.astype: jax on cpu:0 cannot hold int64; set jax_enable_x64"):
        sa.ArraySequence([backend.array([1], "int32")]).astype("int64")


class Elements(HTMLParser):
    """Collects the text of a document, and raises where tags are not nested."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(sequence: sa.ArraySequence[Any]) -> Elements:
    elements = Elements()
    elements.feed(sequence._repr_html_())
    elements.close()
    assert not elements.open
    return elements


def test_a_table_for_notebooks(backend: Backend) -> None:
    with backend.current():
        sequence = sa.split_to_sequence(backend.array(np.zeros((7, 2)), "float32"), [3, 0, 4])
        page = parsed(sequence)
        assert page.text[:5] == ["ArraySequence", "elements", "3", "type", "float32"]
        assert page.text[page.text.index("bytes") + 1] == "56"
        assert page.text[page.text.index("shapes") + 1] == "(3, 2), (0, 2), (4, 2)"
        assert page.text[-1].strip() == "lengths along axis 0 from 0 to 4"
        assert page.seen.count("rect") == 3


def test_the_table_of_sequences_of_all_kinds() -> None:
    assert parsed(sa.sequence_empty("int8")).text == ["ArraySequence", "elements", "0", "type", "int8"]
    many = sa.unpack(np.zeros(1000), np.arange(1001))
    assert parsed(many).seen.count("rect") <= 64
    assert "every 16th element" in parsed(many).text[-1]
    structured = sa.ArraySequence([np.zeros(1, dtype=[("<b>&", "f4")])])
    assert "<b>" not in structured._repr_html_().replace("<tbody>", "")
    assert "<b>&" in "".join(parsed(structured).text)
    assert "lengths" not in parsed(sa.ArraySequence([np.zeros(())])).text


def test_the_line_of_many_chunks_tells_how_long_they_are() -> None:
    chunks = sa.unpack(np.zeros((10, 4)), [0, 2, 2, 3, 4, 5, 6, 10])
    shown = "<ArraySequence of 7 float64 arrays, numpy on cpu: (2, 4), (0, 4), (1, 4), (1, 4), (1, 4), (1, 4), ..."
    assert repr(chunks) == f"{shown}, lengths 0 to 4 on axis 0>"
    assert repr(sa.split_to_sequence(np.zeros(7))).endswith("(1,), ...>")


def test_copies_of_chunks_of_one_array_are_one(count_calls: Any) -> None:
    chunks = sa.unpack(np.arange(20.0).reshape(10, 2), [1, 1, 4, 9])
    for copied in (chunks.astype("float64"), chunks.to(copy=True)):
        sa.testing.assert_sequences_equal(copied, chunks)
        assert not np.shares_memory(copied[1], chunks[1])
        assert copied.nbytes_held == copied.nbytes
