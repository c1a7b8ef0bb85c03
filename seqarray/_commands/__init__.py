"""The subcommands that need no model; those that do are in `seqarray.onnx`."""
