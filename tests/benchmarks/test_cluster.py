"""The benchmark of a cluster with more data than memory, and its kept result."""

import json
import sys

import pytest

from benchmarks import cluster

pytest.importorskip("dask", reason="dask is not installed")


def test_the_kept_result_is_of_more_data_than_memory_and_right():
    kept = json.loads(cluster.RESULTS.read_text(encoding="utf-8"))
    job = kept["job"]
    assert (job["data_bytes"], job["memory_limit_bytes"], job["workers"]) == (4_000_000_000, 1_000_000_000, 2)
    assert (job["right"], job["killed"], len(job["peak_bytes"])) == (True, 0, 2)
    assert 0 < max(job["peak_bytes"]) < job["memory_limit_bytes"]
    assert cluster.RESULTS.with_suffix(".md").read_text(encoding="utf-8") == cluster.report(kept["machine"], job)


def test_the_benchmark_says_what_is_missing(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert cluster.main(["--json", str(tmp_path / "result.json")]) == 2
    assert "needs dask and distributed" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_benchmark_writes_what_it_measured(monkeypatch, capsys, tmp_path):
    pytest.importorskip("distributed", reason="distributed is not installed")
    measured = json.loads(cluster.RESULTS.read_text(encoding="utf-8"))["job"]
    for changes, status in (({}, 0), ({"right": False}, 1), ({"killed": 1}, 1)):
        job = measured | changes
        monkeypatch.setattr(cluster, "measure", lambda megabytes, memory_limit, job=job: job)
        assert cluster.main(["--json", str(tmp_path / "made" / "result.json")]) == status
        written = json.loads((tmp_path / "made" / "result.json").read_text(encoding="utf-8"))
        assert written["job"] == job
        assert "distributed" in written["machine"]["versions"]
        text = (tmp_path / "made" / "result.md").read_text(encoding="utf-8")
        assert ("| total | right |" in text) == job["right"]
        assert f"| workers killed | {job['killed']} |" in text
        assert text in capsys.readouterr().out
