"""The recipes in docs/ragged.md print what they show."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
from pathlib import Path

import pytest

import seqarray as sa

PAGE = (Path(__file__).parents[1] / "docs" / "ragged.md").read_text(encoding="utf-8")
FIRST, *BLOCKS = re.findall(r"## (.*?)\n.*?```python\n(.*?)```", "## first\n" + PAGE, flags=re.DOTALL)


def test_every_block_is_tested() -> None:
    assert len(BLOCKS) + 1 == PAGE.count("```python") == 6


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("block", [code for _, code in BLOCKS], ids=[name for name, _ in BLOCKS])
def test_a_recipe_prints_what_it_shows(block: str) -> None:
    for name in re.findall(r"^import (\w+)", block, flags=re.MULTILINE):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(FIRST[1] + block, "docs/ragged.md", "exec"), {"__name__": "__main__"})
    shown = re.findall(r"# -> (.*)", block)
    assert shown
    # Arrays of pyarrow take several lines.
    assert "".join(printed.getvalue().split()) == "".join("".join(shown).split())


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_gradients_flow_to_and_from_jagged_tensors() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    values = torch.arange(6.0, requires_grad=True)
    flat, bounds = sa.pack(sa.unpack(values, [0, 3, 3, 4, 6]))
    nested = torch.nested.nested_tensor_from_jagged(flat, torch.asarray(bounds))
    back = sa.unpack((nested * nested).values(), nested.offsets())
    sa.pad_sequence(back).sum().backward()
    torch.testing.assert_close(values.grad, 2 * values.detach())
