// Found by -I, and included in brackets.
#pragma once

static __device__ unsigned clamped(unsigned a, unsigned limit) {
    asm("{");
    asm(".reg.pred %over;");
    asm("setp.gt.u32 %over, %0, %1;" ::"r"(a), "r"(limit));
    asm("@%over mov.u32 %0, %1;" : "+r"(a) : "r"(limit));
    asm("}");
    return a;
}
