// What all seven programs share: exit codes, one-line errors, argument parsing, comparison with the reference.
//
// Header only and valid C as well as C++, so that each program stays "a few files for one compiler command".
// Exit codes: 0 done, 1 a CUDA call failed, 2 bad arguments or input, 3 --verify found a difference.
#ifndef RODINIA_COMMON_APP_H
#define RODINIA_COMMON_APP_H

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_CUDA = 1, EXIT_USAGE = 2, EXIT_DIFFERENT = 3 };

// Prints one line "program: message" and ends the program.
#if defined(__GNUC__)
__attribute__((noreturn, format(printf, 3, 4)))
#endif
static inline void app_fail(int code, const char *app, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "%s: ", app);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  exit(code);
}

// A whole decimal number in [lo, hi]; anything else is a usage error that names the argument.
static inline long app_integer(const char *app, const char *name, const char *text, long lo, long hi) {
  char *end = NULL;
  errno = 0;
  long value = strtol(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || value < lo || value > hi)
    app_fail(EXIT_USAGE, app, "%s must be a whole number from %ld to %ld, got '%s'", name, lo, hi, text);
  return value;
}

// A finite decimal number in [lo, hi].
static inline float app_real(const char *app, const char *name, const char *text, double lo, double hi) {
  char *end = NULL;
  double value = strtod(text, &end);
  if (end == text || *end != '\0' || !(value >= lo && value <= hi))
    app_fail(EXIT_USAGE, app, "%s must be a number from %g to %g, got '%s'", name, lo, hi, text);
  return (float)value;
}

// Host memory or one clear line.
static inline void *app_alloc(const char *app, size_t bytes) {
  void *p = malloc(bytes ? bytes : 1);
  if (!p) app_fail(EXIT_USAGE, app, "not enough host memory for %zu bytes; use a smaller size", bytes);
  return p;
}

static inline FILE *app_create(const char *app, const char *path) {
  FILE *f = fopen(path, "w");
  if (!f) app_fail(EXIT_USAGE, app, "cannot write '%s': %s", path, strerror(errno));
  return f;
}

// Closes an output file; a full disk shows up only here.
static inline void app_close(const char *app, const char *path, FILE *f) {
  int failed = ferror(f);
  if (fclose(f) != 0 || failed) app_fail(EXIT_USAGE, app, "writing '%s' failed: %s", path, strerror(errno));
}

// The flags every program understands, taken out of argv so that the program sees only Rodinia's own arguments.
typedef struct {
  int verify;          // --verify: compare with a CPU reference and print "verify: ok"
  const char *output;  // -o FILE: where the output goes; NULL when not given
} app_flags;

static inline app_flags app_take_flags(const char *app, const char *usage, int *argc, char **argv) {
  app_flags flags = {0, NULL};
  int kept = 1;
  for (int i = 1; i < *argc; i++) {
    if (!strcmp(argv[i], "--verify")) {
      flags.verify = 1;
    } else if (!strcmp(argv[i], "-o")) {
      if (i + 1 >= *argc) app_fail(EXIT_USAGE, app, "-o needs a file name; usage: %s", usage);
      flags.output = argv[++i];
    } else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
      printf("usage: %s\n", usage);
      exit(0);
    } else {
      argv[kept++] = argv[i];
    }
  }
  *argc = kept;
  argv[kept] = NULL;
  return flags;
}

static inline void app_verified(void) { puts("verify: ok"); }

// First element outside |got - want| <= absolute + relative * |want| ends the program with exit code 3.
static inline void app_compare_floats(const char *app, const char *what, const float *got, const float *want,
                                      size_t count, double absolute, double relative) {
  for (size_t i = 0; i < count; i++) {
    double allowed = absolute + relative * fabs((double)want[i]);
    // Written so that a NaN on either side counts as a difference.
    if (!(fabs((double)got[i] - (double)want[i]) <= allowed))
      app_fail(EXIT_DIFFERENT, app, "verify: %s[%zu] is %.9g, reference %.9g, allowed difference %.3g", what, i,
               got[i], want[i], allowed);
  }
}

static inline void app_compare_doubles(const char *app, const char *what, const double *got, const double *want,
                                       size_t first, size_t count, double absolute, double relative) {
  for (size_t i = 0; i < count; i++) {
    double allowed = absolute + relative * fabs(want[i]);
    if (!(fabs(got[i] - want[i]) <= allowed))
      app_fail(EXIT_DIFFERENT, app, "verify: %s[%zu] is %.17g, reference %.17g, allowed difference %.3g", what,
               first + i, got[i], want[i], allowed);
  }
}

static inline void app_compare_ints(const char *app, const char *what, const int *got, const int *want,
                                    size_t count) {
  for (size_t i = 0; i < count; i++)
    if (got[i] != want[i])
      app_fail(EXIT_DIFFERENT, app, "verify: %s[%zu] is %d, reference %d", what, i, got[i], want[i]);
}

#ifdef __CUDACC__
// Every CUDA call goes through this: the failed call and the runtime's own words, then exit code 1.
static inline void app_check(const char *app, cudaError_t error, const char *call) {
  if (error != cudaSuccess) app_fail(EXIT_CUDA, app, "%s failed: %s", call, cudaGetErrorString(error));
}
#define CUDA(call) app_check(APP, (call), #call)
// After a launch: its own error (bad geometry, no device), not that of an earlier call.
#define CUDA_LAUNCHED(kernel) app_check(APP, cudaGetLastError(), "launch of " kernel)
#endif

#endif
