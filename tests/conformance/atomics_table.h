// Every atomic function of CUDA for every type and scope that it has: one thread applies a row of awkward values one after
// the other, and each value that it was given back counts; then many threads at once, where their order does not matter.
//
// Trap: an operation on unsigned numbers differs from the signed one only where the highest bit is set, so that both must
// come up, in the memory and in the value.
#include <cuda/atomic>

// On the host: sums of signed numbers may leave their range.
template <class T> T bits(T v) { return v; }
inline unsigned bits(int v) { return v; }
inline unsigned long long bits(long long v) { return v; }

// An operation, as CUDA calls it in the device's scope, the block's and the system's, on a cell of its own each: the old
// values, and what the host says about one.
#define OPERATION(name, free, device, block, system, changed)                   \
    struct name {                                                               \
        static constexpr bool any_order = free;                                 \
        template <class T> __device__ static void apply(T *p, T v, T *olds) {   \
            olds[0] = device, p++, olds[1] = block, p++, olds[2] = system;      \
        }                                                                       \
        template <class T> static T after(T old, T v) { return changed; }       \
    };
#define FUNCTION(name, free, function, changed) \
    OPERATION(name, free, function(p, v), function##_block(p, v), function##_system(p, v), changed)

FUNCTION(Add, true, atomicAdd, T(bits(old) + bits(v)))
FUNCTION(Sub, true, atomicSub, T(bits(old) - bits(v)))
FUNCTION(Exch, false, atomicExch, v)
FUNCTION(Min, true, atomicMin, v < old ? v : old)
FUNCTION(Max, true, atomicMax, v > old ? v : old)
FUNCTION(Inc, false, atomicInc, old >= v ? 0 : old + 1)
FUNCTION(Dec, false, atomicDec, old == 0 || old > v ? v : old - 1)
FUNCTION(And, true, atomicAnd, old & v)
FUNCTION(Or, true, atomicOr, old | v)
FUNCTION(Xor, true, atomicXor, old ^ v)

// Swaps where the memory holds the value next to the new one, which comes up now and then. Of 16 bits there is one scope.
#define NEXT T(v ^ 1)
OPERATION(Cas, false, atomicCAS(p, NEXT, v), atomicCAS_block(p, NEXT, v), atomicCAS_system(p, NEXT, v), old == NEXT ? v : old)
OPERATION(CasOnDevice, false, atomicCAS(p, NEXT, v), atomicCAS(p, NEXT, v), atomicCAS(p, NEXT, v), old == NEXT ? v : old)

#define REFERENCE(name, function, changed)                                                \
    OPERATION(name, true, (cuda::atomic_ref<T, cuda::thread_scope_device>(*p).function(v)), \
              (cuda::atomic_ref<T, cuda::thread_scope_block>(*p).function(v)),              \
              (cuda::atomic_ref<T, cuda::thread_scope_system>(*p).function(v)), changed)
REFERENCE(RefMin, fetch_min, v < old ? v : old)
REFERENCE(RefMax, fetch_max, v > old ? v : old)
REFERENCE(RefAdd, fetch_add, T(bits(old) + bits(v)))
REFERENCE(RefXor, fetch_xor, old ^ v)

const int SCOPES = 3;

template <class Op, class T> __global__ void one_by_one(T *cells, const T *values, T *olds, int n) {
    for (int i = 0; i < n; i++) Op::apply(cells, values[i], &olds[SCOPES * i]);
}

template <class Op, class T> __global__ void at_once(T *cells, const T *values) {
    T olds[SCOPES];
    Op::apply(cells, values[threadIdx.x], olds);
}

// Numbers around both ends of the signed and of the unsigned range, in turns with small ones; a pair that swaps.
template <class T> std::vector<T> awkward(size_t count) {
    const T top = T(1) << (8 * sizeof(T) - 1);
    const T edges[] = {0, 1, top, T(bits(top) - 1), T(~T(0)), T(top + 5), 5, T(top ^ T(~T(0)))};
    std::vector<T> values(count);
    for (size_t i = 0; i < count; i++)
        values[i] = i < 16 ? T(edges[i / 2] ^ T(i & 1)) : T(noise(i) * 0x9e3779b97f4a7c15ull);
    return values;
}
// Of real numbers, those whose sums are exact in any order.
template <> std::vector<float> awkward<float>(size_t count) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; i++) values[i] = int(noise(i) % 64) * 0.25f - 8;
    return values;
}
template <> std::vector<double> awkward<double>(size_t count) {
    std::vector<double> values(count);
    for (size_t i = 0; i < count; i++) values[i] = int(noise(i) % 4096) * 0.125 - 256;
    return values;
}

template <class Op, class T> bool atomic_case(const char *what) {
    const int n = 256;
    std::vector<T> given = awkward<T>(n), start(SCOPES, T(7)), olds(n);
    Buffer<T> cells(start), values(given), back(SCOPES * n);
    one_by_one<Op><<<1, 1>>>(cells.device, values.device, back.device, n);
    T now = start[0];
    for (int i = 0; i < n; i++) olds[i] = now, now = Op::after(now, given[i]);
    bool right = all(back.fetch(), SCOPES * n, [&](size_t i) { return olds[i / SCOPES]; }) &
                 all(cells.fetch(), SCOPES, [&](size_t) { return now; });
    if (Op::any_order) {
        // One block, which is as far as the narrowest scope reaches.
        Buffer<T> shared(start);
        at_once<Op><<<1, n>>>(shared.device, values.device);
        right &= all(shared.fetch(), SCOPES, [&](size_t) { return now; });
    }
    if (!right) printf("  in %s\n", what);
    return right;
}

#define CASE(op, type) atomic_case<op, type>(#op " of " #type)
using ull = unsigned long long;

TEST(atomics_table_of_int) {
    return CASE(Add, int) & CASE(Sub, int) & CASE(Exch, int) & CASE(Min, int) & CASE(Max, int) & CASE(And, int) &
           CASE(Or, int) & CASE(Xor, int) & CASE(Cas, int);
}
TEST(atomics_table_of_unsigned) {
    return CASE(Add, unsigned) & CASE(Sub, unsigned) & CASE(Exch, unsigned) & CASE(Min, unsigned) &
           CASE(Max, unsigned) & CASE(Inc, unsigned) & CASE(Dec, unsigned) & CASE(And, unsigned) &
           CASE(Or, unsigned) & CASE(Xor, unsigned) & CASE(Cas, unsigned);
}
TEST(atomics_table_of_long_long) {
    return CASE(Min, long long) & CASE(Max, long long) & CASE(And, long long) & CASE(Or, long long) &
           CASE(Xor, long long);
}
TEST(atomics_table_of_unsigned_long_long) {
    return CASE(Add, ull) & CASE(Exch, ull) & CASE(Min, ull) & CASE(Max, ull) & CASE(And, ull) & CASE(Or, ull) &
           CASE(Xor, ull) & CASE(Cas, ull);
}
TEST(atomics_table_of_unsigned_short) { return CASE(CasOnDevice, unsigned short); }
TEST(atomics_table_of_reals) { return CASE(Add, float) & CASE(Exch, float) & CASE(Add, double); }
TEST(atomics_table_of_references) {
    return CASE(RefMin, unsigned) & CASE(RefMin, long long) & CASE(RefMin, ull) & CASE(RefMax, int) &
           CASE(RefMax, unsigned) & CASE(RefAdd, long long) & CASE(RefAdd, float) & CASE(RefXor, ull);
}

// Numbers of 16 bits and pairs of them have an addition in the device's scope only.
template <class T> __global__ void add_narrow(T *cell, T value, T *olds) { olds[threadIdx.x] = atomicAdd(cell, value); }

template <class T> static bool narrow_case(T start, T value, float first, float second, float (*low)(T), float (*high)(T)) {
    const int n = 64;
    Buffer<T> cell(std::vector<T>{start}), olds(n);
    add_narrow<<<1, n>>>(cell.device, value, olds.device);
    T sum = cell.fetch()[0];
    // Each thread saw a sum of its own.
    std::vector<bool> seen(n);
    for (const T &old : olds.fetch()) {
        int step = int((low(old) - low(start)) / first);
        if (step < 0 || step >= n || seen[step]) return false;
        seen[step] = true;
    }
    return low(sum) == low(start) + n * first && high(sum) == high(start) + n * second;
}

TEST(atomics_table_of_16_bits) {
    return narrow_case<__half>(__float2half(-3), __float2half(0.5f), 0.5f, 0, [](__half v) { return __half2float(v); },
                               [](__half) { return 0.f; }) &
           narrow_case<__nv_bfloat16>(__float2bfloat16(1), __float2bfloat16(2), 2, 0,
                                      [](__nv_bfloat16 v) { return __bfloat162float(v); },
                                      [](__nv_bfloat16) { return 0.f; }) &
           narrow_case<__half2>(__floats2half2_rn(1, 2), __floats2half2_rn(0.5f, -1), 0.5f, -1,
                                [](__half2 v) { return __low2float(v); }, [](__half2 v) { return __high2float(v); }) &
           narrow_case<__nv_bfloat162>(__floats2bfloat162_rn(0, 4), __floats2bfloat162_rn(1, 2), 1, 2,
                                       [](__nv_bfloat162 v) { return __low2float(v); },
                                       [](__nv_bfloat162 v) { return __high2float(v); });
}
