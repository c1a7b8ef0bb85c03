"""Exports recurrent networks of torch on packed batches to the ONNX models in this folder, with what torch computes.

    python tests/onnx/models/packed/make_packed.py

writes NAME.onnx and NAME.npz, and needs torch (2.13 was used), onnx and numpy.  An .npz holds the inputs x and n, and
the outputs padded and lengths.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

FOLDER = Path(__file__).parent


class Packed(nn.Module):
    """A recurrent network in both directions on sequences of different lengths."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network(4, 3, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        packed = nn.utils.rnn.pack_padded_sequence(x, n, batch_first=True)
        output, _ = self.network(packed)
        return nn.utils.rnn.pad_packed_sequence(output, batch_first=True)


def main() -> None:
    """Write all models and data."""
    torch.manual_seed(0)
    for network in (nn.LSTM, nn.GRU, nn.RNN):
        module, x, n = Packed(network).eval(), torch.rand(3, 5, 4), torch.tensor([5, 3, 2])
        padded, lengths = module(x, n)
        names = {"input_names": ["x", "n"], "output_names": ["padded", "lengths"]}
        path = FOLDER / f"{network.__name__.lower()}.onnx"
        torch.onnx.export(module, (x, n), path, dynamo=False, opset_version=17, **names)
        stored = {"x": x, "n": n, "padded": padded.detach(), "lengths": lengths}
        np.savez(path.with_suffix(".npz"), **{name: value.numpy() for name, value in stored.items()})


if __name__ == "__main__":
    main()
