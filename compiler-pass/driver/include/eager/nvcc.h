// Included by eagercc in front of every CUDA source: what nvcc gives a source and clang does not. Each part says which
// behaviour of nvcc it imitates. Order matters: what tells the two compilers apart (CCCL, nv/target) decides first, for it
// is clang that must be found there; only then come the macros that sources ask for.
#ifndef EAGER_NVCC_H
#define EAGER_NVCC_H

// nvcc includes cuda_runtime.h before the source, which includes these.
#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __cplusplus
#include <new>
#include <utility>
#endif
// CUDA's own headers and its C++ libraries take a compiler with __NVCC__ for nvcc: they look here, once, before it is there.
#include <nv/target>
#if defined(__cplusplus) && __has_include(<cuda/std/__cccl/compiler.h>)
#include <cuda/std/__cccl/compiler.h>
#endif

// nvcc defines its name and its version, and __CUDACC__ with a value: sources test `#if __CUDACC__` and pick code by version.
#undef __CUDACC__
#define __CUDACC__ 1
#ifndef __NVCC__
#define __NVCC__ 1
#endif
#ifndef __CUDACC_VER_MAJOR__
#define __CUDACC_VER_MAJOR__ (CUDART_VERSION / 1000)
#define __CUDACC_VER_MINOR__ (CUDART_VERSION % 1000 / 10)
#define __CUDACC_VER_BUILD__ 0
#endif

// clang takes __cluster_dims__ and makes nothing of it for NVIDIA's GPUs: the pass reads it from an annotation.
#if defined(__CUDA_ARCH__) && defined(__cluster_dims__)
#undef __cluster_dims__
#define __cluster_dims__(...) __attribute__((cluster_dims(__VA_ARGS__), annotate("eager.cluster", __VA_ARGS__)))
#endif

#ifdef __cplusplus
// nvcc's min and max of all mixed types are for the host too (math_functions.hpp); clang keeps the device's alone.
#define EAGER_MIN_MAX(result, one, other)                                                                               \
    static inline __host__ result min(const one a, const other b) { return (result)a < (result)b ? (result)a : (result)b; } \
    static inline __host__ result max(const one a, const other b) { return (result)a > (result)b ? (result)a : (result)b; }
EAGER_MIN_MAX(int, int, int)
EAGER_MIN_MAX(unsigned, unsigned, unsigned)
EAGER_MIN_MAX(unsigned, int, unsigned)
EAGER_MIN_MAX(unsigned, unsigned, int)
EAGER_MIN_MAX(long, long, long)
EAGER_MIN_MAX(unsigned long, unsigned long, unsigned long)
EAGER_MIN_MAX(unsigned long, long, unsigned long)
EAGER_MIN_MAX(unsigned long, unsigned long, long)
EAGER_MIN_MAX(long long, long long, long long)
EAGER_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
EAGER_MIN_MAX(unsigned long long, long long, unsigned long long)
EAGER_MIN_MAX(unsigned long long, unsigned long long, long long)
EAGER_MIN_MAX(float, float, float)
EAGER_MIN_MAX(double, double, double)
EAGER_MIN_MAX(double, float, double)
EAGER_MIN_MAX(double, double, float)
#undef EAGER_MIN_MAX

#ifdef __CUDA__
// nvcc has these for the device; clang declares nan and nanf without a body, and has no __tanhf (device_functions.h of CUDA
// 13). The text of a NaN is ignored, as libdevice ignores it.
static inline __device__ double nan(const char *) { return __builtin_nan(""); }
static inline __device__ float nanf(const char *) { return __builtin_nanf(""); }
#if CUDART_VERSION >= 13000
static inline __device__ float __tanhf(float x) { return tanhf(x); }
#endif
// While nvcc compiles for the device it does not look into host functions, where a macro may then stand for device code
// (`#ifdef __CUDA_ARCH__`, `__trap()`). They are never called: the host's own half decides what they do.
#ifdef __CUDA_ARCH__
__attribute__((noreturn)) __host__ void __trap(void);
__host__ void __brkpt(void);
__host__ void __syncthreads(void);
__host__ void __syncwarp(unsigned = 0xffffffff);
__host__ void __threadfence(void);
__host__ void __nanosleep(unsigned);
#endif
#endif

namespace eager_nvcc {
template <typename T> struct same { typedef T type; };
// A load that is made each time, of any type of a multiple of 1, 2 or 4 bytes.
template <typename Word, typename T> __device__ inline T fetch(const T *from) {
    T value;
    for (unsigned i = 0; i < sizeof(T) / sizeof(Word); i++)
        reinterpret_cast<Word *>(&value)[i] = reinterpret_cast<const volatile Word *>(from)[i];
    return value;
}
} // namespace eager_nvcc

// nvcc's loads and stores with a hint to the caches (sm_32_intrinsics.h, which clang leaves out): for every type that they
// have there. The hint is left away, for clang has no word for it; `__ldcv` reads memory anew.
#define EAGER_LOAD(name) \
    template <typename T> static inline __device__ T name(const T *from) { return *from; }
EAGER_LOAD(__ldca)
EAGER_LOAD(__ldcg)
EAGER_LOAD(__ldcs)
EAGER_LOAD(__ldlu)
#undef EAGER_LOAD
template <typename T> static inline __device__ T __ldcv(const T *from) {
    if (sizeof(T) % 4 == 0) return eager_nvcc::fetch<unsigned>(from);
    if (sizeof(T) % 2 == 0) return eager_nvcc::fetch<unsigned short>(from);
    return eager_nvcc::fetch<unsigned char>(from);
}
#define EAGER_STORE(name) \
    template <typename T> static inline __device__ void name(T *to, typename eager_nvcc::same<T>::type value) { *to = value; }
EAGER_STORE(__stwb)
EAGER_STORE(__stcg)
EAGER_STORE(__stcs)
EAGER_STORE(__stwt)
#undef EAGER_STORE

// nvcc's atomic built-ins (CUDA C++ programming guide, "Atomic functions"; since 12.8). Every scope is served by the widest,
// and every order but relaxed by a fence on both sides.
#define __NV_ATOMIC_RELAXED 0
#define __NV_ATOMIC_CONSUME 1
#define __NV_ATOMIC_ACQUIRE 2
#define __NV_ATOMIC_RELEASE 3
#define __NV_ATOMIC_ACQ_REL 4
#define __NV_ATOMIC_SEQ_CST 5
#define __NV_THREAD_SCOPE_THREAD 0
#define __NV_THREAD_SCOPE_BLOCK 1
#define __NV_THREAD_SCOPE_CLUSTER 2
#define __NV_THREAD_SCOPE_DEVICE 3
#define __NV_THREAD_SCOPE_SYSTEM 4
static inline __device__ void __nv_atomic_thread_fence(int order, int = __NV_THREAD_SCOPE_SYSTEM) {
    if (order != __NV_ATOMIC_RELAXED) __threadfence_system();
}
namespace eager_nvcc {
struct ordered {
    int order;
    __device__ inline ordered(int order) : order(order) { __nv_atomic_thread_fence(order); }
    __device__ inline ~ordered() { __nv_atomic_thread_fence(order); }
};
} // namespace eager_nvcc
#define EAGER_SCOPE int = __NV_THREAD_SCOPE_SYSTEM
#define EAGER_ATOMIC(name)                                                                                        \
    template <typename T>                                                                                         \
    static inline __device__ T __nv_atomic_fetch_##name(T *at, typename eager_nvcc::same<T>::type value, int order, EAGER_SCOPE) { \
        eager_nvcc::ordered fences(order);                                                                        \
        return __atomic_fetch_##name(at, value, __ATOMIC_RELAXED);                                                \
    }                                                                                                             \
    template <typename T>                                                                                         \
    static inline __device__ void __nv_atomic_##name(T *at, typename eager_nvcc::same<T>::type value, int order, EAGER_SCOPE) { \
        __nv_atomic_fetch_##name(at, value, order);                                                               \
    }
EAGER_ATOMIC(add)
EAGER_ATOMIC(sub)
EAGER_ATOMIC(and)
EAGER_ATOMIC(or)
EAGER_ATOMIC(xor)
EAGER_ATOMIC(min)
EAGER_ATOMIC(max)
#undef EAGER_ATOMIC
template <typename T> static inline __device__ void __nv_atomic_load(T *from, T *value, int order, EAGER_SCOPE) {
    eager_nvcc::ordered fences(order);
    __atomic_load(from, value, __ATOMIC_RELAXED);
}
template <typename T> static inline __device__ T __nv_atomic_load_n(T *from, int order, EAGER_SCOPE) {
    eager_nvcc::ordered fences(order);
    return __atomic_load_n(from, __ATOMIC_RELAXED);
}
template <typename T> static inline __device__ void __nv_atomic_store(T *to, T *value, int order, EAGER_SCOPE) {
    eager_nvcc::ordered fences(order);
    __atomic_store(to, value, __ATOMIC_RELAXED);
}
template <typename T>
static inline __device__ void __nv_atomic_store_n(T *to, typename eager_nvcc::same<T>::type value, int order, EAGER_SCOPE) {
    eager_nvcc::ordered fences(order);
    __atomic_store_n(to, value, __ATOMIC_RELAXED);
}
template <typename T> static inline __device__ void __nv_atomic_exchange(T *at, T *value, T *old, int order, EAGER_SCOPE) {
    eager_nvcc::ordered fences(order);
    __atomic_exchange(at, value, old, __ATOMIC_RELAXED);
}
template <typename T>
static inline __device__ T __nv_atomic_exchange_n(T *at, typename eager_nvcc::same<T>::type value, int order, EAGER_SCOPE) {
    eager_nvcc::ordered fences(order);
    return __atomic_exchange_n(at, value, __ATOMIC_RELAXED);
}
template <typename T>
static inline __device__ bool __nv_atomic_compare_exchange(T *at, T *expected, T *wanted, bool, int success, int, EAGER_SCOPE) {
    eager_nvcc::ordered fences(success);
    return __atomic_compare_exchange(at, expected, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
template <typename T>
static inline __device__ bool __nv_atomic_compare_exchange_n(T *at, T *expected, typename eager_nvcc::same<T>::type wanted, bool,
                                                             int success, int, EAGER_SCOPE) {
    eager_nvcc::ordered fences(success);
    return __atomic_compare_exchange_n(at, expected, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
#undef EAGER_SCOPE

// Memory of a __shared__ variable whose type has a constructor: nvcc never runs it there, and clang refuses the variable.
// eagercc declares variables of libcu++'s synchronisation types so.
namespace eager_nvcc {
template <typename T> struct shared {
    unsigned char bytes[sizeof(T)] __attribute__((aligned(__alignof__(T)))); // `alignas` is not in C++98
    __device__ T &object() { return *reinterpret_cast<T *>(bytes); }
};
} // namespace eager_nvcc
#endif // __cplusplus

#endif
