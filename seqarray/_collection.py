"""What dask asks of its collections: a sequence of its arrays is one, and others are none.

Computing a sequence is one computation of one graph, whatever the number of elements.  Dask is imported by then: its
arrays cannot exist before, and nothing but dask asks for a token.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from seqarray._blocks import Blocks, to_arrays
from seqarray._kind import Kind


class Collection:
    """The methods that dask looks for, and two for users."""

    __slots__ = ()

    _kind: Kind

    @property
    @abstractmethod
    def _blocks(self) -> Blocks:
        """The blocks of the elements."""

    def compute(self, **options: Any) -> Any:
        """Return a sequence of what the lazy elements are when computed, in one computation.

        Parameters
        ----------
        **options
            Those of `dask.compute`, such as ``scheduler="threads"``.

        Returns
        -------
        ArraySequence
            Of NumPy arrays, or whatever the chunks are.

        Raises
        ------
        TypeError
            If the elements are not lazy arrays.
        """
        (computed,) = _module("dask").compute(self._sliced("compute"), traverse=False, **options)
        return computed

    def persist(self, **options: Any) -> Any:
        """Return a sequence of lazy elements whose chunks are computed and held, on a cluster by its workers.

        Parameters
        ----------
        **options
            Those of `dask.persist`.

        Returns
        -------
        ArraySequence
            On a cluster at once, while the workers compute.

        Raises
        ------
        TypeError
            If the elements are not lazy arrays.
        """
        (persisted,) = _module("dask").persist(self._sliced("persist"), traverse=False, **options)
        return persisted

    def _sliced(self, method: str) -> Any:
        """Return the sequence with all views made, which dask asks for several times."""
        elements = list(to_arrays(self._blocks))
        library = self._kind.library
        if library is None or library.task_graph(elements) is None:
            raise TypeError(f"ArraySequence.{method}: the elements are not lazy arrays of dask; they have their values")
        sequence_type: Any = type(self)
        return sequence_type(elements) if elements else self

    def __dask_graph__(self) -> Any:
        """Return the graph of all elements; None, which says that this is no collection, where they have none."""
        library = self._kind.library
        return None if library is None else library.task_graph(to_arrays(self._blocks))

    def __dask_keys__(self) -> list[Any]:
        return [element.__dask_keys__() for element in to_arrays(self._blocks)]

    def __dask_layers__(self) -> tuple[str, ...]:
        return tuple([layer for element in to_arrays(self._blocks) for layer in element.__dask_layers__()])

    def __dask_postcompute__(self) -> tuple[Callable[..., Any], tuple[()]]:
        kind = self._kind
        finalize = [element.__dask_postcompute__()[0] for element in to_arrays(self._blocks[:1])[:1]]
        return partial(_computed, type(self), kind.element_type, kind.dtype, finalize), ()

    def __dask_postpersist__(self) -> tuple[Callable[..., Any], tuple[()]]:
        return partial(_rebuilt, self), ()

    def __dask_tokenize__(self) -> Any:
        kind = self._kind
        library = None if kind.library is None else kind.library.name
        return _module("dask.base").normalize_token(
            ("seqarray.ArraySequence", kind.element_type, library, str(kind.device), list(to_arrays(self._blocks)))
        )

    @property
    def __dask_optimize__(self) -> Any:
        return _module("dask.array").Array.__dask_optimize__

    @property
    def __dask_scheduler__(self) -> Any:
        return _module("dask.array").Array.__dask_scheduler__


def _module(name: str) -> Any:
    """Return a module of dask; where it is not imported, there is nothing that asks."""
    if name not in sys.modules:
        raise AttributeError(f"{name} has not been imported")
    return sys.modules[name]


def _computed(
    sequence_type: Any, element_type: str, dtype: Any, finalize: Sequence[Callable[[Any], Any]], results: Sequence[Any]
) -> Any:
    """Return the sequence of the elements of which the chunks have been computed."""
    if not results:
        return sequence_type((), dtype=element_type)
    elements = [finalize[0](result) for result in results]
    # A text of rank 0 is computed as a str.
    return sequence_type([np.asarray(x, dtype=dtype) if not hasattr(x, "dtype") else x for x in elements])


def _rebuilt(sequence: Any, graph: Any, *, rename: Mapping[str, str] | None = None) -> Any:
    """Return the sequence of the same elements in another graph, of which each element holds the part that it needs."""
    elements = []
    for element in sequence:
        rebuild, state = element.__dask_postpersist__()
        part = _part_of(graph, rebuild(graph, *state, rename=rename))
        elements.append(rebuild(part, *state, rename=rename))
    return type(sequence)(elements) if elements else sequence


def _part_of(graph: Any, array: Any) -> Any:
    """Return the part of a graph that an array needs; in a graph of layers, whole ones, as dask itself keeps them."""
    if not hasattr(graph, "layers"):
        keys = set(_module("dask.core").flatten(array.__dask_keys__()))
        return _module("dask.optimization").cull(graph, keys)[0]
    names = array.__dask_layers__()
    return graph.cull_layers(names) if graph.layers.keys() >= {*names} else graph
