// Functions that stay functions: called through pointers, virtual, and recursive.
//
// Trap: the host may only carry addresses of device functions, as numbers that it got from a symbol.
#include "suite.h"

typedef float (*Binary)(float, float);
__device__ float plus_of(float a, float b) { return a + b; }
__device__ float minus_of(float a, float b) { return a - b; }
__device__ float times_of(float a, float b) { return a * b; }
template <int N> __device__ float scaled(float a, float b) { return a * N + b; }
__device__ Binary binaries[4] = {plus_of, minus_of, times_of, scaled<3>};
__constant__ Binary constant_binary = scaled<7>;
__device__ Binary one_binary = minus_of;

static float on_host(unsigned which, float a, float b) {
    return which == 0 ? a + b : which == 1 ? a - b : which == 2 ? a * b : a * 3 + b;
}

__global__ void by_table(float *out, int n) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) out[t] = binaries[t & 3](t, 3);
}

TEST(functions_through_a_table) {
    Buffer<float> out(1000);
    by_table<<<4, 256>>>(out.device, 1000);
    return all(out.fetch(), 1000, [](size_t t) { return on_host(t & 3, t, 3); });
}

__global__ void by_argument(Binary f, float *out) { out[threadIdx.x] = f ? f(threadIdx.x, 2) : -1; }

TEST(functions_through_an_argument) {
    Binary minus, seventh;
    CUDA(cudaMemcpyFromSymbol(&minus, one_binary, sizeof minus));
    CUDA(cudaMemcpyFromSymbol(&seventh, constant_binary, sizeof seventh));
    Buffer<float> out(64), other(64), none(64);
    by_argument<<<1, 64>>>(minus, out.device);
    by_argument<<<1, 64>>>(seventh, other.device);
    by_argument<<<1, 64>>>(nullptr, none.device);
    return all(out.fetch(), 64, [](size_t t) { return float(t) - 2; }) &
           all(other.fetch(), 64, [](size_t t) { return float(t) * 7 + 2; }) &
           all(none.fetch(), 64, [](size_t) { return -1.f; });
}

struct Choice {
    Binary f;
    float with;
    int tag;
};
__global__ void choose(Choice *choices) {
    int t = threadIdx.x;
    choices[t] = {t % 3 == 0 ? plus_of : t % 3 == 1 ? minus_of : times_of, float(t), t};
}
__global__ void use_choices(const Choice *choices, float *out) {
    Choice mine = choices[(threadIdx.x * 7) % blockDim.x];
    out[threadIdx.x] = mine.f(mine.tag, mine.with + 1) + (mine.f == minus_of ? 100 : 0);
}

TEST(functions_kept_in_memory_from_one_kernel_to_the_next) {
    Buffer<Choice> choices(96);
    Buffer<float> out(96);
    choose<<<1, 96>>>(choices.device);
    use_choices<<<1, 96>>>(choices.device, out.device);
    return all(out.fetch(), 96, [](size_t t) {
        float k = float(t * 7 % 96);
        unsigned which = unsigned(k) % 3;
        return on_host(which, k, k + 1) + (which == 1 ? 100 : 0);
    });
}

// Parameters and results that do not fit registers.
struct Large {
    int values[20];
};
typedef Large (*OfLarge)(Large, int);
__device__ Large shifted(Large large, int by) {
    for (int &value : large.values) value += by;
    return large;
}
__device__ Large turned(Large large, int by) {
    Large result;
    for (int i = 0; i < 20; i++) result.values[i] = large.values[(i + by) % 20];
    return result;
}
__device__ OfLarge of_large[2] = {shifted, turned};
__global__ void large_values(int *out) {
    Large large;
    for (int i = 0; i < 20; i++) large.values[i] = i * i + threadIdx.x;
    Large result = of_large[threadIdx.x & 1](large, 3);
    int sum = 0;
    for (int i = 0; i < 20; i++) sum = sum * 3 + result.values[i];
    out[threadIdx.x] = sum + large.values[19];
}

TEST(functions_take_and_return_structures_by_value) {
    Buffer<int> out(64);
    large_values<<<1, 64>>>(out.device);
    return all(out.fetch(), 64, [](size_t t) {
        unsigned sum = 0;
        for (int i = 0; i < 20; i++) {
            int from = t & 1 ? (i + 3) % 20 : i;
            sum = sum * 3 + unsigned(from * from + int(t) + (t & 1 ? 0 : 3));
        }
        return int(sum + 361 + unsigned(t));
    });
}

// What a function knows of its thread and block, and what it shares with them.
__shared__ int of_the_block[64];
typedef int (*Nullary)(int *);
__device__ int who(int *counter) {
    extern __shared__ int dynamic[];
    atomicAdd(counter, 1);
    of_the_block[threadIdx.x] += blockIdx.x;
    dynamic[threadIdx.x] *= 2;
    return blockIdx.x * 1000 + threadIdx.x + blockDim.x + gridDim.x;
}
__device__ int nobody(int *) { return -1; }
__device__ Nullary nullaries[2] = {nobody, who};
__global__ void block_and_thread(int *out, int *counter) {
    __shared__ double first;
    extern __shared__ int dynamic[];
    int t = threadIdx.x;
    of_the_block[t] = t;
    dynamic[t] = t + 5;
    if (t == 0) first = 0.5;
    __syncthreads();
    int said = nullaries[t < 50](counter);
    __syncthreads();
    int other = blockDim.x - 1 - t;
    out[blockIdx.x * blockDim.x + t] = said + 10000 * of_the_block[other] + 1000000 * dynamic[other] + int(2 * first);
}

TEST(functions_see_their_thread_block_and_shared_memory) {
    Buffer<int> out(3 * 64), counter(1);
    block_and_thread<<<3, 64, 64 * sizeof(int)>>>(out.device, counter.device);
    return all(counter.fetch(), 1, [](size_t) { return 150; }) &
           all(out.fetch(), 192, [](size_t i) {
               int t = i % 64, block = i / 64, other = 63 - t, has = other < 50;
               int said = t < 50 ? block * 1000 + t + 64 + 3 : -1;
               return said + 10000 * (other + (has ? block : 0)) + 1000000 * ((other + 5) * (has ? 2 : 1)) + 1;
           });
}

// Barriers and operations of the warp behind a pointer.
typedef int (*Meeting)(int *, int);
__device__ int sum_of_block(int *memory, int value) {
    memory[threadIdx.x] = value;
    __syncthreads();
    int sum = 0;
    for (unsigned i = 0; i < blockDim.x; i++) sum += memory[i];
    __syncthreads();
    return sum;
}
__device__ int sum_of_warp(int *, int value) {
    for (int way = 16; way; way /= 2) value += __shfl_xor_sync(~0u, value, way);
    return value;
}
__device__ int own_value(int *, int value) { return value; }
__device__ Meeting meetings[3] = {sum_of_block, sum_of_warp, own_value};
__global__ void meet(int *out, int which) {
    __shared__ int memory[64];
    out[threadIdx.x] = meetings[which](memory, threadIdx.x) + meetings[2](memory, 1);
}

TEST(functions_that_wait_behind_a_pointer) {
    bool right = true;
    for (int which = 0; which < 3; which++) {
        Buffer<int> out(64);
        meet<<<1, 64>>>(out.device, which);
        right &= all(out.fetch(), 64, [which](size_t t) {
            int warp = t < 32 ? 31 * 32 / 2 : 31 * 32 / 2 + 32 * 32;
            return (which == 0 ? 63 * 64 / 2 : which == 1 ? warp : int(t)) + 1;
        });
    }
    return right;
}

// Objects made in device code.
struct Shape {
    float scale = 2;
    __device__ virtual float area() const = 0;
    __device__ virtual int corners() const { return 0; }
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    float side;
    __device__ explicit Square(float side) : side(side) {}
    __device__ float area() const override { return side * side * scale; }
    __device__ int corners() const override { return 4; }
};
struct Disc : Shape {
    float radius;
    int *ended;
    __device__ Disc(float radius, int *ended) : radius(radius), ended(ended) {}
    __device__ float area() const override { return 3 * radius * radius * scale; }
    __device__ ~Disc() override { atomicAdd(ended, 1); }
};
struct Pair : Shape {
    Shape *one, *other;
    __device__ Pair(Shape *one, Shape *other) : one(one), other(other) {}
    __device__ float area() const override { return one->area() + other->area(); }
    __device__ int corners() const override { return one->corners() + other->corners(); }
    __device__ ~Pair() override {
        delete one;
        delete other;
    }
};
__global__ void make_shapes(Shape **shapes, int n, int *ended) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    if (t % 3 == 0) shapes[t] = new Square(t);
    if (t % 3 == 1) shapes[t] = new Disc(t, ended);
    if (t % 3 == 2) shapes[t] = new Pair(new Disc(1, ended), new Pair(new Square(t), new Square(1)));
}
__global__ void measure_shapes(Shape **shapes, int n, float *areas, int *corners) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    areas[t] = shapes[t]->area();
    corners[t] = shapes[t]->corners();
    delete shapes[t];
}

TEST(virtual_functions_of_objects_made_in_device_code) {
    const int n = 100;
    Buffer<Shape *> shapes(n);
    Buffer<float> areas(n);
    Buffer<int> corners(n), ended(1);
    make_shapes<<<2, 64>>>(shapes.device, n, ended.device);
    measure_shapes<<<2, 64>>>(shapes.device, n, areas.device, corners.device);
    return all(areas.fetch(), n, [](size_t t) {
               float side = t;
               return t % 3 == 0 ? 2 * side * side : t % 3 == 1 ? 6 * side * side : 6 + 2 * side * side + 2;
           }) &
           all(corners.fetch(), n, [](size_t t) { return t % 3 == 0 ? 4 : t % 3 == 1 ? 0 : 8; }) &
           all(ended.fetch(), 1, [](size_t) { return 66; });
}

struct Counter {
    int value;
    __device__ int up(int by) { return value += by; }
    __device__ int down(int by) { return value -= by; }
    __device__ virtual int twice(int by) { return value += 2 * by; }
};
__global__ void by_member(int *out) {
    int (Counter::*ways[3])(int) = {&Counter::up, &Counter::down, &Counter::twice};
    Counter counter;
    counter.value = 10;
    int sum = 0;
    for (int i = 0; i < 6; i++) sum += (counter.*ways[(i + threadIdx.x) % 3])(i);
    out[threadIdx.x] = sum * 100 + counter.value;
}

TEST(functions_through_pointers_to_members) {
    Buffer<int> out(32);
    by_member<<<1, 32>>>(out.device);
    return all(out.fetch(), 32, [](size_t t) {
        int value = 10, sum = 0;
        for (int i = 0; i < 6; i++) sum += value += (const int[]){i, -i, 2 * i}[(i + t) % 3];
        return sum * 100 + value;
    });
}

// Recursion.
__host__ __device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__host__ __device__ unsigned ackermann(unsigned m, unsigned n) {
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
__host__ __device__ bool is_odd(unsigned n);
__host__ __device__ bool is_even(unsigned n) { return n == 0 || is_odd(n - 1); }
__host__ __device__ bool is_odd(unsigned n) { return n != 0 && is_even(n - 1); }
__host__ __device__ void sort(int *values, int first, int last) {
    if (first >= last) return;
    int pivot = values[(first + last) / 2], i = first, j = last;
    while (i <= j) {
        while (values[i] < pivot) i++;
        while (values[j] > pivot) j--;
        if (i <= j) {
            int kept = values[i];
            values[i++] = values[j];
            values[j--] = kept;
        }
    }
    sort(values, first, j);
    sort(values, i, last);
}
__global__ void recursions(int *out, int *memory) {
    int t = threadIdx.x, own[40];
    for (int i = 0; i < 40; i++) own[i] = memory[t * 40 + i] = (i * 37 + t * 11) % 101;
    sort(own, 0, 39);
    sort(memory, t * 40, t * 40 + 39);
    out[t] = fibonacci(t % 12) + 1000 * int(ackermann(2, t % 5)) + 100000 * is_even(t) + 200000 * is_odd(t) +
             1000000 * own[t % 40] + memory[t * 40 + 5];
}

TEST(functions_that_call_themselves) {
    Buffer<int> out(64), memory(64 * 40);
    recursions<<<1, 64>>>(out.device, memory.device);
    return all(out.fetch(), 64, [](size_t t) {
        int values[40];
        for (int i = 0; i < 40; i++) values[i] = (i * 37 + int(t) * 11) % 101;
        sort(values, 0, 39);
        return fibonacci(t % 12) + 1000 * int(ackermann(2, t % 5)) + (t % 2 ? 200000 : 100000) +
               1000000 * values[t % 40] + values[5];
    });
}

// Not with `sort`: ptxas of CUDA 13.0 with optimization leaves a warp apart behind it (in nvcc's code behind `fibonacci`, too),
// and then neither `__syncthreads` nor `__syncwarp` waits for all its threads. Seen on an H100 (driver 580.159.04), with nvcc's
// code as with clang's; without optimization (`-Xptxas -O0`) both wait.
__global__ void meet_behind_recursion(int *out, volatile int *values) {
    int t = threadIdx.x;
    values[t] = 0;
    __syncthreads();
    values[t] = int(ackermann(2, t % 5)) + 1000;
    __syncthreads();
    out[t] = values[(t + 1) % blockDim.x];
}

TEST(functions_that_call_themselves_before_a_barrier) {
    Buffer<int> out(64), values(64);
    meet_behind_recursion<<<1, 64>>>(out.device, values.device);
    return all(out.fetch(), 64, [](size_t t) { return int(ackermann(2, (t + 1) % 64 % 5)) + 1000; });
}

// A walk of a tree that depends on the thread, with a function handed down.
struct Node {
    int value, left, right;
};
__device__ int visit(const Node *nodes, int at, int (*of)(int, int)) {
    if (at < 0) return threadIdx.x;
    return of(visit(nodes, nodes[at].left, of), nodes[at].value) - visit(nodes, nodes[at].right, of);
}
__device__ int mixed(int a, int b) { return a * 3 + b; }
__device__ int greater(int a, int b) { return a > b ? a : b; }
__global__ void walk(const Node *nodes, int *out) {
    int own = visit(nodes, 0, threadIdx.x % 2 ? mixed : greater);
    out[threadIdx.x] = __shfl_down_sync(~0u, own, 1) + own;
}
static int visit_on_host(const std::vector<Node> &nodes, int at, int t) {
    if (at < 0) return t;
    int left = visit_on_host(nodes, nodes[at].left, t), right = visit_on_host(nodes, nodes[at].right, t);
    int value = nodes[at].value;
    return (t % 2 ? left * 3 + value : left > value ? left : value) - right;
}

TEST(functions_handed_down_a_recursion) {
    std::vector<Node> nodes(31);
    for (int i = 0; i < 31; i++) nodes[i] = {int(noise(i) % 50), i < 15 ? 2 * i + 1 : -1, i < 15 ? 2 * i + 2 : -1};
    Buffer<Node> tree(nodes);
    Buffer<int> out(32);
    walk<<<1, 32>>>(tree.device, out.device);
    return all(out.fetch(), 32, [&](size_t t) {
        int own = visit_on_host(nodes, 0, t);
        return own + visit_on_host(nodes, 0, t == 31 ? 31 : t + 1);
    });
}

#include "run.h"
