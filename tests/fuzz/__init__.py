"""Random operations against lists of NumPy arrays: `python -m tests.fuzz`."""
