/* Data shared by the C main program and the CUDA part: particles in a cube of boxes, interactions within a box and its
   up to 26 neighbours.

   Trap: these layouts fix the device memory of the published configurations, 7856 bytes a box (656 + 3200 + 800 +
   3200), so no field may be added or reordered. */
#ifndef RODINIA_LAVAMD_H
#define RODINIA_LAVAMD_H

#define PARTICLES_PER_BOX 100
#define NEIGHBOURS_MAX 26

typedef struct {
  double v, x, y, z;
} FOUR_VECTOR;

typedef struct {
  int x, y, z;
  int number;  /* of the box */
  long offset; /* of its first particle */
} nei_str;

typedef struct {
  int x, y, z;
  int number;
  long offset;
  int nn; /* neighbours in use */
  nei_str nei[NEIGHBOURS_MAX];
} box_str;

typedef struct {
  double alpha;
} par_str;

typedef struct {
  int cores_arg;
  int boxes1d_arg;
  long number_boxes;
  long box_mem;    /* bytes of box_str */
  long space_elem; /* particles */
  long space_mem;  /* bytes of FOUR_VECTOR */
  long space_mem2; /* bytes of double */
} dim_str;

#ifdef __cplusplus
extern "C"
#endif
/* Computes the potential and forces of all particles into fv on the device. */
void kernel_gpu_cuda_wrapper(par_str par, dim_str dim, box_str *box, FOUR_VECTOR *rv, double *qv, FOUR_VECTOR *fv);

#endif
