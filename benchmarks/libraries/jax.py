"""jax."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

import seqarray as sa
from benchmarks.libraries.base import Library, Sizes, Work, cuts_of, first, lengths_of


class Jax(Library):
    """jax.numpy's functions, not compiled together."""

    name, module, pip = "jax", "jax", "jax"
    packages = ("jax",)
    backend, beside = True, ("jax",)
    compiles = True
    rotates = False
    most_pieces = 1_000

    device: Any = None

    def use_device(self, device: str) -> None:
        self.device = importlib.import_module("jax").devices(device)[0]

    def array(self, host: np.ndarray) -> Any:
        return importlib.import_module("jax.numpy").asarray(host, device=self.device)

    def finish(self, result: Any) -> None:
        # It looks into lists, and not into sequences.
        result = list(result) if isinstance(result, sa.ArraySequence) else result
        importlib.import_module("jax").block_until_ready(result)

    def concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        jnp, own = importlib.import_module("jax.numpy"), [self.array(a) for a in arrays]
        return lambda: jnp.concatenate(own, axis)

    def forget(self) -> None:
        importlib.import_module("jax").clear_caches()

    def first_concat(self, arrays: list[np.ndarray], axis: int) -> Work | None:
        return first(self, self.concat(arrays, axis)) if len(arrays) <= 100 else None  # it compiles for minutes then

    def stack(self, arrays: list[np.ndarray], axis: int) -> Work:
        jnp, own = importlib.import_module("jax.numpy"), [self.array(a) for a in arrays]
        return lambda: jnp.stack(own, axis)

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work | None:
        if len(lengths_of(x, sizes, axis)) > 100:
            return None  # it compiles for seconds then
        jnp, own, cuts = importlib.import_module("jax.numpy"), self.array(x), cuts_of(x, sizes, axis)
        return lambda: jnp.split(own, cuts if isinstance(cuts, int) else np.asarray(cuts), axis)

    def at(self, arrays: list[np.ndarray]) -> Work:
        jnp, own = importlib.import_module("jax.numpy"), [self.array(a) for a in arrays]
        return lambda: jnp.array(own[len(own) // 2], copy=True)


LIBRARIES = [Jax()]
