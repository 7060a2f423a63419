// Functions on the bytes or halves of a word (`__vadd4`), and the video instructions that they are made of, against a loop
// over the elements.
#pragma once

// Every function of two operands, and which way a loop computes an element: operation, signed, what is done at the end.
#define OF_TWO(X, w)                                                                                     \
    X(vadd##w, a + b, 0, WRAP) X(vaddss##w, a + b, 1, CLAMP) X(vaddus##w, a + b, 0, CLAMP)               \
    X(vsub##w, a - b, 0, WRAP) X(vsubss##w, a - b, 1, CLAMP) X(vsubus##w, a - b, 0, CLAMP)               \
    X(vabsdiffs##w, labs(a - b), 1, WRAP) X(vabsdiffu##w, labs(a - b), 0, WRAP)                          \
    X(vsads##w, labs(a - b), 1, SUM) X(vsadu##w, labs(a - b), 0, SUM)                                    \
    X(vavgs##w, away_from_zero(a + b), 1, WRAP) X(vavgu##w, (a + b + 1) / 2, 0, WRAP)                    \
    X(vhaddu##w, (a + b) / 2, 0, WRAP)                                                                   \
    X(vmaxs##w, a > b ? a : b, 1, WRAP) X(vmaxu##w, a > b ? a : b, 0, WRAP)                              \
    X(vmins##w, a < b ? a : b, 1, WRAP) X(vminu##w, a < b ? a : b, 0, WRAP)                              \
    X(vseteq##w, a == b, 0, WRAP) X(vsetne##w, a != b, 0, WRAP)                                          \
    X(vsetges##w, a >= b, 1, WRAP) X(vsetgeu##w, a >= b, 0, WRAP)                                        \
    X(vsetgts##w, a > b, 1, WRAP) X(vsetgtu##w, a > b, 0, WRAP)                                          \
    X(vsetles##w, a <= b, 1, WRAP) X(vsetleu##w, a <= b, 0, WRAP)                                        \
    X(vsetlts##w, a < b, 1, WRAP) X(vsetltu##w, a < b, 0, WRAP)                                          \
    X(vcmpeq##w, -(a == b), 0, WRAP) X(vcmpne##w, -(a != b), 0, WRAP)                                    \
    X(vcmpges##w, -(a >= b), 1, WRAP) X(vcmpgeu##w, -(a >= b), 0, WRAP)                                  \
    X(vcmpgts##w, -(a > b), 1, WRAP) X(vcmpgtu##w, -(a > b), 0, WRAP)                                    \
    X(vcmples##w, -(a <= b), 1, WRAP) X(vcmpleu##w, -(a <= b), 0, WRAP)                                  \
    X(vcmplts##w, -(a < b), 1, WRAP) X(vcmpltu##w, -(a < b), 0, WRAP)
// The same of one operand.
#define OF_ONE(X, w)                                                                                     \
    X(vabs##w, labs(a), 1, WRAP) X(vabsss##w, labs(a), 1, CLAMP) X(vneg##w, -a, 1, WRAP) X(vnegss##w, -a, 1, CLAMP)

enum End { WRAP, CLAMP, SUM };
enum { VIDEO_WORDS = 512 };
static long away_from_zero(long sum) { return sum >= 0 ? (sum + 1) / 2 : -((1 - sum) / 2); }

static long part_of(unsigned word, int width, int index, bool is_signed) {
    long part = word >> (index * width) & ((1ul << width) - 1);
    return is_signed && part >> (width - 1) ? part - (1l << width) : part;
}

template <class F> static unsigned by_loop(unsigned x, unsigned y, int width, bool is_signed, End end, F element) {
    unsigned result = 0;
    for (int index = 0; index < 32 / width; index++) {
        long value = element(part_of(x, width, index, is_signed), part_of(y, width, index, is_signed));
        long low = is_signed ? -(1l << (width - 1)) : 0, high = low + (1l << width) - 1;
        if (end == CLAMP) value = value < low ? low : value > high ? high : value;
        if (end == SUM) result += unsigned(value);
        else result |= (unsigned(value) & ((1u << (width - 1) << 1) - 1)) << (index * width);
    }
    return result;
}

#define CALL_TWO(name, ...) *out = __##name(x, y), out += VIDEO_WORDS;
#define CALL_ONE(name, ...) *out = __##name(x), out += VIDEO_WORDS;
__global__ void video_functions(const unsigned *xs, const unsigned *ys, unsigned *out) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = xs[t], y = ys[t];
    out += t;
    OF_TWO(CALL_TWO, 2) OF_TWO(CALL_TWO, 4) OF_ONE(CALL_ONE, 2) OF_ONE(CALL_ONE, 4)
}

TEST(bytes_and_halves_are_computed_each_by_itself) {
    std::vector<unsigned> x(VIDEO_WORDS), y(VIDEO_WORDS), expected;
    for (unsigned i = 0; i < VIDEO_WORDS; i++) {
        x[i] = i < 64 ? WORDS[i % 8] : noise(i), y[i] = i < 64 ? WORDS[i / 8] : noise(i * 7 + 3);
        if (i % 5 == 0) y[i] = (y[i] & 0xff00ffff) | (x[i] & 0x00ff0000);
    }
    auto add = [&](int width, bool is_signed, End end, auto element) {
        for (int i = 0; i < VIDEO_WORDS; i++) expected.push_back(by_loop(x[i], y[i], width, is_signed, end, element));
    };
#define EXPECT_2(name, expression, is_signed, end) add(16, is_signed, end, [](long a, long b) -> long { return expression; });
#define EXPECT_4(name, expression, is_signed, end) add(8, is_signed, end, [](long a, long b) -> long { return expression; });
    OF_TWO(EXPECT_2, 2) OF_TWO(EXPECT_4, 4) OF_ONE(EXPECT_2, 2) OF_ONE(EXPECT_4, 4)
    Buffer<unsigned> dx(x), dy(y), out(expected.size());
    video_functions<<<VIDEO_WORDS / 64, 64>>>(dx.device, dy.device, out.device);
    return all(out.fetch(), expected.size(), [&](size_t i) { return expected[i]; });
}

__global__ void video_instructions(const unsigned *xs, const unsigned *ys, unsigned *out) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = xs[t], y = ys[t], r[8];
    asm("vadd.s32.u32.s32 %0, %1, %2;" : "=r"(r[0]) : "r"(x), "r"(y));
    asm("vsub.u32.s32.s32.sat %0, %1, %2;" : "=r"(r[1]) : "r"(x), "r"(y));
    asm("vabsdiff.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(r[2]) : "r"(x), "r"(y), "r"(7));
    asm("vmin.s32.s32.s32 %0, %1.h1, %2.b2;" : "=r"(r[3]) : "r"(x), "r"(y));
    asm("vmax.u32.u32.u32.min %0, %1.b3, %2.h0, %3;" : "=r"(r[4]) : "r"(x), "r"(y), "r"(1000));
    asm("vset.u32.s32.lt %0, %1, %2;" : "=r"(r[5]) : "r"(x), "r"(y));
    asm("vadd4.u32.s32.u32.sat %0, %1, %2, %3;" : "=r"(r[6]) : "r"(x), "r"(y), "r"(0));
    asm("vset2.u32.s32.ge.add %0, %1, %2, %3;" : "=r"(r[7]) : "r"(x), "r"(y), "r"(50));
    for (int k = 0; k < 8; k++) out[k * VIDEO_WORDS + t] = r[k];
}

TEST(video_instructions_take_signs_parts_and_second_operations) {
    std::vector<unsigned> x(VIDEO_WORDS), y(VIDEO_WORDS);
    for (unsigned i = 0; i < VIDEO_WORDS; i++) x[i] = noise(i + 9000), y[i] = i % 3 ? noise(i + 70000) : x[i] + i % 2;
    Buffer<unsigned> dx(x), dy(y), out(8 * VIDEO_WORDS);
    video_instructions<<<VIDEO_WORDS / 64, 64>>>(dx.device, dy.device, out.device);
    return all(out.fetch(), 8 * VIDEO_WORDS, [&](size_t i) -> unsigned {
        unsigned a = x[i % VIDEO_WORDS], b = y[i % VIDEO_WORDS];
        long sa = int(a), sb = int(b), difference = sa - sb, one, other;
        switch (i / VIDEO_WORDS) {
        case 0: return a + b;
        case 1: return difference < 0 ? 0 : difference > 0xffffffffl ? ~0u : unsigned(difference);
        case 2: return (a > b ? a - b : b - a) + 7;
        case 3: return one = short(a >> 16), other = (signed char)(b >> 16), unsigned(one < other ? one : other);
        case 4: return one = a >> 24, other = b & 0xffff, one = one > other ? one : other, unsigned(one < 1000 ? one : 1000);
        case 5: return long(a) < sb;
        case 6: {
            unsigned sum = 0;
            for (int k = 0; k < 4; k++) {
                long part = part_of(a, 8, k, true) + part_of(b, 8, k, false);
                sum |= unsigned(part < 0 ? 0 : part > 255 ? 255 : part) << (8 * k);
            }
            return sum;
        }
        default: return 50 + (long(a & 0xffff) >= short(b)) + (long(a >> 16) >= short(b >> 16));
        }
    });
}
