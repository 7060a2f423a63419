// Speckle-reducing anisotropic diffusion (Yu and Acton, 2002) on a column-major image, one thread per pixel.
//
// Trap: the reduction's later passes read `sums` at a stride of 512, then 512 * 512 elements: few bytes, but each pass
// except the last still sweeps every 2 MiB block of both arrays. And the text output is written before cudaFree, so the
// device memory stays taken during it; both are as in the original and are what makes this program interesting here.
#include <cuda_runtime.h>

#include "../common/app.h"

#define APP "srad_v1"
#define USAGE "srad_v1 ITERATIONS LAMBDA ROWS COLS [-i IMAGE.pgm] [--verify] [-o FILE]"
#define THREADS 512

// 100 iterations of single precision with different summation order; pixel values lie in 0..255.
#define TOLERANCE_ABSOLUTE 0.05
#define TOLERANCE_RELATIVE 2e-3

__global__ void extract(long count, float *image) {
  long at = (long)blockIdx.x * THREADS + threadIdx.x;
  if (at < count) image[at] = expf(image[at] / 255.0f);
}

__global__ void prepare(long count, const float *image, float *sums, float *sums2) {
  long at = (long)blockIdx.x * THREADS + threadIdx.x;
  if (at < count) {
    sums[at] = image[at];
    sums2[at] = image[at] * image[at];
  }
}

// Sums groups of 512 elements that lie `stride` apart; each block leaves its sum where its first element was.
__global__ void reduce(long count, int elements, int stride, float *sums, float *sums2) {
  __shared__ float part[THREADS];
  __shared__ float part2[THREADS];
  int thread = threadIdx.x;
  long element = (long)blockIdx.x * THREADS + thread;
  bool present = element < elements && element * stride < count;
  part[thread] = present ? sums[element * stride] : 0.0f;
  part2[thread] = present ? sums2[element * stride] : 0.0f;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (thread < half) {
      part[thread] += part[thread + half];
      part2[thread] += part2[thread + half];
    }
    __syncthreads();
  }
  if (thread == 0) {
    long first = (long)blockIdx.x * THREADS * stride;
    sums[first] = part[0];
    sums2[first] = part2[0];
  }
}

// Diffusion coefficient of one pixel from its four derivatives.
__host__ __device__ static float coefficient(float centre, float dn, float ds, float dw, float de, float q0sqr) {
  float gradient2 = (dn * dn + ds * ds + dw * dw + de * de) / (centre * centre);
  float laplacian = (dn + ds + dw + de) / centre;
  float numerator = 0.5f * gradient2 - (1.0f / 16.0f) * (laplacian * laplacian);
  float denominator = 1.0f + 0.25f * laplacian;
  float qsqr = numerator / (denominator * denominator);
  denominator = (qsqr - q0sqr) / (q0sqr * (1.0f + q0sqr));
  float c = 1.0f / (1.0f + denominator);
  return c < 0.0f ? 0.0f : (c > 1.0f ? 1.0f : c);
}

__global__ void srad(float lambda, int rows, int cols, long count, const int *north, const int *south, const int *east,
                     const int *west, float *dn, float *ds, float *dw, float *de, float q0sqr, float *c,
                     const float *image) {
  long at = (long)blockIdx.x * THREADS + threadIdx.x;
  (void)lambda;
  (void)cols;
  if (at >= count) return;
  int row = (int)(at % rows);
  long col = at / rows;
  float centre = image[at];
  float n = image[north[row] + rows * col] - centre;
  float s = image[south[row] + rows * col] - centre;
  float w = image[row + (long)rows * west[col]] - centre;
  float e = image[row + (long)rows * east[col]] - centre;
  c[at] = coefficient(centre, n, s, w, e, q0sqr);
  dn[at] = n;
  ds[at] = s;
  dw[at] = w;
  de[at] = e;
}

__global__ void srad2(float lambda, int rows, int cols, long count, const int *north, const int *south,
                      const int *east, const int *west, const float *dn, const float *ds, const float *dw,
                      const float *de, const float *c, float *image) {
  long at = (long)blockIdx.x * THREADS + threadIdx.x;
  (void)cols;
  (void)north;
  (void)west;
  if (at >= count) return;
  int row = (int)(at % rows);
  long col = at / rows;
  float here = c[at];
  float divergence = here * dn[at] + c[south[row] + rows * col] * ds[at] + here * dw[at] +
                     c[row + (long)rows * east[col]] * de[at];
  image[at] += 0.25f * lambda * divergence;
}

__global__ void compress(long count, float *image) {
  long at = (long)blockIdx.x * THREADS + threadIdx.x;
  if (at < count) image[at] = logf(image[at]) * 255.0f;
}

struct Source {
  int rows;
  int cols;
  float *pixels;  // row-major
};

// Used when no image is given: 502 x 458 like the original's, smooth with speckle; its content does not matter.
static Source synthetic_image() {
  Source s = {502, 458, (float *)app_alloc(APP, sizeof(float) * 502 * 458)};
  unsigned state = 1;
  for (int i = 0; i < s.rows * s.cols; i++) {
    state = state * 1664525u + 1013904223u;
    s.pixels[i] = (float)(32 + (i / s.cols) % 128 + (state >> 27));
  }
  return s;
}

static Source read_pgm(const char *path) {
  FILE *f = fopen(path, "r");
  if (!f) app_fail(EXIT_USAGE, APP, "cannot read '%s': %s", path, strerror(errno));
  int cols, rows, top;
  if (fscanf(f, "P2 %d %d %d", &cols, &rows, &top) != 3 || cols < 1 || rows < 1 || top < 1 || cols > 65536 ||
      rows > 65536)
    app_fail(EXIT_USAGE, APP, "'%s' is not a text PGM image (P2 WIDTH HEIGHT MAX)", path);
  Source s = {rows, cols, (float *)app_alloc(APP, sizeof(float) * (size_t)rows * cols)};
  for (long i = 0; i < (long)rows * cols; i++) {
    int value;
    if (fscanf(f, "%d", &value) != 1 || value < 0 || value > top)
      app_fail(EXIT_USAGE, APP, "'%s': pixel %ld of %ld is missing or not in 0..%d", path, i, (long)rows * cols, top);
    s.pixels[i] = (float)value * 255.0f / (float)top;
  }
  fclose(f);
  return s;
}

// Tiles the source over rows x cols, column-major.
static void tile(const Source *s, float *image, int rows, int cols) {
  for (long col = 0; col < cols; col++)
    for (long row = 0; row < rows; row++)
      image[col * rows + row] = s->pixels[(row % s->rows) * s->cols + col % s->cols];
}

// Neighbour indices; the border reflects.
static void neighbours(int rows, int cols, int *north, int *south, int *west, int *east) {
  for (int i = 0; i < rows; i++) {
    north[i] = i == 0 ? 0 : i - 1;
    south[i] = i == rows - 1 ? rows - 1 : i + 1;
  }
  for (int j = 0; j < cols; j++) {
    west[j] = j == 0 ? 0 : j - 1;
    east[j] = j == cols - 1 ? cols - 1 : j + 1;
  }
}

static float speckle_scale(double total, double total2, double count) {
  double mean = total / count;
  double variance = total2 / count - mean * mean;
  return (float)(variance / (mean * mean));
}

static void reference(float *image, int rows, int cols, int iterations, float lambda) {
  long count = (long)rows * cols;
  float *c = (float *)app_alloc(APP, sizeof(float) * count);
  for (long i = 0; i < count; i++) image[i] = expf(image[i] / 255.0f);
  for (int iteration = 0; iteration < iterations; iteration++) {
    double total = 0, total2 = 0;
    for (long i = 0; i < count; i++) {
      total += image[i];
      total2 += (double)image[i] * image[i];
    }
    float q0sqr = speckle_scale(total, total2, (double)count);
    // The coefficients need the whole old image, and so do the derivatives: they are computed twice, not stored.
    float *old = (float *)app_alloc(APP, sizeof(float) * count);
    memcpy(old, image, sizeof(float) * count);
    for (int pass = 0; pass < 2; pass++)
      for (long col = 0; col < cols; col++)
        for (long row = 0; row < rows; row++) {
          long at = col * rows + row;
          long sn = row == rows - 1 ? at : at + 1, ea = col == cols - 1 ? at : at + rows;
          float centre = old[at];
          float dn = old[row == 0 ? at : at - 1] - centre, ds = old[sn] - centre;
          float dw = old[col == 0 ? at : at - rows] - centre, de = old[ea] - centre;
          if (pass == 0)
            c[at] = coefficient(centre, dn, ds, dw, de, q0sqr);
          else
            image[at] += 0.25f * lambda * (c[at] * dn + c[sn] * ds + c[at] * dw + c[ea] * de);
        }
    free(old);
  }
  for (long i = 0; i < count; i++) image[i] = logf(image[i]) * 255.0f;
  free(c);
}

// Text PGM, as the original writes it: the formatting, not the disk, is the long host phase at the end.
static void write_pgm(const char *path, const float *image, int rows, int cols) {
  FILE *f = app_create(APP, path);
  fprintf(f, "P2\n%d %d\n255\n", cols, rows);
  for (long row = 0; row < rows; row++) {
    for (long col = 0; col < cols; col++) fprintf(f, "%d ", (int)image[col * rows + row]);
    fputc('\n', f);
  }
  app_close(APP, path, f);
}

int main(int argc, char **argv) {
  app_flags flags = app_take_flags(APP, USAGE, &argc, argv);
  if (argc != 5 && !(argc == 7 && !strcmp(argv[5], "-i"))) app_fail(EXIT_USAGE, APP, "usage: %s", USAGE);
  int niter = (int)app_integer(APP, "ITERATIONS", argv[1], 0, 1000000);
  float lambda = app_real(APP, "LAMBDA", argv[2], 0.0, 1.0);
  int Nr = (int)app_integer(APP, "ROWS", argv[3], 1, 23170);
  int Nc = (int)app_integer(APP, "COLS", argv[4], 1, 23170);
  Source source = argc == 7 ? read_pgm(argv[6]) : synthetic_image();
  long Ne = (long)Nr * Nc;
  size_t mem_size = sizeof(float) * Ne;
  size_t mem_size_rows = sizeof(int) * Nr;
  size_t mem_size_cols = sizeof(int) * Nc;

  float *image = (float *)app_alloc(APP, mem_size);
  tile(&source, image, Nr, Nc);
  float *expected = NULL;
  if (flags.verify) {
    expected = (float *)app_alloc(APP, mem_size);
    memcpy(expected, image, mem_size);
  }
  int *iN = (int *)app_alloc(APP, mem_size_rows), *iS = (int *)app_alloc(APP, mem_size_rows);
  int *jW = (int *)app_alloc(APP, mem_size_cols), *jE = (int *)app_alloc(APP, mem_size_cols);
  neighbours(Nr, Nc, iN, iS, jW, jE);

  int *d_iN, *d_iS, *d_jE, *d_jW;
  float *d_I, *d_sums, *d_sums2, *d_dN, *d_dS, *d_dW, *d_dE, *d_c;
  CUDA(cudaMalloc((void **)&d_I, mem_size));
  CUDA(cudaMalloc((void **)&d_iN, mem_size_rows));
  CUDA(cudaMalloc((void **)&d_iS, mem_size_rows));
  CUDA(cudaMalloc((void **)&d_jE, mem_size_cols));
  CUDA(cudaMalloc((void **)&d_jW, mem_size_cols));
  CUDA(cudaMalloc((void **)&d_sums, mem_size));
  CUDA(cudaMalloc((void **)&d_sums2, mem_size));
  CUDA(cudaMalloc((void **)&d_dN, mem_size));
  CUDA(cudaMalloc((void **)&d_dS, mem_size));
  CUDA(cudaMalloc((void **)&d_dW, mem_size));
  CUDA(cudaMalloc((void **)&d_dE, mem_size));
  CUDA(cudaMalloc((void **)&d_c, mem_size));
  CUDA(cudaMemcpy(d_iN, iN, mem_size_rows, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy(d_iS, iS, mem_size_rows, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy(d_jE, jE, mem_size_cols, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy(d_jW, jW, mem_size_cols, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy(d_I, image, mem_size, cudaMemcpyHostToDevice));

  // Field by field, and changed in the loop below: the shapes a compiler meets in the original.
  dim3 threads;
  threads.x = THREADS;
  threads.y = 1;
  dim3 blocks;
  blocks.x = (unsigned)((Ne + THREADS - 1) / THREADS);
  blocks.y = 1;
  dim3 blocks2;
  blocks2.y = 1;
  extract<<<blocks, threads>>>(Ne, d_I);
  CUDA_LAUNCHED("extract");

  for (int iteration = 0; iteration < niter; iteration++) {
    prepare<<<blocks, threads>>>(Ne, d_I, d_sums, d_sums2);
    CUDA_LAUNCHED("prepare");
    blocks2.x = blocks.x;
    long elements = Ne;
    long stride = 1;
    for (;;) {
      reduce<<<blocks2, threads>>>(Ne, (int)elements, (int)stride, d_sums, d_sums2);
      CUDA_LAUNCHED("reduce");
      if (blocks2.x == 1) break;
      elements = blocks2.x;
      stride *= THREADS;
      blocks2.x = (unsigned)((elements + THREADS - 1) / THREADS);
    }
    float total, total2;
    CUDA(cudaMemcpy(&total, d_sums, sizeof total, cudaMemcpyDeviceToHost));
    CUDA(cudaMemcpy(&total2, d_sums2, sizeof total2, cudaMemcpyDeviceToHost));
    float q0sqr = speckle_scale(total, total2, (double)Ne);
    srad<<<blocks, threads>>>(lambda, Nr, Nc, Ne, d_iN, d_iS, d_jE, d_jW, d_dN, d_dS, d_dW, d_dE, q0sqr, d_c, d_I);
    CUDA_LAUNCHED("srad");
    srad2<<<blocks, threads>>>(lambda, Nr, Nc, Ne, d_iN, d_iS, d_jE, d_jW, d_dN, d_dS, d_dW, d_dE, d_c, d_I);
    CUDA_LAUNCHED("srad2");
  }
  compress<<<blocks, threads>>>(Ne, d_I);
  CUDA_LAUNCHED("compress");
  CUDA(cudaMemcpy(image, d_I, mem_size, cudaMemcpyDeviceToHost));

  write_pgm(flags.output ? flags.output : "/dev/null", image, Nr, Nc);

  CUDA(cudaFree(d_I));
  CUDA(cudaFree(d_c));
  CUDA(cudaFree(d_iN));
  CUDA(cudaFree(d_iS));
  CUDA(cudaFree(d_jE));
  CUDA(cudaFree(d_jW));
  CUDA(cudaFree(d_dN));
  CUDA(cudaFree(d_dS));
  CUDA(cudaFree(d_dE));
  CUDA(cudaFree(d_dW));
  CUDA(cudaFree(d_sums));
  CUDA(cudaFree(d_sums2));
  printf("srad_v1: %d x %d pixels, %d iterations done\n", Nr, Nc, niter);
  if (flags.verify) {
    reference(expected, Nr, Nc, niter, lambda);
    app_compare_floats(APP, "image", image, expected, (size_t)Ne, TOLERANCE_ABSOLUTE, TOLERANCE_RELATIVE);
    app_verified();
    free(expected);
  }
  free(source.pixels);
  free(image);
  free(iN);
  free(iS);
  free(jW);
  free(jE);
  return 0;
}
