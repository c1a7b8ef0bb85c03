"""CuPy on the host: real CuPy, with functions of this process in place of the CUDA driver and runtime.

`entry_points` puts them in place, before CuPy is imported, and `refused` lists what is not there and raises.
`toolchain` says what it takes, and compiles kernels with g++; `counting` counts launches, allocations and transfers.
"""
