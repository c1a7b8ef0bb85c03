"""What a sequence shows of itself: a line of text, and a small table for notebooks.

Of a long sequence, no element is visited that is not shown.
"""

from __future__ import annotations

from html import escape

from seqarray._blocks import shapes_of
from seqarray._kind import OPAQUE, Kind
from seqarray._tree import Elements, blocks_of, select
from seqarray._views import Run

#: How many shapes are shown.
_SHAPES = 6
#: How many lengths the strip of a table shows.
_BARS = 64
#: Width of a bar and height of the strip, in pixels.
_BAR_WIDTH, _STRIP_HEIGHT = 6, 32


def text_of(kind: Kind, elements: Elements, length: int) -> str:
    """Return one line: how many elements of which type are where, and the shapes of the first."""
    count = f"{length} {kind.element_type} array{'' if length == 1 else 's'}"
    where = "" if kind.library is None else f", {_place(kind)}"
    shapes = _shapes(kind, elements, length)
    return f"<ArraySequence of {count}{where}{': ' if shapes else ''}{shapes}{_range_of_lengths(elements, length)}>"


def _range_of_lengths(elements: Elements, length: int) -> str:
    """Return how long the many chunks of one split are, which is known without a look at any."""
    if length <= _SHAPES or not isinstance(elements, Run) or elements.cut.dropped:
        return ""
    axis = elements.cut.axis
    lengths = elements.lengths(axis)
    shortest, longest = lengths.min(), lengths.max()
    return "" if shortest == longest else f", lengths {shortest} to {longest} on axis {axis}"


def _place(kind: Kind) -> str:
    assert kind.library is not None
    return kind.library.name + ("" if kind.device is None else f" on {kind.device}")


def _shapes(kind: Kind, elements: Elements, length: int) -> str:
    if kind is OPAQUE or not length:
        return ""
    shown = shapes_of(blocks_of(select(elements, range(length)[:_SHAPES])))
    return ", ".join(map(str, shown)) + (", ..." if length > len(shown) else "")


def html_of(kind: Kind, elements: Elements, length: int, nbytes: int) -> str:
    """Return a table: number and type of the elements, library and device, bytes, shapes, and a strip of lengths."""
    rows = [("elements", str(length)), ("type", kind.element_type)]
    if kind.library is not None:
        rows += [("library", _place(kind)), ("bytes", f"{nbytes:,}")]
    if shapes := _shapes(kind, elements, length):
        rows.append(("shapes", shapes))
    cells = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(value)}</td></tr>"
        for name, value in rows
    )
    if strip := _strip(kind, elements, length):
        cells += f"<tr><th style='text-align:left'>lengths</th><td style='text-align:left'>{strip}</td></tr>"
    return f"<table><caption style='text-align:left'>ArraySequence</caption><tbody>{cells}</tbody></table>"


def _strip(kind: Kind, elements: Elements, length: int) -> str:
    """Return a picture of the lengths along the first axis, of elements spread evenly over a long sequence."""
    if kind is OPAQUE or not length:
        return ""
    step = -(-length // _BARS)
    lengths = [shape[0] for shape in shapes_of(blocks_of(select(elements, range(0, length, step)))) if shape]
    if not lengths or not all(isinstance(one, int) for one in lengths):
        return ""
    longest = max(lengths)
    heights = [round(one / max(longest, 1) * _STRIP_HEIGHT) for one in lengths]
    bars = "".join(
        f"<rect x='{place * _BAR_WIDTH}' y='{_STRIP_HEIGHT - height}' width='{_BAR_WIDTH - 1}' height='{height}'/>"
        for place, height in enumerate(heights)
    )
    every = "" if step == 1 else f", of every {step}th element"
    title = escape(f"lengths along axis 0 from {min(lengths)} to {longest}{every}")
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{len(lengths) * _BAR_WIDTH}' height='{_STRIP_HEIGHT}' "
        f"fill='currentColor' role='img' aria-label='{title}'><title>{title}</title>{bars}</svg> {title}"
    )
