"""The command `run`: names of values in .npz files, and limits."""

from itertools import pairwise

import numpy as np
import onnx
import pytest

import seqarray as sa
from seqarray.__main__ import main
from seqarray.testing import assert_arrays_equal, assert_sequences_equal
from tests.onnx.helpers import floats, text_model


@pytest.fixture
def run(tmp_path, capsys):
    """Run a model in text form on arrays; return the exit status, what is written to `out.npz`, and the error."""

    def action(text, arrays, *options, names=None):
        model = text_model(text, opset=20)
        for old, new in (names or {}).items():
            rename(model, old, new)
        onnx.save(model, tmp_path / "model.onnx")
        np.savez(tmp_path / "in.npz", **arrays)
        output = tmp_path / "out.npz"
        output.unlink(missing_ok=True)
        paths = ["--inputs", tmp_path / "in.npz", "--output", output]
        status = main(["run", str(tmp_path / "model.onnx"), *map(str, paths), *options])
        return status, output, capsys.readouterr().err

    return action


def rename(model, old, new):
    """Give a value of the main graph another name."""
    for declared in (*model.graph.input, *model.graph.output):
        declared.name = new if declared.name == old else declared.name
    for node in model.graph.node:
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                names[index] = new if name == old else name


NEGATED = "agraph (float[N] x) => (float[N] y) { y = Neg(x) }"


@pytest.mark.parametrize(
    "name", ["file", "args", "kwds", "allow_pickle", "arr_0", "y.npy", "a/b", "é", "y.0", " ", "y/values"]
)
def test_an_output_may_have_any_name(run, name):
    status, output, error = run(NEGATED, {"x": floats(1, 2)}, names={"y": name})
    assert (status, error) == (0, "")
    np.testing.assert_array_equal(sa.load(output)[name], floats(-1, -2))


@pytest.mark.parametrize("name", ["file", "allow_pickle", "x.npy", "x.1", "x.length", "a/b"])
def test_an_input_may_have_any_name(name, tmp_path, capsys):
    model = text_model(NEGATED)
    rename(model, "x", name)
    onnx.save(model, tmp_path / "model.onnx")
    sa.save(tmp_path / "in.npz", **{name: floats(1, 2)})
    assert main(["run", str(tmp_path / "model.onnx"), "--inputs", str(tmp_path / "in.npz")]) == 0
    assert capsys.readouterr().out == "y: tensor(float) (2,)\n"


def test_values_whose_names_differ_by_the_ending_of_a_file_are_told_apart(run):
    text = "agraph (float[N] x) => (float[N] y, float[N] z) { y = Neg(x) z = Identity(x) }"
    status, output, _ = run(text, {"x": floats(1)}, names={"z": "y.npy"})
    assert status == 0
    stored = sa.load(output)
    assert {name: array.tolist() for name, array in stored.items()} == {"y": [-1], "y.npy": [1]}


TWO = "agraph (float[N] x) => (seq(float[M]) y, float[N] z) { y = SplitToSequence(x) z = Neg(x) }"


@pytest.mark.parametrize("name", ["y.0", "y.length", "y/values", "seqarray.json"])
def test_a_sequence_and_a_tensor_whose_names_are_alike_are_written(run, name):
    status, output, _ = run(TWO, {"x": floats(1, 2)}, names={"z": name})
    assert status == 0
    stored = sa.load(output)
    assert list(stored) == ["y", name]
    assert_sequences_equal(stored["y"], [floats(1), floats(2)])
    assert stored[name].tolist() == [-1, -2]


BOTH = """agraph (seq(float[M]) x, float[N] w) => (float[K] y, float[N] z) {
    y = ConcatFromSequence<axis = 0>(x) z = Neg(w)
}"""


@pytest.mark.parametrize(
    "arrays",
    [
        {"x.0": floats(5), "x.length": np.asarray(1), "x.1": floats(1, 2)},
        {"x.0": floats(5), "x.length": np.asarray(1), "x.7": floats(1, 2)},
        {"x.0": floats(5), "x.7": floats(1, 2)},
    ],
)
def test_a_sequence_and_a_tensor_whose_name_is_that_of_an_element(run, arrays):
    name = next(key for key in arrays if key not in ("x.0", "x.length"))
    status, output, error = run(BOTH, arrays, names={"w": name})
    assert (status, error) == (0, "")
    assert sa.load(output)["y"].tolist() == [5]
    assert sa.load(output)["z"].tolist() == [-1, -2]


def test_inputs_that_cannot_be_told_apart_are_refused(run):
    status, _, error = run(BOTH, {"x.0": floats(5), "x.1": floats(1, 2)}, names={"w": "x.1"})
    assert status == 2
    assert "x.length" in error


KINDS = """agraph (string[N] t, seq(bfloat16[K]) b, seq(int64[K]) e, optional(seq(float[M])) p)
    => (string[N] t2, seq(bfloat16[K]) b2, seq(int64[K]) e2, optional(seq(float[M])) p2) {
    t2 = Identity(t) b2 = Identity(b) e2 = Identity(e) p2 = Identity(p)
}"""


def test_outputs_of_every_kind_are_inputs_again(run, tmp_path, capsys):
    text = np.asarray(["a", "b\0"], dtype=object)
    parts = sa.sequence_empty("bfloat16", xp="numpy")
    parts = sa.sequence_insert(parts, np.asarray([1.5], dtype=parts.dtype))
    values = {"t": text, "b": parts, "e": sa.sequence_empty("int64"), "p": None}
    model = text_model(KINDS, opset=25)
    onnx.save(model, tmp_path / "model.onnx")
    paths = [tmp_path / name for name in ("in.npz", "out.npz", "again.npz")]
    sa.save(paths[0], **values)
    for source, target in pairwise(paths):
        arguments = ["run", tmp_path / "model.onnx", "--inputs", source, "--output", target]
        assert main(list(map(str, arguments))) == 0, capsys.readouterr().err
        stored = {name.removesuffix("2"): value for name, value in sa.load(target).items()}
        assert stored["p"] is None
        assert_arrays_equal(stored["t"], text)
        assert_sequences_equal(stored["b"], parts)
        assert_sequences_equal(stored["e"], values["e"])
        sa.save(target, **stored)


@pytest.mark.parametrize("name", ["x.0", "x.length"])
def test_a_sequence_in_place_of_an_element_is_refused(run, tmp_path, capsys, name):
    onnx.save(text_model(BOTH), tmp_path / "model.onnx")
    sa.save(tmp_path / "in.npz", **{"w": floats(1), "x.0": floats(1), name: [floats(5)]})
    assert main(["run", str(tmp_path / "model.onnx"), "--inputs", str(tmp_path / "in.npz")]) == 2
    assert "x" in capsys.readouterr().err


LOOP = """agraph (int64 n) => (int64 y) <int64 zero = {0}, int64 one = {1}> {
    y = Loop(n, "", zero)<body = b (int64 i, bool c, int64 a) => (bool d, int64 e) { d = Identity(c) e = Add(a, one) }>
}"""


def test_limits_of_the_command(run):
    many = {"n": np.asarray(2000)}
    assert run(LOOP, many)[0] == 0
    assert "max_trip_count" in run(LOOP, many, "--max-trip-count", "100")[2]
    assert "max_bytes" in run(LOOP, many, "--max-bytes", "10")[2]
    assert "max_seconds" in run(LOOP, many, "--max-seconds", "0")[2]
    assert run(LOOP, many, "--max-trip-count", "2e3", "--max-bytes", "none", "--max-seconds", "0.5e2")[0] == 0


def test_the_command_has_limits_by_default_that_can_be_lifted(run):
    text = 'agraph (string[N] x) => (bool[N] y) { y = RegexFullMatch<pattern = "a+">(x) }'
    words, lifted = {"x": np.asarray(["aa"])}, [f"--max-{name}=none" for name in ("bytes", "trip-count", "seconds")]
    assert "RegexFullMatch" in run(text, words)[2]
    assert run(text, words, *lifted)[0] == 0


@pytest.mark.parametrize("value", ["-1", "much", "nan", "inf"])
def test_limits_that_are_no_numbers_are_refused(run, value, capsys):
    with pytest.raises(SystemExit):
        run(LOOP, {"n": np.asarray(1)}, f"--max-bytes={value}")
    error = capsys.readouterr().err
    assert "--max-bytes" in error
    assert f"or none, got '{value}'" in error


def test_lower_takes_a_folder_and_names_inputs_that_are_not_there(tmp_path, capsys):
    onnx.save(text_model(TWO.replace("float[N] x", "float[2] x"), opset=20), tmp_path / "model.onnx")
    target = tmp_path / "out.onnx"
    assert main(["lower", str(tmp_path), "-o", str(target)]) == 0
    assert [value.name for value in onnx.load(target).graph.output] == ["y.0", "y.1", "z"]
    capsys.readouterr()
    assert main(["lower", str(tmp_path), "-o", str(target), "--inputs", "nowhere"]) == 2
    error = capsys.readouterr().err
    assert "--inputs nowhere" in error
    assert error.count("\n") == 1


UNBIND = "agraph (float[N, M] x, int64 n) => (seq(float[]) y) { y = SplitToSequence<keepdims = 0>(x, n) }"


@pytest.mark.parametrize(
    ("options", "shape", "warns"),
    [([], (1, 2), True), (["ignore"], (1, 2), False), (["apply"], (2,), False)],
)
def test_keepdims_beside_a_size_is_what_is_asked_for(run, options, shape, warns):
    chosen = ["--keepdims-with-split", *options] if options else []
    status, output, error = run(UNBIND, {"x": np.ones((3, 2), np.float32), "n": np.asarray(1)}, *chosen)
    assert (status, "keepdims" in error) == (0, warns)
    assert sa.load(output)["y"].shapes == (shape,) * 3


def test_a_fallback_is_the_one_that_is_asked_for(run):
    text = "agraph (float[N] x) => (float[N] y) { y = Softplus(x) }"
    status, output, error = run(text, {"x": floats(0)}, "--fallback", "error")
    assert (status, output.exists()) == (2, False)
    assert "Softplus" in error
    status, output, error = run(text, {"x": floats(0)}, "--fallback", "reference")
    assert (status, error) == (0, "")
    np.testing.assert_allclose(sa.load(output)["y"], np.log(floats(2)))
