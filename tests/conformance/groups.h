// Cooperative groups: blocks, tiles, coalesced threads, the grid.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

__global__ void tiles(const int *in, int *out) {
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<16>(block);
    auto quad = cg::tiled_partition<4>(tile);
    int t = block.thread_rank(), n = block.size(), v = in[t];
    out[0 * n + t] = cg::reduce(tile, v, cg::plus<int>());
    out[1 * n + t] = cg::reduce(tile, v, cg::greater<int>());
    out[2 * n + t] = cg::inclusive_scan(tile, v);
    out[3 * n + t] = cg::exclusive_scan(tile, v);
    out[4 * n + t] = quad.shfl(v, 1) + quad.shfl_xor(v, 2) + tile.shfl_down(v, 3) + tile.shfl_up(v, 2);
    out[5 * n + t] = tile.ballot(v & 1) + 100000 * quad.any(v % 7 == 0) + 200000 * quad.all(v % 2 == 0);
    out[6 * n + t] = tile.match_any(v % 3);
    out[7 * n + t] = tile.thread_rank() + 100 * quad.meta_group_rank() + 10000 * tile.meta_group_size();
    tile.sync();
    block.sync();
}

TEST(groups_tiles) {
    const int n = 96;
    std::vector<int> v(n);
    for (int i = 0; i < n; i++) v[i] = noise(i) % 50;
    Buffer<int> in(v), out(8 * n);
    tiles<<<1, n>>>(in.device, out.device);
    return all(out.fetch(), 8 * n, [&](size_t i) {
        int t = i % n, r = t % 16, q = t % 4;
        const int *w = &v[t - r], *f = &v[t - q];
        int sum = 0, most = 0, before = 0, odd = 0, same = 0, seven = 0, even = 1;
        for (int k = 0; k < 16; k++) {
            sum += w[k], most = w[k] > most ? w[k] : most, before += k < r ? w[k] : 0;
            odd |= (w[k] & 1) << k, same |= (w[k] % 3 == v[t] % 3) << k;
        }
        for (int k = 0; k < 4; k++) seven |= f[k] % 7 == 0, even &= f[k] % 2 == 0;
        int shuffled = f[1] + f[q ^ 2] + (r + 3 < 16 ? w[r + 3] : v[t]) + (r >= 2 ? w[r - 2] : v[t]);
        int expected[] = {sum,  most, before + v[t], before, shuffled, odd + 100000 * seven + 200000 * even,
                          same, r + 100 * (r / 4) + 10000 * (n / 16)};
        return expected[i / n];
    });
}

__global__ void coalesced(int *out) {
    int t = threadIdx.x;
    if (t % 4 == 1) {
        cg::coalesced_group group = cg::coalesced_threads();
        int sum = cg::reduce(group, t, cg::plus<int>());
        out[t] = group.size() * 10000 + group.thread_rank() * 1000 + group.shfl(t, 2) + sum * 0;
        out[64 + t] = sum;
    }
}

TEST(groups_of_coalesced_threads) {
    Buffer<int> out(128);
    coalesced<<<1, 64>>>(out.device);
    return all(out.fetch(), 128, [](size_t i) {
        int t = i % 64, lane = t % 32, base = t - lane, sum = 0;
        if (t % 4 != 1) return 0;
        for (int k = 1; k < 32; k += 4) sum += base + k;
        return i < 64 ? 8 * 10000 + lane / 4 * 1000 + base + 9 : sum;
    });
}

__global__ void partitions(int *out) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int t = threadIdx.x;
    auto two = cg::binary_partition(warp, t % 3 == 0);
    auto many = cg::labeled_partition(warp, t % 5);
    out[t] = two.size() * 100 + two.thread_rank();
    out[64 + t] = many.size() * 100 + many.thread_rank();
}

TEST(groups_partitioned_by_a_value) {
    Buffer<int> out(128);
    partitions<<<1, 64>>>(out.device);
    return all(out.fetch(), 128, [](size_t i) {
        int t = i % 64, base = t & ~31, size = 0, rank = 0;
        for (int k = base; k < base + 32; k++) {
            bool same = i < 64 ? (k % 3 == 0) == (t % 3 == 0) : k % 5 == t % 5;
            size += same, rank += same && k < t;
        }
        return size * 100 + rank;
    });
}

// Tiles of several warps, which wait for each other in memory.
template <int SIZE> __global__ void wide_tiles(const int *in, int *out) {
    __shared__ cg::block_tile_memory<1024> scratch;
    cg::thread_block block = cg::this_thread_block(scratch);
    auto tile = cg::tiled_partition<SIZE>(block);
    int t = block.thread_rank(), n = block.size(), v = in[t], r = tile.thread_rank();
    out[0 * n + t] = cg::reduce(tile, v, cg::plus<int>());
    out[1 * n + t] = cg::inclusive_scan(tile, v);
    out[2 * n + t] = tile.shfl(v, SIZE - 3);
    out[3 * n + t] = tile.any(v == 7) + 2 * tile.all(v < 49) + 10 * tile.meta_group_rank() + 100 * r;
    __shared__ int words[SIZE > 512 ? SIZE : 512];
    words[t] = v;
    tile.sync();
    out[4 * n + t] = words[t - r + (r + 33) % SIZE];
}

template <int SIZE> static bool wide_tiles_case() {
    const int n = SIZE > 512 ? SIZE : 512;
    std::vector<int> v(n);
    for (int i = 0; i < n; i++) v[i] = noise(i) % 50;
    Buffer<int> in(v), out(5 * n);
    wide_tiles<SIZE><<<1, n>>>(in.device, out.device);
    return all(out.fetch(), 5 * n, [&](size_t i) {
        int t = i % n, r = t % SIZE, sum = 0, before = 0, seven = 0, below = 1;
        const int *w = &v[t - r];
        for (int k = 0; k < SIZE; k++) sum += w[k], before += k <= r ? w[k] : 0, seven |= w[k] == 7, below &= w[k] < 49;
        int expected[] = {sum, before, w[SIZE - 3], seven + 2 * below + 10 * (t / SIZE) + 100 * r, w[(r + 33) % SIZE]};
        return expected[i / n];
    });
}

TEST(groups_of_two_warps) { return wide_tiles_case<64>(); }
TEST(groups_of_four_warps) { return wide_tiles_case<128>(); }
TEST(groups_of_eight_warps) { return wide_tiles_case<256>(); }
TEST(groups_of_sixteen_warps) { return wide_tiles_case<512>(); }
TEST(groups_of_a_whole_block) { return wide_tiles_case<1024>(); }

__global__ void whole_grid(int *a, int *b, int rounds) {
    cg::grid_group grid = cg::this_grid();
    int n = grid.size(), i = grid.thread_rank();
    for (int r = 0; r < rounds; r++) {
        int v = a[(i + 37) % n];
        grid.sync();
        b[i] = v + 1;
        grid.sync();
        int *swap = a;
        a = b, b = swap;
    }
}

TEST(groups_synchronise_the_grid) {
    const int n = 6 * 64;
    std::vector<int> v(n);
    for (int i = 0; i < n; i++) v[i] = 1000 * i;
    Buffer<int> a(v), b(n);
    int rounds = 5;
    void *args[] = {&a.device, &b.device, &rounds};
    CUDA(cudaLaunchCooperativeKernel((void *)whole_grid, dim3(6), dim3(64), args, 0, nullptr));
    return all(b.fetch(), n, [&](size_t i) { return v[(i + 37 * 5) % n] + 5; });
}
