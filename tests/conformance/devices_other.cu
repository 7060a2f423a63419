// The other file of `devices.cu`; its `base` is a variable of its own.
__device__ int elsewhere = 100;
__constant__ int setting;
static __device__ int base;
__device__ int count_elsewhere() { return ++base; }
