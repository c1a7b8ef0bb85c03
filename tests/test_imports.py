"""No call imports a module, so one may be made while the interpreter exits or by a child forked at any time."""

import importlib.util
import os

import numpy as np
import pytest

from tests.processes import output_of

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

CALLS = """
import copy, pickle, sys
import numpy as np
{imports}
import seqarray as sa

def array(*shape):
    return {made}(np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape))

a = array(3, 4)
calls = {{
    "ArraySequence": lambda: sa.ArraySequence([a, a]),
    "construct": lambda: sa.sequence_construct(a, a),
    "construct, copied": lambda: sa.sequence_construct(a, array(2), copy=True),
    "empty": lambda: sa.sequence_empty("float64", xp={name!r}),
    "empty of an extension": lambda: sa.sequence_empty("bfloat16", xp={name!r}),
    "length": lambda: sa.sequence_length([a]),
    "at": lambda: sa.sequence_at([a], np.asarray(0)),
    "insert": lambda: sa.sequence_insert([a], a, 0),
    "erase": lambda: sa.sequence_erase([a, a], 0),
    "concat": lambda: sa.concat_from_sequence([a, a], axis=0),
    "stack": lambda: sa.concat_from_sequence([a, a], axis=2, new_axis=1),
    "out": lambda: sa.concat_from_sequence([a, a], axis=0, out=array(6, 4)),
    "a view": lambda: sa.concat_from_sequence(sa.split_to_sequence(a, 1, copy=None), axis=0, copy=None),
    "a large concat": lambda: sa.concat_from_sequence([array(1500, 1000)] * 6, axis=0),
    "a large split": lambda: sa.split_to_sequence(array(3000, 4000), 7, axis=1),
    "split_to_sequence": lambda: sa.split_to_sequence(a, keepdims=0),
    "split": lambda: sa.split(a, [1, 2]),
    "map": lambda: sa.sequence_map([a], body=lambda x: x + 1),
    "opset": lambda: sa.opset.run("SequenceAt", [[a], np.asarray(0)], opset=17),
    "to": lambda: sa.ArraySequence([a]).to(xp="numpy"),
    "to, copied": lambda: sa.ArraySequence([a]).to(copy=True),
    "deepcopy": lambda: copy.deepcopy(sa.ArraySequence([a])),
    "properties": lambda: [getattr(sa.ArraySequence([a]), name) for name in ("nbytes", "nbytes_held", "shapes")],
    "repr": lambda: repr(sa.ArraySequence([a])),
    "testing": lambda: sa.testing.assert_sequences_equal(sa.ArraySequence([a]), [a]),
    "register_pytrees": lambda: sa.register_pytrees(),
    "no array": lambda: sa.sequence_construct("x"),
    "text": lambda: sa.sequence_construct(np.asarray(["a"])),
    "a subclass": lambda: sa.sequence_at([np.zeros(2).view(np.recarray)], 0),
    "a matrix": lambda: sa.sequence_construct(np.matrix([1])),
    "out of range": lambda: sa.sequence_at([a], 9),
    "of two types": lambda: sa.ArraySequence([a, np.zeros(2)]),
}}
"""

EACH = """
for name, call in calls.items():
    before = set(sys.modules)
    try:
        call()
    except (TypeError, ValueError, IndexError):
        pass
    if new := set(sys.modules) - before:
        print(name, *sorted(new))
"""

LIBRARIES = {"numpy": "np.asarray", "torch": "torch.from_numpy"}


def calls_of(name):
    """The beginning of a script that has the calls with arrays of a library; skips the test where it is missing."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    imports = "" if name == "numpy" else f"import {name}"
    return CALLS.format(imports=imports, made=LIBRARIES[name], name=name)


@pytest.mark.parametrize("backend", LIBRARIES)
def test_no_call_imports_a_module(backend):
    calls = calls_of(backend)
    # Each at first and at last: the first call of all may import most.
    assert output_of(calls + EACH) == ""
    assert output_of(calls + "calls = dict(reversed(calls.items()))" + EACH) == ""


def test_importing_the_package_imports_no_other_array_library():
    names = ("torch", "jax", "dask", "cupy", "array_api_strict")
    script = f"import sys, seqarray; print([name for name in {names} if name in sys.modules])"
    assert output_of(script) == "[]"


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="with NumPy 2.0, a call imports while the interpreter exits"
)
def test_a_finalizer_may_make_the_first_call_while_the_interpreter_exits():
    last = """
del calls["testing"]  # numpy.testing imports what it needs
class Last:
    def __del__(self, calls=calls, print=print):
        for name, call in calls.items():
            try:
                call()
            except (TypeError, ValueError, IndexError):
                pass
        print("end")
last = Last()
last.itself = last
"""
    assert output_of(calls_of("numpy") + last) == "end"


@needs_fork
@pytest.mark.parametrize("backend", LIBRARIES)
def test_a_child_forked_while_another_thread_makes_its_first_calls_works(backend):
    """Every turn is a fresh interpreter's first calls, in a child of one that has only imported."""
    calls = calls_of(backend)
    forks = """
import os, random, threading, time, warnings
warnings.simplefilter("ignore")
def some():
    for name in CHOSEN:
        calls[name]()
chance, wrong = random.Random(1), 0
for turn in range(20):
    fresh = os.fork()
    if not fresh:
        thread = threading.Thread(target=some)
        thread.start()
        time.sleep(chance.uniform(0, 2e-3))
        child = os.fork()
        if not child:
            some()
            os._exit(0)
        thread.join()
        os._exit(0 if os.waitpid(child, 0)[1] == 0 else 1)
    wrong += os.waitpid(fresh, 0)[1] != 0
print(wrong)
"""
    # torch itself does not always copy in such a child.
    chosen = ["ArraySequence", "construct", "insert", "erase", "repr"]
    if backend == "numpy":
        chosen += ["concat", "construct, copied", "split", "opset", "a large concat", "testing"]
    forks = forks.replace("CHOSEN", repr(chosen))
    assert output_of(calls + forks) == "0"
