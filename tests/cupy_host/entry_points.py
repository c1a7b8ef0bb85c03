"""CuPy's entry points into the CUDA driver and runtime, replaced before CuPy is imported.

CuPy's extension modules reach CUDA through two modules of its own, and bind the functions of these when they are
imported themselves: the capsules in `__pyx_capi__`, of which this module replaces the contents.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from . import refused, toolchain

_C_TYPES: dict[str, Any] = {
    "PyObject *": ctypes.py_object,
    "int": ctypes.c_int,
    "unsigned int": ctypes.c_uint,
    "float": ctypes.c_float,
    "size_t": ctypes.c_size_t,
    "intptr_t": ctypes.c_ssize_t,
    "uintmax_t": ctypes.c_ulonglong,
    "cudaMemcpyKind": ctypes.c_int,
}

#: The head of a function in `host_cuda.cpp` that replaces an entry point: what it returns, its name, its parameters.
_DEFINITION = re.compile(r"^(\w[\w *]*?)((?:runtime|driver)_\w+)\(([^)]*)\)", re.MULTILINE)

#: What Cython takes for "an exception was raised", by return type.
_FAILED = {"int": "-1", "size_t": "-1", "intptr_t": "0", "uintmax_t": "0", "unsigned int": "0", "float": "0"}

#: Entry points that never reach a device.
_HARMLESS = {"check_status", "get_build_version", "make_Extent", "make_PitchedPtr", "make_Pos"}

_GET_NAME = ctypes.pythonapi.PyCapsule_GetName
_GET_NAME.restype, _GET_NAME.argtypes = ctypes.c_void_p, [ctypes.py_object]
_NEW_CAPSULE = ctypes.pythonapi.PyCapsule_New
_NEW_CAPSULE.restype, _NEW_CAPSULE.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3

#: The replaced capsules: the new ones use their names.
_kept: list[Any] = []

_library: ctypes.PyDLL | None = None

#: The hook that poisons what memory pools hand out.
_poison: Any = None


def library() -> ctypes.PyDLL:
    """The functions of `host_cuda.cpp`."""
    assert _library is not None, "CuPy on the host has not been started"
    return _library


def started() -> bool:
    """Whether CuPy in this process is CuPy on the host."""
    return _library is not None


def start() -> None:
    """Import CuPy with everything of CUDA replaced or refused."""
    global _library  # noqa: PLW0603 - a process has one CuPy
    if started():
        return
    if "cupy" in sys.modules:
        raise RuntimeError("CuPy has been imported already, with the real CUDA")
    # CUB's reductions are compiled kernels; without it CuPy writes the source of its own.
    os.environ["CUPY_ACCELERATORS"] = ""
    from cupy_backends.cuda.api import driver, runtime

    found = [(module, entry) for module in (runtime, driver) for entry in _entry_points(module)]
    source = (toolchain.HERE / "host_cuda.cpp").read_text()
    defined = {match[2]: match for match in _DEFINITION.finditer(source)}
    for _, entry in found:
        if definition := defined.get(entry.symbol):
            entry.check(definition)
    refusals = [entry.refusal for _, entry in found if entry.symbol not in defined]
    version = f"-DHOST_CUDA_VERSION={toolchain.toolchain().cuda_version}"
    _library = ctypes.PyDLL(str(toolchain.shared_object("\n".join([source, *refusals]), [version])))
    _library.host_set_classes.argtypes = [ctypes.py_object] * 3
    _library.host_set_classes(runtime.CUDARuntimeError, refused.NotOnTheHost, runtime.PointerAttributes)
    _library.host_take_events.restype = ctypes.py_object
    _library.host_poison.argtypes = [ctypes.c_ssize_t, ctypes.c_size_t]
    _library.host_poison.restype = None
    _library.host_device_of.argtypes = [ctypes.c_ssize_t]
    for module, entry in found:
        entry.replace(module, _library)
    _refuse_the_rest(runtime, {"check_status"})
    _refuse_the_rest(driver, {"check_status", "get_build_version"})
    refused.refuse_libraries()

    from cupy.cuda import compiler, nvrtc

    refused.refuse_compiled_kernels()
    nvrtc.getVersion = lambda: divmod(toolchain.toolchain().cuda_version // 10, 100)
    compiler._compile_module_with_cache = _compile
    _poison_allocations()


class _EntryPoint:
    """A function that CuPy's extension modules call, and what its capsule says about it."""

    def __init__(self, module: ModuleType, name: str, capsule: Any) -> None:
        self.name, self.capsule = name, capsule
        self.symbol = f"{module.__name__.rpartition('.')[2]}_{name}"
        signature = ctypes.string_at(_GET_NAME(capsule)).decode()
        match = re.fullmatch(r"(.*?) ?\((.*)\)", signature)
        assert match is not None, signature
        self.parameters = [part.strip() for part in match[2].split(",") if part.strip() != "void"]
        # What Cython passes besides the arguments: whether to look for an override, and the optional arguments.
        self.arguments = [part for part in self.parameters if "__pyx_skip" not in part and "__pyx_optional" not in part]
        self.hidden = len(self.parameters) - len(self.arguments)
        self.returns = match[1].strip()
        if self.returns.startswith("struct "):
            self.returns = "PyObject *"

    def check(self, definition: re.Match[str]) -> None:
        """Raise a RuntimeError unless a function of `host_cuda.cpp` can be called as CuPy calls this one."""
        expected = [_plain_type(part) for part in (self.returns, *self.parameters)]
        found = [_plain_type(part) for part in (definition[1], *filter(None, definition[3].split(",")))]
        if expected != found:
            raise RuntimeError(f"{self.symbol} of CuPy has the types {expected}; host_cuda.cpp has {found}")

    @property
    def refusal(self) -> str:
        """The source of a function that refuses."""
        body = f'host_refuse("{self.symbol}");'
        if self.returns in _FAILED:
            return f'extern "C" {self.returns} {self.symbol}() {{ {body} return {_FAILED[self.returns]}; }}'
        if self.returns == "PyObject *":
            return f'extern "C" PyObject* {self.symbol}() {{ {body} return nullptr; }}'
        # A structure, for which the caller passes the place.
        return f'extern "C" void* {self.symbol}(void* result) {{ {body} return result; }}'

    def replace(self, module: ModuleType, library: ctypes.PyDLL) -> None:
        """Let CuPy's extension modules and Python call the function of `library`."""
        function = getattr(library, self.symbol)
        address, name = ctypes.cast(function, ctypes.c_void_p), _GET_NAME(self.capsule)
        _kept.append(self.capsule)
        module.__pyx_capi__[self.name] = _NEW_CAPSULE(address, name, None)
        if not hasattr(module, self.name):
            return
        known = all(argument in _C_TYPES for argument in self.arguments)
        if not known or self.returns not in _C_TYPES:
            setattr(module, self.name, refused.refusing(self.symbol))
            return
        function.restype = _C_TYPES[self.returns]
        function.argtypes = [_C_TYPES[argument] for argument in self.arguments] + [ctypes.c_void_p] * self.hidden
        setattr(module, self.name, _for_python(function, len(self.arguments), self.hidden))


def _poison_allocations() -> None:
    """Fill what memory pools give to this thread, so that what nobody has written is not right by chance."""
    global _poison  # noqa: PLW0603 - like the library
    from cupy.cuda.memory_hook import MemoryHook

    class Poison(MemoryHook):  # type: ignore[misc]
        name = "poison"

        def malloc_postprocess(self, *, size: int, mem_ptr: int, **_: int) -> None:
            if size and mem_ptr:
                library().host_poison(mem_ptr, size)

    _poison = Poison()
    _poison.__enter__()


@contextmanager
def without_poison() -> Iterator[None]:
    """Spare allocations in the block the time that it takes to poison them."""
    _poison.__exit__(None, None, None)
    try:
        yield
    finally:
        _poison.__enter__()


def _plain_type(declaration: str) -> str:
    """The type in the declaration of a parameter, of all pointers but objects the same."""
    if "*" in declaration:
        return "object" if "PyObject" in declaration else "pointer"
    return {"unsigned": "unsigned int", "cudaMemcpyKind": "int"}.get(name := declaration.split(maxsplit=1)[0], name)


def _entry_points(module: ModuleType) -> list[_EntryPoint]:
    capsules = module.__pyx_capi__.items()
    functions = [(name, capsule) for name, capsule in capsules if b"(" in ctypes.string_at(_GET_NAME(capsule))]
    return [_EntryPoint(module, name, capsule) for name, capsule in functions if name not in _HARMLESS]


def _for_python(function: Any, arguments: int, hidden: int) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        # An optional argument may be left out, or given: nothing on the host depends on one.
        return function(*args[:arguments], *[None] * hidden)

    return call


def _refuse_the_rest(module: ModuleType, harmless: set[str]) -> None:
    """Refuse what only Python calls."""
    for name, value in list(vars(module).items()):
        builtin = type(value).__name__ in ("cython_function_or_method", "builtin_function_or_method")
        if builtin and not name.startswith("_") and name not in harmless:
            setattr(module, name, refused.refusing(f"{module.__name__}.{name}"))


def _compile(
    source: str, options: Sequence[str] = (), *, backend: str = "nvrtc", name_expressions: Any = None, **more: Any
) -> Any:
    """What CuPy calls for a loaded module of kernels."""
    import subprocess

    from cupy.cuda import compiler, function

    if name_expressions or more.get("enable_cooperative_groups") or more.get("to_ltoir"):
        raise refused.NotOnTheHost("CuPy on the host does not have templates, cooperative groups or link-time code")
    refused.check_source(source, options)
    usable = [option.replace("--std", "-std") for option in options if option.startswith(("-D", "-I", "-std", "--std"))]
    try:
        built = toolchain.kernels_object(source, usable)
    except subprocess.CalledProcessError as error:
        raise compiler.CompileException(error.stderr, source, "kernel.cu", tuple(options), "g++") from None
    module = function.Module()
    module.load(os.fsencode(Path(built)))
    return module
