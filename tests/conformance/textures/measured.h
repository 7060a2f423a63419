// Numbers that an H100 (80 GB, driver 580.159.04, CUDA 13.0) gave: coordinates on both sides of a border, pairs of elements under
// a filter, corners of a cell.
//
// Trap: no document promises them, and another GPU may well give others; the other tests allow the last place.
#pragma once

// Of a row 256, 512, 768 and on: its size, how it is read, the bits of a coordinate, what came.
struct MeasuredPlace { int size, mode; bool linear, normalized; unsigned at; float value; };
const MeasuredPlace measured_places[] = {
    {3, 1, 0, 1, 0x3eaaaaaf, 256}, {3, 1, 0, 1, 0x3eaaaab0, 512}, {3, 1, 0, 1, 0x3f2aaaaf, 512},
    {3, 1, 0, 1, 0x3f2aaab0, 768}, {5, 1, 0, 1, 0x3e4cccdf, 256}, {5, 1, 0, 1, 0x3e4ccce0, 512},
    {5, 1, 0, 1, 0x3f4ccccf, 1024}, {5, 1, 0, 1, 0x3f4cccd0, 1280}, {5, 0, 0, 1, 0x3f4ccccf, 1024},
    {5, 0, 0, 1, 0x3f4cccd0, 1280}, {5, 0, 0, 1, 0x3f7fffff, 1280}, {5, 0, 0, 1, 0x3f800000, 256},
    {5, 2, 0, 1, 0x3f4ccccf, 1024}, {5, 2, 0, 1, 0x3f4cccd0, 1280}, {5, 2, 0, 1, 0x3fb33333, 1024},
    {5, 2, 0, 1, 0x3fb33334, 768}, {7, 0, 0, 1, 0x3edb6dbf, 768}, {7, 0, 0, 1, 0x3edb6dc0, 1024},
    {300, 1, 0, 1, 0x3e8369df, 19712}, {300, 1, 0, 1, 0x3e8369e0, 19968}, {600, 1, 0, 1, 0x3ada7fff, 256},
    {600, 1, 0, 1, 0x3ada8000, 512}, {600, 1, 0, 1, 0x3f7f92c7, 153344}, {600, 1, 0, 1, 0x3f7f92c8, 153600},
    {70, 1, 0, 1, 0x3f7c57c7, 17664}, {70, 1, 0, 1, 0x3f7c57c8, 17920}, {5, 2, 0, 1, 0xbe4cccc0, 256},
    {5, 2, 0, 1, 0xbe4cccc1, 512}, {5, 2, 0, 1, 0xbf199998, 768}, {5, 2, 0, 1, 0xbf199999, 1024},
    {5, 0, 0, 1, 0xbe4cccc0, 1280}, {5, 0, 0, 1, 0xbe4cccc1, 1024}, {5, 0, 0, 1, 0xbf199998, 768},
    {5, 0, 0, 1, 0xbf199999, 512}, {5, 0, 0, 1, 0x447a6666, 768}, {5, 0, 0, 1, 0x447a6667, 1024},
    {5, 3, 0, 0, 0x3fffffff, 512}, {5, 3, 0, 0, 0x40000000, 768}, {5, 3, 0, 0, 0x409fffff, 1280},
    {5, 3, 0, 0, 0x40a00000, 0}, {3, 1, 1, 1, 0x3e2b555f, 256}, {3, 1, 1, 1, 0x3e2b5560, 257},
    {3, 1, 1, 1, 0x3f0e7fff, 555}, {3, 1, 1, 1, 0x3f0e8000, 556}, {3, 0, 1, 1, 0x3bbfffff, 504},
    {3, 0, 1, 1, 0x3bc00000, 502}, {3, 0, 1, 1, 0x3f853fff, 450}, {3, 0, 1, 1, 0x3f854000, 448},
    {3, 2, 1, 1, 0x3e30aabf, 260}, {3, 2, 1, 1, 0x3e30aac0, 261}, {3, 2, 1, 1, 0x3fb49557, 581},
    {3, 2, 1, 1, 0x3fb49558, 580}, {5, 1, 1, 1, 0x3e23999f, 332}, {5, 1, 1, 1, 0x3e2399a0, 333},
    {5, 1, 1, 1, 0x3f617fff, 1255}, {5, 1, 1, 1, 0x3f618000, 1256}, {4, 3, 1, 1, 0x39ffffff, 64},
    {4, 3, 1, 1, 0x3a000000, 65}, {4, 3, 1, 1, 0x3f159fff, 363}, {4, 3, 1, 1, 0x3f15a000, 364},
    {3, 0, 1, 1, 0xbb000000, 514}, {3, 0, 1, 1, 0xbb000001, 516}, {3, 0, 1, 1, 0xbf692aa8, 374},
    {3, 0, 1, 1, 0xbf692aa9, 376}, {5, 3, 1, 0, 0x3c8fffff, 66}, {5, 3, 1, 0, 0x3c900000, 67},
    {5, 3, 1, 0, 0x40aecfff, 25}, {5, 3, 1, 0, 0x40aed000, 20}, {5, 3, 1, 0, 0xbbc00000, 64},
    {5, 3, 1, 0, 0xbbc00001, 63}, {5, 3, 1, 0, 0xbe9f0000, 25}, {5, 3, 1, 0, 0xbe9f0001, 24},
};

// Of two elements, whose bits are given: the weight of the second in 256 parts, and the bits of what came.
struct MeasuredPair { char type; unsigned first, second, part, value; };
const MeasuredPair measured_pairs[] = {
    {'B', 0x0, 0xff, 1, 0x3b800080}, {'B', 0x0, 0xff, 65, 0x3e820082}, {'B', 0x0, 0xff, 130, 0x3f01ff82},
    {'B', 0x0, 0x1, 1, 0x37800080}, {'B', 0x0, 0x1, 66, 0x3a840084}, {'b', 0x0, 0x7f, 66, 0x3e840108},
    {'b', 0x0, 0x7f, 113, 0x3ee1fdc4}, {'b', 0x0, 0x7f, 200, 0x3f47ff90}, {'b', 0x1, 0x0, 0, 0x3c010102},
    {'b', 0x1, 0x0, 64, 0x3bc20184}, {'b', 0xffffff80, 0x7f, 1, 0xbf800000}, {'b', 0xffffff80, 0x7f, 2, 0xbf7dfffc},
    {'b', 0xffffff80, 0x7f, 129, 0x3b800100}, {'H', 0x0, 0x1, 123, 0x0}, {'H', 0x0, 0x1, 128, 0x37800080},
    {'h', 0xffff8000, 0x7fff, 1, 0xbf7e01fc}, {'h', 0xffff8000, 0x7fff, 128, 0x0}, {'h', 0x64, 0xffffff9c, 144, 0xb9c00180},
    {'f', 0x3f800000, 0x322bcc77, 198, 0x3e680000}, {'f', 0x3f800000, 0x322bcc77, 243, 0x3d500002}, {'f', 0x3e4486d8, 0xbec11164, 54, 0x3d933e21},
    {'f', 0x3e4486d8, 0xbec11164, 180, 0xbe55286d}, {'f', 0x7fffff, 0x800000, 225, 0x0}, {'f', 0x3f800000, 0x7f800000, 0, 0x3f800000},
    {'f', 0x3f800000, 0x7f800000, 9, 0x7f800000},
};

// Of eight corners: weights of x, y and z in 256 parts, and the bits of what came.
const unsigned measured_corners[8] = {0x4305a000, 0xc1060000, 0xc2a10000, 0x430a0000, 0xc2530000, 0x42820000, 0x40b80000, 0xc1b20000};
const unsigned measured_cells[][4] = {
    {0, 41, 25, 0x42aac800}, {21, 0, 31, 0x42cce740}, {141, 131, 0, 0x423cee80}, {76, 99, 162, 0x4125a600}, {90, 75, 43, 0x423cd180},
    {182, 134, 155, 0x41d2b200}, {81, 98, 125, 0x41ab5500}, {253, 204, 88, 0x42880580}, {232, 29, 99, 0x41e3d100}, {128, 128, 128, 0x41b28000},
    {0, 90, 162, 0x3f8dd000}, {243, 0, 92, 0x41a10e00}, {101, 184, 0, 0x41d3fc00}, {87, 4, 129, 0x420ee080}, {159, 202, 46, 0x422ac800},
    {165, 241, 45, 0x423b2b00},
};

TEST(places_in_a_row_are_those_of_an_h100) {
    bool right = true;
    for (const MeasuredPlace &m : measured_places) {
        Picture<float> p(m.size, 1, 1);
        for (int i = 0; i < m.size; i++) p.data[i] = 256.f * (i + 1);
        OnDevice<float> device(p, 1);
        Way way;
        way.mode = cudaTextureAddressMode(m.mode);
        way.linear = m.linear;
        way.normalized = m.normalized;
        std::vector<float> where(3);
        memcpy(&where[0], &m.at, 4);
        cudaTextureObject_t t = texture_of(device.resource(), description(way));
        Buffer<float> at(where), out(1);
        read_texture<float, 1><<<1, 1>>>(t, at.device, out.device, 1);
        const float got = out.fetch()[0];
        if (got != m.value) printf("  size %d mode %d linear %d at %08x: got %.9g, expected %.9g\n", m.size, m.mode, m.linear, m.at, got, m.value);
        right &= got == m.value;
        CUDA(cudaDestroyTextureObject(t));
    }
    return right;
}

// Whether a filter gives `value` between elements of a cell that has so many in each dimension.
template <class T, int D> bool between(const std::vector<T> &elements, const unsigned *parts, unsigned value) {
    Picture<T> p(2, D > 1 ? 2 : 1, D > 2 ? 2 : 1);
    p.data = elements;
    OnDevice<T> device(p, D);
    Way way;
    way.linear = true;
    way.as_float = std::numeric_limits<T>::is_integer;
    std::vector<float> where(3);
    for (int d = 0; d < D; d++) where[d] = .5f + parts[d] / 256.f;
    cudaTextureObject_t t = texture_of(device.resource(), description(way));
    Buffer<float> at(where), out(1);
    read_texture<float, D><<<1, 1>>>(t, at.device, out.device, 1);
    unsigned got;
    memcpy(&got, &out.fetch()[0], 4);
    CUDA(cudaDestroyTextureObject(t));
    if (got != value) printf("  between %g and %g, part %u: got %08x, expected %08x\n", double(elements[0]), double(elements[1]), parts[0], got, value);
    return got == value;
}

inline float number_of(unsigned bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

TEST(filters_give_the_bits_of_an_h100) {
    bool right = true;
    for (const MeasuredPair &m : measured_pairs) {
        switch (m.type) {
        case 'B': right &= between<unsigned char, 1>({(unsigned char)m.first, (unsigned char)m.second}, &m.part, m.value); break;
        case 'b': right &= between<signed char, 1>({(signed char)m.first, (signed char)m.second}, &m.part, m.value); break;
        case 'H': right &= between<unsigned short, 1>({(unsigned short)m.first, (unsigned short)m.second}, &m.part, m.value); break;
        case 'h': right &= between<short, 1>({(short)m.first, (short)m.second}, &m.part, m.value); break;
        default: right &= between<float, 1>({number_of(m.first), number_of(m.second)}, &m.part, m.value);
        }
    }
    std::vector<float> corners;
    for (unsigned bits : measured_corners) corners.push_back(number_of(bits));
    for (auto &m : measured_cells) right &= between<float, 3>(corners, m, m[3]);
    return right;
}
