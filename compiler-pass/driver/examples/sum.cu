// Adds up numbers on the GPU; the host part is in main.cpp.
#include <cuda_runtime.h>

__global__ void add_all(const int *values, int n, int *sum) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(sum, values[i]);
}

int sum_on_gpu(const int *values, int n) {
  int *device_values, *device_sum, sum = -1;
  cudaMalloc(&device_values, n * sizeof(int));
  cudaMalloc(&device_sum, sizeof(int));
  cudaMemcpy(device_values, values, n * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemset(device_sum, 0, sizeof(int));
  add_all<<<(n + 255) / 256, 256>>>(device_values, n, device_sum);
  cudaMemcpy(&sum, device_sum, sizeof(int), cudaMemcpyDeviceToHost);
  cudaFree(device_values);
  cudaFree(device_sum);
  return sum;
}
