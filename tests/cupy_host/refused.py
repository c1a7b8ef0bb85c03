"""What CuPy on the host does not have.  Using any of it raises `NotOnTheHost`, or `ImportError` for a library.

Besides these, every entry point of the CUDA driver and runtime is refused that `host_cuda.cpp` does not define.

What it has and does not do like a device: all is done at once, whatever the stream, so that a missing synchronization
or a race between threads of a kernel goes unnoticed; so does a kernel that is given the address of host memory.
Compiled functions of the math library may differ in the last bit, and conversions of what an integer cannot hold.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class NotOnTheHost(NotImplementedError):  # noqa: N818 - named like NotImplemented
    """CuPy was asked for something that needs more of CUDA than there is on the host."""


#: Modules of CuPy over libraries of compiled kernels, and what needs them.
LIBRARIES = {
    "cupy_backends.cuda.libs.cublas": "cuBLAS (matmul, dot, tensordot, einsum with products)",
    "cupy_backends.cuda.libs.cusolver": "cuSOLVER (linalg)",
    "cupy_backends.cuda.libs.cusparse": "cuSPARSE (sparse matrices)",
    "cupy_backends.cuda.libs.cusparselt": "cuSPARSELt (sparse matrices)",
    "cupy_backends.cuda.libs.curand": "cuRAND (random)",
    "cupy_backends.cuda.libs.cutensor": "cuTENSOR (contractions)",
    "cupy_backends.cuda.libs.nccl": "NCCL (communication between devices)",
    "cupy.cuda.cufft": "cuFFT (fft)",
    "cupy.cuda.jitify": "Jitify (kernels with headers of the C++ standard library)",
}

#: Modules of CuPy with compiled kernels inside, without which it cannot be imported, and what needs them.
COMPILED_KERNELS = {
    "cupy.cuda.thrust": "Thrust (sort, argsort, lexsort, and unique, median, partition, which sort)",
    "cupy.cuda.cub": "CUB (reductions and cumulative sums where CUPY_ACCELERATORS has it)",
    "cupy.random._generator_api": "compiled generators (random.default_rng, random.Generator)",
}

#: Patterns of CUDA C++ that the host has nothing for, and what they are.
DEVICE_CODE = {
    r"\b__(?:shfl|ballot|activemask|syncwarp|match|reduce|any_sync|all_sync)\w*": "warp intrinsics",
    r"\bextern\s+__shared__": "shared memory that is sized at the launch",
    r"\basm\b": "inline assembly",
    r"\b(?:cub|cooperative_groups|cg)::": "CUB and cooperative groups",
    r"\b__threadfence\w*": "memory fences",
    r"#\s*include\s*<cupy/xsf/": "special functions",
}

#: Options for the compiler that mean the same to g++ or mean nothing on the host; all others are refused.
OPTIONS = re.compile(r"-[DI].*|--?std=c\+\+\d+|-lineinfo|--generate-line-info")


def check_source(source: str, options: Sequence[str]) -> None:
    """Raise `NotOnTheHost` for a kernel that cannot be right on the host."""
    for pattern, name in DEVICE_CODE.items():
        if found := re.search(pattern, source):
            raise NotOnTheHost(f"CuPy on the host does not have {name}: the kernel has {found[0]!r}")
    for option in options:
        if not OPTIONS.fullmatch(option):
            raise NotOnTheHost(f"CuPy on the host does not have the compiler option {option}")


def refusing(name: str) -> Callable[..., Any]:
    """A function that refuses."""

    def refused(*args: Any, **options: Any) -> Any:
        raise NotOnTheHost(f"CuPy on the host does not have {name}")

    return refused


class LibraryFinder:
    """An import hook that refuses `LIBRARIES`, also where they are installed and would find a device."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """None, which leaves the import to others, or an ImportError."""
        if name in LIBRARIES:
            raise ImportError(f"CuPy on the host does not have {LIBRARIES[name]}", name=name)
        return None


def refuse_libraries() -> None:
    """Refuse the import of `LIBRARIES`; to be called before CuPy is imported."""
    sys.meta_path.insert(0, LibraryFinder())


def refuse_compiled_kernels() -> None:
    """Refuse every function and class of `COMPILED_KERNELS`, which CuPy has imported by now."""
    for module_name, name in COMPILED_KERNELS.items():
        module = sys.modules[module_name]
        for attribute, value in list(vars(module).items()):
            if not callable(value) or attribute.startswith("_"):
                continue
            refused: Any = refusing(f"{name}: {module_name}.{attribute}")
            if isinstance(value, type):
                refused = type(attribute, (), {"__init__": refused})
            setattr(module, attribute, refused)
