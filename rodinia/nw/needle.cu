// Needleman-Wunsch global alignment of two random sequences: the score matrix is filled tile by tile along
// anti-diagonals, one launch per diagonal, growing and then shrinking.
//
// Trap: the grid of the first launch is one block and says nothing about the others; and a diagonal's tiles lie in
// different rows of the matrix, so a launch that uses few bytes touches almost every 2 MiB block of both matrices.
#include <cuda_runtime.h>

#include "../common/app.h"

#define APP "needle"
#define USAGE "needle N PENALTY [--verify] [-o FILE]   (N: length of the sequences, a multiple of 16)"
#define TILE 16
#define SYMBOLS 10  // of the alphabet, numbered from 1

// Scores of aligning symbols 0..10: the first rows and columns of BLOSUM62 (Henikoff and Henikoff, 1992) in the usual
// order A R N D C Q E G H I L.
static const int blosum62[SYMBOLS + 1][SYMBOLS + 1] = {
    {4, -1, -2, -2, 0, -1, -1, 0, -2, -1, -1},    {-1, 5, 0, -2, -3, 1, 0, -2, 0, -3, -2},
    {-2, 0, 6, 1, -3, 0, 0, 0, 1, -3, -3},        {-2, -2, 1, 6, -3, 0, 2, -1, -1, -3, -4},
    {0, -3, -3, -3, 9, -3, -4, -3, -3, -1, -1},   {-1, 1, 0, 0, -3, 5, 2, -2, 0, -3, -2},
    {-1, 0, 0, 2, -4, 2, 5, -2, 0, -3, -3},       {0, -2, 0, -1, -3, -2, -2, 6, -2, -4, -4},
    {-2, 0, 1, -1, -3, 0, 0, -2, 8, -3, -3},      {-1, -3, -3, -3, -1, -3, -3, -4, -3, 4, 2},
    {-1, -2, -3, -4, -1, -2, -3, -4, -3, 2, 4},
};

__host__ __device__ static int best_of(int a, int b, int c) {
  int most = a > b ? a : b;
  return most > c ? most : c;
}

// Fills the tile in column tile_x, row tile_y of tiles: 31 anti-diagonals with a barrier after each. 17 x 17 + 16 x 16
// shared integers: 2180 bytes.
__device__ static void fill_tile(const int *reference, int *matrix, int cols, int penalty, int tile_x, int tile_y) {
  __shared__ int score[TILE + 1][TILE + 1];
  __shared__ int match[TILE][TILE];
  int tx = threadIdx.x;
  size_t corner = (size_t)tile_y * TILE * cols + (size_t)tile_x * TILE;  // above and left of the tile

  for (int ty = 0; ty < TILE; ty++) match[ty][tx] = reference[corner + (size_t)(ty + 1) * cols + tx + 1];
  if (tx == 0) score[0][0] = matrix[corner];
  score[tx + 1][0] = matrix[corner + (size_t)(tx + 1) * cols];
  score[0][tx + 1] = matrix[corner + tx + 1];
  __syncthreads();

  for (int diagonal = 0; diagonal < 2 * TILE - 1; diagonal++) {
    int y = diagonal - tx;
    if (y >= 0 && y < TILE)
      score[y + 1][tx + 1] = best_of(score[y][tx] + match[y][tx], score[y + 1][tx] - penalty, score[y][tx + 1] - penalty);
    __syncthreads();
  }
  for (int ty = 0; ty < TILE; ty++) matrix[corner + (size_t)(ty + 1) * cols + tx + 1] = score[ty + 1][tx + 1];
}

// Diagonal i of the upper left triangle: i tiles.
__global__ void needle_cuda_shared_1(const int *reference, int *matrix, int cols, int penalty, int i,
                                     int block_width) {
  (void)block_width;
  fill_tile(reference, matrix, cols, penalty, blockIdx.x, i - 1 - blockIdx.x);
}

// The i tiles of a diagonal of the lower right triangle.
__global__ void needle_cuda_shared_2(const int *reference, int *matrix, int cols, int penalty, int i,
                                     int block_width) {
  fill_tile(reference, matrix, cols, penalty, blockIdx.x + block_width - i, block_width - 1 - blockIdx.x);
}

// Reads both matrices back along the best path and writes the scores on it.
static void write_traceback(const char *path, const int *scores, const int *reference, int cols, int penalty) {
  FILE *f = app_create(APP, path);
  long i = cols - 1, j = cols - 1;
  for (;;) {
    long at = i * cols + j;
    fprintf(f, "%d ", scores[at]);
    if (i == 0 && j == 0) break;
    if (i > 0 && j > 0 && scores[at] == scores[at - cols - 1] + reference[at]) {
      i--;
      j--;
    } else if (j > 0 && (i == 0 || scores[at] == scores[at - 1] - penalty)) {
      j--;
    } else {
      i--;
    }
  }
  fputc('\n', f);
  app_close(APP, path, f);
}

static void verify(const int *scores, const int *reference, int cols, int penalty) {
  int *above = (int *)app_alloc(APP, sizeof(int) * cols), *row = (int *)app_alloc(APP, sizeof(int) * cols);
  for (int j = 0; j < cols; j++) above[j] = -j * penalty;
  for (long i = 1; i < cols; i++) {
    row[0] = -(int)i * penalty;
    for (int j = 1; j < cols; j++)
      row[j] = best_of(above[j - 1] + reference[i * cols + j], row[j - 1] - penalty, above[j] - penalty);
    char what[32];
    snprintf(what, sizeof what, "score[%ld]", i);
    app_compare_ints(APP, what, scores + i * cols, row, cols);
    int *swap = above;
    above = row;
    row = swap;
  }
  free(above);
  free(row);
  app_verified();
}

// Random sequences in the first row and column, the score of each pair of symbols, then the border scores.
static void make_input(int *reference, int *matrix, int cols, int penalty) {
  srand(7);
  memset(matrix, 0, sizeof(int) * (size_t)cols * cols);
  for (long i = 1; i < cols; i++) matrix[i * cols] = rand() % SYMBOLS + 1;
  for (long j = 1; j < cols; j++) matrix[j] = rand() % SYMBOLS + 1;
  memset(reference, 0, sizeof(int) * (size_t)cols * cols);
  for (long i = 1; i < cols; i++)
    for (long j = 1; j < cols; j++) reference[i * cols + j] = blosum62[matrix[i * cols]][matrix[j]];
  for (long i = 0; i < cols; i++) matrix[i * cols] = -(int)i * penalty;
  for (long j = 0; j < cols; j++) matrix[j] = -(int)j * penalty;
}

static void run(int n, int penalty, app_flags flags) {
  int max_rows = n + 1, max_cols = n + 1;
  size_t size = (size_t)max_rows * max_cols;
  int *reference = (int *)app_alloc(APP, sizeof(int) * size);
  int *input_itemsets = (int *)app_alloc(APP, sizeof(int) * size);
  int *output_itemsets = (int *)app_alloc(APP, sizeof(int) * size);
  make_input(reference, input_itemsets, max_cols, penalty);

  int *reference_cuda, *matrix_cuda;
  CUDA(cudaMalloc((void **)&reference_cuda, sizeof(int) * size));
  CUDA(cudaMalloc((void **)&matrix_cuda, sizeof(int) * size));
  CUDA(cudaMemcpy(reference_cuda, reference, sizeof(int) * size, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy(matrix_cuda, input_itemsets, sizeof(int) * size, cudaMemcpyHostToDevice));

  dim3 dimGrid;
  dim3 dimBlock(TILE, 1);
  int block_width = n / TILE;
  for (int i = 1; i <= block_width; i++) {
    dimGrid.x = i;
    dimGrid.y = 1;
    needle_cuda_shared_1<<<dimGrid, dimBlock>>>(reference_cuda, matrix_cuda, max_cols, penalty, i, block_width);
  }
  CUDA_LAUNCHED("needle_cuda_shared_1");
  for (int i = block_width - 1; i >= 1; i--) {
    dimGrid.x = i;
    dimGrid.y = 1;
    needle_cuda_shared_2<<<dimGrid, dimBlock>>>(reference_cuda, matrix_cuda, max_cols, penalty, i, block_width);
  }
  CUDA_LAUNCHED("needle_cuda_shared_2");
  CUDA(cudaMemcpy(output_itemsets, matrix_cuda, sizeof(int) * size, cudaMemcpyDeviceToHost));

  write_traceback(flags.output ? flags.output : "/dev/null", output_itemsets, reference, max_cols, penalty);
  CUDA(cudaFree(reference_cuda));
  CUDA(cudaFree(matrix_cuda));
  printf("needle: %d x %d, score %d\n", n, n, output_itemsets[size - 1]);
  if (flags.verify) verify(output_itemsets, reference, max_cols, penalty);
  free(reference);
  free(input_itemsets);
  free(output_itemsets);
}

int main(int argc, char **argv) {
  app_flags flags = app_take_flags(APP, USAGE, &argc, argv);
  if (argc != 3) app_fail(EXIT_USAGE, APP, "usage: %s", USAGE);
  int n = (int)app_integer(APP, "N", argv[1], TILE, 46320);
  int penalty = (int)app_integer(APP, "PENALTY", argv[2], 1, 10000);
  if (n % TILE != 0) app_fail(EXIT_USAGE, APP, "N must be a multiple of 16, got %d", n);
  run(n, penalty, flags);
  return 0;
}
