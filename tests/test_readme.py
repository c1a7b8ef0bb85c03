"""The README keeps what it says: examples, tables, links."""

import contextlib
import io
import re
from pathlib import Path

import onnx
import pytest

import seqarray as sa
from benchmarks import reporting
from seqarray.__main__ import main

PROJECT = Path(__file__).parents[1]
README = (PROJECT / "README.md").read_text(encoding="utf-8")
LIBRARIES = (PROJECT / "docs" / "libraries.md").read_text(encoding="utf-8")


def rows_of_table(first_heading, text=README):
    """The rows below the heading of the one table whose first heading this is, as tuples of cells."""
    _, table = text.split(f"\n| {first_heading} |")
    rows = table.partition("\n\n")[0].splitlines()[2:]
    return [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in rows]


def test_python_blocks_print_what_they_show():
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) == 5
    variables = {"__name__": "__main__"}  # a reader pastes one block after the other
    for block in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, "README.md", "exec"), variables)
        shown = re.findall(r"# -> (.*)", block)
        assert shown
        assert printed.getvalue().splitlines() == shown


def test_table_of_operators_is_what_opset_supports():
    rows = rows_of_table("ONNX operator")
    versions = {operator: tuple(map(int, listed.split(", "))) for operator, listed, _ in rows}
    assert versions == sa.opset.supported()
    for _, _, function in rows:
        assert function.strip("`").partition("(")[0] in sa.__all__


#: The element types of the operators, in the order of their numbers in ONNX.
FIFTEEN = (
    "float32 uint8 int8 uint16 int16 int32 int64 string bool float16 float64 uint32 uint64 complex64 complex128".split()
)


def test_table_of_libraries_is_what_they_can_hold(backend):
    (row,) = [row for row in rows_of_table("Library", LIBRARIES) if row[0] == backend.name]
    _, lacks, bfloat16, float8, _ = row
    lacking = {name for name in FIFTEEN if not backend.holds(name)}
    assert lacking == (set() if lacks == "none" else set(lacks.split(", ")))
    assert backend.holds("bfloat16") == (bfloat16 == "yes")
    assert backend.holds("float8_e4m3fn") == (float8 == "yes")


def test_the_main_job_is_one_command_that_fits_a_line():
    (line,) = [line for line in README.splitlines() if line.endswith("seqarray demo")]
    assert line.startswith("python -m venv .venv && .venv/bin/pip install ")
    assert len(line) <= 100


def test_the_model_that_is_named_runs(capsys):
    (line,) = [line for line in README.splitlines() if line.startswith(".venv/bin/seqarray ")]
    command, model = line.removeprefix(".venv/bin/seqarray ").split()
    installed = Path(onnx.__file__).parents[1]
    assert main([command, model.replace(".venv/lib/python3.*/site-packages", str(installed))]) == 0
    assert capsys.readouterr().out.endswith(": equal to the stored output\n")


def test_the_named_extras_exist():
    project = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    extras = re.findall(r'"\.\[(\w+)\]"', README)
    assert set(extras) == {"onnx", "test", "docs", "cuda12", "cuda13"}
    for extra in extras:
        assert re.search(rf"^{extra} = \[", project, flags=re.MULTILINE)


@pytest.mark.parametrize("document", ["README.md", "CHANGELOG.md"])
def test_relative_links_lead_to_files(document):
    links = re.findall(r"\]\(([^)#\s]+)", (PROJECT / document).read_text(encoding="utf-8"))
    assert links
    for link in links:
        assert link.startswith("https://") or (PROJECT / link).is_file(), link


def test_a_newcomer_can_read_it():
    assert len(re.findall(r"\S*\w\S*", README)) <= 1200
    (main_job,) = re.findall(r"^python .* demo$", README, flags=re.MULTILINE)
    assert len(main_job) <= 100


def test_figures_are_taken_from_the_committed_result():
    result = reporting.load(PROJECT / "benchmarks" / "results" / "cpu.json")
    rows = rows_of_table("work")
    assert len(rows) == 11
    other = README.replace(" slower |", " quicker |").replace(
        "8 000 inserts in a loop take 0", "8 000 inserts in a loop take 9"
    )
    other = other.replace(f"| {rows[-1][0]} |", "| something |")
    assert other != README
    assert reporting.with_figures(other, result) == README
