// What CUDA itself offers, as one program.
#include "suite.h"

#include "atomics.h"
#include "atomics_table.h"
#include "barriers.h"
#include "groups.h"
#include "halves.h"
#include "mathematics.h"
#include "memory.h"
#include "ptx.h"
#include "shapes.h"
#include "warps.h"

#include "run.h"
