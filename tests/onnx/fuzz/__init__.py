"""Damaged models: `python -m tests.onnx.fuzz`."""
