// Discrete wavelet transform of an RGB image: arguments, host memory, the seven component buffers, output.
//
// Trap: the device buffers are declared in a template here, but every kernel is launched two to four calls deeper in
// other translation units, and a failed call anywhere ends the process without freeing anything.
#include <cuda_runtime.h>

#include "../common/app.h"
#include "dwt2d.h"

#define USAGE "dwt2d FILE -d WIDTHxHEIGHT -f -5 -l LEVELS [-w] [-D DEVICE] [--verify] [-o PREFIX]"
#define PIXELS_MAX (1L << 29)

struct Options {
  const char *file;
  int width, height, levels, device;
  bool picture;  // -w: bands arranged as a picture instead of one after the other
};

static void parse_dimensions(const char *text, Options *o) {
  char rest;
  if (sscanf(text, "%dx%d%c", &o->width, &o->height, &rest) != 2 || o->width < 2 || o->height < 2 ||
      (long)o->width * o->height > PIXELS_MAX)
    app_fail(EXIT_USAGE, APP, "-d must be WIDTHxHEIGHT, each at least 2 and at most 2^29 pixels, got '%s'", text);
}

static Options parse(int argc, char **argv) {
  Options o = {NULL, 0, 0, 3, 0, false};
  bool forward = false;
  for (int i = 1; i < argc; i++) {
    const char *a = argv[i];
    bool takes_value = !strcmp(a, "-d") || !strcmp(a, "-l") || !strcmp(a, "-D") || !strcmp(a, "-c");
    if (takes_value && i + 1 >= argc) app_fail(EXIT_USAGE, APP, "%s needs a value; usage: %s", a, USAGE);
    if (!strcmp(a, "-d")) {
      parse_dimensions(argv[++i], &o);
    } else if (!strcmp(a, "-l")) {
      o.levels = (int)app_integer(APP, "-l", argv[++i], 1, 20);
    } else if (!strcmp(a, "-D")) {
      o.device = (int)app_integer(APP, "-D", argv[++i], 0, 1023);
    } else if (!strcmp(a, "-c")) {
      app_integer(APP, "-c (components; only 3 is supported)", argv[++i], 3, 3);
    } else if (!strcmp(a, "-f")) {
      forward = true;
    } else if (!strcmp(a, "-r") || !strcmp(a, "-9")) {
      app_fail(EXIT_USAGE, APP, "%s is not supported: only the forward 5/3 transform (-f -5)", a);
    } else if (!strcmp(a, "-w")) {
      o.picture = true;
    } else if (a[0] != '-' && !o.file) {
      o.file = a;
    } else if (strcmp(a, "-5")) {
      app_fail(EXIT_USAGE, APP, "unknown argument '%s'; usage: %s", a, USAGE);
    }
  }
  if (!o.file || !forward || o.width == 0) app_fail(EXIT_USAGE, APP, "usage: %s", USAGE);
  if ((o.width >> o.levels) < 1 || (o.height >> o.levels) < 1)
    app_fail(EXIT_USAGE, APP, "%d levels are too many for %dx%d", o.levels, o.width, o.height);
  return o;
}

// Pinned, like the original's: the upload from it is the fast kind. The file is taken as raw bytes, header and all;
// where it is shorter than the image the rest is black.
static unsigned char *read_image(const Options *o) {
  size_t bytes = (size_t)o->width * o->height * 3;
  unsigned char *image;
  CUDA(cudaMallocHost((void **)&image, bytes));
  FILE *f = fopen(o->file, "rb");
  if (!f) app_fail(EXIT_USAGE, APP, "cannot read '%s': %s", o->file, strerror(errno));
  size_t got = fread(image, 1, bytes, f);
  if (ferror(f)) app_fail(EXIT_USAGE, APP, "reading '%s' failed: %s", o->file, strerror(errno));
  memset(image + got, 0, bytes - got);
  fclose(f);
  return image;
}

static unsigned char to_byte(int value) { return (unsigned char)(value < -128 ? 0 : (value > 127 ? 255 : value + 128)); }

// Places the four bands of this level as quadrants, the LL band recursively.
static void arrange(const int *linear, int w, int h, int levels, unsigned char *picture, int pitch) {
  Split columns(w), lines(h);
  const int *band = linear + (size_t)columns.low * lines.low;
  if (levels > 1) {
    arrange(linear, columns.low, lines.low, levels - 1, picture, pitch);
  } else {
    for (int y = 0; y < lines.low; y++)
      for (int x = 0; x < columns.low; x++) picture[(size_t)y * pitch + x] = to_byte(linear[(size_t)y * columns.low + x]);
  }
  for (int quadrant = 1; quadrant < 4; quadrant++) {
    int x0 = quadrant % 2 ? columns.low : 0, y0 = quadrant / 2 ? lines.low : 0;
    int bw = quadrant % 2 ? columns.high : columns.low, bh = quadrant / 2 ? lines.high : lines.low;
    for (int y = 0; y < bh; y++)
      for (int x = 0; x < bw; x++) picture[(size_t)(y0 + y) * pitch + x0 + x] = to_byte(*band++);
  }
}

// Reference: lifting in place on one line of n elements with stride 1, then low half before high half.
static void lift(int *line, int *scratch, int n) {
  for (int i = 1; i < n; i += 2) line[i] -= (line[i - 1] + line[i + 1 < n ? i + 1 : i - 1]) >> 1;
  for (int i = 0; i < n && n > 1; i += 2)
    line[i] += (line[i > 0 ? i - 1 : 1] + line[i + 1 < n ? i + 1 : i - 1] + 2) >> 2;
  Split s(n);
  for (int i = 0; i < n; i++) scratch[i % 2 ? s.low + i / 2 : i / 2] = line[i];
  memcpy(line, scratch, sizeof(int) * n);
}

static void reference(int *image, int w, int h, int levels) {
  int longer = w > h ? w : h;
  int *scratch = (int *)app_alloc(APP, sizeof(int) * longer), *column = (int *)app_alloc(APP, sizeof(int) * longer);
  int *bands = (int *)app_alloc(APP, sizeof(int) * w * h);
  for (int y = 0; y < h; y++) lift(image + (size_t)y * w, scratch, w);
  for (int x = 0; x < w; x++) {
    for (int y = 0; y < h; y++) column[y] = image[(size_t)y * w + x];
    lift(column, scratch, h);
    for (int y = 0; y < h; y++) image[(size_t)y * w + x] = column[y];
  }
  Split columns(w), lines(h);
  int *to = bands;
  for (int quadrant = 0; quadrant < 4; quadrant++)
    for (int y = quadrant / 2 ? lines.low : 0; y < (quadrant / 2 ? h : lines.low); y++)
      for (int x = quadrant % 2 ? columns.low : 0; x < (quadrant % 2 ? w : columns.low); x++)
        *to++ = image[(size_t)y * w + x];
  memcpy(image, bands, sizeof(int) * w * h);
  free(bands);
  free(scratch);
  free(column);
  if (levels > 1) reference(image, columns.low, lines.low, levels - 1);
}

static void verify_component(const Options *o, const unsigned char *rgb, int component, const int *got) {
  static const char *const names[] = {"red", "green", "blue"};
  size_t pixels = (size_t)o->width * o->height;
  int *want = (int *)app_alloc(APP, sizeof(int) * pixels);
  for (size_t i = 0; i < pixels; i++) want[i] = rgb[3 * i + component] - 128;
  reference(want, o->width, o->height, o->levels);
  app_compare_ints(APP, names[component], got, want, pixels);
  free(want);
}

// Downloads one transformed component into pinned memory and writes it as bytes.
static void write_component(const Options *o, app_flags flags, const int *d_component, const unsigned char *rgb,
                            int component) {
  size_t pixels = (size_t)o->width * o->height;
  int *values;
  CUDA(cudaMallocHost((void **)&values, pixels * sizeof(int)));
  CUDA(cudaMemcpy(values, d_component, pixels * sizeof(int), cudaMemcpyDeviceToHost));
  unsigned char *bytes = (unsigned char *)app_alloc(APP, pixels);
  if (o->picture)
    arrange(values, o->width, o->height, o->levels, bytes, o->width);
  else
    for (size_t i = 0; i < pixels; i++) bytes[i] = to_byte(values[i]);
  char path[4096] = "/dev/null";
  if (flags.output && snprintf(path, sizeof path, "%s.%c", flags.output, "rgb"[component]) >= (int)sizeof path)
    app_fail(EXIT_USAGE, APP, "-o: the file name is too long");
  FILE *f = app_create(APP, path);
  fwrite(bytes, 1, pixels, f);
  app_close(APP, path, f);
  if (flags.verify) verify_component(o, rgb, component, values);
  free(bytes);
  CUDA(cudaFreeHost(values));
}

template <typename T>
static void processDWT(const Options *o, app_flags flags, const unsigned char *rgb) {
  size_t component_bytes = (size_t)o->width * o->height * sizeof(T);
  T *c_r_out, *backup;
  CUDA(cudaMalloc((void **)&c_r_out, component_bytes));
  CUDA(cudaMemset(c_r_out, 0, component_bytes));
  CUDA(cudaMalloc((void **)&backup, component_bytes));
  CUDA(cudaMemset(backup, 0, component_bytes));
  {
    T *c_g_out, *c_b_out, *c_r, *c_g, *c_b;
    CUDA(cudaMalloc((void **)&c_g_out, component_bytes));
    CUDA(cudaMemset(c_g_out, 0, component_bytes));
    CUDA(cudaMalloc((void **)&c_b_out, component_bytes));
    CUDA(cudaMemset(c_b_out, 0, component_bytes));
    CUDA(cudaMalloc((void **)&c_r, component_bytes));
    CUDA(cudaMemset(c_r, 0, component_bytes));
    CUDA(cudaMalloc((void **)&c_g, component_bytes));
    CUDA(cudaMemset(c_g, 0, component_bytes));
    CUDA(cudaMalloc((void **)&c_b, component_bytes));
    CUDA(cudaMemset(c_b, 0, component_bytes));
    rgbToComponents(c_r, c_g, c_b, rgb, o->width, o->height);
    nStage2dDWT(c_r, c_r_out, backup, o->width, o->height, o->levels);
    nStage2dDWT(c_g, c_g_out, backup, o->width, o->height, o->levels);
    nStage2dDWT(c_b, c_b_out, backup, o->width, o->height, o->levels);
    write_component(o, flags, c_r_out, rgb, 0);
    write_component(o, flags, c_g_out, rgb, 1);
    write_component(o, flags, c_b_out, rgb, 2);
    CUDA(cudaFree(c_r));
    CUDA(cudaFree(c_g));
    CUDA(cudaFree(c_b));
    CUDA(cudaFree(c_g_out));
    CUDA(cudaFree(c_b_out));
  }
  CUDA(cudaFree(c_r_out));
  CUDA(cudaFree(backup));
}

int main(int argc, char **argv) {
  app_flags flags = app_take_flags(APP, USAGE, &argc, argv);
  Options options = parse(argc, argv);
  CUDA(cudaSetDevice(options.device));
  unsigned char *rgb = read_image(&options);
  processDWT<int>(&options, flags, rgb);
  CUDA(cudaFreeHost(rgb));
  printf("dwt2d: %d x %d, %d levels done\n", options.width, options.height, options.levels);
  if (flags.verify) app_verified();
  return 0;
}
