// The work of the bench as plain loops on one thread.
#include "common.h"

int main(int, char **) {
    auto in = numbers(COUNT), square = numbers(SIDE * SIDE);
    std::vector<float> out(COUNT), sums(SUMS), picture(SIDE * SIDE);
    timed("map", [&] {
        const float *__restrict from = in.data();
        float *__restrict to = out.data();
        for (int i = 0; i < COUNT; i++) {
            float x = from[i];
            to[i] = ((((x * .5f + .25f) * x - .125f) * x + .0625f) * x - .03125f) * x + 1;
        }
    });
    expect("map", out, sum_of_map());
    timed("stencil", [&] {
        const float *__restrict from = square.data();
        float *__restrict to = picture.data();
        for (int y = 1; y < SIDE - 1; y++)
            for (int x = 1; x < SIDE - 1; x++) {
                int i = y * SIDE + x;
                to[i] = .5f * from[i] + .125f * (from[i - 1] + from[i + 1] + from[i - SIDE] + from[i + SIDE]);
            }
    });
    expect("stencil", picture, sum_of_stencil());
    timed("reduce", [&] {
        for (int block = 0; block < SUMS; block++) {
            float sum = 0;
            for (int i = 0; i < BLOCK; i++) sum += in[block * BLOCK + i];
            sums[block] = sum;
        }
    });
    expect("reduce", sums, sum_of_reduce());
    timed("smooth", [&] {
        for (int block = 0; block < COUNT; block += BLOCK) {
            float a[BLOCK + 2] = {}, b[BLOCK + 2] = {};
            for (int i = 0; i < BLOCK; i++) a[i + 1] = in[block + i];
            for (int step = 0; step < STEPS; step++) {
                for (int i = 1; i <= BLOCK; i++) b[i] = .25f * a[i - 1] + .5f * a[i] + .25f * a[i + 1];
                for (int i = 1; i <= BLOCK; i++) a[i] = b[i];
            }
            for (int i = 0; i < BLOCK; i++) out[block + i] = a[i + 1];
        }
    });
    expect("smooth", out, sum_of_smooth());
#define RUN(work)                                                \
    timed(#work, [&] {                                           \
        const float *__restrict from = in.data();                \
        float *__restrict to = out.data();                       \
        for (int i = 0; i < COUNT; i++) to[i] = work(from[i]);   \
    });                                                          \
    expect(#work, out, sum_of(work));
    RUN(to_int)
    RUN(to_unsigned)
    RUN(to_long)
    RUN(functions)
}
