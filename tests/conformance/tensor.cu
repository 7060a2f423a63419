// Tensor cores: every type, shape and layout of `nvcuda::wmma` and of dense `mma.sync` beside sums on the host, with the
// fragments that the PTX ISA says; `ldmatrix`, `stmatrix` and `movmatrix`.
//
// Trap: sums of real numbers are compared bit for bit with those of Hopper (`tensor/sums.h`), which other generations do not have.
#include "suite.h"

#include <algorithm>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <mma.h>

#include "tensor/elements.h"

#include "tensor/sums.h"

#include "tensor/product.h"

#include "tensor/fragments.h"
#include "tensor/mma.h"

#include "tensor/matrices.h"
#include "tensor/mma_tests.h"
#include "tensor/wmma.h"

#include "run.h"
