// The expected result: A times B plus C on the host.
//
// Trap: doubles are added in rising order with one rounding for each step, so a GPU that adds otherwise differs.
#pragma once
enum Flags { NONE, SATURATES = 1, BY_AND = 2 };

inline double add_product(double sum, double a, double b) { return fma(a, b, sum); }
inline long long add_product(long long sum, long long a, long long b) { return sum + a * b; }

inline long long saturated(long long sum) {
    return sum > 0x7fffffff ? 0x7fffffff : sum < -0x80000000ll ? -0x80000000ll : sum;
}

// Integers, bits and doubles: a plain loop. A's row and B's column are given as bits.
template <class A, class B, class C, class D> struct Sum {
    typedef typename C::Number Number;
    static double held(double sum, int) { return sum; }
    static long long held(long long sum, int flags) { return flags & SATURATES ? saturated(sum) : sum; }
    static Raw of(const std::vector<Raw> &a, const std::vector<Raw> &b, Raw c, int, int flags) {
        Number sum = C::number(c);
        for (size_t k = 0; k < a.size(); k++) {
            if (A::Bits == 1) sum += (long long)(flags & BY_AND ? a[k] & b[k] : a[k] ^ b[k]);
            else sum = add_product(sum, A::number(a[k]), B::number(b[k]));
        }
        return D::raw(held(sum, flags));
    }
};
template <class A, class B, class C, class D> struct RealSum {
    static Raw of(const std::vector<Raw> &a, const std::vector<Raw> &b, Raw c, int n, int) {
        std::vector<float> x, y;
        for (size_t k = 0; k < a.size(); k++) x.push_back(A::number(a[k])), y.push_back(B::number(b[k]));
        return D::raw(real_sum<A, C, D>(x, y, C::number(c), n));
    }
};

template <class A, class B, class C, class D> Matrix product(const Matrix &a, const Matrix &b, const Matrix &c, int flags) {
    typedef typename std::conditional<std::is_same<typename A::Number, float>::value, RealSum<A, B, C, D>, Sum<A, B, C, D>>::type One;
    Matrix d(a.rows, b.columns);
    std::vector<Raw> row(a.columns), column(a.columns);
    for (int i = 0; i < a.rows; i++)
        for (int j = 0; j < b.columns; j++) {
            for (int k = 0; k < a.columns; k++) row[k] = a.at(i, k), column[k] = b.at(k, j);
            d.at(i, j) = One::of(row, column, c.at(i, j), b.columns, flags);
        }
    return d;
}
