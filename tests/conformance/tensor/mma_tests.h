// The forms of dense `mma.sync` that the PTX ISA documents: each table makes a kernel for every form, and runs it.
#pragma once

// A form: its registers (the macro that has so many), types of A, B and of C and D, rows and inner places, what distinguishes
// its kernel's name, and what stands before and behind the types.
#define KERNEL(regs, A, B, C, m, k, tag, before, behind, flags) \
    MMA_##regs(A##_##B##_##C##_m##m##_k##k##_##tag, "sync.aligned.m" #m "n8k" #k ".row.col" before "." #C "." #A "." #B "." #C behind)
#define AND_RUN(regs, A, B, C, m, k, tag, before, behind, flags) \
    &&dense<A, B, C>(A##_##B##_##C##_m##m##_k##k##_##tag, m, k, flags)
#define REAL(F, regs, A, B, C, m, k) F(regs, A, B, C, m, k, plain, "", "", NONE)
#define TESTED(name, TABLE) \
    TABLE(KERNEL)           \
    TEST(name) { return true TABLE(AND_RUN); }

#define HALVES(F)                      \
    REAL(F, 212, f16, f16, f16, 16, 8) \
    REAL(F, 214, f16, f16, f32, 16, 8) \
    REAL(F, 422, f16, f16, f16, 16, 16) REAL(F, 424, f16, f16, f32, 16, 16)
TESTED(mma_of_halves, HALVES)

#define ALTERNATE(F)                     \
    REAL(F, 214, bf16, bf16, f32, 16, 8) \
    REAL(F, 424, bf16, bf16, f32, 16, 16) REAL(F, 214, tf32, tf32, f32, 16, 4) REAL(F, 424, tf32, tf32, f32, 16, 8)
TESTED(mma_of_bf16_and_tf32, ALTERNATE)

#define DOUBLES(F)                      \
    REAL(F, D112, f64, f64, f64, 8, 4)  \
    REAL(F, D214, f64, f64, f64, 16, 4) \
    REAL(F, D424, f64, f64, f64, 16, 8) REAL(F, D844, f64, f64, f64, 16, 16)
TESTED(mma_of_doubles, DOUBLES)

#define EIGHT_BIT_REALS(F, A, B)       \
    REAL(F, 212, A, B, f16, 16, 16)    \
    REAL(F, 214, A, B, f32, 16, 16)    \
    REAL(F, 422, A, B, f16, 16, 32) REAL(F, 424, A, B, f32, 16, 32)
#define EACH_EIGHT_BIT_REAL(F)     \
    EIGHT_BIT_REALS(F, e4m3, e4m3) \
    EIGHT_BIT_REALS(F, e4m3, e5m2) EIGHT_BIT_REALS(F, e5m2, e4m3) EIGHT_BIT_REALS(F, e5m2, e5m2)
TESTED(mma_of_8_bit_floating_point, EACH_EIGHT_BIT_REAL)

#define WRAPS_AND_SATURATES(F, regs, A, B, m, k) \
    F(regs, A, B, s32, m, k, plain, "", "", NONE) F(regs, A, B, s32, m, k, satfinite, ".satfinite", "", SATURATES)
#define INTEGERS(F, regs, S, U, m, k)        \
    WRAPS_AND_SATURATES(F, regs, S, S, m, k) \
    WRAPS_AND_SATURATES(F, regs, S, U, m, k) WRAPS_AND_SATURATES(F, regs, U, S, m, k) WRAPS_AND_SATURATES(F, regs, U, U, m, k)
#define BYTES(F) INTEGERS(F, 112, s8, u8, 8, 16) INTEGERS(F, 214, s8, u8, 16, 16) INTEGERS(F, 424, s8, u8, 16, 32)
TESTED(mma_of_bytes, BYTES)
#define FOUR_BITS(F) INTEGERS(F, 112, s4, u4, 8, 32) INTEGERS(F, 214, s4, u4, 16, 32) INTEGERS(F, 424, s4, u4, 16, 64)
TESTED(mma_of_four_bits, FOUR_BITS)

#define XOR_AND_AND(F, regs, m, k) \
    F(regs, b1, b1, s32, m, k, xor_, "", ".xor.popc", NONE) F(regs, b1, b1, s32, m, k, and_, "", ".and.popc", BY_AND)
#define BITS(F) XOR_AND_AND(F, 112, 8, 128) XOR_AND_AND(F, 214, 16, 128) XOR_AND_AND(F, 424, 16, 256)
TESTED(mma_of_bits, BITS)

// The oldest form: layouts of A and B, types of C and D.
#define QUADS_KERNEL(regs, a, b, C, D) MMA_##regs(quads_##a##_##b##_##C##_##D, "sync.aligned.m8n8k4." #a "." #b "." #D ".f16.f16." #C)
#define AND_RUN_QUADS(regs, a, b, C, D) &&quads<C, D>(quads_##a##_##b##_##C##_##D, #a[0] == 'c', #b[0] == 'r')
#define QUADS_OF(F, a, b)      \
    F(2244, a, b, f16, f16)    \
    F(2248, a, b, f16, f32) F(2288, a, b, f32, f32)
#define QUADS(F) QUADS_OF(F, row, row) QUADS_OF(F, row, col) QUADS_OF(F, col, row) QUADS_OF(F, col, col)
QUADS(QUADS_KERNEL)
TEST(mma_of_halves_in_quarters_of_a_warp) { return true QUADS(AND_RUN_QUADS); }
