// The work of the bench in OpenCL, for POCL. Declares the few functions it needs: headers of OpenCL are not everywhere.
#include "common.h"
#include <cstdint>

extern "C" {
typedef struct opaque *handle;
int clGetPlatformIDs(unsigned, handle *, unsigned *);
int clGetDeviceIDs(handle, uint64_t, unsigned, handle *, unsigned *);
handle clCreateContext(const intptr_t *, unsigned, const handle *, void *, void *, int *);
handle clCreateCommandQueue(handle, handle, uint64_t, int *);
handle clCreateProgramWithSource(handle, unsigned, const char **, const size_t *, int *);
int clBuildProgram(handle, unsigned, const handle *, const char *, void *, void *);
handle clCreateKernel(handle, const char *, int *);
handle clCreateBuffer(handle, uint64_t, size_t, void *, int *);
int clSetKernelArg(handle, unsigned, size_t, const void *);
int clEnqueueNDRangeKernel(handle, handle, unsigned, const size_t *, const size_t *, const size_t *, unsigned,
                           const handle *, handle *);
int clEnqueueReadBuffer(handle, handle, unsigned, size_t, size_t, void *, unsigned, const handle *, handle *);
int clFinish(handle);
}
constexpr uint64_t ALL_DEVICES = 0xFFFFFFFF, READ_WRITE = 1, COPY = 1 << 5;

static const char *SOURCE = R"(
kernel void map(global const float *in, global float *out) {
    int i = get_global_id(0);
    float x = in[i];
    out[i] = ((((x * .5f + .25f) * x - .125f) * x + .0625f) * x - .03125f) * x + 1;
}
kernel void stencil(global const float *in, global float *out) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x < 1 || y < 1 || x >= SIDE - 1 || y >= SIDE - 1) return;
    int i = y * SIDE + x;
    out[i] = .5f * in[i] + .125f * (in[i - 1] + in[i + 1] + in[i - SIDE] + in[i + SIDE]);
}
kernel void reduce(global const float *in, global float *out) {
    local float sums[BLOCK];
    int t = get_local_id(0);
    sums[t] = in[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_ = BLOCK / 2; half_; half_ /= 2) {
        if (t < half_) sums[t] += sums[t + half_];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (t == 0) out[get_group_id(0)] = sums[0];
}
kernel void smooth(global const float *in, global float *out) {
    local float s[2][BLOCK + 2];
    int t = get_local_id(0), i = get_global_id(0), now = 0;
    s[0][t + 1] = in[i];
    if (t < 2) s[t][0] = s[t][BLOCK + 1] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step_ = 0; step_ < STEPS; step_++) {
        local const float *a = s[now];
        s[1 - now][t + 1] = .25f * a[t] + .5f * a[t + 1] + .25f * a[t + 2];
        now = 1 - now;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    out[i] = s[now][t + 1];
}
)";

static void must(int status, const char *what) {
    if (status == 0) return;
    fprintf(stderr, "%s: OpenCL error %d\n", what, status);
    exit(1);
}

int main() {
    handle platform, device;
    unsigned count = 0;
    if (clGetPlatformIDs(1, &platform, &count) || count == 0) {
        fprintf(stderr, "no OpenCL platform\n");
        return 77;
    }
    int status;
    must(clGetDeviceIDs(platform, ALL_DEVICES, 1, &device, nullptr), "device");
    handle context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status);
    must(status, "context");
    handle queue = clCreateCommandQueue(context, device, 0, &status);
    must(status, "queue");
    handle program = clCreateProgramWithSource(context, 1, &SOURCE, nullptr, &status);
    must(status, "source");
    char options[100];
    snprintf(options, sizeof options, "-DSIDE=%d -DBLOCK=%d -DSTEPS=%d", SIDE, BLOCK, STEPS);
    must(clBuildProgram(program, 1, &device, options, nullptr, nullptr), "build");
    auto input = numbers(COUNT);
    handle in = clCreateBuffer(context, READ_WRITE | COPY, COUNT * sizeof(float), input.data(), &status);
    must(status, "input");
    std::vector<float> zero(COUNT);
    auto run = [&](const char *name, unsigned dimensions, size_t x, size_t y, size_t bx, size_t by, int results,
                   double sum) {
        handle out = clCreateBuffer(context, READ_WRITE | COPY, COUNT * sizeof(float), zero.data(), &status);
        must(status, "output");
        handle kernel = clCreateKernel(program, name, &status);
        must(status, name);
        must(clSetKernelArg(kernel, 0, sizeof in, &in), name);
        must(clSetKernelArg(kernel, 1, sizeof out, &out), name);
        size_t all[2] = {x, y}, group[2] = {bx, by};
        timed(name, [&] {
            must(clEnqueueNDRangeKernel(queue, kernel, dimensions, nullptr, all, group, 0, nullptr, nullptr), name);
            must(clFinish(queue), name);
        });
        std::vector<float> got(results);
        size_t bytes = results * sizeof(float);
        must(clEnqueueReadBuffer(queue, out, 1, 0, bytes, got.data(), 0, nullptr, nullptr), name);
        expect(name, got, sum);
    };
    run("map", 1, COUNT, 1, BLOCK, 1, COUNT, sum_of_map());
    run("stencil", 2, SIDE, SIDE, 32, 8, SIDE * SIDE, sum_of_stencil());
    run("reduce", 1, COUNT, 1, BLOCK, 1, SUMS, sum_of_reduce());
    run("smooth", 1, COUNT, 1, BLOCK, 1, COUNT, sum_of_smooth());
}
