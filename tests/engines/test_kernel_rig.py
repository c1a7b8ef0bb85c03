"""The copy kernel and its launcher, run on the CPU with every access checked."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqarray._engines.launcher import EQUAL, RAGGED, UNIFORM, Launcher, kernel_source, launcher_for
from tests.cupy_host.kernel_rig import (
    AccessError,
    Arena,
    HostCuda,
    HostKernels,
    SmallLauncher,
    all_variants,
)

cupy = pytest.importorskip("cupy", reason="cupy is not installed")
if shutil.which("g++") is None:
    pytest.skip("the kernel rig needs g++", allow_module_level=True)

pytestmark = pytest.mark.engine

#: Element types by size; CuPy holds them all.
DTYPES = ["bool", "float16", "V3", "float32", "V6", "complex64", "V12", "complex128"]
LAUNCHERS = [SmallLauncher, Launcher]


@pytest.fixture(scope="session")
def kernels(kept_folder: Callable[[str], Path]) -> dict[type[Launcher], HostKernels]:
    """The kernel compiled for each of the launchers."""
    folder = kept_folder("kernel_rig")
    compiled = {launcher: HostKernels(folder) for launcher in LAUNCHERS}
    for launcher in LAUNCHERS:
        compiled[launcher].compile(all_variants(launcher), launcher.block_threads)
    return compiled


class Rig:
    """An arena, and launchers that use it."""

    def __init__(self, kernels: dict[type[Launcher], HostKernels], nbytes: int) -> None:
        self.kernels = kernels
        self.arena = Arena(nbytes)

    def launcher(self, kind: type[Launcher] = SmallLauncher) -> tuple[Launcher, HostCuda]:
        """A fresh launcher, and what it launches on."""
        compiled = next(self.kernels[parent] for parent in kind.__mro__ if parent in self.kernels)
        cuda = HostCuda(self.arena, compiled)
        return kind(cuda), cuda


@pytest.fixture
def rig(kernels: dict[type[Launcher], HostKernels], request: pytest.FixtureRequest) -> Iterator[Rig]:
    """Launchers whose device is an arena, from which CuPy allocates too."""
    rig = Rig(kernels, getattr(request, "param", 256 << 20))
    with cupy.cuda.using_allocator(rig.arena.malloc):
        yield rig


huge = pytest.mark.parametrize("rig", [20 << 30], indirect=True, ids=["20 GiB, untouched"])


def geometry(array: Any, axis: int) -> tuple[int, int, int | None]:
    """Rows, bytes in a row, and bytes from one row to the next (None: no gaps) of an array seen as a matrix."""
    rows = prod(array.shape[:axis])
    width = prod(array.shape[axis:]) * array.dtype.itemsize
    steps = [step for step, length in zip(array.strides[:axis], array.shape[:axis], strict=True) if length > 1]
    stride = steps[-1] if steps else width
    return rows, width, None if stride == width else stride


class Case:
    """A random join or split, as arrays."""

    def __init__(self, rng: np.random.Generator, arena: Arena, *, most: int, longest: int) -> None:
        self.rng = rng
        self.arena = arena
        self.dtype = np.dtype(DTYPES[rng.integers(len(DTYPES))])
        self.before = tuple(rng.integers(1, 5, rng.integers(0, 3)))
        self.after = tuple(rng.integers(1, 5, rng.integers(0, 2)))
        self.axis = len(self.before)
        self.scatter = bool(rng.integers(2))
        self.layout = int(rng.choice([UNIFORM, EQUAL, RAGGED]))
        # Sizes, gaps and addresses are often multiples of something, so that wide vectors can be used.
        self.grain = int(rng.choice([1, 1, 2, 4, 16]))
        self.alignment = int(rng.choice([16, 16, 8, 4, 2, 1]))
        count = int(rng.integers(1, 1 + rng.choice([1, 3, 12, most, most])))
        step = prod(self.shape_of(self.grain)) * self.dtype.itemsize
        longest = max(2, min(int(rng.choice([2, 4, longest])), 200_000 // (count * step)))
        if self.layout == RAGGED:
            sizes = rng.integers(0, longest, count)
        else:
            sizes = np.full(count, rng.integers(1, longest))
            if self.layout == UNIFORM and rng.random() < 0.5:
                sizes[-1] = rng.integers(1, sizes[-1] + 1)  # the last one may be narrower
        self.sizes = (self.grain * sizes).tolist()
        self.shape = self.shape_of(sum(self.sizes))

    def shape_of(self, size: int) -> tuple[int, ...]:
        return (*self.before, size, *self.after)

    def values(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        raw = self.rng.integers(0, 256, (*shape, self.dtype.itemsize), np.uint8)
        return raw.view(f"V{self.dtype.itemsize}").reshape(shape)

    def device_array(self, shape: tuple[int, ...], *, readable: bool) -> Any:
        """A CuPy array with random values; at any address, and with gaps between its rows or rows in reverse."""
        rng, axis = self.rng, self.axis
        offset = self.alignment * int(rng.integers(0, 3))
        gap = self.grain * int(rng.choice([0, 0, 0, 1, 2]))
        wide = self.arena.array(self.values((*shape[:axis], shape[axis] + gap, *shape[axis + 1 :])), offset)
        array = wide[(slice(None),) * axis + (slice(gap // 2, gap // 2 + shape[axis]),)]
        if readable and rng.random() < 0.1:
            return array[(slice(None, None, -1),) * axis]
        if readable and rng.random() < 0.05:
            one = array[(slice(0, 1),) * axis]
            return cupy.ndarray(array.shape, array.dtype, one.data, (0,) * axis + array.strides[axis:])
        return array

    def chunks_of(self, array: Any) -> list[Any]:
        """Slices of an array along the axis."""
        bounds = np.cumsum([0, *self.sizes]).tolist()
        return [array[(slice(None),) * self.axis + (slice(*pair),)] for pair in itertools.pairwise(bounds)]

    def packed(self, base: Any) -> list[Any]:
        """The chunks that follow one another in a 1-D base."""
        step = prod(self.before) * prod(self.after)
        bounds = (np.cumsum([0, *self.sizes]) * step).tolist()
        pairs = zip(itertools.pairwise(bounds), self.sizes, strict=True)
        return [base[start:stop].reshape(self.shape_of(size)) for (start, stop), size in pairs]

    def run(self, launcher: Launcher, cuda: HostCuda) -> None:
        """Let the launcher do it, and compare with NumPy."""
        rng, arena, axis = self.rng, self.arena, self.axis
        matrix = self.device_array(self.shape, readable=self.scatter)
        if self.layout == UNIFORM or rng.random() < 0.3:
            if rng.random() < 0.5:
                pieces = self.chunks_of(self.device_array(self.shape, readable=not self.scatter))
            else:
                pieces = self.packed(self.arena.array(self.values((prod(self.shape),))))
        else:
            pieces = [self.device_array(self.shape_of(size), readable=not self.scatter) for size in self.sizes]
        used = arena.used
        before = used.copy()

        rows, pitch, matrix_stride = geometry(matrix, axis)
        addresses = [piece.data.ptr for piece in pieces]
        views = [geometry(piece, axis) for piece in pieces]
        widths = [width for _, width, _ in views]
        has_gaps = any(stride is not None for _, _, stride in views)
        strides = [width if stride is None else stride for _, width, stride in views] if has_gaps else None
        if self.layout == UNIFORM:
            step = addresses[1] - addresses[0] if len(pieces) > 1 else 0
            launcher.copy_uniform(
                self.scatter,
                matrix.data.ptr,
                rows,
                pitch,
                widths[0],
                addresses[0],
                step,
                *([strides[0], strides[-1]] if strides else []),
                matrix_stride=matrix_stride,
            )
        else:
            bounds: Any = widths[0] if self.layout == EQUAL else np.cumsum([0, *widths]).tolist()
            if rng.random() < 0.5:
                launcher.copy_few(self.scatter, matrix.data.ptr, rows, addresses, bounds, strides, matrix_stride)
            else:
                launcher.copy_many(
                    self.scatter,
                    matrix.data.ptr,
                    rows,
                    np.array(addresses),
                    bounds if isinstance(bounds, int) else np.array(bounds),
                    None if strides is None else np.array(strides),
                    matrix_stride,
                )
        self.check_counts(cuda, launcher, rows, widths, strides, matrix_stride, addresses)

        after = used.copy()
        used[...] = before  # what NumPy makes of the same memory is all that may have changed
        for piece, chunk in zip(pieces, self.chunks_of(matrix), strict=True):
            target, source = (piece, chunk) if self.scatter else (chunk, piece)
            arena.view(target)[...] = arena.view(source)
        np.testing.assert_array_equal(after, used)

    def check_counts(
        self,
        cuda: HostCuda,
        launcher: Launcher,
        rows: int,
        widths: list[int],
        strides: list[int] | None,
        matrix_stride: int | None,
        addresses: list[int],
    ) -> None:
        """One launch, or one plain copy, or nothing."""
        did = (len(cuda.launches), cuda.copies, cuda.uploads)
        pitch, count = sum(widths), len(widths)
        if rows == 1:
            strides = matrix_stride = None
        follow = all(b - a == widths[0] for a, b in itertools.pairwise(addresses))
        if pitch == 0:
            assert did == (0, 0, 0)
        elif (
            matrix_stride is None
            and strides is None
            and (count == 1 or (rows == 1 and self.layout == UNIFORM and follow))
        ):
            assert did == (0, 1, 0)
        elif self.layout == UNIFORM:
            assert did == (1, 0, 0)
        else:
            column_bytes = 8 if pitch >= launcher.wide_from else 4
            nbytes = count * (8 if strides is None else 16) + (count + 1) * column_bytes * (self.layout == RAGGED)
            if nbytes <= (launcher.large_table_bytes if cuda.large_arguments else launcher.small_table_bytes):
                assert did == (1, 0, 0)
            elif cuda.capturing:
                assert did[0] + did[1] >= 1
                assert did[2] == 0
            else:
                assert did == (1, 0, 1)


def run_random_cases(rig: Rig, kind: type[Launcher], count: int, **limits: int) -> Counter[Any]:
    launched: Counter[Any] = Counter()
    for number in range(count):
        rng = np.random.default_rng(number)
        rig.arena.reset()
        launcher, cuda = rig.launcher(kind)
        cuda.capturing, cuda.large_arguments = (bool(rng.random() < chance) for chance in (0.1, 0.7))
        try:
            Case(rng, rig.arena, **limits).run(launcher, cuda)
        except AssertionError as error:
            error.add_note(f"case {number} of {kind.__name__}")
            raise
        launched.update(cuda.launches)
    return launched


@pytest.mark.thorough
def test_random_cases_of_every_variant(rig: Rig) -> None:
    launched = run_random_cases(rig, SmallLauncher, 1850, most=60, longest=200)
    assert set(launched) == set(all_variants(SmallLauncher))


def test_random_cases_of_many_variants(rig: Rig) -> None:
    launched = run_random_cases(rig, SmallLauncher, 300, most=60, longest=200)
    assert 2 * len(launched) > len(set(all_variants(SmallLauncher)))


def test_random_cases_with_the_real_limits(rig: Rig) -> None:
    launched = run_random_cases(rig, Launcher, 150, most=3500, longest=6000)
    assert {variant.table_bytes for variant in launched} == {4040, 32704, 0}


def tile_bytes(launcher: type[Launcher], vector_bytes: int) -> int:
    return launcher.block_threads * min(64, 16 * vector_bytes)


def place(rig: Rig, rng: np.random.Generator, nbytes: int) -> tuple[int, np.ndarray[Any, Any]]:
    """Fresh memory with random bytes: its address, and the bytes."""
    address = rig.arena.allocate(nbytes)
    memory = rig.arena.at(address, nbytes)
    memory[...] = rng.integers(0, 256, nbytes, np.uint8)
    return address, memory


def copy_between(
    rig: Rig, launcher: Launcher, scatter: bool, rows: int, widths: list[int], *, as_uniform: bool = False
) -> None:
    """Copy between a matrix and pieces without gaps, and compare."""
    rng = np.random.default_rng(rows)
    matrix, in_matrix = place(rig, rng, rows * sum(widths))
    base, in_pieces = place(rig, rng, rows * sum(widths))
    bounds = np.cumsum([0, *widths]).tolist()
    addresses = [base + rows * start for start in bounds[:-1]]
    if as_uniform:
        launcher.copy_uniform(scatter, matrix, rows, bounds[-1], widths[0], base, rows * widths[0])
    else:
        launcher.copy_few(scatter, matrix, rows, addresses, bounds)
    starts = [rows * start for start in bounds]
    for (start, stop), (low, high) in zip(itertools.pairwise(bounds), itertools.pairwise(starts), strict=True):
        np.testing.assert_array_equal(
            in_matrix.reshape(rows, -1)[:, start:stop], in_pieces[low:high].reshape(rows, stop - start)
        )


@pytest.mark.parametrize("scatter", [False, True], ids=["gather", "scatter"])
@pytest.mark.parametrize("vector_bytes", [16, 8, 4, 2, 1])
def test_pieces_and_rows_end_around_the_end_of_a_tile(rig: Rig, vector_bytes: int, scatter: bool) -> None:
    launcher, cuda = rig.launcher()
    tile = tile_bytes(SmallLauncher, vector_bytes)
    ends = [tile // vector_bytes + difference for difference in (-1, 0, 1)]
    lengths = [1, 2, *ends, 2 * tile // vector_bytes, 2 * tile // vector_bytes + 1]
    cuts = list(itertools.product((1, 2, 3), lengths, lengths))
    for rows, first, second in cuts:
        rig.arena.reset()
        copy_between(rig, launcher, scatter, rows, [first * vector_bytes, second * vector_bytes])
    assert len(cuda.launches) == len(cuts)
    assert vector_bytes in {variant.vector_bytes for variant in cuda.launches}


@pytest.mark.parametrize("scatter", [False, True], ids=["gather", "scatter"])
@pytest.mark.parametrize("vector_bytes", [16, 8, 4, 2, 1])
def test_rows_shorter_than_a_tile(rig: Rig, vector_bytes: int, scatter: bool) -> None:
    launcher, cuda = rig.launcher()
    for rows, columns in itertools.product((2, 3, 63, 64, 65), (2, 3, 5, 7)):
        rig.arena.reset()
        copy_between(rig, launcher, scatter, rows, [vector_bytes] * columns, as_uniform=rows % 2 == 0)
    assert Counter(variant.layout for variant in cuda.launches) == {UNIFORM: 8, RAGGED: 12}


@pytest.mark.parametrize("scatter", [False, True], ids=["gather", "scatter"])
@pytest.mark.parametrize("last", [16, 48, 64])
def test_last_uniform_piece_may_be_narrower(rig: Rig, last: int, scatter: bool) -> None:
    launcher, cuda = rig.launcher()
    for rows, count in itertools.product((2, 3), (1, 2, 500)):
        rig.arena.reset()
        copy_between(rig, launcher, scatter, rows, [64] * count + [last], as_uniform=True)
    assert {variant.layout for variant in cuda.launches} == {UNIFORM}


@pytest.mark.parametrize("scatter", [False, True], ids=["gather", "scatter"])
def test_pieces_without_bytes_are_skipped(rig: Rig, scatter: bool) -> None:
    launcher, cuda = rig.launcher()
    copy_between(rig, launcher, scatter, 3, [0, 8, 0, 0, 24, 8, 0])
    copy_between(rig, launcher, scatter, 3, [8, 0, 8])
    assert len(cuda.launches) == 2


def test_nothing_to_copy_is_no_launch(rig: Rig) -> None:
    launcher, cuda = rig.launcher()
    launcher.copy_few(False, 0, 0, [0], [0, 8])
    launcher.copy_few(False, 0, 3, [0, 0], [0, 0, 0])
    launcher.copy_few(False, 0, 3, [0, 0], 0)
    launcher.copy_many(False, 0, 0, np.array([0]), np.array([0, 8]))
    launcher.copy_many(False, 0, 3, np.array([0]), 0)
    launcher.copy_uniform(False, 0, 0, 8, 4, 0, 4)
    launcher.copy_uniform(False, 0, 3, 0, 4, 0, 4)
    assert (cuda.launches, cuda.copies, cuda.uploads) == ([], 0, 0)


@pytest.mark.parametrize("scatter", [False, True], ids=["gather", "scatter"])
def test_one_piece_without_gaps_is_one_plain_copy(rig: Rig, scatter: bool) -> None:
    rng = np.random.default_rng(0)
    calls: list[Callable[[Launcher, int, int], None]] = [
        lambda launcher, matrix, piece: launcher.copy_few(scatter, matrix, 4, [piece], [0, 24]),
        lambda launcher, matrix, piece: launcher.copy_few(scatter, matrix, 4, [piece], 24, [24], 24),
        lambda launcher, matrix, piece: launcher.copy_few(scatter, matrix, 1, [piece], [0, 96], [1000], 2000),
        lambda launcher, matrix, piece: launcher.copy_many(scatter, matrix, 4, np.array([piece]), np.array([0, 24])),
        lambda launcher, matrix, piece: launcher.copy_uniform(scatter, matrix, 4, 24, 24, piece, 5),
        lambda launcher, matrix, piece: launcher.copy_uniform(scatter, matrix, 1, 96, 7, piece, 7),
    ]
    for call in calls:
        launcher, cuda = rig.launcher()
        (matrix, in_matrix), (piece, in_piece) = place(rig, rng, 96), place(rig, rng, 96)
        call(launcher, matrix, piece)
        assert (cuda.launches, cuda.copies, cuda.uploads) == ([], 1, 0)
        np.testing.assert_array_equal(in_matrix, in_piece)


@pytest.mark.parametrize(
    ("count", "equal", "strided", "large", "table_bytes"),
    [
        (336, False, False, True, 4040),
        (337, False, False, True, 32704),
        (2725, False, False, True, 32704),
        (2726, False, False, True, 0),
        (337, False, False, False, 0),
        (201, False, True, True, 4040),
        (202, False, True, True, 32704),
        (1635, False, True, True, 32704),
        (1636, False, True, True, 0),
        (505, True, False, True, 4040),
        (506, True, False, True, 32704),
        (4088, True, False, True, 32704),
        (4089, True, False, True, 0),
    ],
)
@pytest.mark.parametrize("few", [True, False], ids=["integers", "columns"])
def test_where_the_table_is(
    rig: Rig, few: bool, count: int, equal: bool, strided: bool, large: bool, table_bytes: int
) -> None:
    launcher, cuda = rig.launcher(Launcher)
    cuda.large_arguments = large
    base, pieces = place(rig, np.random.default_rng(count), 2 * 8 * count)
    matrix, joined = place(rig, np.random.default_rng(0), 2 * 4 * count)
    addresses, bounds = base + 16 * np.arange(count), 4 * np.arange(count + 1)
    strides = np.full(count, 8) if strided else None
    if few:
        widths = 4 if equal else bounds.tolist()
        launcher.copy_few(False, matrix, 2, addresses.tolist(), widths, None if strides is None else strides.tolist())
    else:
        launcher.copy_many(False, matrix, 2, addresses, 4 if equal else bounds, strides)
    assert [variant.table_bytes for variant in cuda.launches] == [table_bytes]
    assert cuda.uploads == (table_bytes == 0)
    row = 8 if strided else 4
    expected = pieces.reshape(count, 4, 4)[:, [0, row // 4]].swapaxes(0, 1)
    np.testing.assert_array_equal(joined, expected.ravel())


@pytest.mark.parametrize(("large", "launches"), [(True, 5), (False, 40)], ids=["32 KB", "4 KB"])
def test_nothing_is_uploaded_while_a_graph_is_captured(rig: Rig, large: bool, launches: int) -> None:
    launcher, cuda = rig.launcher(Launcher)
    cuda.capturing, cuda.large_arguments = True, large
    count = 10_000
    base, pieces = place(rig, np.random.default_rng(0), 3 * 4 * count)
    matrix, joined = place(rig, np.random.default_rng(1), 3 * 4 * count)
    launcher.copy_many(False, matrix, 3, base + 12 * np.arange(count), 4 * np.arange(count + 1))
    assert cuda.uploads == 0
    assert len(cuda.launches) == launches
    np.testing.assert_array_equal(joined, pieces.reshape(count, 3, 4).swapaxes(0, 1).ravel())


def test_a_variant_is_compiled_once(rig: Rig, count_calls: Callable[[Any, str], list[Any]]) -> None:
    launcher, _ = rig.launcher()
    compiled = count_calls(HostCuda, "function")
    for rows in (2, 3, 4):
        copy_between(rig, launcher, False, rows, [16, 32])
    assert len(compiled) == 1


def test_one_launcher_for_each_device() -> None:
    assert launcher_for(0) is launcher_for(0)
    assert launcher_for(0) is not launcher_for(1)


class CarelessLauncher(SmallLauncher):
    """Takes it for granted that everything is aligned."""

    def _launch(self, bits: int, *others: Any) -> None:
        super()._launch(16, *others)


@pytest.mark.parametrize("scatter", [False, True], ids=["gather", "scatter"])
def test_misaligned_accesses_are_caught(rig: Rig, scatter: bool) -> None:
    launcher, _ = rig.launcher(CarelessLauncher)
    base, matrix = rig.arena.allocate(256), rig.arena.allocate(128)
    launcher.copy_few(scatter, matrix, 1, [base, base + 64], [0, 64, 128])
    with pytest.raises(AccessError, match="misaligned"):
        launcher.copy_few(scatter, matrix, 1, [base, base + 68], [0, 64, 128])


@pytest.mark.parametrize("scatter", [False, True], ids=["gather", "scatter"])
@pytest.mark.parametrize("short", ["matrix", "piece"])
def test_accesses_outside_of_an_allocation_are_caught(rig: Rig, short: str, scatter: bool) -> None:
    launcher, _ = rig.launcher()
    first, second = rig.arena.allocate(64), rig.arena.allocate(63 if short == "piece" else 64)
    matrix = rig.arena.allocate(127 if short == "matrix" else 128)
    with pytest.raises(AccessError, match="1 outside"):
        launcher.copy_few(scatter, matrix, 1, [first, second], [0, 64, 128])


@pytest.mark.parametrize("nbytes", [95, 97])
def test_plain_copies_outside_of_an_allocation_are_caught(rig: Rig, nbytes: int) -> None:
    launcher, _ = rig.launcher()
    with pytest.raises(AccessError, match="plain copy"):
        launcher.copy_few(False, rig.arena.allocate(nbytes), 1, [rig.arena.allocate(192 - nbytes)], [0, 96])


def test_bytes_that_are_written_twice_are_caught(rig: Rig) -> None:
    launcher, _ = rig.launcher()
    matrix, base = rig.arena.allocate(128), rig.arena.allocate(128)
    launcher.copy_few(True, matrix, 1, [base, base + 64], [0, 64, 128])
    with pytest.raises(AccessError, match="4 overwritten"):
        launcher.copy_few(True, matrix, 1, [base, base + 60], [0, 64, 128])


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("own_column >= pitch", "own_column > pitch"),
        ("pitch < TILE_BYTES", "pitch <= 2 * TILE_BYTES && false"),
        ("tile_bytes <= first.stop - column", "tile_bytes <= first.stop - column + VECTOR_BYTES"),
        ("left < TILE_BYTES ? (uint32)left", "left < 1 ? (uint32)left"),
        ("column + (tile_bytes - 1)) + 1", "column + (tile_bytes - 1))"),
        ("batch_start += VECTORS_PER_BATCH * THREAD_STEP", "batch_start += THREAD_STEP"),
        ("<= column)", "< column)"),
        ("own_row * piece.stride", "row * piece.stride"),
        ("own_row * header.matrix_stride", "row * header.matrix_stride"),
        ("row * first.stride", "0 * first.stride"),
    ],
)
def test_faults_of_the_kernel_are_caught(
    rig: Rig, right: str, wrong: str, kernels: dict[type[Launcher], HostKernels]
) -> None:
    source = kernel_source()
    assert right in source
    faulty = HostKernels(kernels[SmallLauncher].folder, source.replace(right, wrong))
    launcher = SmallLauncher(HostCuda(rig.arena, faulty))
    tile = tile_bytes(SmallLauncher, 4)

    def try_all() -> None:
        for rows, first, second in itertools.product((1, 2, 3), (4, tile, tile - 4), (tile + 4, 8)):
            rig.arena.reset()
            copy_between(rig, launcher, False, rows, [first, second])

    with pytest.raises(AssertionError):
        try_all()


def some_blocks(*wanted: int) -> Callable[[int], list[int]]:
    """Run these blocks only; negative ones are counted from the end."""
    return lambda grid: [block % grid for block in wanted]


@huge
@pytest.mark.parametrize("scatter", [False, True], ids=["gather", "scatter"])
def test_strides_beyond_32_bits(rig: Rig, scatter: bool) -> None:
    launcher, cuda = rig.launcher(Launcher)
    stride, count = (1 << 32) + 64, 9
    base = rig.arena.allocate(2 * stride + 256)
    matrix = rig.arena.allocate(2 * stride + 4 * count)
    values = np.random.default_rng(0).integers(0, 256, (3, 4 * count), np.uint8)
    source, target = (matrix, base) if scatter else (base, matrix)
    for row in range(3):
        rig.arena.at(source + row * stride, 4 * count)[...] = values[row]
    addresses = [base + 4 * i for i in range(count)]
    launcher.copy_few(scatter, matrix, 3, addresses, [4 * i for i in range(count + 1)], [stride] * count, stride)
    for row in range(3):
        np.testing.assert_array_equal(rig.arena.at(target + row * stride, 4 * count), values[row])
    assert len(cuda.launches) == 1


@huge
def test_uniform_pieces_further_apart_than_32_bits(rig: Rig) -> None:
    launcher, _ = rig.launcher(Launcher)
    step = (1 << 32) + 16
    base, matrix = rig.arena.allocate(2 * step + 48), rig.arena.allocate(3 * 48)
    values = np.random.default_rng(0).integers(0, 256, (3, 48), np.uint8)
    for i in range(3):
        rig.arena.at(base + i * step, 48)[...] = values[i]
    launcher.copy_uniform(False, matrix, 3, 48, 16, base, step)
    np.testing.assert_array_equal(rig.arena.at(matrix, 3 * 48), values.reshape(3, 3, 16).swapaxes(0, 1).ravel())


@huge
@pytest.mark.parametrize("scatter", [False, True], ids=["gather", "scatter"])
@pytest.mark.parametrize("layout", [UNIFORM, EQUAL, RAGGED])
def test_rows_beyond_32_bits(rig: Rig, layout: int, scatter: bool) -> None:
    launcher, cuda = rig.launcher(Launcher)
    width = (5 << 30) // 2 + 4
    pitch, tile = 2 * width, tile_bytes(Launcher, 4)
    matrix, base = rig.arena.allocate(pitch), rig.arena.allocate(pitch + 4)
    addresses = [base, base + width + 4]  # a gap, or it would be one plain copy
    halves = [matrix, matrix + width]
    source, target = (halves, addresses) if scatter else (addresses, halves)
    rng = np.random.default_rng(0)
    head, tail = rng.integers(0, 256, (2, 2, 2 * tile), np.uint8)
    for i in range(2):
        rig.arena.at(source[i], 2 * tile)[...] = head[i]
        rig.arena.at(source[i] + width - 2 * tile, 2 * tile)[...] = tail[i]
    cuda.blocks = some_blocks(0, width // tile - 1, width // tile, width // tile + 1, -2, -1)
    if layout == UNIFORM:
        launcher.copy_uniform(scatter, matrix, 1, pitch, width, base, width + 4)
    else:
        launcher.copy_few(scatter, matrix, 1, addresses, width if layout == EQUAL else [0, width, pitch])
    assert [(variant.layout, variant.wide) for variant in cuda.launches] == [(layout, True)]
    for i in range(2):
        np.testing.assert_array_equal(rig.arena.at(target[i], tile), head[i, :tile])
        np.testing.assert_array_equal(rig.arena.at(target[i] + width - tile, tile), tail[i, tile:])


@huge
@pytest.mark.parametrize("scatter", [False, True], ids=["gather", "scatter"])
def test_matrices_beyond_32_bits(rig: Rig, scatter: bool) -> None:
    launcher, cuda = rig.launcher(Launcher)
    rows, widths = (1 << 32) // 3000, [1200, 2400]
    pitch = sum(widths)
    matrix, pieces = rig.arena.allocate(rows * pitch), [rig.arena.allocate(rows * width) for width in widths]
    last = rig.arena.at(matrix + (rows - 1) * pitch, pitch)
    parts = [rig.arena.at(piece + (rows - 1) * width, width) for piece, width in zip(pieces, widths, strict=True)]
    rng = np.random.default_rng(0)
    for source in parts if not scatter else [last]:
        source[...] = rng.integers(0, 256, len(source), np.uint8)
    cuda.blocks = some_blocks(-2, -1)
    launcher.copy_few(scatter, matrix, rows, pieces, [0, 1200, 3600])
    assert [variant.wide for variant in cuda.launches] == [False]
    np.testing.assert_array_equal(last, np.concatenate(parts))
    assert last.any()
