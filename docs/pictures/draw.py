"""Draw the pictures of the documentation: ``python docs/pictures/draw.py`` writes them beside this file.

Each is an SVG without a background, once in colours for light pages and once for dark ones.  The same script gives the
same bytes.
"""

from __future__ import annotations

import sys
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
CELL = 30
LENGTHS = (3, 1, 2, 4)
FONT = "font-family='system-ui, sans-serif' font-size='14'"


class Colours(NamedTuple):
    """The colours of a picture: of lines and text, of what is in the background, and of each element."""

    ink: str
    faint: str
    elements: tuple[str, ...]  # of Okabe and Ito, which the colour-blind tell apart


THEMES = {
    "light": Colours("#222832", "#8a93a0", ("#56b4e9", "#e69f00", "#009e73", "#cc79a7")),
    "dark": Colours("#e8eaed", "#8a93a0", ("#2f7fb5", "#b57a00", "#00805c", "#a0568a")),
}


class Drawing:
    """The parts of one picture."""

    def __init__(self, colours: Colours) -> None:
        self.colours = colours
        self.parts: list[str] = []

    def text(self, x: float, y: float, words: str, *, anchor: str = "middle", faint: bool = False) -> None:
        """Write words that begin, end or have their middle at x."""
        colour = self.colours.faint if faint else self.colours.ink
        self.parts.append(f"<text x='{x:g}' y='{y:g}' text-anchor='{anchor}' fill='{colour}'>{words}</text>")

    def row(self, x: float, y: float, owners: list[int | None], values: list[str]) -> None:
        """Draw cells beside one another, each in the colour of the element that it belongs to; None is filling."""
        for i, (owner, value) in enumerate(zip(owners, values, strict=True)):
            left = x + i * CELL
            fill = "none" if owner is None else self.colours.elements[owner]
            dashes = " stroke-dasharray='3 3'" if owner is None else ""
            self.parts.append(
                f"<rect x='{left:g}' y='{y:g}' width='{CELL}' height='{CELL}' fill='{fill}' "
                f"stroke='{self.colours.ink}'{dashes}/>"
            )
            self.text(left + CELL / 2, y + 20, value, faint=owner is None)

    def rows(self, x: float, y: float) -> None:
        """Draw the elements below one another."""
        for k, (begin, end) in enumerate(bounds()):
            self.row(x, y + k * (CELL + 8), [k] * (end - begin), [str(value) for value in range(begin, end)])

    def arrow(self, x: float, y: float, words: str) -> None:
        """Draw an arrow to the right, with words above it."""
        ink = self.colours.ink
        self.parts.append(f"<path d='M{x:g} {y:g}h74m-9 -6l9 6l-9 6' fill='none' stroke='{ink}' stroke-width='2'/>")
        self.text(x + 37, y - 12, words)

    def svg(self, width: int, height: int, title: str) -> str:
        """Return the picture as text."""
        inside = "\n".join(self.parts)
        return (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='-2 -2 {width} {height}' width='{width}' "
            f"height='{height}' {FONT} role='img'>\n<title>{title}</title>\n{inside}\n</svg>\n"
        )


def bounds() -> list[tuple[int, int]]:
    """Where each element begins and ends in the buffer."""
    ends = list(accumulate(LENGTHS))
    return list(zip([0, *ends[:-1]], ends, strict=True))


def ragged(colours: Colours) -> str:
    """Rows of different lengths, one buffer with offsets, and the rows again."""
    drawing = Drawing(colours)
    drawing.text(60, 16, "a ragged batch")
    drawing.rows(0, 32)
    drawing.arrow(142, 104, "pack")
    left = 240
    drawing.text(left + 150, 50, "one buffer of values")
    owners: list[int | None] = [k for k, length in enumerate(LENGTHS) for _ in range(length)]
    drawing.row(left, 66, owners, [str(value) for value in range(len(owners))])
    for offset in (0, *accumulate(LENGTHS)):
        x = left + offset * CELL
        drawing.parts.append(f"<path d='M{x} 100v14' stroke='{colours.ink}'/>")
        drawing.text(x, 130, str(offset))
    drawing.text(left + 150, 154, "offsets: where each row begins and ends")
    drawing.arrow(566, 104, "unpack")
    drawing.text(720, 16, "the same rows")
    drawing.rows(660, 32)
    return drawing.svg(790, 190, "Rows of different lengths become one buffer with offsets, and rows again")


def padded(colours: Colours) -> str:
    """Rows of different lengths, and a padded array with its mask."""
    drawing = Drawing(colours)
    drawing.text(60, 16, "a ragged batch")
    drawing.rows(0, 32)
    drawing.arrow(142, 104, "pad_sequence")
    widest = max(LENGTHS)
    drawing.text(320, 16, "a padded array")
    drawing.text(490, 16, "its mask")
    for k, (begin, end) in enumerate(bounds()):
        missing = widest - (end - begin)
        owners: list[int | None] = [*([k] * (end - begin)), *([None] * missing)]
        values = [*map(str, range(begin, end)), *(["-1"] * missing)]
        drawing.row(260, 32 + k * CELL, owners, values)
        drawing.row(430, 32 + k * CELL, owners, ["T" if owner is not None else "F" for owner in owners])
    return drawing.svg(560, 190, "Rows of different lengths become a padded array and a mask of the values")


def mapped(colours: Colours) -> str:
    """One array that is split by sizes, changed row by row, and joined."""
    drawing = Drawing(colours)
    everything = sum(LENGTHS)
    owners: list[int | None] = [k for k, length in enumerate(LENGTHS) for _ in range(length)]
    drawing.text(150, 16, "split by sizes 3, 1, 2, 4")
    drawing.row(0, 28, owners, [str(value) for value in range(everything)])
    drawing.text(150, 90, "map: each minus its first value")
    joined: list[str] = []
    x = 0
    for k, (begin, end) in enumerate(bounds()):
        values = [str(value - begin) for value in range(begin, end)]
        drawing.row(x, 102, [k] * len(values), values)
        joined += values
        x += len(values) * CELL + 16
    drawing.text(150, 164, "join")
    drawing.row(0, 176, owners, joined)
    return drawing.svg(350, 210, "An array is split, each piece is changed, and the pieces are joined")


PICTURES = {"ragged": ragged, "padded": padded, "mapped": mapped}


def drawn() -> dict[str, str]:
    """Return the text of every picture by the name of its file."""
    return {
        f"{name}-{theme}.svg": picture(colours)
        for name, picture in PICTURES.items()
        for theme, colours in THEMES.items()
    }


def main() -> int:
    """Write the pictures."""
    for name, text in drawn().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
