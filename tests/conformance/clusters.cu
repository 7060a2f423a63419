// Clusters of blocks: ranks, special registers, the barrier in one step and in two, shared memory of other blocks, read, written and
// changed by atomics; limits and what CUDA says beyond them. Needs compute capability 9.0.
//
// Trap: without the barrier at its end a block may be gone while others still read its shared memory.
#include "suite.h"

#include <cooperative_groups.h>
namespace cg = cooperative_groups;

template <class... Parameters, class... Arguments>
static cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, dim3 cluster, Arguments... arguments) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = cluster.x, attribute.val.clusterDim.y = cluster.y, attribute.val.clusterDim.z = cluster.z;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid, config.blockDim = block, config.attrs = &attribute, config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

// What a thread is told of its cluster.
struct Told { unsigned rank, blocks, threads, thread, block[3], dim[3], cluster[3], clusters[3], asm_rank; };

__global__ void tell(Told *out) {
    cg::cluster_group cluster = cg::this_cluster();
    unsigned index = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    Told &told = out[index * blockDim.x + threadIdx.x];
    told.rank = cluster.block_rank(), told.blocks = cluster.num_blocks();
    told.threads = cluster.num_threads(), told.thread = cluster.thread_rank();
    dim3 at = cluster.block_index(), dim = cluster.dim_blocks();
    told.block[0] = at.x, told.block[1] = at.y, told.block[2] = at.z;
    told.dim[0] = dim.x, told.dim[1] = dim.y, told.dim[2] = dim.z;
    asm("mov.u32 %0, %%clusterid.x;" : "=r"(told.cluster[0]));
    asm("mov.u32 %0, %%clusterid.y;" : "=r"(told.cluster[1]));
    asm("mov.u32 %0, %%clusterid.z;" : "=r"(told.cluster[2]));
    asm("mov.u32 %0, %%nclusterid.x;" : "=r"(told.clusters[0]));
    asm("mov.u32 %0, %%nclusterid.y;" : "=r"(told.clusters[1]));
    asm("mov.u32 %0, %%nclusterid.z;" : "=r"(told.clusters[2]));
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(told.asm_rank));
}

static bool told(dim3 grid, dim3 cluster) {
    const unsigned threads = 3, count = grid.x * grid.y * grid.z * threads;
    Buffer<Told> out(count);
    CUDA(launch(tell, grid, threads, cluster, out.device));
    const std::vector<Told> &got = out.fetch();
    for (unsigned i = 0; i < count; i++) {
        unsigned b = i / threads, at[3] = {b % grid.x, b / grid.x % grid.y, b / (grid.x * grid.y)};
        unsigned size[3] = {cluster.x, cluster.y, cluster.z}, all[3] = {grid.x, grid.y, grid.z};
        unsigned blocks = size[0] * size[1] * size[2];
        unsigned rank = (at[2] % size[2] * size[1] + at[1] % size[1]) * size[0] + at[0] % size[0];
        bool right = got[i].rank == rank && got[i].asm_rank == rank && got[i].blocks == blocks && got[i].threads == blocks * threads &&
                     got[i].thread == rank * threads + i % threads;
        for (int axis = 0; axis < 3; axis++)
            right = right && got[i].block[axis] == at[axis] % size[axis] && got[i].dim[axis] == size[axis] &&
                    got[i].cluster[axis] == at[axis] / size[axis] && got[i].clusters[axis] == all[axis] / size[axis];
        if (!right) {
            printf("  thread %u is told wrong\n", i);
            return false;
        }
    }
    return true;
}
TEST(cluster_ranks) {
    return told({8, 2, 2}, {1, 1, 1}) && told({8, 2, 2}, {2, 1, 1}) && told({8, 4, 2}, {2, 2, 2}) && told({6, 6, 1}, {3, 2, 1}) &&
           told({8, 1, 1}, {8, 1, 1});
}

// Each block's part of a histogram is in its own shared memory; all of the cluster count there.
__global__ void __cluster_dims__(4, 1, 1) histogram(const unsigned *values, unsigned *bins, int count) {
    __shared__ unsigned part[16];
    cg::cluster_group cluster = cg::this_cluster();
    for (int i = threadIdx.x; i < 16; i += blockDim.x) part[i] = 0;
    cluster.sync();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        unsigned bin = values[i] % 64;
        atomicAdd(cluster.map_shared_rank(part, bin / 16) + bin % 16, 1u);
    }
    cluster.sync();
    for (int i = threadIdx.x; i < 16; i += blockDim.x) atomicAdd(&bins[cluster.block_rank() * 16 + i], part[i]);
}
TEST(cluster_histogram) {
    const int count = 5000;
    std::vector<unsigned> values(count), want(64);
    for (int i = 0; i < count; i++) values[i] = noise(i), want[values[i] % 64]++;
    Buffer<unsigned> in(values), bins(64);
    histogram<<<12, 96>>>(in.device, bins.device, count);
    return all(bins.fetch(), 64, [&](size_t i) { return want[i]; });
}

// Values go round a ring of blocks, each time through the neighbour's shared memory.
__global__ void ring(int *out, int turns) {
    __shared__ int cells[2][32];
    cg::cluster_group cluster = cg::this_cluster();
    unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
    cells[0][threadIdx.x] = blockIdx.x * 100 + threadIdx.x;
    for (int turn = 0; turn < turns; turn++) {
        cluster.sync();
        *cluster.map_shared_rank(&cells[(turn + 1) % 2][threadIdx.x], next) = cells[turn % 2][threadIdx.x] + 1;
    }
    cluster.sync();
    out[blockIdx.x * 32 + threadIdx.x] = cells[turns % 2][threadIdx.x];
}
TEST(cluster_ring) {
    for (int size : {1, 2, 8}) {
        const int turns = 5;
        Buffer<int> out(16 * 32);
        CUDA(launch(ring, 16, 32, size, out.device, turns));
        bool right = all(out.fetch(), 16 * 32, [&](size_t i) {
            int block = int(i) / 32, first = block / size * size, from = first + (block - first + turns * (size - 1)) % size;
            return from * 100 + int(i) % 32 + turns;
        });
        if (!right) return false;
    }
    return true;
}

// The barrier in two steps: work of one's own between them; threads that leave count no more.
__global__ void two_steps(int *out) {
    __shared__ int value;
    cg::cluster_group cluster = cg::this_cluster();
    if (threadIdx.x >= 40 && cluster.block_rank() == 1) return;
    if (threadIdx.x == 0) value = 7 * blockIdx.x;
    __syncthreads();
    int own = 0;
    for (int round = 0; round < 3; round++) {
        cluster.barrier_arrive();
        own += threadIdx.x;
        cluster.barrier_wait();
        if (threadIdx.x == 0 && round == 1) value += 1;
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    unsigned other = cluster.block_rank() ^ 1, address, remote;
    int seen;
    address = (unsigned)__cvta_generic_to_shared(&value);
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(other));
    asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(seen) : "r"(remote) : "memory");
    unsigned long long generic;
    asm("{ .reg .u64 w; cvt.u64.u32 w, %1; cvta.shared::cluster.u64 %0, w; }" : "=l"(generic) : "r"(remote));
    if (*(volatile int *)generic != seen) seen = -1;
    int rank = cluster.query_shared_rank(cluster.map_shared_rank(&value, other));
    out[blockIdx.x * 64 + threadIdx.x] = seen * 1000 + own * 10 + rank;
    cluster.sync();
}
TEST(cluster_barrier_in_two_steps) {
    Buffer<int> out(4 * 64);
    CUDA(cudaMemset(out.device, 0, 4 * 64 * 4));
    CUDA(launch(two_steps, 4, 64, 2, out.device));
    return all(out.fetch(), 4 * 64, [](size_t i) {
        int block = int(i) / 64, thread = int(i) % 64;
        if (block % 2 == 1 && thread >= 40) return 0;
        return (7 * (block ^ 1) + 1) * 1000 + 30 * thread + (block % 2 ^ 1);
    });
}

__global__ void named(int *out) { out[blockIdx.x] = cg::this_cluster().num_blocks(); }
__global__ void __cluster_dims__(2, 1, 1) pairs(int *out) { out[blockIdx.x] = cg::this_cluster().num_blocks(); }
TEST(cluster_limits) {
    Buffer<int> out(64);
    auto says = [&](cudaError_t wanted, cudaError_t got) {
        cudaGetLastError();
        if (wanted != got) printf("  %s instead of %s\n", cudaGetErrorName(got), cudaGetErrorName(wanted));
        return wanted == got;
    };
    bool right = says(cudaErrorInvalidClusterSize, launch(named, 6, 32, 4, out.device)) &&
                 says(cudaErrorInvalidClusterSize, launch(named, 32, 32, 16, out.device)) &&
                 says(cudaErrorInvalidClusterSize, launch(pairs, 8, 32, 4, out.device)) &&
                 says(cudaSuccess, launch(pairs, 8, 32, 2, out.device));
    CUDA(cudaFuncSetAttribute(named, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    right = right && says(cudaSuccess, launch(named, 32, 32, 16, out.device)) &&
            says(cudaErrorInvalidClusterSize, launch(named, 32, 32, 32, out.device));
    pairs<<<3, 32>>>(out.device);
    right = right && says(cudaErrorInvalidClusterSize, cudaGetLastError());
    CUDA(cudaDeviceSynchronize());
    cudaFuncAttributes attributes;
    CUDA(cudaFuncGetAttributes(&attributes, pairs));
    right = right && attributes.requiredClusterWidth == 2 && attributes.clusterDimMustBeSet == 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = 8, config.blockDim = 32;
    int most = 0, clusters = 0;
    CUDA(cudaOccupancyMaxPotentialClusterSize(&most, pairs, &config));
    CUDA(cudaOccupancyMaxActiveClusters(&clusters, pairs, &config));
    return right && most == 8 && clusters > 0;
}

#include "run.h"
