// What CUDA's headers expect under this name; the wheels that have them do not all have this one.
#pragma once
#define CUDARTAPI
#define CUDART_CB
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __cuda_builtin_vector_align8(tag, members) struct __attribute__((aligned(8))) tag { members }
#define __constant__
#define __cudart_builtin__
#define __device__
#define __device_builtin__
#define __device_builtin_surface_type__
#define __device_builtin_texture_type__
#define __forceinline__ inline __attribute__((always_inline))
#define __global__
#define __host__
#define __no_return__ __attribute__((noreturn))
#define __noinline__ __attribute__((noinline))
