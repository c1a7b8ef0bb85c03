"""Arrays and sequences in .npz files, without pickle.

An array of numbers is what `numpy.savez` writes: an entry of its name.  What .npz does not know is stored in one or
several entries, which `numpy.load` reads too, and described in one more, the index.
"""

from seqarray._files.reading import load
from seqarray._files.writing import save

__all__ = ["load", "save"]
