// What a texture gives at a point. From the guide's formulas: x = N x', tex(x) = T[floor(x)], or between neighbours (1-a) T[i] +
// a T[i+1] with i = floor(x - 0.5) and a = frac(x - 0.5) in 8 bits behind the point. Where they leave a choice, from what an H100
// did (docs/specification.md, S-530 to S-534; `measured.h` has some of its numbers).
//
// Trap: written for reading, not for speed, and with other steps than the library's: wider arithmetic, one corner at a time.
#pragma once

// A scalar or vector type: its component, and how many.
template <class T> struct Vector { typedef T Of; enum { count = 1 }; };
#define VECTORS(base, name)                                                 \
    template <> struct Vector<name##1> { typedef base Of; enum { count = 1 }; }; \
    template <> struct Vector<name##2> { typedef base Of; enum { count = 2 }; }; \
    template <> struct Vector<name##4> { typedef base Of; enum { count = 4 }; };
VECTORS(float, float)
VECTORS(signed char, char)
VECTORS(unsigned char, uchar)
VECTORS(short, short)
VECTORS(unsigned short, ushort)
VECTORS(int, int)
VECTORS(unsigned, uint)

template <class T> typename Vector<T>::Of part(const T &value, int c) {
    typename Vector<T>::Of parts[Vector<T>::count];
    memcpy(parts, &value, sizeof value);
    return parts[c];
}

// Elements in up to three dimensions.
template <class T> struct Picture {
    int size[3];
    std::vector<T> data;
    Picture(int w, int h, int d) : size{w, h, d}, data(size_t(w) * h * d) {
        unsigned char *bytes = (unsigned char *)data.data();
        for (size_t i = 0; i < data.size() * sizeof(T); i++) bytes[i] = noise(unsigned(i) + 99) & 255;
        if (std::numeric_limits<typename Vector<T>::Of>::is_integer) return;
        float *values = (float *)data.data();
        for (size_t i = 0; i < data.size() * sizeof(T) / 4; i++) values[i] = int(noise(unsigned(i)) % 2001) / 8.f - 100;
    }
    const T &at(int i, int j, int k) const { return data[(size_t(k) * size[1] + j) * size[0] + i]; }
};

// How it is read.
struct Way {
    cudaTextureAddressMode mode = cudaAddressModeClamp;
    bool linear = false, normalized = false, as_float = false;
    // Of components outside, as bits.
    unsigned border[4] = {};
};

inline cudaTextureDesc description(const Way &way) {
    cudaTextureDesc desc = {};
    for (auto &mode : desc.addressMode) mode = way.mode;
    desc.filterMode = way.linear ? cudaFilterModeLinear : cudaFilterModePoint;
    desc.readMode = way.as_float ? cudaReadModeNormalizedFloat : cudaReadModeElementType;
    desc.normalizedCoords = way.normalized;
    memcpy(desc.borderColor, way.border, sizeof way.border);
    return desc;
}

inline cudaTextureAddressMode effective(const Way &way) {
    bool needs_normalized = way.mode == cudaAddressModeWrap || way.mode == cudaAddressModeMirror;
    return needs_normalized && !way.normalized ? cudaAddressModeClamp : way.mode;
}

// The coordinate in elements; a normalized one has 21 bits behind the point (of sizes below 2^15), and whole turns go first.
inline long double scaled(float given, int n, const Way &way) {
    long double x = given != given ? 0 : given;
    if (!way.normalized) return x;
    const bool turns = effective(way) == cudaAddressModeWrap || effective(way) == cudaAddressModeMirror;
    if (std::isinf(x)) return turns ? 0 : x;
    x = floorl(ldexpl(x, 21)) / (1 << 21);
    if (effective(way) == cudaAddressModeWrap) x -= floorl(x);
    if (effective(way) == cudaAddressModeMirror) x -= 2 * floorl((x + 1) / 2);
    return n * x;
}

// The element of index `i` of a row of `n`; -1 if there is none.
inline int addressed(long double i, int n, const Way &way) {
    switch (effective(way)) {
    case cudaAddressModeWrap: return int(i - n * floorl(i / n));
    case cudaAddressModeMirror:
        while (i < 0 || i >= n) i = i < 0 ? -1 - i : 2 * n - 1 - i;
        return int(i);
    case cudaAddressModeBorder: return i >= 0 && i < n ? int(i) : -1;
    default: return i < 0 ? 0 : i < n ? int(i) : n - 1;
    }
}

// A component as a number, or with `as_float` as a part of its type's largest.
template <class T> long double number(const T &element, int c, const Way &way) {
    typedef typename Vector<T>::Of Of;
    Of value = part(element, c);
    if (!way.as_float || sizeof(Of) == 4) return value;
    float part = float(value) / float(std::numeric_limits<Of>::max());
    return part < -1 ? -1 : part;
}

// A border colour has the precision of the elements: it goes to the nearest, a half and a little more to zero.
template <class T> long double outside(int c, const Way &way) {
    typedef typename Vector<T>::Of Of;
    Of value;
    float real;
    memcpy(&value, &way.border[c], sizeof value);
    memcpy(&real, &way.border[c], sizeof real);
    if (!way.as_float || sizeof(Of) == 4) return value;
    const long double most = std::numeric_limits<Of>::max(), least = std::numeric_limits<Of>::min() < 0 ? -1 : 0;
    const long double held = std::min(std::max((long double)real, least), 1.L);
    return float(copysignl(floorl(fabsl(held) * most + 7 / 16.L), held) / most);
}

// How much of 256 parts the corner `far` has, for fractions in such parts: the whole is split in z, then x, then y. Halves are
// given to the far side, and in y of the near x to the near one.
inline long double share(const int *parts, const bool *far) {
    long double of = far[2] ? parts[2] : 256 - parts[2];
    const long double right = roundl(of * parts[0] / 256);
    of = far[0] ? right : of - right;
    const long double taken = roundl(of * (far[0] ? parts[1] : 256 - parts[1]) / 256);
    return far[0] == far[1] ? taken : of - taken;
}

// The answer for 256 times a sum of elements: integers of 8 and 16 bits are summed as such, and the answer has 16 bits.
template <class T> long double answer(long double sum) {
    typedef typename Vector<T>::Of Of;
    const bool is_signed = std::numeric_limits<Of>::min() < 0;
    if (sizeof(Of) == 4) return sum / 256;
    if (sizeof(Of) == 1 && is_signed) sum += floorl((sum + 64 + 16 * floorl(sum / 4096)) / 128);
    else sum = floorl(sum * (sizeof(Of) == 1 ? 257 : 1) / 256 + .5L);
    return is_signed ? std::max(sum, -32767.L) / 32767 : sum / 65535;
}

// Component `c` at `x`.
template <class T> long double fetched(const Picture<T> &p, const float *x, int dimensions, const Way &way, int c) {
    int index[3][2] = {}, parts[3] = {};
    for (int d = 0; d < dimensions; d++) {
        const int n = p.size[d];
        const long double at = scaled(x[d], n, way), steps = floorl((at - .5L) * 256 + .5L), i = floorl(way.linear ? steps / 256 : at);
        for (int k = 0; k < 2; k++) index[d][k] = addressed(i + k, n, way);
        // Of an infinity nothing is left, and where both neighbours are one, it is the near one.
        const bool beyond = effective(way) == cudaAddressModeClamp && index[d][0] == index[d][1];
        if (way.linear && !std::isinf(at) && !beyond) parts[d] = int(steps - 256 * i);
    }
    // A row is filtered as the only one of a plane, at y = 0.
    if (dimensions == 1 && way.linear && way.mode == cudaAddressModeBorder) index[1][0] = -1, parts[1] = 128;
    typedef typename Vector<T>::Of Of;
    Way raw = way;
    raw.as_float = way.as_float && !way.linear;
    const long double most = sizeof(Of) == 4 ? 1 : std::numeric_limits<Of>::max();
    long double sum = 0;
    for (int corner = 0; corner < (way.linear ? 8 : 1); corner++) {
        const bool far[3] = {bool(corner & 1), bool(corner & 2), bool(corner & 4)};
        const int i = index[0][far[0]], j = index[1][far[1]], k = index[2][far[2]];
        const bool inside = i >= 0 && j >= 0 && k >= 0;
        if (!way.linear) return inside ? number(p.at(i, j, k), c, way) : outside<T>(c, way);
        long double element = inside ? number(p.at(i, j, k), c, raw) : outside<T>(c, way) * most;
        if (sizeof(Of) < 4) element = roundl(element);
        if (share(parts, far) != 0) sum += share(parts, far) * element;
    }
    return answer<T>(sum);
}

// Whether a filtered number is right up to the last place.
inline bool is_close(float got, long double want) {
    float rounded = float(want);
    return got == rounded || got == nextafterf(rounded, 1e30f) || got == nextafterf(rounded, -1e30f);
}

// Points inside, on and outside of the borders of a picture, three floats each.
inline std::vector<float> points(const int *size, bool normalized) {
    std::vector<float> all;
    for (unsigned i = 0; i < 700; i++) {
        for (int d = 0; d < 3; d++) {
            float n = float(size[d]), x;
            const float special[] = {-1.5f, -1, -.5f, -.25f, -.001f, 0, .001f, .25f, .5f, .75f, 1, 1.25f, n / 2, n - 1, n - .5f,
                                     n - .001f, n, n + .5f, n + 1.25f, 2 * n, 2 * n + .5f, 3 * n - .25f, -n, -2 * n - .5f,
                                     std::numeric_limits<float>::quiet_NaN(), 1e9f, -1e9f, INFINITY, -INFINITY, -1e-9f};
            unsigned random = noise(i * 3 + d + 7);
            x = i % 2 ? special[random % (sizeof special / 4)] : int(random % 100000) / 100000.f * 3 * n - n;
            all.push_back(normalized ? x / n : x);
        }
    }
    return all;
}
