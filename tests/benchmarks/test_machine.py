"""Facts about the machine, and memory for inputs."""

import numpy as np
import pytest

from benchmarks import machine


@pytest.mark.parametrize(
    "nbytes", [0, 8, machine.OWN_MEMORY_FROM - 8, machine.OWN_MEMORY_FROM, machine.HUGE_PAGES_FROM]
)
def test_large_inputs_lie_in_memory_of_their_own(nbytes):
    array = machine.filled((2, nbytes // 8), 3, np.float32)
    assert (array.shape, array.dtype) == ((2, nbytes // 8), np.float32)
    assert (array == 3).all()
    assert array.flags.writeable
    assert array.flags.c_contiguous
    assert (array.base is not None) == (nbytes >= machine.OWN_MEMORY_FROM)
