// Textures and surfaces: what the CUDA C++ Programming Guide's formulas say ("Texture Fetching"), computed on the host, beside
// what kernels read.
//
// Trap: a GPU filters with arithmetic of its own behind the weights' 8 bits, so its last bits may differ from these.
#include "suite.h"

#include "textures/reference.h"

#include "textures/arrays.h"
#include "textures/memory.h"
#include "textures/surfaces.h"

#include "textures/programs.h"

#include "run.h"
