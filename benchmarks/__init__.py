"""Benchmarks of seqarray beside what its users would otherwise call: ``python -m benchmarks --help``."""
