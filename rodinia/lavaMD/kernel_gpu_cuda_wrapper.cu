// The device part of lavaMD: one launch, one block per box.
//
// Trap: the sizes of the allocations are fields of a struct passed by value from a C translation unit; nothing in this
// file says how large they are.
#include <cuda_runtime.h>

#include "../common/app.h"
#include "lavaMD.h"

#define APP "lavaMD"
#define THREADS 128

// Each thread owns one particle of the home box (28 threads own none) and sums over the particles of the home box and
// of its neighbours, which pass through shared memory one box at a time: 7200 bytes.
__global__ void kernel_gpu_cuda(par_str par, dim_str dim, const box_str *box, const FOUR_VECTOR *rv, const double *qv,
                                FOUR_VECTOR *fv) {
  __shared__ FOUR_VECTOR home[PARTICLES_PER_BOX];
  __shared__ FOUR_VECTOR other[PARTICLES_PER_BOX];
  __shared__ double charge[PARTICLES_PER_BOX];
  int particle = threadIdx.x;
  if (blockIdx.x >= dim.number_boxes) return;
  double a2 = 2.0 * par.alpha * par.alpha;
  const box_str *mine = &box[blockIdx.x];
  if (particle < PARTICLES_PER_BOX) home[particle] = rv[mine->offset + particle];
  FOUR_VECTOR force = {0, 0, 0, 0};

  for (int k = 0; k <= mine->nn; k++) {
    long offset = k == 0 ? mine->offset : mine->nei[k - 1].offset;
    if (particle < PARTICLES_PER_BOX) {
      other[particle] = rv[offset + particle];
      charge[particle] = qv[offset + particle];
    }
    __syncthreads();
    if (particle < PARTICLES_PER_BOX) {
      FOUR_VECTOR a = home[particle];
      for (int j = 0; j < PARTICLES_PER_BOX; j++) {
        FOUR_VECTOR b = other[j];
        double r2 = a.v + b.v - (a.x * b.x + a.y * b.y + a.z * b.z);
        double vij = exp(-a2 * r2);
        double scale = charge[j] * 2.0 * vij;
        force.v += charge[j] * vij;
        force.x += scale * (a.x - b.x);
        force.y += scale * (a.y - b.y);
        force.z += scale * (a.z - b.z);
      }
    }
    __syncthreads();
  }
  if (particle < PARTICLES_PER_BOX) {
    FOUR_VECTOR *out = &fv[mine->offset + particle];
    out->v += force.v;
    out->x += force.x;
    out->y += force.y;
    out->z += force.z;
  }
}

extern "C" void kernel_gpu_cuda_wrapper(par_str par, dim_str dim, box_str *box, FOUR_VECTOR *rv, double *qv,
                                        FOUR_VECTOR *fv) {
  box_str *d_box;
  FOUR_VECTOR *d_rv;
  double *d_qv;
  FOUR_VECTOR *d_fv;
  dim3 threads;
  dim3 blocks;
  CUDA(cudaDeviceSynchronize());
  blocks.x = (unsigned)dim.number_boxes;
  blocks.y = 1;
  threads.x = THREADS;
  threads.y = 1;

  CUDA(cudaMalloc((void **)&d_box, dim.box_mem));
  CUDA(cudaMalloc((void **)&d_rv, dim.space_mem));
  CUDA(cudaMalloc((void **)&d_qv, dim.space_mem2));
  CUDA(cudaMalloc((void **)&d_fv, dim.space_mem));
  CUDA(cudaMemcpy(d_box, box, dim.box_mem, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy(d_rv, rv, dim.space_mem, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy(d_qv, qv, dim.space_mem2, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy(d_fv, fv, dim.space_mem, cudaMemcpyHostToDevice));

  kernel_gpu_cuda<<<blocks, threads>>>(par, dim, d_box, d_rv, d_qv, d_fv);
  CUDA_LAUNCHED("kernel_gpu_cuda");
  CUDA(cudaDeviceSynchronize());

  CUDA(cudaMemcpy(fv, d_fv, dim.space_mem, cudaMemcpyDeviceToHost));
  CUDA(cudaFree(d_rv));
  CUDA(cudaFree(d_qv));
  CUDA(cudaFree(d_fv));
  CUDA(cudaFree(d_box));
}
