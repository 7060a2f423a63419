// What a texture gives at a point, from the guide's formulas: x = N x', tex(x) = T[floor(x)], or between neighbours
// (1-a) T[i] + a T[i+1] with i = floor(x - 0.5) and a = frac(x - 0.5) in 8 bits behind the point.
//
// Trap: written for reading, not for speed, and with other steps than the library's: wider arithmetic, one dimension at a time.
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

inline long double whole(float x) { return x != x ? 0 : x; }

// The coordinate in elements, before it is cut or filtered.
inline long double scaled(float given, int n, const Way &way) {
    long double x = whole(given);
    if (!way.normalized) return x;
    long double fraction = std::isinf(x) ? 0 : x - floorl(x);
    switch (effective(way)) {
    case cudaAddressModeWrap: return n * fraction;
    case cudaAddressModeMirror: return n * (!std::isinf(x) && fmodl(floorl(x), 2) != 0 ? 1 - fraction : fraction);
    default: return n * x;
    }
}

// The element of index `i` of a row of `n`; -1 if there is none.
inline int addressed(long double i, int n, const Way &way) {
    if (i >= 0 && i < n) return int(i);
    switch (effective(way)) {
    case cudaAddressModeWrap: return int(i - n * floorl(i / n));
    case cudaAddressModeMirror: return i < 0 ? int(-1 - i) : int(2 * n - 1 - i);  // By at most one row here.
    case cudaAddressModeBorder: return -1;
    default: return i < 0 ? 0 : n - 1;
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

template <class T> long double outside(int c, const Way &way) {
    typename Vector<T>::Of value;
    float real;
    memcpy(&value, &way.border[c], sizeof value);
    memcpy(&real, &way.border[c], sizeof real);
    return way.as_float ? real : (long double)value;
}

// Component `c` at `x`, filtered from the dimension `d` on; `index` holds the dimensions that are decided.
template <class T> long double fetched(const Picture<T> &p, const float *x, int d, int dimensions, const Way &way, int c, int *index) {
    if (d == dimensions) {
        for (int k = 0; k < dimensions; k++) if (index[k] < 0) return outside<T>(c, way);
        return number(p.at(index[0], dimensions > 1 ? index[1] : 0, dimensions > 2 ? index[2] : 0), c, way);
    }
    int n = p.size[d];
    long double at = scaled(x[d], n, way);
    if (!way.linear) {
        long double i = floorl(at);
        // A mirrored 1, and what is rounded to it, is the last.
        bool turned = effective(way) == cudaAddressModeWrap || effective(way) == cudaAddressModeMirror;
        index[d] = turned && i == n ? n - 1 : addressed(i, n, way);
        return fetched(p, x, d + 1, dimensions, way, c, index);
    }
    long double b = at - 0.5L, i = floorl(b), a = std::isinf(b) ? 0 : roundl((b - i) * 256) / 256;
    index[d] = addressed(i, n, way);
    long double low = fetched(p, x, d + 1, dimensions, way, c, index);
    index[d] = addressed(i + 1, n, way);
    long double high = fetched(p, x, d + 1, dimensions, way, c, index);
    return (1 - a) * low + a * high;
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
