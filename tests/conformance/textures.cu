// Textures and surfaces: what the CUDA C++ Programming Guide's formulas say ("Texture Fetching"), computed on the host, beside
// what kernels read, and numbers that an H100 gave.
//
// Trap: the guide leaves much of a filter's arithmetic open; other GPUs than the H100 were not measured.
#include "suite.h"

#include "textures/reference.h"

#include "textures/arrays.h"
#include "textures/memory.h"
#include "textures/surfaces.h"

#include "textures/programs.h"

#include "textures/measured.h"

#include "run.h"
