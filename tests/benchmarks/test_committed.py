"""The committed results, which the README shows."""

import re

import pytest

from benchmarks import reporting, running
from tests.benchmarks.helpers import RESULTS


def committed():
    return sorted(RESULTS.glob("[cg]pu*.json"))


def test_a_full_run_on_a_cpu_is_committed():
    assert any(not reporting.load(path)["machine"]["gpu"] for path in committed())


@pytest.mark.parametrize("path", committed(), ids=lambda path: path.name)
class TestCommittedResult:
    """What must hold for each result that is kept with the project."""

    def test_it_is_whole_and_names_its_commit(self, path):
        result = reporting.load(path)
        assert result["interrupted"] is False
        assert re.fullmatch("[0-9a-f]{40}", result["machine"]["commit"])  # with a plus sign, files differed from it
        assert "--quick" not in result["machine"]["command"]
        for found in result["results"]:
            assert not [timed for timed in found["contenders"].values() if "error" in timed]

    def test_its_tables_are_those_of_its_json(self, path):
        assert path.with_suffix(".md").read_text() == reporting.markdown(reporting.load(path))

    def test_it_has_the_cases_of_today(self, path):
        result = reporting.load(path)
        on_numpy = {(found["case"], found["size"]) for found in result["results"] if found["backend"] == "numpy"}
        if on_numpy:
            assert on_numpy == {(task.case.name, task.size) for task in running.tasks("*", ["numpy"], quick=False)}

    @pytest.mark.thorough
    def test_report_and_compare_work_on_it(self, path, command, tmp_path):
        pytest.importorskip("matplotlib", reason="matplotlib is not installed")
        assert command("report", path)[0] == 0
        assert command("report", path, "--plot", tmp_path / "plots.svg", "--markdown", tmp_path / "x.md")[0] == 0
        assert command("compare", path, path)[0] == 0

    def test_a_picture_of_it_is_there(self, path):
        assert list(path.parent.glob(f"{path.stem}*.png")) or list(path.parent.glob(f"{path.stem}*.svg"))
