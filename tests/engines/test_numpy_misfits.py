"""NumPy arrays that do not fit together."""

import numpy as np
import pytest

import seqarray as sa
from tests.engines.numpy_arrays import filled

pytestmark = pytest.mark.engine

MISFITS = {
    "rank too low": [(4, 3), (12,)],
    "rank too high": [(4, 3), (4, 3, 1)],
    "rank 0": [(4, 3), ()],
    "another length": [(4, 3), (5, 2)],
    "empty, another length": [(4, 3), (0, 0)],
}


@pytest.mark.parametrize("are_large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("stack", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
@pytest.mark.parametrize("shapes", MISFITS.values(), ids=MISFITS)
def test_shapes_that_do_not_fit_are_refused(request, shapes, axis, stack, count, are_large):
    if are_large:
        request.getfixturevalue("large")
    first, other = (filled(shape, np.dtype(np.float32)) for shape in shapes)
    arrays = [first] * count + [other]
    for some in (arrays, sa.ArraySequence(arrays)):
        with pytest.raises(ValueError, match=r"^concat_from_sequence: ") as caught:
            sa.concat_from_sequence(some, axis=axis, new_axis=int(stack))
        if axis != 2 or stack:
            assert str(shapes[1]) in str(caught.value)
            assert f"element {count} " in str(caught.value)


@pytest.mark.parametrize("are_large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("count", [1, 20])
@pytest.mark.parametrize("axis", [0, 1, -2])
def test_lengths_that_only_add_up_are_not_stacked(request, axis, count, are_large):
    if are_large:
        request.getfixturevalue("large")
    shapes = [(2, 2), (1, 2), (3, 2)] if axis != 1 else [(2, 2), (2, 1), (2, 3)]
    arrays = [filled(shape, np.dtype(np.float32)) for shape in shapes * count]
    for some in (arrays, sa.ArraySequence(arrays)):
        for _ in range(2):
            with pytest.raises(ValueError, match=r"^concat_from_sequence: element 1 has shape \("):
                sa.concat_from_sequence(some, axis=axis, new_axis=1)


@pytest.mark.parametrize("are_large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize(("dtype", "other"), [("f4", "f8"), ("i4", "f4"), ("?", "i1"), ("i8", "u8"), ("f4", "O")])
@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("stack", [False, True])
def test_types_that_differ_are_refused(request, dtype, other, count, stack, are_large):
    if are_large:
        request.getfixturevalue("large")
    arrays = [np.ones((2, 3), dtype)] * count + [np.ones((2, 3), other)]
    for axis in (0, 1):
        with pytest.raises(TypeError, match=f"^concat_from_sequence: element {count} has element type "):
            sa.concat_from_sequence(arrays, axis=axis, new_axis=int(stack))
