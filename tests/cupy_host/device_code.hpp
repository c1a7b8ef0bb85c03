// Comes before every kernel that is compiled for the host: what CUDA C++ has and C++ has not.  One thread runs at a time,
// to its end or, in a kernel with barriers, to its next barrier.
//
// Every kernel of CuPy is compiled with it: it includes no header of the standard library that takes long to read.
#pragma once
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <utility>

#include <vector_types.h>

using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;

template <class A, class B> static inline auto min(A a, B b) -> decltype(true ? a : b) { return b < a ? b : a; }
template <class A, class B> static inline auto max(A a, B b) -> decltype(true ? a : b) { return a < b ? b : a; }

#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static

static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static const int warpSize = 32;

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }

template <class To, class From> static inline To host_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "");
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}
static inline float __int_as_float(int x) { return host_bits<float>(x); }
static inline int __float_as_int(float x) { return host_bits<int>(x); }
static inline float __uint_as_float(unsigned x) { return host_bits<float>(x); }
static inline unsigned __float_as_uint(float x) { return host_bits<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return host_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return host_bits<long long>(x); }

template <class T> static inline T __ldg(const T* pointer) { return *pointer; }
template <class T> static inline T __ldcs(const T* pointer) { return *pointer; }
template <class T> static inline void __stcs(T* pointer, T value) { *pointer = value; }

// No two threads run at the same time, so that nothing can come between the load and the store.
template <class T> static inline T host_exchange(T* place, T value) {
    T old = *place;
    *place = value;
    return old;
}
#define HOST_ATOMICS(T)                                                                                         \
    static inline T atomicAdd(T* place, T value) { return host_exchange(place, (T)(*place + value)); }         \
    static inline T atomicExch(T* place, T value) { return host_exchange(place, value); }                      \
    static inline T atomicMax(T* place, T value) { return host_exchange(place, max(*place, value)); }     \
    static inline T atomicMin(T* place, T value) { return host_exchange(place, min(*place, value)); }
#define HOST_INTEGER_ATOMICS(T)                                                                                 \
    HOST_ATOMICS(T)                                                                                             \
    static inline T atomicAnd(T* place, T value) { return host_exchange(place, (T)(*place & value)); }         \
    static inline T atomicOr(T* place, T value) { return host_exchange(place, (T)(*place | value)); }          \
    static inline T atomicXor(T* place, T value) { return host_exchange(place, (T)(*place ^ value)); }         \
    static inline T atomicCAS(T* place, T expected, T value) {                                                  \
        return *place == expected ? host_exchange(place, value) : *place;                                       \
    }
HOST_INTEGER_ATOMICS(int)
HOST_INTEGER_ATOMICS(unsigned)
HOST_INTEGER_ATOMICS(unsigned long long)
static inline float atomicAdd(float* place, float value) { return host_exchange(place, *place + value); }
static inline double atomicAdd(double* place, double value) { return host_exchange(place, *place + value); }

namespace host {

// The threads of a block, each with a stack of its own; they take turns between barriers.
struct Fibres {
    static constexpr size_t most = 1024, stack_size = 1 << 17;
    ucontext_t scheduler, contexts[most];
    bool done[most];
    char* stacks = static_cast<char*>(std::malloc(most * stack_size));  // takes up what is touched of it
    size_t current = 0;
    void (*body)(void*) = nullptr;
    void* argument = nullptr;

    static Fibres& all() {
        static Fibres fibres;
        return fibres;
    }
    static void enter() {
        Fibres& self = all();
        self.body(self.argument);
        self.done[self.current] = true;
        swapcontext(&self.contexts[self.current], &self.scheduler);
    }
    void barrier() { swapcontext(&contexts[current], &scheduler); }
    void run_block() {
        const size_t count = (size_t)blockDim.x * blockDim.y * blockDim.z;
        for (size_t i = 0; i < count; ++i) {
            done[i] = false;
            getcontext(&contexts[i]);
            contexts[i].uc_stack.ss_sp = &stacks[i * stack_size];
            contexts[i].uc_stack.ss_size = stack_size;
            contexts[i].uc_link = nullptr;
            makecontext(&contexts[i], enter, 0);
        }
        for (size_t running = count; running;) {
            running = 0;
            for (size_t i = 0; i < count; ++i) {
                if (done[i]) continue;
                current = i;
                const unsigned x = blockDim.x, y = blockDim.y;
                threadIdx = {(unsigned)(i % x), (unsigned)(i / x % y), (unsigned)(i / x / y)};
                swapcontext(&scheduler, &contexts[i]);
                running += !done[i];
            }
        }
    }
};

template <bool barriers, class Body> static void run_block(Body& body) {
    if constexpr (barriers) {
        Fibres& fibres = Fibres::all();
        fibres.body = [](void* argument) { (*static_cast<Body*>(argument))(); };
        fibres.argument = &body;
        fibres.run_block();
    } else {
        for (unsigned z = 0; z < blockDim.z; ++z)
            for (unsigned y = 0; y < blockDim.y; ++y)
                for (unsigned x = 0; x < blockDim.x; ++x) {
                    threadIdx = {x, y, z};
                    body();
                }
    }
}

template <bool barriers, class... Parameters, size_t... i>
static void run(void (*kernel)(Parameters...), void** parameters, const unsigned* shape, std::index_sequence<i...>) {
    gridDim = dim3(shape[0], shape[1], shape[2]);
    blockDim = dim3(shape[3], shape[4], shape[5]);
    auto body = [&] { kernel(*static_cast<std::remove_reference_t<Parameters>*>(parameters[i])...); };
    for (unsigned z = 0; z < gridDim.z; ++z)
        for (unsigned y = 0; y < gridDim.y; ++y)
            for (unsigned x = 0; x < gridDim.x; ++x) {
                blockIdx = {x, y, z};
                run_block<barriers>(body);
            }
}

template <class... Parameters> static size_t sizes(void (*)(Parameters...), size_t* sizes) {
    // What ptxas accepts for sm_70 and later from CUDA 12.1 on.
    static_assert((sizeof(Parameters) + ... + 0) <= 32764, "kernel parameters take more than 32764 bytes");
    size_t count = 0;
    ((sizes[count++] = sizeof(Parameters)), ...);
    return count;
}

template <bool barriers, class... Parameters>
static void run(void (*kernel)(Parameters...), void** parameters, const unsigned* shape) {
    run<barriers>(kernel, parameters, shape, std::index_sequence_for<Parameters...>{});
}

template <class... Parameters> static constexpr size_t count(void (*)(Parameters...)) { return sizeof...(Parameters); }

}  // namespace host

static inline void __syncthreads() { host::Fibres::all().barrier(); }

#define HOST_KERNEL(name, barriers)                                                     \
    extern "C" void host_run_##name(void** parameters, const unsigned* shape) {         \
        host::run<barriers>(name, parameters, shape);                                   \
    }                                                                                   \
    extern "C" size_t host_count_##name() { return host::count(name); }                 \
    extern "C" void host_sizes_##name(size_t* sizes) { host::sizes(name, sizes); }
