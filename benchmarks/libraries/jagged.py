"""What torch's users hold rows of different lengths in: torch.nested, and FBGEMM's jagged tensors."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from benchmarks.libraries.base import Library, Work


class _Jagged(Library):
    """Values and offsets, both tensors, around the memory of the host arrays."""

    beside = ("numpy", "torch")
    spins = "torch"
    device = "cpu"

    def array(self, host: np.ndarray) -> Any:
        return importlib.import_module("torch").from_numpy(host).to(self.device)


class Nested(_Jagged):
    """torch.nested in the jagged layout."""

    name, module, pip = "torch.nested", "torch", "torch"
    packages = ("torch",)

    def use_device(self, device: str) -> None:
        self.device = device

    def unpack(self, values: np.ndarray, offsets: np.ndarray) -> Work:
        make = importlib.import_module("torch").nested.nested_tensor_from_jagged
        own, bounds = self.array(values), self.array(offsets)
        return lambda: make(own, bounds)

    def pack(self, values: np.ndarray, offsets: np.ndarray) -> Work:
        nested = self.unpack(values, offsets)()
        return lambda: (nested.values(), nested.offsets())

    def pad(self, values: np.ndarray, offsets: np.ndarray) -> Work:
        longest, nested = int(np.diff(offsets).max()), self.unpack(values, offsets)()
        return lambda: nested.to_padded_tensor(0.0, (len(offsets) - 1, longest, *values.shape[1:]))

    def host(self, result: Any) -> Any:
        if isinstance(result, tuple) or not result.is_nested:
            return super().host(result)
        return np.split(result.values().numpy(), result.offsets().numpy()[1:-1])


class Fbgemm(_Jagged):
    """FBGEMM's operators on jagged tensors, as torchrec calls them."""

    name, module, pip = "fbgemm", "fbgemm_gpu", "fbgemm-gpu-cpu"
    packages = ("fbgemm-gpu-cpu",)

    @property
    def operators(self) -> Any:
        """Import the library, whose operators torch then has."""
        importlib.import_module(self.module)
        return importlib.import_module("torch").ops.fbgemm

    def pad(self, values: np.ndarray, offsets: np.ndarray) -> Work:
        operator, own, bounds = self.operators.jagged_to_padded_dense, self.array(values), [self.array(offsets)]
        longest = [int(np.diff(offsets).max())]
        return lambda: operator(own, bounds, longest, 0.0)

    def unpad(self, padded: np.ndarray, lengths: np.ndarray) -> Work:
        operator, own = self.operators.dense_to_jagged, self.array(padded)
        bounds, total = [self.array(np.concatenate([[0], np.cumsum(lengths)]))], int(lengths.sum())
        return lambda: operator(own, bounds, total)[0]


LIBRARIES = [Nested(), Fbgemm()]
