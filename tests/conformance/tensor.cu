// Tensor cores: every type, shape and layout of `nvcuda::wmma` and of dense `mma.sync` beside a plain loop on the host, with the
// fragments that the PTX ISA says; `ldmatrix`, `stmatrix` and `movmatrix`.
//
// Trap: sums are compared bit for bit with the order of additions that the virtual GPU documents; a GPU has an order of its own.
#include "suite.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <mma.h>

#include "tensor/elements.h"

#include "tensor/fragments.h"
#include "tensor/mma.h"

#include "tensor/matrices.h"
#include "tensor/mma_tests.h"
#include "tensor/wmma.h"

#include "run.h"
