// The forms of dense `mma.sync` that the PTX ISA documents.
#pragma once
MMA_212(half_k8_f16, "sync.aligned.m16n8k8.row.col.f16.f16.f16.f16")
MMA_214(half_k8_f32, "sync.aligned.m16n8k8.row.col.f32.f16.f16.f32")
MMA_422(half_k16_f16, "sync.aligned.m16n8k16.row.col.f16.f16.f16.f16")
MMA_424(half_k16_f32, "sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
TEST(mma_of_halves) {
    return dense<f16, f16, f16>(half_k8_f16, 16, 8) &&
           dense<f16, f16, f32>(half_k8_f32, 16, 8) &&
           dense<f16, f16, f16>(half_k16_f16, 16, 16) &&
           dense<f16, f16, f32>(half_k16_f32, 16, 16);
}
MMA_2244(quads_row_row_f16_f16, "sync.aligned.m8n8k4.row.row.f16.f16.f16.f16")
MMA_2248(quads_row_row_f32_f16, "sync.aligned.m8n8k4.row.row.f32.f16.f16.f16")
MMA_2288(quads_row_row_f32_f32, "sync.aligned.m8n8k4.row.row.f32.f16.f16.f32")
MMA_2244(quads_row_col_f16_f16, "sync.aligned.m8n8k4.row.col.f16.f16.f16.f16")
MMA_2248(quads_row_col_f32_f16, "sync.aligned.m8n8k4.row.col.f32.f16.f16.f16")
MMA_2288(quads_row_col_f32_f32, "sync.aligned.m8n8k4.row.col.f32.f16.f16.f32")
MMA_2244(quads_col_row_f16_f16, "sync.aligned.m8n8k4.col.row.f16.f16.f16.f16")
MMA_2248(quads_col_row_f32_f16, "sync.aligned.m8n8k4.col.row.f32.f16.f16.f16")
MMA_2288(quads_col_row_f32_f32, "sync.aligned.m8n8k4.col.row.f32.f16.f16.f32")
MMA_2244(quads_col_col_f16_f16, "sync.aligned.m8n8k4.col.col.f16.f16.f16.f16")
MMA_2248(quads_col_col_f32_f16, "sync.aligned.m8n8k4.col.col.f32.f16.f16.f16")
MMA_2288(quads_col_col_f32_f32, "sync.aligned.m8n8k4.col.col.f32.f16.f16.f32")
TEST(mma_of_halves_in_quarters_of_a_warp) {
    return quads<f16, f16>(quads_row_row_f16_f16, false, true) &&
           quads<f16, f32>(quads_row_row_f32_f16, false, true) &&
           quads<f32, f32>(quads_row_row_f32_f32, false, true) &&
           quads<f16, f16>(quads_row_col_f16_f16, false, false) &&
           quads<f16, f32>(quads_row_col_f32_f16, false, false) &&
           quads<f32, f32>(quads_row_col_f32_f32, false, false) &&
           quads<f16, f16>(quads_col_row_f16_f16, true, true) &&
           quads<f16, f32>(quads_col_row_f32_f16, true, true) &&
           quads<f32, f32>(quads_col_row_f32_f32, true, true) &&
           quads<f16, f16>(quads_col_col_f16_f16, true, false) &&
           quads<f16, f32>(quads_col_col_f32_f16, true, false) &&
           quads<f32, f32>(quads_col_col_f32_f32, true, false);
}
MMA_214(bf16_k8, "sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32")
MMA_424(bf16_k16, "sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
MMA_214(tf32_k4, "sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32")
MMA_424(tf32_k8, "sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
TEST(mma_of_bf16_and_tf32) {
    return dense<bf16, bf16, f32>(bf16_k8, 16, 8) &&
           dense<bf16, bf16, f32>(bf16_k16, 16, 16) &&
           dense<tf32, tf32, f32>(tf32_k4, 16, 4) &&
           dense<tf32, tf32, f32>(tf32_k8, 16, 8);
}
MMA_D112(double_m8_k4, "sync.aligned.m8n8k4.row.col.f64.f64.f64.f64")
MMA_D214(double_m16_k4, "sync.aligned.m16n8k4.row.col.f64.f64.f64.f64")
MMA_D424(double_m16_k8, "sync.aligned.m16n8k8.row.col.f64.f64.f64.f64")
MMA_D844(double_m16_k16, "sync.aligned.m16n8k16.row.col.f64.f64.f64.f64")
TEST(mma_of_doubles) {
    return dense<f64, f64, f64>(double_m8_k4, 8, 4) &&
           dense<f64, f64, f64>(double_m16_k4, 16, 4) &&
           dense<f64, f64, f64>(double_m16_k8, 16, 8) &&
           dense<f64, f64, f64>(double_m16_k16, 16, 16);
}
MMA_112(s8_s8_m8_k16, "sync.aligned.m8n8k16.row.col.s32.s8.s8.s32")
MMA_112(s8_s8_m8_k16_satfinite, "sync.aligned.m8n8k16.row.col.satfinite.s32.s8.s8.s32")
MMA_112(s8_u8_m8_k16, "sync.aligned.m8n8k16.row.col.s32.s8.u8.s32")
MMA_112(s8_u8_m8_k16_satfinite, "sync.aligned.m8n8k16.row.col.satfinite.s32.s8.u8.s32")
MMA_112(u8_s8_m8_k16, "sync.aligned.m8n8k16.row.col.s32.u8.s8.s32")
MMA_112(u8_s8_m8_k16_satfinite, "sync.aligned.m8n8k16.row.col.satfinite.s32.u8.s8.s32")
MMA_112(u8_u8_m8_k16, "sync.aligned.m8n8k16.row.col.s32.u8.u8.s32")
MMA_112(u8_u8_m8_k16_satfinite, "sync.aligned.m8n8k16.row.col.satfinite.s32.u8.u8.s32")
MMA_214(s8_s8_m16_k16, "sync.aligned.m16n8k16.row.col.s32.s8.s8.s32")
MMA_214(s8_s8_m16_k16_satfinite, "sync.aligned.m16n8k16.row.col.satfinite.s32.s8.s8.s32")
MMA_214(s8_u8_m16_k16, "sync.aligned.m16n8k16.row.col.s32.s8.u8.s32")
MMA_214(s8_u8_m16_k16_satfinite, "sync.aligned.m16n8k16.row.col.satfinite.s32.s8.u8.s32")
MMA_214(u8_s8_m16_k16, "sync.aligned.m16n8k16.row.col.s32.u8.s8.s32")
MMA_214(u8_s8_m16_k16_satfinite, "sync.aligned.m16n8k16.row.col.satfinite.s32.u8.s8.s32")
MMA_214(u8_u8_m16_k16, "sync.aligned.m16n8k16.row.col.s32.u8.u8.s32")
MMA_214(u8_u8_m16_k16_satfinite, "sync.aligned.m16n8k16.row.col.satfinite.s32.u8.u8.s32")
MMA_424(s8_s8_m16_k32, "sync.aligned.m16n8k32.row.col.s32.s8.s8.s32")
MMA_424(s8_s8_m16_k32_satfinite, "sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32")
MMA_424(s8_u8_m16_k32, "sync.aligned.m16n8k32.row.col.s32.s8.u8.s32")
MMA_424(s8_u8_m16_k32_satfinite, "sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32")
MMA_424(u8_s8_m16_k32, "sync.aligned.m16n8k32.row.col.s32.u8.s8.s32")
MMA_424(u8_s8_m16_k32_satfinite, "sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32")
MMA_424(u8_u8_m16_k32, "sync.aligned.m16n8k32.row.col.s32.u8.u8.s32")
MMA_424(u8_u8_m16_k32_satfinite, "sync.aligned.m16n8k32.row.col.satfinite.s32.u8.u8.s32")
TEST(mma_of_bytes) {
    return dense<s8, s8, s32>(s8_s8_m8_k16, 8, 16) &&
           dense<s8, s8, s32>(s8_s8_m8_k16_satfinite, 8, 16, SATURATES) &&
           dense<s8, u8, s32>(s8_u8_m8_k16, 8, 16) &&
           dense<s8, u8, s32>(s8_u8_m8_k16_satfinite, 8, 16, SATURATES) &&
           dense<u8, s8, s32>(u8_s8_m8_k16, 8, 16) &&
           dense<u8, s8, s32>(u8_s8_m8_k16_satfinite, 8, 16, SATURATES) &&
           dense<u8, u8, s32>(u8_u8_m8_k16, 8, 16) &&
           dense<u8, u8, s32>(u8_u8_m8_k16_satfinite, 8, 16, SATURATES) &&
           dense<s8, s8, s32>(s8_s8_m16_k16, 16, 16) &&
           dense<s8, s8, s32>(s8_s8_m16_k16_satfinite, 16, 16, SATURATES) &&
           dense<s8, u8, s32>(s8_u8_m16_k16, 16, 16) &&
           dense<s8, u8, s32>(s8_u8_m16_k16_satfinite, 16, 16, SATURATES) &&
           dense<u8, s8, s32>(u8_s8_m16_k16, 16, 16) &&
           dense<u8, s8, s32>(u8_s8_m16_k16_satfinite, 16, 16, SATURATES) &&
           dense<u8, u8, s32>(u8_u8_m16_k16, 16, 16) &&
           dense<u8, u8, s32>(u8_u8_m16_k16_satfinite, 16, 16, SATURATES) &&
           dense<s8, s8, s32>(s8_s8_m16_k32, 16, 32) &&
           dense<s8, s8, s32>(s8_s8_m16_k32_satfinite, 16, 32, SATURATES) &&
           dense<s8, u8, s32>(s8_u8_m16_k32, 16, 32) &&
           dense<s8, u8, s32>(s8_u8_m16_k32_satfinite, 16, 32, SATURATES) &&
           dense<u8, s8, s32>(u8_s8_m16_k32, 16, 32) &&
           dense<u8, s8, s32>(u8_s8_m16_k32_satfinite, 16, 32, SATURATES) &&
           dense<u8, u8, s32>(u8_u8_m16_k32, 16, 32) &&
           dense<u8, u8, s32>(u8_u8_m16_k32_satfinite, 16, 32, SATURATES);
}
MMA_112(s4_s4_m8_k32, "sync.aligned.m8n8k32.row.col.s32.s4.s4.s32")
MMA_112(s4_s4_m8_k32_satfinite, "sync.aligned.m8n8k32.row.col.satfinite.s32.s4.s4.s32")
MMA_112(s4_u4_m8_k32, "sync.aligned.m8n8k32.row.col.s32.s4.u4.s32")
MMA_112(s4_u4_m8_k32_satfinite, "sync.aligned.m8n8k32.row.col.satfinite.s32.s4.u4.s32")
MMA_112(u4_s4_m8_k32, "sync.aligned.m8n8k32.row.col.s32.u4.s4.s32")
MMA_112(u4_s4_m8_k32_satfinite, "sync.aligned.m8n8k32.row.col.satfinite.s32.u4.s4.s32")
MMA_112(u4_u4_m8_k32, "sync.aligned.m8n8k32.row.col.s32.u4.u4.s32")
MMA_112(u4_u4_m8_k32_satfinite, "sync.aligned.m8n8k32.row.col.satfinite.s32.u4.u4.s32")
MMA_214(s4_s4_m16_k32, "sync.aligned.m16n8k32.row.col.s32.s4.s4.s32")
MMA_214(s4_s4_m16_k32_satfinite, "sync.aligned.m16n8k32.row.col.satfinite.s32.s4.s4.s32")
MMA_214(s4_u4_m16_k32, "sync.aligned.m16n8k32.row.col.s32.s4.u4.s32")
MMA_214(s4_u4_m16_k32_satfinite, "sync.aligned.m16n8k32.row.col.satfinite.s32.s4.u4.s32")
MMA_214(u4_s4_m16_k32, "sync.aligned.m16n8k32.row.col.s32.u4.s4.s32")
MMA_214(u4_s4_m16_k32_satfinite, "sync.aligned.m16n8k32.row.col.satfinite.s32.u4.s4.s32")
MMA_214(u4_u4_m16_k32, "sync.aligned.m16n8k32.row.col.s32.u4.u4.s32")
MMA_214(u4_u4_m16_k32_satfinite, "sync.aligned.m16n8k32.row.col.satfinite.s32.u4.u4.s32")
MMA_424(s4_s4_m16_k64, "sync.aligned.m16n8k64.row.col.s32.s4.s4.s32")
MMA_424(s4_s4_m16_k64_satfinite, "sync.aligned.m16n8k64.row.col.satfinite.s32.s4.s4.s32")
MMA_424(s4_u4_m16_k64, "sync.aligned.m16n8k64.row.col.s32.s4.u4.s32")
MMA_424(s4_u4_m16_k64_satfinite, "sync.aligned.m16n8k64.row.col.satfinite.s32.s4.u4.s32")
MMA_424(u4_s4_m16_k64, "sync.aligned.m16n8k64.row.col.s32.u4.s4.s32")
MMA_424(u4_s4_m16_k64_satfinite, "sync.aligned.m16n8k64.row.col.satfinite.s32.u4.s4.s32")
MMA_424(u4_u4_m16_k64, "sync.aligned.m16n8k64.row.col.s32.u4.u4.s32")
MMA_424(u4_u4_m16_k64_satfinite, "sync.aligned.m16n8k64.row.col.satfinite.s32.u4.u4.s32")
TEST(mma_of_four_bits) {
    return dense<s4, s4, s32>(s4_s4_m8_k32, 8, 32) &&
           dense<s4, s4, s32>(s4_s4_m8_k32_satfinite, 8, 32, SATURATES) &&
           dense<s4, u4, s32>(s4_u4_m8_k32, 8, 32) &&
           dense<s4, u4, s32>(s4_u4_m8_k32_satfinite, 8, 32, SATURATES) &&
           dense<u4, s4, s32>(u4_s4_m8_k32, 8, 32) &&
           dense<u4, s4, s32>(u4_s4_m8_k32_satfinite, 8, 32, SATURATES) &&
           dense<u4, u4, s32>(u4_u4_m8_k32, 8, 32) &&
           dense<u4, u4, s32>(u4_u4_m8_k32_satfinite, 8, 32, SATURATES) &&
           dense<s4, s4, s32>(s4_s4_m16_k32, 16, 32) &&
           dense<s4, s4, s32>(s4_s4_m16_k32_satfinite, 16, 32, SATURATES) &&
           dense<s4, u4, s32>(s4_u4_m16_k32, 16, 32) &&
           dense<s4, u4, s32>(s4_u4_m16_k32_satfinite, 16, 32, SATURATES) &&
           dense<u4, s4, s32>(u4_s4_m16_k32, 16, 32) &&
           dense<u4, s4, s32>(u4_s4_m16_k32_satfinite, 16, 32, SATURATES) &&
           dense<u4, u4, s32>(u4_u4_m16_k32, 16, 32) &&
           dense<u4, u4, s32>(u4_u4_m16_k32_satfinite, 16, 32, SATURATES) &&
           dense<s4, s4, s32>(s4_s4_m16_k64, 16, 64) &&
           dense<s4, s4, s32>(s4_s4_m16_k64_satfinite, 16, 64, SATURATES) &&
           dense<s4, u4, s32>(s4_u4_m16_k64, 16, 64) &&
           dense<s4, u4, s32>(s4_u4_m16_k64_satfinite, 16, 64, SATURATES) &&
           dense<u4, s4, s32>(u4_s4_m16_k64, 16, 64) &&
           dense<u4, s4, s32>(u4_s4_m16_k64_satfinite, 16, 64, SATURATES) &&
           dense<u4, u4, s32>(u4_u4_m16_k64, 16, 64) &&
           dense<u4, u4, s32>(u4_u4_m16_k64_satfinite, 16, 64, SATURATES);
}
MMA_112(bits_xor_m8_k128, "sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc")
MMA_112(bits_and_m8_k128, "sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.and.popc")
MMA_214(bits_xor_m16_k128, "sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.xor.popc")
MMA_214(bits_and_m16_k128, "sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc")
MMA_424(bits_xor_m16_k256, "sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc")
MMA_424(bits_and_m16_k256, "sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc")
TEST(mma_of_bits) {
    return dense<b1, b1, s32>(bits_xor_m8_k128, 8, 128) &&
           dense<b1, b1, s32>(bits_and_m8_k128, 8, 128, BY_AND) &&
           dense<b1, b1, s32>(bits_xor_m16_k128, 16, 128) &&
           dense<b1, b1, s32>(bits_and_m16_k128, 16, 128, BY_AND) &&
           dense<b1, b1, s32>(bits_xor_m16_k256, 16, 256) &&
           dense<b1, b1, s32>(bits_and_m16_k256, 16, 256, BY_AND);
}
MMA_212(e4m3_e4m3_f16_k16, "sync.aligned.m16n8k16.row.col.f16.e4m3.e4m3.f16")
MMA_214(e4m3_e4m3_f32_k16, "sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32")
MMA_212(e4m3_e5m2_f16_k16, "sync.aligned.m16n8k16.row.col.f16.e4m3.e5m2.f16")
MMA_214(e4m3_e5m2_f32_k16, "sync.aligned.m16n8k16.row.col.f32.e4m3.e5m2.f32")
MMA_212(e5m2_e4m3_f16_k16, "sync.aligned.m16n8k16.row.col.f16.e5m2.e4m3.f16")
MMA_214(e5m2_e4m3_f32_k16, "sync.aligned.m16n8k16.row.col.f32.e5m2.e4m3.f32")
MMA_212(e5m2_e5m2_f16_k16, "sync.aligned.m16n8k16.row.col.f16.e5m2.e5m2.f16")
MMA_214(e5m2_e5m2_f32_k16, "sync.aligned.m16n8k16.row.col.f32.e5m2.e5m2.f32")
MMA_422(e4m3_e4m3_f16_k32, "sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16")
MMA_424(e4m3_e4m3_f32_k32, "sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32")
MMA_422(e4m3_e5m2_f16_k32, "sync.aligned.m16n8k32.row.col.f16.e4m3.e5m2.f16")
MMA_424(e4m3_e5m2_f32_k32, "sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32")
MMA_422(e5m2_e4m3_f16_k32, "sync.aligned.m16n8k32.row.col.f16.e5m2.e4m3.f16")
MMA_424(e5m2_e4m3_f32_k32, "sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32")
MMA_422(e5m2_e5m2_f16_k32, "sync.aligned.m16n8k32.row.col.f16.e5m2.e5m2.f16")
MMA_424(e5m2_e5m2_f32_k32, "sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32")
TEST(mma_of_8_bit_floating_point) {
    return dense<e4m3, e4m3, f16>(e4m3_e4m3_f16_k16, 16, 16) &&
           dense<e4m3, e4m3, f32>(e4m3_e4m3_f32_k16, 16, 16) &&
           dense<e4m3, e5m2, f16>(e4m3_e5m2_f16_k16, 16, 16) &&
           dense<e4m3, e5m2, f32>(e4m3_e5m2_f32_k16, 16, 16) &&
           dense<e5m2, e4m3, f16>(e5m2_e4m3_f16_k16, 16, 16) &&
           dense<e5m2, e4m3, f32>(e5m2_e4m3_f32_k16, 16, 16) &&
           dense<e5m2, e5m2, f16>(e5m2_e5m2_f16_k16, 16, 16) &&
           dense<e5m2, e5m2, f32>(e5m2_e5m2_f32_k16, 16, 16) &&
           dense<e4m3, e4m3, f16>(e4m3_e4m3_f16_k32, 16, 32) &&
           dense<e4m3, e4m3, f32>(e4m3_e4m3_f32_k32, 16, 32) &&
           dense<e4m3, e5m2, f16>(e4m3_e5m2_f16_k32, 16, 32) &&
           dense<e4m3, e5m2, f32>(e4m3_e5m2_f32_k32, 16, 32) &&
           dense<e5m2, e4m3, f16>(e5m2_e4m3_f16_k32, 16, 32) &&
           dense<e5m2, e4m3, f32>(e5m2_e4m3_f32_k32, 16, 32) &&
           dense<e5m2, e5m2, f16>(e5m2_e5m2_f16_k32, 16, 32) &&
           dense<e5m2, e5m2, f32>(e5m2_e5m2_f32_k32, 16, 32);
}
