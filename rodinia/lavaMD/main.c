/* Potential and relocation of particles in a cube of boxes: arguments, random particles, neighbour lists; the work is
   in kernel_gpu_cuda_wrapper.cu.

   Trap: this part is C on purpose, as in the original: the sizes are computed here and the allocations are there. */
#include "lavaMD.h"

#include "../common/app.h"

#define APP "lavaMD"
#define USAGE "lavaMD -boxes1d B [--verify] [-o FILE]   (B: boxes along one side)"

/* Sums of up to 2700 terms below 1e2 in double precision, fused or not. */
#define TOLERANCE_ABSOLUTE 1e-9
#define TOLERANCE_RELATIVE 1e-9
/* The reference costs as much as the kernel, so larger runs compare this many boxes, spread evenly. */
#define VERIFIED_BOXES_MAX 216

static dim_str dimensions(int boxes1d) {
  dim_str dim;
  dim.cores_arg = 1;
  dim.boxes1d_arg = boxes1d;
  dim.number_boxes = (long)boxes1d * boxes1d * boxes1d;
  dim.space_elem = dim.number_boxes * PARTICLES_PER_BOX;
  dim.space_mem = dim.space_elem * (long)sizeof(FOUR_VECTOR);
  dim.space_mem2 = dim.space_elem * (long)sizeof(double);
  dim.box_mem = dim.number_boxes * (long)sizeof(box_str);
  return dim;
}

static void link_neighbours(box_str *boxes, int side, int x, int y, int z) {
  box_str *home = &boxes[((long)z * side + y) * side + x];
  int dx, dy, dz;
  home->nn = 0;
  for (dz = -1; dz <= 1; dz++)
    for (dy = -1; dy <= 1; dy++)
      for (dx = -1; dx <= 1; dx++) {
        int nx = x + dx, ny = y + dy, nz = z + dz;
        nei_str *nei;
        if ((dx == 0 && dy == 0 && dz == 0) || nx < 0 || ny < 0 || nz < 0 || nx >= side || ny >= side || nz >= side)
          continue;
        nei = &home->nei[home->nn++];
        nei->x = nx;
        nei->y = ny;
        nei->z = nz;
        nei->number = (nz * side + ny) * side + nx;
        nei->offset = (long)nei->number * PARTICLES_PER_BOX;
      }
}

static box_str *make_boxes(const dim_str *dim) {
  box_str *boxes = (box_str *)app_alloc(APP, (size_t)dim->box_mem);
  int side = dim->boxes1d_arg, x, y, z, number = 0;
  memset(boxes, 0, (size_t)dim->box_mem);
  for (z = 0; z < side; z++)
    for (y = 0; y < side; y++)
      for (x = 0; x < side; x++) {
        box_str *box = &boxes[number];
        box->x = x;
        box->y = y;
        box->z = z;
        box->number = number;
        box->offset = (long)number * PARTICLES_PER_BOX;
        link_neighbours(boxes, side, x, y, z);
        number++;
      }
  return boxes;
}

static double random_tenths(void) { return (rand() % 10 + 1) / 10.0; }

/* Forces on the particles of one box, as the kernel defines them. */
static void reference_box(par_str par, const box_str *home, const FOUR_VECTOR *rv, const double *qv,
                          FOUR_VECTOR *force) {
  double a2 = 2.0 * par.alpha * par.alpha;
  int i, k, j;
  for (i = 0; i < PARTICLES_PER_BOX; i++) {
    FOUR_VECTOR a = rv[home->offset + i], sum = {0, 0, 0, 0};
    for (k = 0; k <= home->nn; k++) {
      long offset = k == 0 ? home->offset : home->nei[k - 1].offset;
      for (j = 0; j < PARTICLES_PER_BOX; j++) {
        FOUR_VECTOR b = rv[offset + j];
        double vij = exp(-a2 * (a.v + b.v - (a.x * b.x + a.y * b.y + a.z * b.z)));
        double scale = qv[offset + j] * 2.0 * vij;
        sum.v += qv[offset + j] * vij;
        sum.x += scale * (a.x - b.x);
        sum.y += scale * (a.y - b.y);
        sum.z += scale * (a.z - b.z);
      }
    }
    force[i] = sum;
  }
}

static void verify(par_str par, const dim_str *dim, const box_str *boxes, const FOUR_VECTOR *rv, const double *qv,
                   const FOUR_VECTOR *fv) {
  FOUR_VECTOR want[PARTICLES_PER_BOX];
  long compared = dim->number_boxes < VERIFIED_BOXES_MAX ? dim->number_boxes : VERIFIED_BOXES_MAX;
  long i;
  for (i = 0; i < compared; i++) {
    const box_str *box = &boxes[i * dim->number_boxes / compared];
    reference_box(par, box, rv, qv, want);
    app_compare_doubles(APP, "force", (const double *)&fv[box->offset], (const double *)want, (size_t)box->offset * 4,
                        PARTICLES_PER_BOX * 4, TOLERANCE_ABSOLUTE, TOLERANCE_RELATIVE);
  }
  printf("lavaMD: %ld of %ld boxes compared\n", compared, dim->number_boxes);
  app_verified();
}

static void write_forces(const char *path, const FOUR_VECTOR *fv, long count) {
  FILE *f = app_create(APP, path);
  long i;
  for (i = 0; i < count; i++) fprintf(f, "%.9g %.9g %.9g %.9g\n", fv[i].v, fv[i].x, fv[i].y, fv[i].z);
  app_close(APP, path, f);
}

int main(int argc, char **argv) {
  app_flags flags = app_take_flags(APP, USAGE, &argc, argv);
  par_str par = {0.5};
  dim_str dim;
  box_str *boxes;
  FOUR_VECTOR *rv, *fv;
  double *qv;
  long i;
  if (argc != 3 || strcmp(argv[1], "-boxes1d")) app_fail(EXIT_USAGE, APP, "usage: %s", USAGE);
  dim = dimensions((int)app_integer(APP, "B", argv[2], 1, 400));

  boxes = make_boxes(&dim);
  srand(2);
  rv = (FOUR_VECTOR *)app_alloc(APP, (size_t)dim.space_mem);
  qv = (double *)app_alloc(APP, (size_t)dim.space_mem2);
  fv = (FOUR_VECTOR *)app_alloc(APP, (size_t)dim.space_mem);
  for (i = 0; i < dim.space_elem; i++) {
    rv[i].v = random_tenths();
    rv[i].x = random_tenths();
    rv[i].y = random_tenths();
    rv[i].z = random_tenths();
  }
  for (i = 0; i < dim.space_elem; i++) qv[i] = random_tenths();
  memset(fv, 0, (size_t)dim.space_mem);

  kernel_gpu_cuda_wrapper(par, dim, boxes, rv, qv, fv);

  printf("lavaMD: %ld boxes, %ld particles done\n", dim.number_boxes, dim.space_elem);
  if (flags.output) write_forces(flags.output, fv, dim.space_elem);
  if (flags.verify) verify(par, &dim, boxes, rv, qv, fv);
  free(boxes);
  free(rv);
  free(qv);
  free(fv);
  return 0;
}
