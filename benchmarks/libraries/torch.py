"""torch, on the CPU and on a CUDA device."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np

from benchmarks.libraries.base import Library, Sizes, Work, lengths_of, place_for

#: More tensors than this are not padded: that takes seconds.
MOST_TENSORS = 10_000


class Torch(Library):
    """torch.cat, torch.stack, torch.split, torch.split_with_sizes_copy, and pad_sequence and unpad_sequence."""

    name, module, pip = "torch", "torch", "torch"
    packages = ("torch",)
    backend, beside = True, ("numpy", "torch")
    device = "cpu"
    spins = "torch"

    @property
    def torch(self) -> Any:
        """Import torch."""
        return importlib.import_module("torch")

    def threads(self) -> int | None:
        return int(self.torch.get_num_threads()) if "torch" in sys.modules else None

    def use_threads(self, count: int) -> None:
        self.torch.set_num_threads(count)

    def use_device(self, device: str) -> None:
        self.torch.empty(0, device=device)  # raises if there is none
        self.device = device

    @property
    def asynchronous(self) -> bool:
        return self.device != "cpu"

    def finish(self, _: Any) -> None:
        if self.device != "cpu":
            self.torch.accelerator.synchronize()

    def array(self, host: np.ndarray) -> Any:
        # On the CPU around the same memory, so that rotating inputs are counted once.
        return self.torch.from_numpy(host).to(self.device)

    def concat(self, arrays: list[np.ndarray], axis: int) -> Work:
        cat, tensors = self.torch.cat, [self.array(a) for a in arrays]
        return lambda: cat(tensors, axis)

    def stack(self, arrays: list[np.ndarray], axis: int) -> Work:
        stack, tensors = self.torch.stack, [self.array(a) for a in arrays]
        return lambda: stack(tensors, axis)

    def concat_out(self, arrays: list[np.ndarray], axis: int) -> Work:
        cat, tensors, out = self.torch.cat, [self.array(a) for a in arrays], self.array(place_for(arrays, axis))
        return lambda: cat(tensors, axis, out=out)

    def split(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        split, tensor, lengths = self.torch.split_with_sizes_copy, self.array(x), lengths_of(x, sizes, axis)
        return lambda: split(tensor, lengths, axis)

    def split_views(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        split, tensor = self.torch.split, self.array(x)
        given = sizes if isinstance(sizes, int) else lengths_of(x, sizes, axis)
        return lambda: split(tensor, given, axis)

    def rejoin(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        cat, tensors = self.torch.cat, self.torch.split(self.array(x), lengths_of(x, sizes, axis), axis)
        return lambda: cat(tensors, axis)

    rejoin_view = rejoin

    def round_trip(self, x: np.ndarray, sizes: Sizes, axis: int) -> Work:
        torch, tensor, lengths = self.torch, self.array(x), lengths_of(x, sizes, axis)
        return lambda: torch.cat(torch.split_with_sizes_copy(tensor, lengths, axis), axis)

    def pad(self, values: np.ndarray, offsets: np.ndarray) -> Work | None:
        if len(offsets) > MOST_TENSORS:
            return None
        pad, rows = self.torch.nn.utils.rnn.pad_sequence, self._rows(values, offsets)
        return lambda: pad(rows, batch_first=True)

    def unpad(self, padded: np.ndarray, lengths: np.ndarray) -> Work | None:
        if len(lengths) >= MOST_TENSORS:
            return None
        torch, own, given = self.torch, self.array(padded), self.torch.from_numpy(lengths)  # it wants them on the host
        unpad = torch.nn.utils.rnn.unpad_sequence
        return lambda: torch.cat(unpad(own, given, batch_first=True))

    def unpack(self, values: np.ndarray, offsets: np.ndarray) -> Work:
        own, lengths = self.array(values), np.diff(offsets).tolist()
        return lambda: self.torch.split(own, lengths)

    def pack(self, values: np.ndarray, offsets: np.ndarray) -> Work:
        torch, rows = self.torch, self._rows(values, offsets)
        return lambda: (torch.cat(rows), torch.tensor([0, *map(len, rows)]).cumsum(0))

    def _rows(self, values: np.ndarray, offsets: np.ndarray) -> Any:
        return self.torch.split(self.array(values), np.diff(offsets).tolist())

    def at(self, arrays: list[np.ndarray]) -> Work:
        tensors = [self.array(a) for a in arrays]
        return tensors[len(tensors) // 2].clone


class TorchCUDA(Torch):
    """torch on a CUDA device."""

    name, chosen_as, device = "torch (CUDA)", "torch", "cuda"
    backend, beside = False, ("cupy",)
    spins = ""
    recycles = True

    def threads(self) -> None:
        return None

    def use_threads(self, count: int) -> None:
        pass

    def missing(self) -> str:
        return super().missing() or ("" if self.torch.cuda.is_available() else "no usable GPU")

    def finish(self, _: Any) -> None:
        self.torch.cuda.synchronize()

    def device_seconds(self, work: Work) -> float:
        cuda = self.torch.cuda
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3


LIBRARIES = [Torch(), TorchCUDA()]
