"""A sequence of dask's arrays is a collection of dask, which is computed at once; a sequence of others is none."""

import pickle
import weakref

import numpy as np
import pytest

import seqarray as sa
from seqarray.testing import assert_sequences_equal
from tests.processes import output_of

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask is not installed")
pytestmark = pytest.mark.usefixtures("synchronous")


@pytest.fixture
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def computations(synchronous):
    """The keys that each computation was asked for."""
    asked = []

    def scheduler(graph, keys, **options):
        asked.append(keys)
        return dask.get(graph, keys, **options)

    with dask.config.set(scheduler=scheduler):
        yield asked


VALUES = np.arange(24.0).reshape(12, 2)
CHUNKS = [VALUES[:5], VALUES[5:5], VALUES[5:12]]


def lazy(copy=True):
    """Chunks of a lazy array, which do not end where its own chunks end."""
    return sa.split_to_sequence(da.from_array(VALUES, chunks=(4, 1)), [5, 0, 7], copy=copy)


WAYS = {
    "compute()": lambda s: s.compute(),
    "dask.compute": lambda s: dask.compute(s)[0],
    "dask.compute of a list": lambda s: dask.compute({"a": [s]}, 1)[0]["a"][0],
    "delayed": lambda s: dask.delayed(lambda x: x)(s).compute(),
    "persist()": lambda s: s.persist().compute(),
    "dask.persist": lambda s: dask.persist(s)[0].compute(),
    "dask.optimize": lambda s: dask.optimize(s)[0].compute(),
    "without optimization": lambda s: s.compute(optimize_graph=False),
    "wait_on": lambda s: dask.graph_manipulation.wait_on(s).compute(),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("copy", [True, None])
def test_the_values_are_those_of_numpy(way, copy):
    import dask.graph_manipulation  # noqa: F401

    for sequence, expected in ((lazy(copy), CHUNKS), (lazy(copy)[::-2], CHUNKS[::-2]), (lazy(copy)[1:2], CHUNKS[1:2])):
        computed = WAYS[way](sequence)
        assert type(computed) is sa.ArraySequence
        assert_sequences_equal(computed, expected)


def test_a_computation_is_one_of_all_elements(computations):
    sequence = sa.split_to_sequence(da.arange(200, chunks=50), 1)
    assert len(sequence.compute()) == 200
    assert len(computations) == 1
    assert len(sequence.persist()) == 200
    assert len(computations) == 2
    dask.compute(sequence, sequence[0], da.ones(3))
    assert len(computations) == 3


def test_dask_knows_which_sequences_are_collections():
    assert dask.is_dask_collection(lazy())
    assert dask.is_dask_collection(sa.sequence_empty(xp="dask"))
    others = [sa.sequence_empty(), sa.sequence_empty(xp="numpy"), sa.ArraySequence([np.ones(2)])]
    for sequence in others:
        assert not dask.is_dask_collection(sequence)
        assert dask.compute(sequence)[0] is sequence
        assert dask.persist(sequence)[0] is sequence
        for method in (sequence.compute, sequence.persist):
            with pytest.raises(TypeError, match=rf"ArraySequence\.{method.__name__}: .* not lazy"):
                method()


def test_an_empty_sequence_computes_to_one_that_takes_elements_of_numpy():
    for empty in (sa.sequence_empty("float64", xp="dask"), lazy()[:0]):
        for computed in (empty.compute(), *dask.compute(empty), dask.delayed(lambda s: s)(empty).compute()):
            assert (len(computed), computed.element_type) == (0, "float64")
            assert len(sa.sequence_insert(computed, np.ones(1))) == 1
        for persisted in (empty.persist(), *dask.persist(empty), *dask.optimize(empty)):
            assert (persisted.namespace, persisted.element_type) == (empty.namespace, "float64")


def test_elements_of_rank_0_and_text_and_unknown_lengths():
    text = np.asarray(["a", "bc"], dtype=object)
    words = [da.from_array(text, chunks=1), da.from_array(text, chunks=2)[1]]
    assert_sequences_equal(sa.ArraySequence(words).compute(), [text, np.asarray("bc", dtype=object)])
    x = da.arange(10, chunks=4)
    sequence = sa.ArraySequence([x[x > 6], x.sum()])
    for computed in (sequence.compute(), sequence.persist().compute()):
        assert_sequences_equal(computed, [np.arange(7, 10), np.asarray(45)])


def test_persisted_elements_hold_their_own_chunks_alone():
    persisted = lazy().persist()
    assert dask.is_dask_collection(persisted)
    assert persisted.shapes == lazy().shapes
    for element in persisted:
        assert len(element.__dask_graph__()) == len(list(dask.core.flatten(element.__dask_keys__())))
    ((key, value), *_) = dict(persisted[0].__dask_graph__()).items()
    assert isinstance(getattr(value, "value", value), np.ndarray), key


def test_elements_of_another_graph_do_not_bring_the_others():
    import dask.graph_manipulation

    first, _, last = dask.graph_manipulation.wait_on(lazy())
    assert first.name in first.dask.layers
    assert last.name not in first.dask.layers


def test_views_are_made_once_to_compute_them(count_calls):
    sequence = sa.split_to_sequence(da.arange(12, chunks=4), 1, copy=None)
    calls = count_calls(da.Array, "__getitem__")
    sequence.compute()
    sequence.persist()
    assert len(calls) == 2 * 12


def test_tokens_are_those_of_the_values():
    token = dask.base.tokenize
    assert token(lazy()) == token(lazy()) == token(pickle.loads(pickle.dumps(lazy())))
    numbers = sa.ArraySequence([np.ones(2), np.zeros(1)])
    split = sa.split_to_sequence(np.asarray([1.0, 1, 0]), [2, 1])
    assert token(numbers) == token(split) == token(split[::-1][::-1])
    different = [
        lazy(),
        lazy()[1:],
        numbers,
        numbers[:1],
        numbers[::-1],
        sa.sequence_empty(),
        sa.sequence_empty("int8"),
    ]
    assert len({token(sequence) for sequence in different}) == len(different)
    with dask.config.set({"tokenize.ensure-deterministic": True}):
        token(lazy(), numbers)


def test_graphs_are_no_larger_than_those_of_the_elements():
    sequence = lazy()
    graph = sequence.__dask_graph__()
    assert set(graph) == {key for element in sequence for key in element.__dask_graph__()}
    assert set(sequence.__dask_layers__()) <= set(graph.layers)
    total = da.Array.__dask_optimize__(graph, sequence.__dask_keys__())
    assert len(total) <= len(graph)


def test_options_are_those_of_dask():
    asked = []

    def scheduler(graph, keys, **options):
        asked.append(options)
        return dask.get(graph, keys)

    lazy().compute(scheduler=scheduler, sevens=7)
    assert asked == [{"sevens": 7}]


def test_sizes_are_those_of_the_memory_that_is_held():
    from dask.sizeof import sizeof

    base = np.zeros(1000)
    split = sa.split_to_sequence(base, 10, copy=None)
    assert 8000 <= sizeof(split) <= 9000
    assert 8000 <= sizeof(split[:1]) <= 9000  # which keeps all of it alive
    assert 8000 <= sizeof(sa.split_to_sequence(base, 500)) <= 9000
    assert 240 <= sizeof(sa.ArraySequence([np.zeros(10) for _ in range(3)])) <= 1000
    assert sizeof(sa.split_to_sequence(da.zeros(10**12, chunks=10**9), 10**11)) < 10_000
    assert sizeof(sa.sequence_empty()) < 1000


def test_a_sequence_of_numpy_asks_nothing_of_dask():
    script = (
        "import sys, numpy as np, seqarray as sa\n"
        "s = sa.ArraySequence([np.ones(1)])\n"
        "assert s.__dask_graph__() is None\n"
        "assert not hasattr(s, '__dask_optimize__')\n"
        "print([name for name in sys.modules if name.startswith('dask')])"
    )
    assert output_of(script) == "[]"


def test_a_collection_is_freed_with_its_last_reference():
    sequence = lazy().persist()
    value = weakref.ref(next(iter(dict(sequence[0].__dask_graph__()).values())))
    shorter = sa.sequence_erase(sequence, 0)
    del sequence
    assert value() is None
    assert len(shorter) == 2
