// Types of elements as raw bits and as numbers, and matrices of them.
//
// Trap: real numbers are drawn over several exponents, so that a sum that cuts off too much or too little is seen.
#pragma once
typedef unsigned long long Raw;

template <int Bits_, class Number_> struct Element {
    enum { Bits = Bits_ };
    typedef Number_ Number;
};
inline float drawn(unsigned n, float unit) { return std::ldexp((int(n % 4001) - 2000) / unit, -5 * int((n >> 24) % 4)); }
struct f16 : Element<16, float> {
    static Raw make(unsigned n) { return __half_as_ushort(__float2half(drawn(n, 700))); }
    static float number(Raw raw) { return __half2float(__ushort_as_half((unsigned short)raw)); }
    static Raw raw(float value) { return __half_as_ushort(__float2half(value)); }
};
struct f32 : Element<32, float> {
    static Raw make(unsigned n) { return raw(drawn(n, 70)); }
    static float number(Raw raw) { unsigned bits = (unsigned)raw; float value; memcpy(&value, &bits, 4); return value; }
    static Raw raw(float value) { unsigned bits; memcpy(&bits, &value, 4); return bits; }
};
struct bf16 : Element<16, float> {
    static Raw make(unsigned n) { return f32::make(n) >> 16; }
    static float number(Raw raw) { return f32::number(raw << 16); }
};
// Its lower bits are made too: they do not count.
struct tf32 : Element<32, float> {
    static Raw make(unsigned n) { return f32::make(n); }
    static float number(Raw raw) { return f32::number(raw & ~0x1fffull); }
};
struct f64 : Element<64, double> {
    static Raw make(unsigned n) { return raw((int(n % 4001) - 2000) / 70.); }
    static double number(Raw raw) { double value; memcpy(&value, &raw, 8); return value; }
    static Raw raw(double value) { Raw bits; memcpy(&bits, &value, 8); return bits; }
};
template <int Bits> struct Signed : Element<Bits, long long> {
    static Raw make(unsigned n) { return (Bits == 32 ? n % 5 == 0 ? 0x7ffffff0 : n % 5 == 1 ? 0x80000010 : n : n) & ((1ull << Bits) - 1); }
    static long long number(Raw raw) { return (long long)(raw << (64 - Bits)) >> (64 - Bits); }
    static Raw raw(long long value) { return (Raw)value & ((1ull << Bits) - 1); }
};
template <int Bits> struct Unsigned : Element<Bits, long long> {
    static Raw make(unsigned n) { return n & ((1ull << Bits) - 1); }
    static long long number(Raw raw) { return (long long)raw; }
};
struct s8 : Signed<8> {};
struct s4 : Signed<4> {};
struct s32 : Signed<32> {};
struct u8 : Unsigned<8> {};
struct u4 : Unsigned<4> {};
struct b1 : Unsigned<1> {};
struct e4m3 : Element<8, float> {
    static Raw make(unsigned n) { return (n & 0x7f) == 0x7f ? 0 : n & 0xff; }
    static float number(Raw raw) { return f16::number(__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)raw, __NV_E4M3).x); }
};
struct e5m2 : Element<8, float> {
    static Raw make(unsigned n) { return (n & 0x7c) == 0x7c ? 0x3c : n & 0xff; }
    static float number(Raw raw) { return f16::number(__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)raw, __NV_E5M2).x); }
};

// Elements by rows.
struct Matrix {
    int rows, columns;
    std::vector<Raw> data;
    Matrix(int rows, int columns) : rows(rows), columns(columns), data(size_t(rows) * columns) {}
    Raw &at(int i, int j) { return data[size_t(i) * columns + j]; }
    Raw at(int i, int j) const { return data[size_t(i) * columns + j]; }
};
template <class T> Matrix made(int rows, int columns, unsigned seed) {
    Matrix matrix(rows, columns);
    for (size_t i = 0; i < matrix.data.size(); i++) matrix.data[i] = T::make(noise(unsigned(i) + 7919 * seed));
    return matrix;
}

// Elements of any width in memory.
inline void put(std::vector<unsigned> &words, size_t index, int bits, Raw raw) {
    size_t at = index * bits;
    if (bits == 64) {
        words[at / 32] = (unsigned)raw, words[at / 32 + 1] = unsigned(raw >> 32);
        return;
    }
    unsigned mask = unsigned(((1ull << bits) - 1) << at % 32);
    words[at / 32] = (words[at / 32] & ~mask) | (unsigned(raw << at % 32) & mask);
}
inline Raw get(const std::vector<unsigned> &words, size_t index, int bits) {
    size_t at = index * bits;
    if (bits == 64) return words[at / 32] | (Raw)words[at / 32 + 1] << 32;
    return words[at / 32] >> at % 32 & ((1ull << bits) - 1);
}

inline bool same(const Matrix &got, const Matrix &want) {
    for (int i = 0; i < got.rows; i++)
        for (int j = 0; j < got.columns; j++)
            if (got.at(i, j) != want.at(i, j)) {
                printf("  row %d column %d: got %#llx, expected %#llx\n", i, j, got.at(i, j), want.at(i, j));
                return false;
            }
    return true;
}
