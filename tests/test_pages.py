"""The pages of the documentation: their blocks of Python run, every public name has an entry, pictures are as drawn."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import io
import re
from pathlib import Path
from typing import Any

import pytest

import seqarray as sa

DOCS = Path(__file__).parents[1] / "docs"
REFERENCE = (DOCS / "api" / "index.rst").read_text(encoding="utf-8")
BUILT = {"_build", "auto_gallery", "generated"}
PAGES = {
    path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(DOCS.rglob("*.md"))
    if BUILT.isdisjoint(path.parts)
}


def blocks_of(page: str) -> list[str]:
    """The blocks of Python on a page, in order."""
    return re.findall(r"^```python\n(.*?)^```", PAGES[page], flags=re.DOTALL | re.MULTILINE)


WITH_BLOCKS = [page for page in PAGES if blocks_of(page)]

#: Compilers take long, on every Python alike; which results are views, and of what memory, is up to the engines.
MARKS = {"compiling.md": pytest.mark.thorough, "memory.md": pytest.mark.engine, "ten_minutes.md": pytest.mark.engine}


def skip_without(names: set[str]) -> None:
    """Skip the test if one of these modules is not installed."""
    for name in sorted(names, key=lambda name: (name not in ("torch", "jax", "dask"), name)):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


def test_every_page_with_code_is_tested() -> None:
    assert [page for page, text in PAGES.items() if "python\n" in text] == WITH_BLOCKS
    for page in WITH_BLOCKS:
        assert len(blocks_of(page)) == len(re.findall(r"^\s*```\{?python", PAGES[page], flags=re.MULTILINE))
        assert any("# -> " in block for block in blocks_of(page))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("page", [pytest.param(page, marks=MARKS.get(page, ())) for page in WITH_BLOCKS])
def test_the_blocks_print_what_they_show(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = blocks_of(page)
    skip_without(
        {name for block in blocks for name in re.findall(r"^(?:import|from) (\w+)", block, flags=re.MULTILINE)}
    )
    monkeypatch.chdir(tmp_path)  # some write files
    variables: dict[str, Any] = {"__name__": "__main__"}  # a reader pastes one block after the other
    for block in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, page, "exec"), variables)
        # Arrays of pyarrow take several lines.
        if shown := re.findall(r"# -> (.*)", block):
            assert "".join(printed.getvalue().split()) == "".join("".join(shown).split()), block


def public_members(cls: type) -> list[str]:
    """The names of what a class has for users."""
    return [
        name
        for name, member in inspect.getmembers(cls)
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    ]


def entries() -> set[str]:
    """The full names that the page of the reference lists."""
    module, found = "", set()
    for line in REFERENCE.splitlines():
        if match := re.match(r"\.\. (?:currentmodule|automodule):: (\S+)", line):
            module = match[1]
        elif match := re.match(r"(?:   |\.\. py:data:: )(\w+(?:\.\w+)*)$", line):
            found.add(f"{module}.{match[1]}")
    return found


def test_every_public_name_has_an_entry_in_the_reference() -> None:
    modules = {"opset", "testing"}
    expected = {f"seqarray.{name}" for name in sa.__all__ if name not in modules}
    expected |= {f"seqarray.ArraySequence.{name}" for name in public_members(sa.ArraySequence)}
    expected |= {f"seqarray.opset.{name}" for name in ("run", "supported")}
    expected |= {f"seqarray.testing.{name}" for name in sa.testing.__all__}
    expected |= {f"seqarray.onnx.{name}" for name in sa.onnx.__all__ if name != "backend"}
    expected |= {
        f"seqarray.onnx.backend.{name}"
        for name in ("is_compatible", "prepare", "run_model", "run_node", "supports_device")
    }
    assert entries() == expected


def test_the_table_of_operators_is_what_opset_supports() -> None:
    rows = re.findall(r"^\| (\w+) \| ([\d, ]+) \| \[`(\w+)`\]", PAGES["operators.md"], flags=re.MULTILINE)
    assert {name: tuple(map(int, versions.split(", "))) for name, versions, _ in rows} == sa.opset.supported()
    assert {function for _, _, function in rows} <= set(sa.__all__)


def test_the_pictures_are_what_the_script_draws() -> None:
    spec = importlib.util.spec_from_file_location("docs.pictures.draw", DOCS / "pictures" / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    draw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw)
    stored = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "pictures").glob("*.svg")}
    assert stored == draw.drawn()
    shown = set(re.findall(r"pictures/([\w-]+\.svg)", "".join(PAGES.values())))
    assert shown == set(stored)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_gradients_flow_to_and_from_jagged_tensors() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    values = torch.arange(6.0, requires_grad=True)
    flat, bounds = sa.pack(sa.unpack(values, [0, 3, 3, 4, 6]))
    nested = torch.nested.nested_tensor_from_jagged(flat, torch.asarray(bounds))
    back = sa.unpack((nested * nested).values(), nested.offsets())
    sa.pad_sequence(back).sum().backward()
    torch.testing.assert_close(values.grad, 2 * values.detach())
