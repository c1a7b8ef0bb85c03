"""Recycled memory in the life of a process: its limit, its forks, its end, and its peak."""

import os
import signal
from pathlib import Path

import pytest

from seqarray._engines import limits
from seqarray._engines import pool as hostpool
from tests.engines.pool_arrays import (
    MIB,
)
from tests.processes import output_of, run_python

pytestmark = pytest.mark.engine

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not tell its peak")


POOL = """
import gc, os, sys, threading
import numpy as np
import seqarray as sa
MIB = 1 << 20
def make(value, mib=32):
    return sa.concat_from_sequence([np.full(mib * MIB - 8, value, np.uint8), np.full(8, value, np.uint8)], axis=0)
def address_of(array):
    return array.__array_interface__["data"][0]
"""


@pytest.mark.parametrize(("limit", "kept"), [(0, 0), (33 << 20, 33), (64 << 20, 64), (1 << 40, 97)])
def test_the_environment_sets_the_limit(limit, kept):
    script = f"""{POOL}
results = [make(1, 31), make(2, 33), make(3, 64)]
print(results[0].flags.owndata, sa.host_pool.used_bytes() // MIB)
del results[1]
del results[1]
print(sa.host_pool.total_bytes() // MIB)
"""
    # The larger block comes back last, and does not drive out the other.
    expected = "True 97\n" + str(33 if limit == 64 << 20 else kept)
    assert output_of(script, SEQARRAY_HOST_POOL_LIMIT=str(limit)) == expected


@pytest.mark.parametrize("value", ["much", "1 GiB", "1.5", "-1"])
def test_a_limit_in_the_environment_that_is_none_is_refused(monkeypatch, value):
    monkeypatch.setenv("SEQARRAY_HOST_POOL_LIMIT", value)
    with pytest.raises(ValueError, match=f"^SEQARRAY_HOST_POOL_LIMIT is {value!r}; expected a number of bytes$"):
        hostpool._default_limit()


def test_the_package_cannot_be_imported_with_such_a_limit():
    done = run_python("import seqarray", SEQARRAY_HOST_POOL_LIMIT="much")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ValueError: SEQARRAY_HOST_POOL_LIMIT is 'much'")


@pytest.mark.parametrize(
    ("pages", "expected"), [((1 << 30) // 4096, 128 * MIB), ((8 << 30) // 4096, 1 << 30), ((1 << 40) // 4096, 1 << 30)]
)
def test_the_default_limit_is_an_eighth_of_memory_or_1_gib(monkeypatch, pages, expected):
    monkeypatch.delenv("SEQARRAY_HOST_POOL_LIMIT", raising=False)
    values = {"SC_PAGE_SIZE": 4096, "SC_PAGESIZE": 4096, "SC_PHYS_PAGES": pages}
    monkeypatch.setattr(os, "sysconf", values.__getitem__, raising=False)
    monkeypatch.setattr(limits, "memory_limit", lambda: float("inf"))
    assert hostpool._default_limit() == expected


@pytest.mark.parametrize(("limit", "expected"), [(512 * MIB, 64 * MIB), (1 << 40, 1 << 30), (float("inf"), 1 << 30)])
def test_the_default_limit_is_an_eighth_of_what_the_control_group_allows(monkeypatch, limit, expected):
    monkeypatch.delenv("SEQARRAY_HOST_POOL_LIMIT", raising=False)
    values = {"SC_PAGE_SIZE": 4096, "SC_PAGESIZE": 4096, "SC_PHYS_PAGES": (1 << 40) // 4096}
    monkeypatch.setattr(os, "sysconf", values.__getitem__, raising=False)
    monkeypatch.setattr(limits, "memory_limit", lambda: limit)
    assert hostpool._default_limit() == expected


def test_a_system_that_does_not_tell_its_memory_has_a_limit_too(monkeypatch):
    monkeypatch.delenv("SEQARRAY_HOST_POOL_LIMIT", raising=False)
    monkeypatch.delattr(os, "sysconf", raising=False)
    assert 0 < hostpool._default_limit() <= 1 << 30


ENDINGS = {
    "a result": "result = make(1)",
    "an idle block": "make(1)",
    "a view": "view = make(1)[5:]",
    "a cycle": """
class Node: pass
node = Node()
node.itself, node.array = node, make(1)
""",
    "an object with a finalizer": """
class Last:
    def __del__(self):
        assert self.array[-1] == 1
last = Last()
last.array, last.itself = make(1), last
""",
    "a module": "sys.modules['somewhere'] = make(1); sys.results = [make(2)]",
    "a thread": """
def hold():
    result = make(1)
    held.set()
    threading.Event().wait()
held = threading.Event()
threading.Thread(target=hold, daemon=True).start()
held.wait()
""",
    "threads that make more": """
def keep_making():
    while True:
        make(1)
for _ in range(3):
    threading.Thread(target=keep_making, daemon=True).start()
make(2)
""",
    "an exit handler": """
import atexit
result = make(1)
atexit.register(lambda: make(2) is result)
""",
    "a pool that has lost its module": "result = make(1); del sys.modules['seqarray._engines.pool']; del sa",
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_the_interpreter_exits_with_live_results(ending):
    assert output_of(f"{POOL}{ending}\nprint('end')") == "end"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
def test_used_bytes_are_right_after_calls_that_a_signal_interrupts():
    script = f"""{POOL}
import random, signal
class Timeout(Exception): pass
def time_out(*_): raise Timeout
signal.signal(signal.SIGALRM, time_out)
sys.unraisablehook = lambda *_: None  # Python drops what is raised within a finalizer
sa.set_num_threads(2)
parts = [np.ones(16 * MIB, np.uint8) for _ in range(2)]
sa.concat_from_sequence(parts, axis=0)
chance, interrupted = random.Random(1), 0
for _ in range(400):
    result = None
    try:
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, chance.choice([2e-4, 1e-2])))
        result = sa.concat_from_sequence(parts, axis=0)
        result = None
        result = sa.concat_from_sequence(parts, axis=0)
        result = None
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Timeout:
        interrupted += 1
result = None
print(interrupted > 100, sa.host_pool.used_bytes(), sa.host_pool.total_bytes() <= 64 * MIB)
"""
    assert output_of(script) == "True 0 True"


@needs_fork
def test_results_survive_a_fork():
    script = f"""{POOL}
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # newer versions warn about fork in a process with threads
idle, kept, dropped = make(1), make(2), make(3)
idle_address, dropped_address = address_of(idle), address_of(dropped)
del idle
gc.collect()
used = sa.host_pool.used_bytes()

def works():
    global dropped
    right = sa.host_pool.used_bytes() == used and (dropped == 3).all()
    del dropped
    first, second, third = make(4), make(5), make(6)
    right = right and {{address_of(first), address_of(second)}} == {{idle_address, dropped_address}}
    right = right and address_of(third) not in (idle_address, dropped_address, address_of(kept))
    right = right and (kept == 2).all() and (first == 4).all() and (second == 5).all() and (third == 6).all()
    sa.host_pool.free_all_blocks()
    del first, second, third
    return right and sa.host_pool.used_bytes() == used // 2

child = os.fork()
if not child:
    os._exit(0 if works() else 1)
first = works()
print(os.waitpid(child, 0)[1], first, (kept == 2).all())
"""
    assert output_of(script) == "0 True True"


@needs_fork
def test_a_child_forked_while_threads_make_and_drop_results_works():
    script = f"""{POOL}
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
stop = threading.Event()
def keep_making(value):
    while not stop.is_set():
        assert (make(value) == value).all()
threads = [threading.Thread(target=keep_making, args=(value,)) for value in (1, 2)]
for thread in threads:
    thread.start()
for _ in range(3):
    child = os.fork()
    if not child:
        sa.host_pool.free_all_blocks()
        first, second = make(8), make(9)
        os._exit(0 if (first == 8).all() and (second == 9).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads:
    thread.join()
print(sa.host_pool.used_bytes())
"""
    assert output_of(script) == "0"


LARGE_CALLS = {
    "concat": "sa.concat_from_sequence(list(np.split(x, 16)), axis=0)",
    "concat along columns": "sa.concat_from_sequence(list(np.split(x, 4, axis=1)), axis=1)",
    "stack": "sa.concat_from_sequence(list(np.split(x, 16)), axis=0, new_axis=1)",
    "split": "sa.split_to_sequence(x, 4)",
    "split along columns": "sa.split_to_sequence(x, 256, axis=1)",
    "split along columns into sizes": "sa.split_to_sequence(x, [1000, 24, 1024], axis=1)",
}


@pytest.fixture(scope="module")
def peaks() -> dict[str, int]:
    """The most memory that a process holds whose first call is one of those above, or None."""
    # What getrusage tells is at least that of the process that started it; this is of the child alone.
    script = f"""
import os
import numpy as np
import seqarray as sa
x = np.ones((16384, 2048), np.float32)
for call in {["None", *LARGE_CALLS.values()]}:
    child = os.fork()
    if not child:
        result = eval(call)
        print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
    kibibytes = map(int, output_of(script).splitlines())
    return {name: number << 10 for name, number in zip(["None", *LARGE_CALLS], kibibytes, strict=True)}


@needs_proc
@needs_fork
@pytest.mark.parametrize("call", LARGE_CALLS)
def test_a_fresh_process_holds_little_more_than_the_result_at_its_peak(peaks, call):
    result = 128 * MIB
    assert result // 2 < peaks[call] - peaks["None"] <= result + 16 * MIB
