"""The public names: which there are, their signatures, their documentation, and what importing them loads."""

import importlib
import inspect
import json
import subprocess
import sys
from itertools import pairwise

import pytest

import seqarray as sa

OPERATORS = {
    "sequence_construct": "(*inputs, copy=None)",
    "sequence_empty": "(dtype='float32', *, xp=None, device=None)",
    "sequence_at": "(sequence, /, position, *, copy=True)",
    "sequence_insert": "(sequence, /, tensor, position=None)",
    "sequence_erase": "(sequence, /, position=None)",
    "sequence_length": "(sequence, /)",
    "concat_from_sequence": "(sequence, /, *, axis, new_axis=0, out=None, copy=True)",
    "split_to_sequence": "(x, /, split=None, *, axis=0, keepdims=1, copy=True)",
    "split": "(x, /, split=None, *, axis=0, num_outputs=None, copy=True)",
    "sequence_map": "(sequence, /, *additional, body=None, n_outputs=None, dtypes=None)",
}

RAGGED = {
    "concat_each": "(*sequences, axis=0)",
    "pack": "(sequence, /, *, axis=0, copy=None)",
    "pad_sequence": "(sequence, /, *, axis=0, fill_value=0, length=None, side='right')",
    "sequence_mask": "(lengths, /, *, length=None, xp=None, device=None)",
    "unpack": "(values, offsets, /, *, axis=0, copy=None)",
    "unpad_sequence": "(array, lengths, /, *, axis=0, side='right')",
}

SIGNATURES = (
    OPERATORS
    | RAGGED
    | {
        "ArraySequence": "(arrays=(), /, *, dtype=None, xp=None, device=None)",
        "load": "(path, /)",
        "register_pytrees": "()",
        "save": "(path, /, **values)",
        "set_num_threads": "(n)",
        "get_num_threads": "()",
        "opset.run": "(op_type, inputs, attributes=None, *, opset, n_outputs=1, copy=True, xp=None, device=None)",
        "opset.supported": "()",
        "testing.assert_sequences_equal": "(actual, expected)",
    }
)

#: The operator of ONNX that each function is, and the versions of the standard since which there is one.
ONNX_OPERATORS = {
    "sequence_construct": ("SequenceConstruct", "11"),
    "sequence_empty": ("SequenceEmpty", "11"),
    "sequence_at": ("SequenceAt", "11"),
    "sequence_insert": ("SequenceInsert", "11"),
    "sequence_erase": ("SequenceErase", "11"),
    "sequence_length": ("SequenceLength", "11"),
    "concat_from_sequence": ("ConcatFromSequence", "11"),
    "split_to_sequence": ("SplitToSequence", "11"),
    "split": ("Split", "1"),
    "sequence_map": ("SequenceMap", "17"),
}

MODULES = ["seqarray", "seqarray.opset", "seqarray.testing", "seqarray._operators"]


def public(name):
    target = sa
    for part in name.split("."):
        target = getattr(target, part)
    return target


def documented():
    """Every public function and class, and the public members of the class, by name."""
    for name in SIGNATURES:
        yield name
    for name, member in vars(sa.ArraySequence).items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            yield f"ArraySequence.{name}"
    for name in sa.testing.__all__:
        if f"testing.{name}" not in SIGNATURES:
            yield f"testing.{name}"


def sections_of(docstring):
    """The headings of a numpydoc docstring."""
    lines = inspect.cleandoc(docstring).splitlines()
    return {line for line, below in pairwise(lines) if line and set(below) == {"-"} and len(below) == len(line)}


def test_the_public_names_are_these_and_no_others():
    others = ["ArraySequence", "get_num_threads", "host_pool", "load", "opset", "register_pytrees", "save"]
    assert sorted(sa.__all__) == sorted([*OPERATORS, *RAGGED, *others, "set_num_threads", "testing"])


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_exists_and_none_is_named_twice(module):
    module = importlib.import_module(module)
    names = list(getattr(module, "__all__", ()))
    assert len(set(names)) == len(names)
    assert all(hasattr(module, name) for name in names)


def test_nothing_else_is_left_lying_in_the_package():
    names = {name for name in vars(sa) if not name.startswith("_")}
    assert names - {"onnx"} == set(sa.__all__)
    assert isinstance(sa.__version__, str)
    listed = {name for name in dir(sa) if not name.startswith("__")}
    assert listed == {*sa.__all__, "onnx"}
    assert {name for name in dir(sa.onnx) if not name.startswith("__")} == set(sa.onnx.__all__)
    assert sa.onnx.__all__ == ["Program", "backend", "from_proto", "lower", "prepare", "to_proto"]


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name):
    signature = inspect.signature(public(name))
    bare = signature.replace(
        parameters=[
            parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()
        ],
        return_annotation=inspect.Signature.empty,
    )
    assert str(bare) == SIGNATURES[name]


@pytest.mark.parametrize("name", SIGNATURES)
def test_everything_is_annotated(name):
    signature = inspect.signature(public(name))
    assert all(p.annotation is not inspect.Parameter.empty for p in signature.parameters.values())
    assert inspect.isclass(public(name)) or signature.return_annotation is not inspect.Signature.empty


@pytest.mark.parametrize("name", sorted(set(documented())))
def test_docstrings_begin_with_a_sentence(name):
    docstring = public(name).__doc__
    assert docstring
    first = inspect.cleandoc(docstring).splitlines()[0]
    assert first.rstrip().endswith((".", ":"))
    assert len(first) <= 120


@pytest.mark.parametrize("name", SIGNATURES)
def test_docstrings_have_an_example(name):
    docstring = public(name).__doc__
    assert "Examples" in sections_of(docstring)
    assert ">>> " in docstring


@pytest.mark.parametrize("name", OPERATORS)
def test_docstrings_of_operators_have_every_section(name):
    assert {"Parameters", "Returns", "Notes", "Examples"} <= sections_of(public(name).__doc__)
    if name not in ("sequence_length",):
        assert "Raises" in sections_of(public(name).__doc__)


@pytest.mark.parametrize("name", ONNX_OPERATORS)
def test_notes_name_the_operator_of_onnx(name):
    operator, version = ONNX_OPERATORS[name]
    notes = inspect.cleandoc(public(name).__doc__).partition("Notes\n-----\n")[2].partition("\nExamples\n")[0]
    assert f"ONNX operator {operator}, since opset {version}" in notes


@pytest.mark.parametrize("name", SIGNATURES)
def test_every_parameter_is_documented(name):
    docstring = inspect.cleandoc(public(name).__doc__)
    described = docstring.partition("Parameters\n")[2].partition("\nReturns\n")[0]
    for parameter in inspect.signature(public(name)).parameters.values():
        assert any(
            parameter.name in line.partition(" : ")[0].replace("*", "").split(", ")
            for line in described.splitlines()
            if not line.startswith(" ")
        ), f"{parameter.name} is not described"


def test_importing_loads_no_array_library_but_numpy():
    program = "import sys, json, seqarray; print(json.dumps(sorted({n.partition('.')[0] for n in sys.modules})))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert {"numpy", "array_api_compat", "seqarray"} <= loaded
    strangers = {"cupy", "torch", "jax", "dask", "onnx", "onnxruntime", "array_api_strict", "pytest"}
    assert loaded & strangers == set()


def test_using_it_on_numpy_loads_no_other_array_library():
    program = """
import sys, numpy as np, seqarray as sa
s = sa.split_to_sequence(np.arange(6.0), 2)
s = sa.sequence_erase(sa.sequence_insert(s, np.ones(1), 0))
sa.concat_from_sequence(s, axis=0), sa.sequence_length(s), sa.sequence_map(s, body=lambda x: x), sa.register_pytrees()
sa.sequence_insert(sa.sequence_empty("float64"), np.ones(1)), repr(s), sa.sequence_empty("string", xp="numpy")
sa.opset.run("SequenceAt", [s, np.asarray(0)], opset=17)
print([name for name in ("cupy", "torch", "jax", "dask", "onnx", "array_api_strict") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_type_information_is_marked():
    from importlib.resources import files

    assert (files("seqarray") / "py.typed").is_file()
