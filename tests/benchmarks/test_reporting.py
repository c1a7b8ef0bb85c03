"""Tables of a result: Markdown and the terminal."""

import io
import re

import pytest

from benchmarks import reporting
from benchmarks.cases import CASES, QUESTIONS, question_of
from tests.benchmarks.helpers import RESULTS, entry, record, result_of, shown, table_below


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (4.56e-5, "45.6 us"), (7.8e-8, "78 ns"), (59.0, "59 s")],
)
def test_time_has_a_unit_that_suits_it(seconds, text):
    assert reporting.time_text(seconds) == text


@pytest.mark.parametrize("seconds", [0.9996, 9.996e-4, 9.996e-7])
def test_time_just_below_a_unit_has_no_exponent(seconds):
    assert "e" not in reporting.time_text(seconds)


def test_best_peer_is_neither_seqarray_nor_the_limit_of_the_machine():
    contenders = {
        "seqarray": record(2.0),
        "seqarray, list": record(0.1),
        "seqarray, all taken": record(0.2),
        "memcpy, 1 thread, fresh memory": record(0.01),
        "numpy": record(3.0, 1.0, 3.0),
        "torch": record(2.5, 2.5, 9.0),
        "onnxruntime": {"recycled": True, "error": "ValueError: wrong answer"},
        "onnx-reference": {"recycled": False, "left_out": "predicted to take 41 s"},
    }
    assert reporting.best_peer({"contenders": contenders}) == "torch"


def test_nobody_is_best_where_no_peer_was_timed():
    assert reporting.best_peer({"contenders": {"seqarray": record(1.0), "memcpy, 1 thread": record(1.0)}}) is None


def test_summary_has_the_worst_ratio_first():
    slow = {"seqarray": record(9.0, 9.0), "numpy": record(3.0, 3.0)}
    rows = reporting.summary_rows(result_of(entry("fast"), entry("slow", contenders=slow)))
    assert [(row[0], row[4]) for row in rows] == [("slow", "numpy"), ("fast", "numpy")]
    assert rows[0][3] == "9 s"
    assert rows[0][-1] == "3 (3 to 3)"
    assert rows[1][-1] == "0.5 (0.5 to 0.75)"


def everything_in_one_result():
    """Make a result with all that a report may have to show."""
    contenders = {
        "seqarray, list": record(0.002, 0.002, 0.004, hot=[0.001]),
        "seqarray, construct + join": record(0.003, 0.003, 0.003, hot=[0.001]),
        "numpy": record(0.004, 0.004, 0.004, hot=[0.003], first_call=0.0625),
        "onnxruntime": record(0.008, 0.008, 0.008, recycled=True, first_call=0.125, hot=[0.004]),
        "torch": {"recycled": False, "first_call": 0.5, "error": "ValueError: wrong answer"},
        "onnx-reference": {"recycled": False, "left_out": "predicted to take 41 s"},
        "slow": record(2.5, once=True),
        "memcpy, 1 thread, reused memory": record(0.001, 0.001, 0.001, recycled=True),
    }
    return result_of(
        entry(contenders=contenders),
        entry("concat-ragged", "256 MiB", contenders={}, skipped="needs about 3072 MiB of memory; 100 MiB are free"),
        interrupted=True,
    )


def test_markdown_tells_everything():
    text = reporting.markdown(everything_in_one_result())
    rows = {row["contender"]: row for row in table_below(text, "### 3 x (64, 64), numpy arrays")}
    assert rows["seqarray, list"]["time"] == "2 ms"
    assert rows["numpy"]["time"] == "4 ms"
    assert (rows["seqarray, list"]["hot"], rows["numpy"]["hot"]) == ("1 ms", "3 ms (0.333)")
    assert rows["numpy"]["first call"] == "62.5 ms"
    assert rows["numpy"]["GB/s"] == f"{(3 << 20) / 0.004 / 1e9:.3g}"
    assert rows["numpy"]["list / this"] == "0.5 (0.5 to 0.75)"
    assert rows["numpy"]["construct + join / this"] == "0.75 (0.75 to 0.75)"
    for name in ("seqarray, list", "seqarray, construct + join"):
        assert rows[name]["list / this"] == rows[name]["construct + join / this"] == ""
    assert "seqarray's time / this (quartiles)" not in rows["numpy"]
    assert rows["torch"]["time"] == "ValueError: wrong answer"
    assert rows["onnx-reference"]["time"] == "predicted to take 41 s"
    assert rows["slow"]["time"] == "2.5 s (one call)"
    assert "skipped: needs about 3072 MiB of memory; 100 MiB are free" in text
    assert "interrupted" in text
    best = table_below(text, "worst first")
    assert [(row["case"], row["best other"], row["ratio (quartiles)"]) for row in best] == [
        ("concat-axis0, construct + join", "numpy", "0.75 (0.75 to 0.75)"),
        ("concat-axis0, list", "numpy", "0.5 (0.5 to 0.75)"),
    ]


def test_results_with_joins_of_living_sequences_can_still_be_read():
    old = {"seqarray": record(1.0), "seqarray, list": record(2.0), "numpy": record(4.0)}
    text = reporting.markdown(result_of(entry(contenders=old)))
    assert "a sequence that had been joined before" in text
    rows = {row["contender"]: row for row in table_below(text, "### 3 x (64, 64), numpy arrays")}
    assert rows["numpy"]["seqarray's time / this (quartiles)"] == "0.25 (0.25 to 0.25)"
    assert rows["numpy"]["list / this"] == "0.5 (0.5 to 0.5)"
    assert rows["seqarray, list"]["seqarray's time / this (quartiles)"] == "0.5 (0.5 to 0.5)"
    assert "joined before" not in reporting.markdown(everything_in_one_result())


def test_splits_with_every_chunk_taken_have_a_ratio_of_their_own():
    contenders = {"seqarray": record(1.0), "seqarray, all taken": record(3.0), "numpy": record(2.0)}
    rows = table_below(reporting.markdown(result_of(entry(contenders=contenders))), "### 3 x (64, 64), numpy arrays")
    assert [row["all taken / this"] for row in rows] == ["", "", "1.5 (1.5 to 1.5)"]
    assert "list / this" not in rows[0]


def test_growth_is_told_between_sizes_of_8_times_the_work():
    entries = [
        entry("append", f"{n} inserts", backend, pieces=n, contenders={"seqarray": record(seconds), "slow": slow})
        for backend in ("numpy", "cupy")
        for n, seconds, slow in [
            (1_000, 1.0, record(1.0)),
            (4_000, 3.0, {"recycled": False, "left_out": "predicted"}),
            (8_000, 9.0, record(64.0)),
            (32_000, 30.0, record(1.0)),
        ]
    ]
    text = reporting.markdown(result_of(*entries, entry("at", pieces=8_000)))
    rows = table_below(text, f"## {reporting.GROWTH_TITLE}")
    assert [(row["contender"], row["sizes"], row["time"]) for row in rows if row["arrays"] == "numpy"] == [
        ("seqarray", "1000 inserts -> 8000 inserts", "9 x"),
        ("slow", "1000 inserts -> 8000 inserts", "64 x"),
        ("seqarray", "4000 inserts -> 32000 inserts", "10 x"),
    ]
    assert len(rows) == 6
    assert reporting.GROWTH_TITLE in shown(result_of(*entries))
    assert reporting.GROWTH_TITLE not in reporting.markdown(result_of(entry()))


def test_a_report_says_that_threads_came_to_rest():
    for text in (reporting.markdown(result_of(entry())), shown(result_of(entry()))):
        assert "50 ms" in " ".join(text.split())


def test_results_in_recycled_memory_are_labelled_with_the_first_call_beside_them():
    text = reporting.markdown(everything_in_one_result())
    rows = table_below(text, "### 3 x (64, 64), numpy arrays")
    (recycled,) = [row for row in rows if "recycled" in row["contender"]]
    assert recycled["contender"] == "onnxruntime (recycled memory)"
    assert (recycled["time"], recycled["first call"]) == ("8 ms", "125 ms")


def test_markdown_of_a_whole_run_says_nothing_of_an_interruption():
    assert "interrupted" not in reporting.markdown(result_of(entry()))


def test_columns_that_say_nothing_are_left_out():
    text = reporting.markdown(result_of(entry()))
    assert list(table_below(text, "### 3 x (64, 64), numpy arrays")[0]) == [
        "contender",
        "time",
        "GB/s",
        "seqarray's time / this (quartiles)",
        "first call",
    ]
    for silent in ("after 2 ms", "after 10 ms", "after 50 ms", "device", "hot"):
        assert f" {silent} " not in shown(result_of(entry())).partition("* time")[0]
    busy = {"seqarray": record(1.0, device=0.5, **{"pause 2 ms": [3.0], "pause 50 ms": [4.0]}), "numpy": record(1.0)}
    row, _ = table_below(reporting.markdown(result_of(entry(contenders=busy))), "### 3 x (64, 64), numpy arrays")
    assert [row[column] for column in ("after 2 ms", "after 50 ms", "device")] == ["3 s", "4 s", "500 ms"]


@pytest.mark.parametrize("ours", ["seqarray", "seqarray, list"])
def test_single_calls_after_a_pause_have_ratios_of_their_own(ours):
    def paused(*seconds):
        return record(1.0, **{"pause 2 ms": list(seconds), "pause 50 ms": [seconds[0]]})

    contenders = {ours: paused(1.0, 3.0, 2.0), "numpy": paused(4.0, 4.0, 4.0), "torch": paused(0.5, 1.0, 1.0)}
    text = reporting.markdown(result_of(entry(contenders=contenders)))
    rows = table_below(text, "### 3 x (64, 64), numpy arrays")
    assert [row["after 2 ms"] for row in rows] == ["2 s", "4 s (0.5)", "1 s (2)"]
    assert [row["after 50 ms"] for row in rows] == ["1 s", "4 s (0.25)", "500 ms (2)"]
    assert "after 2 ms, after 50 ms: single calls" in text


def test_single_calls_after_a_pause_have_a_table_where_they_are_the_question():
    def paused(*seconds):
        return record(1.0, **{"pause 2 ms": list(seconds), "pause 50 ms": [seconds[0]]})

    contenders = {
        "seqarray, list": paused(1.0, 3.0, 2.0),
        "seqarray, construct + join": paused(2.0, 6.0, 4.0),
        "numpy": paused(4.0, 4.0, 4.0),
        "torch": paused(0.5, 1.0, 1.0),
    }
    entries = [entry(name, "6 MB", contenders=contenders) for name in ("concat-middle", "concat-axis0")]
    rows = table_below(reporting.markdown(result_of(*entries)), f"## {reporting.SINGLE_TITLE}")
    assert [(row["case"], row["pause"], row["seqarray"], row["ratio (quartiles)"]) for row in rows] == [
        ("concat-middle, list", "2 ms", "2 s", "0.5 (0.375 to 0.625)"),
        ("concat-middle, list", "50 ms", "1 s", "0.25 (0.25 to 0.25)"),
        ("concat-middle, construct + join", "2 ms", "4 s", "1 (0.75 to 1.25)"),
        ("concat-middle, construct + join", "50 ms", "2 s", "0.5 (0.5 to 0.5)"),
    ]
    assert {(row["other"], row["time"]) for row in rows} == {("numpy", "4 s")}
    assert reporting.SINGLE_TITLE in shown(result_of(*entries))
    assert reporting.SINGLE_TITLE not in reporting.markdown(result_of(entry()))


def test_small_results_have_no_bandwidth():
    text = reporting.markdown(result_of(entry(bytes=72)))
    assert "GB/s" not in table_below(text, "### 3 x (64, 64), numpy arrays")[0]


def test_markdown_of_nothing_measured():
    text = reporting.markdown(result_of(interrupted=True))
    assert "interrupted" in text


def test_a_report_says_where_and_with_what_it_was_made():
    text = reporting.markdown(result_of(entry(), gpu="A Device"))
    for told in ("2026-01-02", "0123456789ab", "A Processor", "A Device", "numpy 2.4.6", "torch 2", "3.11.7"):
        assert told in text
    assert "`python -m benchmarks run`" in text
    assert "no GPU" in reporting.markdown(result_of(entry()))


def test_a_report_says_that_files_differed_from_the_commit():
    assert re.search(r"0123456789ab\w*\+", reporting.markdown(result_of(entry(), commit="0123456789ab" * 3 + "0123+")))


def test_a_pipe_in_an_error_does_not_break_the_table():
    contenders = {"seqarray": record(1.0), "torch": {"recycled": False, "error": "TypeError: expected int | float"}}
    text = reporting.markdown(result_of(entry(contenders=contenders)))
    _, row = table_below(text, "### 3 x (64, 64), numpy arrays")
    assert row["time"].replace("\\", "") == "TypeError: expected int | float"


def test_a_terminal_is_shown_the_same():
    result = everything_in_one_result()
    text = shown(result)
    for row in reporting.detail_rows(result["results"][0]):
        line = next(line for line in text.splitlines() if line.startswith(f"  {row[0]} "))
        assert row[1] in line
    for told in ("0.5 (0.5 to 0.75)", "skipped: needs about 3072 MiB", "interrupted"):
        assert told in text


def test_a_terminal_is_shown_ten_lines_then_the_questions_then_the_details():
    text = shown(result_of(entry("concat-axis0"), entry("append", contenders=slower())))
    places = [
        text.index(words)
        for words in (
            reporting.SUMMARY_TITLE,
            "Joining large arrays",
            "what concat-axis0 does: 3 x",
            "Changing a sequence",
            "concat-axis0: what",
        )
    ]
    assert places == sorted(places)


def slower():
    """Make contenders of which seqarray takes three times as long as numpy."""
    return {"seqarray": record(9.0, 9.0), "numpy": record(3.0, 3.0)}


def test_the_summary_counts_what_is_faster_even_and_slower():
    even = {"seqarray": record(0.9, 1.1, 1.3), "numpy": record(1.0, 1.0, 1.0)}
    result = result_of(
        entry("at"), entry("append"), entry("window", contenders=even), entry("push-pop", contenders=slower())
    )
    assert reporting.ten_lines(result) == [
        ("the overhead of a call", "1", "1", "0", "0", "2 times faster", "2 times faster"),
        ("changing a sequence", "3", "1", "1", "1", "about as fast", "3 times slower"),
    ]
    rows = table_below(reporting.markdown(result), f"## {reporting.SUMMARY_TITLE}")
    assert [tuple(row.values()) for row in rows] == reporting.ten_lines(result)


def test_there_are_at_most_ten_questions_and_every_case_is_about_one():
    assert len(QUESTIONS) <= 10
    assert {question_of(case.name) for case in CASES} == set(QUESTIONS)
    assert question_of("a case of an older result") == "others"


@pytest.mark.parametrize(
    ("quartiles", "words"),
    [
        ((0.5, 0.5, 0.75), "2 times faster"),
        ((0.9, 0.95, 1.01), "about as fast"),
        ((1.01, 1.1, 1.2), "1.1 times slower"),
        ((0.001, 0.001, 0.001), "1,000 times faster"),
        ((9.99, 12.34, 20.0), "12 times slower"),
    ],
)
def test_ratios_in_words(quartiles, words):
    assert reporting.ratio_in_words(*quartiles) == words


def test_cases_are_named_in_words():
    contenders = {"seqarray, list": record(1.0), "seqarray, construct + join": record(1.0), "numpy": record(2.0)}
    found = result_of(entry(title="join: and what it shows", contenders=contenders))
    assert sorted(map(reporting.in_words, reporting.comparisons(found))) == [
        "join, and making the sequence: 3 x (64, 64)",
        "join, of a list: 3 x (64, 64)",
    ]


@pytest.mark.parametrize("details", [True, False])
def test_what_a_terminal_is_shown_fits_100_columns(details):
    console = pytest.importorskip("rich.console", reason="rich is not installed")
    file = io.StringIO()
    for path in RESULTS.glob("[cg]pu*.json"):
        reporting.show(reporting.load(path), console.Console(file=file, width=100), details=details)
    lines = file.getvalue().splitlines()
    assert len(lines) > 100
    assert max(map(len, lines)) <= 100


def test_a_terminal_can_be_shown_the_summary_alone():
    text = shown(everything_in_one_result(), details=False)
    assert "2 times faster" in text
    assert "predicted to take 41 s" not in text


def test_square_brackets_are_shown_as_they_are():
    problem = "ValueError: [float] and [/usr] are no shapes [2, 3]"
    contenders = {"seqarray": record(1.0), "torch": {"recycled": False, "error": problem}}
    command = "python -m benchmarks run --cases '[a-s]*'"
    skipped = entry("other", contenders={}, skipped="for [no] reason")
    text = shown(result_of(entry(contenders=contenders), skipped, command=command))
    for told in (problem, command, "for [no] reason"):
        assert told in text
