"""Threads of the NumPy engine in the life of a process: its forks and its end."""

import os
from functools import partial

import pytest

from tests import processes

#: Seconds after which a test fails instead of waiting for ever.
PATIENCE = 30

output_of = partial(processes.output_of, patience=PATIENCE)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

LARGE = """
import os, sys, threading
import numpy as np
import seqarray as sa
sa.set_num_threads(3)
arrays = [np.full((1 << 20,), i, np.float32) for i in range(3)]
expected = np.concatenate(arrays)
def joins():
    return sa.concat_from_sequence(arrays, axis=0).tobytes() == expected.tobytes()
"""


@needs_fork
@pytest.mark.parametrize("began", [True, False], ids=["after use", "before use"])
def test_a_forked_child_works_and_so_does_its_parent(began):
    script = f"""{LARGE}
import warnings
from seqarray._engines import threads as hostthreads
warnings.simplefilter("ignore", DeprecationWarning)  # newer versions warn about fork in a process with threads
if {began}:
    assert joins()

def meet():
    barrier = threading.Barrier(3)
    hostthreads.share([lambda: barrier.wait({PATIENCE / 2})] * 3)

child = os.fork()
if not child:
    right = hostthreads.usable_threads() == 1 and hostthreads.usable_threads() == 3
    right = right and joins() and joins()
    meet()
    grandchild = os.fork()
    if not grandchild:
        right = hostthreads.usable_threads() == 1 and joins() and joins()
        meet()
        os._exit(0 if right else 1)
    right = right and os.waitpid(grandchild, 0)[1] == 0 and joins()
    os._exit(0 if right else 1)
assert hostthreads.usable_threads() == 3
meet()
print(os.waitpid(child, 0)[1], joins())
"""
    assert output_of(script) == "0 True"


@needs_fork
def test_a_child_forked_while_other_threads_share_works():
    script = f"""{LARGE}
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
stop = threading.Event()
def keep_joining():
    while not stop.is_set():
        assert joins()
callers = [threading.Thread(target=keep_joining) for _ in range(2)]
for caller in callers:
    caller.start()
for _ in range(5):
    child = os.fork()
    if not child:
        os._exit(0 if joins() and joins() else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for caller in callers:
    caller.join()
print("right")
"""
    assert output_of(script) == "right"


ENDINGS = {
    "with idle workers": "joins()",
    "without workers": "",
    "in the middle of a call": """
from seqarray._engines import threads as hostthreads
begun = threading.Event()
def job():
    begun.set()
    threading.Event().wait()
threading.Thread(target=hostthreads.share, args=([job, job, job],), daemon=True).start()
begun.wait()
""",
    "in the middle of copying": """
def keep_joining():
    while True:
        joins()
for _ in range(3):
    threading.Thread(target=keep_joining, daemon=True).start()
joins()
""",
}

CALLS_AT_EXIT = {
    "in an exit handler": """
import atexit
atexit.register(lambda: print("at exit:", joins()))
""",
    "in a finalizer": """
class Last:
    def __del__(self, joins=joins, print=print):
        print("at exit:", joins())
last = Last()
last.itself = last
""",
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_the_interpreter_exits(ending):
    assert output_of(f"{LARGE}{ending}\nprint('end')") == "end"


@pytest.mark.parametrize("call", CALLS_AT_EXIT.values(), ids=CALLS_AT_EXIT)
@pytest.mark.parametrize("began", [True, False], ids=["after use", "before use"])
def test_a_call_while_the_interpreter_exits_works(call, began):
    # Before use no worker has been started, and the interpreter imports nothing any more.
    use = "joins()" if began else ""
    assert output_of(f"{LARGE}{use}\n{call}\nprint('end')").splitlines() == ["end", "at exit: True"]
