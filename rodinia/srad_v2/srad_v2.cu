// Speckle-reducing anisotropic diffusion (Yu and Acton, 2002) on a random row-major image in 16 x 16 tiles, with the
// speckle scale taken from a region of interest on the host before each iteration.
//
// Trap: device memory is allocated before the host makes the image, so it lies idle during that work; that is the
// original's order and is kept. Unlike the original, border tiles clamp their coordinates instead of reading outside.
#include <cuda_runtime.h>

#include "../common/app.h"

#define APP "srad_v2"
#define USAGE "srad_v2 ROWS COLS Y1 Y2 X1 X2 LAMBDA ITERATIONS [--verify] [-o FILE]   (ROWS, COLS: multiples of 16)"
#define TILE 16

// Single precision; the device may fuse multiply and add.
#define TOLERANCE_ABSOLUTE 1e-4
#define TOLERANCE_RELATIVE 1e-4

__host__ __device__ static int clamp_index(int i, int count) { return i < 0 ? 0 : (i >= count ? count - 1 : i); }

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

// Derivatives and diffusion coefficients of one tile. Six shared tiles of 1 KiB.
__global__ void srad_cuda_1(float *E_C, float *W_C, float *N_C, float *S_C, float *J, float *C, int cols, int rows,
                            float q0sqr) {
  __shared__ float centre[TILE][TILE];
  __shared__ float above[TILE][TILE];
  __shared__ float below[TILE][TILE];
  __shared__ float left[TILE][TILE];
  __shared__ float right[TILE][TILE];
  __shared__ float result[TILE][TILE];
  int tx = threadIdx.x, ty = threadIdx.y;
  int x0 = blockIdx.x * TILE, y0 = blockIdx.y * TILE;
  int x = x0 + tx, y = y0 + ty;
  size_t at = (size_t)y * cols + x;

  // The rows and columns just outside the tile, one element per thread; every thread of a column holds the same.
  above[ty][tx] = J[(size_t)clamp_index(y0 - 1, rows) * cols + x];
  below[ty][tx] = J[(size_t)clamp_index(y0 + TILE, rows) * cols + x];
  left[ty][tx] = J[(size_t)y * cols + clamp_index(x0 - 1, cols)];
  right[ty][tx] = J[(size_t)y * cols + clamp_index(x0 + TILE, cols)];
  centre[ty][tx] = J[at];
  __syncthreads();

  float here = centre[ty][tx];
  float n = (ty == 0 ? above[ty][tx] : centre[ty - 1][tx]) - here;
  float s = (ty == TILE - 1 ? below[ty][tx] : centre[ty + 1][tx]) - here;
  float w = (tx == 0 ? left[ty][tx] : centre[ty][tx - 1]) - here;
  float e = (tx == TILE - 1 ? right[ty][tx] : centre[ty][tx + 1]) - here;
  result[ty][tx] = coefficient(here, n, s, w, e, q0sqr);
  __syncthreads();
  C[at] = result[ty][tx];
  E_C[at] = e;
  W_C[at] = w;
  S_C[at] = s;
  N_C[at] = n;
}

// One diffusion step of one tile. Five shared tiles of 1 KiB.
__global__ void srad_cuda_2(float *E_C, float *W_C, float *N_C, float *S_C, float *J, float *C, int cols, int rows,
                            float lambda, float q0sqr) {
  __shared__ float below[TILE][TILE];
  __shared__ float right[TILE][TILE];
  __shared__ float coefficients[TILE][TILE];
  __shared__ float image[TILE][TILE];
  __shared__ float result[TILE][TILE];
  int tx = threadIdx.x, ty = threadIdx.y;
  int x0 = blockIdx.x * TILE, y0 = blockIdx.y * TILE;
  int x = x0 + tx, y = y0 + ty;
  size_t at = (size_t)y * cols + x;
  (void)q0sqr;

  image[ty][tx] = J[at];
  below[ty][tx] = C[(size_t)clamp_index(y0 + TILE, rows) * cols + x];
  right[ty][tx] = C[(size_t)y * cols + clamp_index(x0 + TILE, cols)];
  coefficients[ty][tx] = C[at];
  __syncthreads();

  float cn = coefficients[ty][tx];
  float cs = ty == TILE - 1 ? below[ty][tx] : coefficients[ty + 1][tx];
  float ce = tx == TILE - 1 ? right[ty][tx] : coefficients[ty][tx + 1];
  float divergence = cn * N_C[at] + cs * S_C[at] + cn * W_C[at] + ce * E_C[at];
  result[ty][tx] = image[ty][tx] + 0.25f * lambda * divergence;
  __syncthreads();
  J[at] = result[ty][tx];
}

struct Options {
  int rows, cols, y1, y2, x1, x2;
  float lambda;
  int iterations;
};

static Options parse(int argc, char **argv) {
  if (argc != 9) app_fail(EXIT_USAGE, APP, "usage: %s", USAGE);
  Options o;
  o.rows = (int)app_integer(APP, "ROWS", argv[1], TILE, 32768);
  o.cols = (int)app_integer(APP, "COLS", argv[2], TILE, 32768);
  if (o.rows % TILE != 0 || o.cols % TILE != 0)
    app_fail(EXIT_USAGE, APP, "ROWS and COLS must be multiples of 16, got %d and %d", o.rows, o.cols);
  o.y1 = (int)app_integer(APP, "Y1", argv[3], 0, o.rows - 1);
  o.y2 = (int)app_integer(APP, "Y2", argv[4], o.y1, o.rows - 1);
  o.x1 = (int)app_integer(APP, "X1", argv[5], 0, o.cols - 1);
  o.x2 = (int)app_integer(APP, "X2", argv[6], o.x1, o.cols - 1);
  o.lambda = app_real(APP, "LAMBDA", argv[7], 0.0, 1.0);
  o.iterations = (int)app_integer(APP, "ITERATIONS", argv[8], 0, 1000000);
  return o;
}

// Squared coefficient of variation in the region of interest.
static float region_scale(const float *J, const Options *o) {
  double sum = 0, sum2 = 0;
  for (int i = o->y1; i <= o->y2; i++)
    for (int j = o->x1; j <= o->x2; j++) {
      double value = J[(size_t)i * o->cols + j];
      sum += value;
      sum2 += value * value;
    }
  double count = (double)(o->y2 - o->y1 + 1) * (o->x2 - o->x1 + 1);
  double mean = sum / count;
  return (float)((sum2 / count - mean * mean) / (mean * mean));
}

static void reference(float *J, const Options *o) {
  size_t count = (size_t)o->rows * o->cols;
  float *old = (float *)app_alloc(APP, sizeof(float) * count), *c = (float *)app_alloc(APP, sizeof(float) * count);
  for (int iteration = 0; iteration < o->iterations; iteration++) {
    float q0sqr = region_scale(J, o);
    memcpy(old, J, sizeof(float) * count);
    for (int pass = 0; pass < 2; pass++)
      for (int y = 0; y < o->rows; y++)
        for (int x = 0; x < o->cols; x++) {
          size_t at = (size_t)y * o->cols + x;
          size_t south = (size_t)clamp_index(y + 1, o->rows) * o->cols + x;
          size_t east = (size_t)y * o->cols + clamp_index(x + 1, o->cols);
          float here = old[at];
          float dn = old[(size_t)clamp_index(y - 1, o->rows) * o->cols + x] - here, ds = old[south] - here;
          float dw = old[(size_t)y * o->cols + clamp_index(x - 1, o->cols)] - here, de = old[east] - here;
          if (pass == 0)
            c[at] = coefficient(here, dn, ds, dw, de, q0sqr);
          else
            J[at] += 0.25f * o->lambda * (c[at] * dn + c[south] * ds + c[at] * dw + c[east] * de);
        }
  }
  free(old);
  free(c);
}

static void write_image(const char *path, const float *J, const Options *o) {
  FILE *f = app_create(APP, path);
  for (int y = 0; y < o->rows; y++)
    for (int x = 0; x < o->cols; x++) fprintf(f, "%.5f%c", J[(size_t)y * o->cols + x], x + 1 < o->cols ? ' ' : '\n');
  app_close(APP, path, f);
}

static void run(const Options *o, app_flags flags) {
  size_t size_I = (size_t)o->cols * o->rows;
  float *I = (float *)app_alloc(APP, size_I * sizeof(float)), *J = (float *)app_alloc(APP, size_I * sizeof(float));

  float *J_cuda, *C_cuda, *E_C, *W_C, *S_C, *N_C;
  CUDA(cudaMalloc((void **)&J_cuda, sizeof(float) * size_I));
  CUDA(cudaMalloc((void **)&C_cuda, sizeof(float) * size_I));
  CUDA(cudaMalloc((void **)&E_C, sizeof(float) * size_I));
  CUDA(cudaMalloc((void **)&W_C, sizeof(float) * size_I));
  CUDA(cudaMalloc((void **)&S_C, sizeof(float) * size_I));
  CUDA(cudaMalloc((void **)&N_C, sizeof(float) * size_I));

  srand(7);
  for (size_t k = 0; k < size_I; k++) I[k] = (float)rand() / (float)RAND_MAX;
  for (size_t k = 0; k < size_I; k++) J[k] = expf(I[k]);
  if (flags.verify) memcpy(I, J, size_I * sizeof(float));  // I becomes the reference's image

  for (int iteration = 0; iteration < o->iterations; iteration++) {
    float q0sqr = region_scale(J, o);
    dim3 block(TILE, TILE);
    dim3 grid(o->cols / TILE, o->rows / TILE);
    CUDA(cudaMemcpy(J_cuda, J, sizeof(float) * size_I, cudaMemcpyHostToDevice));
    srad_cuda_1<<<grid, block>>>(E_C, W_C, N_C, S_C, J_cuda, C_cuda, o->cols, o->rows, q0sqr);
    CUDA_LAUNCHED("srad_cuda_1");
    srad_cuda_2<<<grid, block>>>(E_C, W_C, N_C, S_C, J_cuda, C_cuda, o->cols, o->rows, o->lambda, q0sqr);
    CUDA_LAUNCHED("srad_cuda_2");
    CUDA(cudaMemcpy(J, J_cuda, sizeof(float) * size_I, cudaMemcpyDeviceToHost));
  }
  CUDA(cudaDeviceSynchronize());
  if (flags.output) write_image(flags.output, J, o);

  CUDA(cudaFree(C_cuda));
  CUDA(cudaFree(J_cuda));
  CUDA(cudaFree(E_C));
  CUDA(cudaFree(W_C));
  CUDA(cudaFree(N_C));
  CUDA(cudaFree(S_C));
  printf("srad_v2: %d x %d pixels, %d iterations done\n", o->rows, o->cols, o->iterations);
  if (flags.verify) {
    reference(I, o);
    app_compare_floats(APP, "image", J, I, size_I, TOLERANCE_ABSOLUTE, TOLERANCE_RELATIVE);
    app_verified();
  }
  free(I);
  free(J);
}

int main(int argc, char **argv) {
  app_flags flags = app_take_flags(APP, USAGE, &argc, argv);
  Options options = parse(argc, argv);
  run(&options, flags);
  return 0;
}
