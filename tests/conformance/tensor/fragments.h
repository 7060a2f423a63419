// Which lane holds which element for `mma`, as the PTX ISA has it ("Matrix Fragments for mma.m16n8k16 with floating point type" and
// its neighbours): `groupID` is the lane divided by four, `threadID_in_group` the rest.
#pragma once
struct Place { int product, row, column; };

// Of A: `packed` elements in a register; where there are 16 rows, a lane has every second register eight rows below.
inline Place place_a(int rows, int packed, int lane, int i) {
    int group = lane >> 2, thread = lane % 4, reg = i / packed, in = i % packed;
    if (rows == 8) return {0, group, thread * packed + in + reg * 4 * packed};
    return {0, reg % 2 ? group + 8 : group, thread * packed + in + reg / 2 * 4 * packed};
}
// Of B, with eight columns.
inline Place place_b(int packed, int lane, int i) {
    int group = lane >> 2, thread = lane % 4;
    return {0, thread * packed + i % packed + i / packed * 4 * packed, group};
}
// Of C and D: two neighbours, and two more eight rows below.
inline Place place_c(int lane, int i) { return {0, (lane >> 2) + (i < 2 ? 0 : 8), lane % 4 * 2 + (i & 1)}; }

// "Matrix Fragments for mma.m8n8k4 with .f16 floating point type": four products.
inline int quad(int lane) { return lane % 16 / 4; }
inline Place quad_a(bool by_columns, int lane, int i) {
    if (by_columns) return {quad(lane), lane < 16 ? i % 4 : i % 4 + 4, lane % 4};
    return {quad(lane), lane < 16 ? lane % 4 : lane % 4 + 4, i};
}
inline Place quad_b(bool by_rows, int lane, int i) {
    if (by_rows) return {quad(lane), lane % 4, lane < 16 ? i : i + 4};
    return {quad(lane), i, lane < 16 ? lane % 4 : lane % 4 + 4};
}
inline Place quad_c(bool of_halves, int lane, int i) {
    if (of_halves) return {quad(lane), lane < 16 ? lane % 4 : lane % 4 + 4, i};
    int x = (lane & 1) + (i & 2);
    return {quad(lane), lane < 16 ? x : x + 4, (i & 4) + (lane & 2) + (i & 1)};
}
