// Sums of real numbers as Hopper's tensor cores make them, in whole numbers: the terms of a block are cut off 25 places below the
// largest exponent, added exactly, and rounded once. (How that was found: docs/specification.md, S-692 and S-693.)
//
// Trap: a GPU of another generation has other blocks and places, so sums of random numbers differ there in their last bits.
#pragma once

// size * 2^last, shifted by the exponent `top`.
struct Term {
    bool negative;
    long long size;
    int last, top;
};
// `least` is the least exponent of the number's type.
inline Term term(float value, int least) {
    int exponent;
    float part = std::frexp(std::fabs(value), &exponent);
    return {std::signbit(value), (long long)std::ldexp(part, 24), exponent - 24, std::max(exponent - 1, least)};
}
inline Term operator*(const Term &a, const Term &b) {
    return {a.negative != b.negative, a.size * b.size, a.last + b.last, a.top + b.top};
}

// size * 2^last with at most `places` behind the first, less at exponents below `least`; to the nearest, to even, or toward zero.
inline float rounded(long long sum, int last, int places, int least, bool nearest) {
    long long size = sum < 0 ? -sum : sum;
    int first = last - 1;
    for (long long rest = size; rest; rest >>= 1) first++;
    int dropped = std::min(std::max(first, least) - places - last, 62);
    if (dropped > 0) {
        long long half = 1ll << (dropped - 1), rest = size & (2 * half - 1);
        size >>= dropped, last += dropped;
        if (nearest && (rest > half || (rest == half && size % 2))) size++;
    }
    float value = std::ldexp((float)size, last);
    return sum < 0 && size ? -value : value;
}
inline float to_half(float value) { return __half2float(__float2half(value)); }

// How one type of sum is rounded.
template <class Sum> struct Rounding {
    enum { Places = 23, Least = -126, Nearest = 0 };
    static float alone(float value) { return value; }
};
template <> struct Rounding<f16> {
    enum { Places = 10, Least = -14, Nearest = 1 };
    static float alone(float value) { return to_half(value); }
};

inline float add_block(float sum, const std::vector<Term> &products, int least, int places, bool nearest) {
    if (std::isinf(sum)) return sum;
    std::vector<Term> terms = products;
    terms.push_back(term(sum, least));
    int largest = -133;
    for (const Term &t : terms)
        if (t.size) largest = std::max(largest, t.top);
    long long total = 0;
    int last = largest - 25;
    for (const Term &t : terms) {
        int up = t.last - last;
        long long cut = up >= 0 ? t.size << up : up > -63 ? t.size >> -up : 0;
        total += t.negative ? -cut : cut;
    }
    float value = rounded(total, last, places, least, nearest);
    return places == 10 && std::fabs(value) >= 65536 ? std::copysign(INFINITY, value) : value;
}

// The order of inner places, and how many are added at once.
struct Order {
    std::vector<int> places;
    int block;
};
template <class A> Order order_of(int n, int k) {
    Order order = {{}, A::Bits == 8 ? k / 2 : 16};
    // `wmma` takes half of the places that `mma` takes.
    if (std::is_same<A, tf32>::value) order.block = n == 16 ? 4 : 8;
    // 8-bit numbers become halves: of four neighbours first the lower two, then the upper.
    for (int part = 0; part < 4; part += A::Bits == 8 ? 2 : 4)
        for (int i = 0; i < k; i++)
            if (A::Bits != 8 || (i & 2) == part) order.places.push_back(i);
    return order;
}

// One element of A times B plus C; A's row and B's column as numbers.
template <class A, class C, class D> float real_sum(const std::vector<float> &a, const std::vector<float> &b, float c, int n) {
    typedef typename std::conditional<std::is_same<C, D>::value, D, f32>::type Sum;
    typedef Rounding<Sum> R;
    int k = int(a.size());
    if (A::Bits == 16 && k == 4) {
        // A routine in `f32`: these products are exact.
        if (D::Bits == 16) return (c + (a[0] * b[0] + a[1] * b[1])) + (a[2] * b[2] + a[3] * b[3]);
        return (((a[0] * b[0] + a[1] * b[1]) + a[2] * b[2]) + a[3] * b[3]) + c;
    }
    Order order = order_of<A>(n, k);
    int least = A::Bits == 8 || std::is_same<A, f16>::value ? -14 : -126;
    float sum = A::Bits == 8 ? 0 : c;
    for (int from = 0; from < k; from += order.block) {
        std::vector<Term> products;
        for (int i = from; i < std::min(from + order.block, k); i++) {
            int place = order.places[i];
            products.push_back(term(a[place], least) * term(b[place], least));
        }
        sum = add_block(sum, products, R::Least, R::Places, R::Nearest);
    }
    return A::Bits == 8 ? R::alone(sum + c) : sum;
}
