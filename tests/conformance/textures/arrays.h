// Textures of arrays: each filter, address mode, number of dimensions, type of element and way to read it; layers, gathers,
// levels of detail.
#pragma once

template <class R, int D> __global__ void read_texture(cudaTextureObject_t t, const float *at, R *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = at[3 * i], y = at[3 * i + 1], z = at[3 * i + 2];
    if (D == 1) out[i] = tex1D<R>(t, x);
    if (D == 2) out[i] = tex2D<R>(t, x, y);
    if (D == 3) out[i] = tex3D<R>(t, x, y, z);
}

template <class T> struct OnDevice {
    cudaArray_t array;
    OnDevice(const Picture<T> &p, int dimensions, unsigned flags = 0) {
        cudaChannelFormatDesc format = cudaCreateChannelDesc<T>();
        cudaExtent extent = make_cudaExtent(p.size[0], dimensions > 1 ? p.size[1] : 0, dimensions > 2 ? p.size[2] : 0);
        if (flags & cudaArrayLayered) extent.depth = p.size[2];
        CUDA(cudaMalloc3DArray(&array, &format, extent, flags));
        cudaMemcpy3DParms copy = {};
        copy.srcPtr = make_cudaPitchedPtr((void *)p.data.data(), p.size[0] * sizeof(T), p.size[0], p.size[1]);
        copy.dstArray = array;
        copy.extent = make_cudaExtent(p.size[0], p.size[1], p.size[2]);
        copy.kind = cudaMemcpyHostToDevice;
        CUDA(cudaMemcpy3D(&copy));
    }
    OnDevice(const OnDevice &) = delete;
    ~OnDevice() { CUDA(cudaFreeArray(array)); }
    cudaResourceDesc resource() const {
        cudaResourceDesc desc = {};
        desc.resType = cudaResourceTypeArray;
        desc.res.array.array = array;
        return desc;
    }
};

inline cudaTextureObject_t texture_of(const cudaResourceDesc &resource, const cudaTextureDesc &desc) {
    cudaTextureObject_t texture = 0;
    CUDA(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
    return texture;
}

// Compares what was read, in R, with what the formulas say of the picture.
template <class R, class T> bool agrees(const std::vector<R> &got, const Picture<T> &p, const std::vector<float> &at, int dimensions, const Way &way) {
    for (size_t i = 0; i < got.size(); i++) {
        for (int c = 0; c < Vector<T>::count; c++) {
            long double want = fetched(p, &at[3 * i], dimensions, way, c);
            auto value = part(got[i], c);
            if (way.linear ? is_close(float(value), want) : (long double)value == want) continue;
            printf("  mode %d linear %d normalized %d as_float %d, (%g, %g, %g) component %d: got %.9g, expected %.9Lg\n", way.mode,
                   way.linear, way.normalized, way.as_float, at[3 * i], at[3 * i + 1], at[3 * i + 2], c, double(value), want);
            return false;
        }
    }
    return true;
}

template <class R, class T, int D> bool reads(const Picture<T> &p, const OnDevice<T> &device, const Way &way) {
    cudaTextureObject_t texture = texture_of(device.resource(), description(way));
    Buffer<float> at(points(p.size, way.normalized));
    int n = int(at.host.size() / 3);
    Buffer<R> out(n);
    read_texture<R, D><<<(n + 63) / 64, 64>>>(texture, at.device, out.device, n);
    bool right = agrees(out.fetch(), p, at.host, D, way);
    CUDA(cudaDestroyTextureObject(texture));
    return right;
}

// All address modes, coordinates and filters that the type has; F is the vector of floats as long as T.
template <class T, class F, int D> bool in_all_ways(int w, int h, int d) {
    typedef typename Vector<T>::Of Of;
    const bool integer = std::numeric_limits<Of>::is_integer, narrow = integer && sizeof(Of) < 4;
    Picture<T> p(w, D > 1 ? h : 1, D > 2 ? d : 1);
    OnDevice<T> device(p, D);
    bool right = true;
    for (int mode = 0; mode < 4; mode++) {
        for (int normalized = 0; normalized < 2; normalized++) {
            Way way;
            way.mode = cudaTextureAddressMode(mode);
            way.normalized = normalized;
            for (int c = 0; c < 4; c++) way.border[c] = 3 + c;
            if (integer) right &= reads<T, T, D>(p, device, way);
            way.as_float = narrow;
            float colour[4] = {0.25f, -2, 7, 0.5f};
            memcpy(way.border, colour, sizeof colour);
            for (int linear = 0; linear < 2 && (narrow || !integer); linear++) {
                way.linear = linear;
                right &= reads<F, T, D>(p, device, way);
            }
        }
    }
    return right;
}

#define WIDTHS_OF(name, d, w, h, z)                                                                                      \
    (in_all_ways<name##1, float1, d>(w, h, z) & in_all_ways<name##2, float2, d>(w, h, z) & in_all_ways<name##4, float4, d>(w, h, z))

TEST(textures_of_float_in_2d) { return WIDTHS_OF(float, 2, 5, 4, 1); }
TEST(textures_of_char_in_2d) { return WIDTHS_OF(char, 2, 5, 4, 1); }
TEST(textures_of_uchar_in_2d) { return WIDTHS_OF(uchar, 2, 6, 3, 1); }
TEST(textures_of_short_in_2d) { return WIDTHS_OF(short, 2, 5, 4, 1); }
TEST(textures_of_ushort_in_2d) { return WIDTHS_OF(ushort, 2, 5, 4, 1); }
TEST(textures_of_int_in_2d) { return WIDTHS_OF(int, 2, 3, 7, 1); }
TEST(textures_of_uint_in_2d) { return WIDTHS_OF(uint, 2, 5, 4, 1); }
TEST(textures_in_1d) { return in_all_ways<float, float, 1>(7, 1, 1) & in_all_ways<uchar4, float4, 1>(9, 1, 1); }
TEST(textures_in_3d) { return in_all_ways<float, float, 3>(4, 3, 5) & in_all_ways<short2, float2, 3>(3, 4, 2); }
TEST(textures_of_one_element) { return in_all_ways<float, float, 2>(1, 1, 1) & in_all_ways<unsigned char, float, 3>(1, 1, 1); }

__global__ void read_layers(cudaTextureObject_t planes, cudaTextureObject_t rows, float *out) {
    int i = threadIdx.x, layer = i - 1;
    out[3 * i] = tex2DLayered<float>(planes, 1.5f, 2.5f, layer);
    out[3 * i + 1] = tex1DLayered<float>(rows, 2.5f, layer);
    out[3 * i + 2] = tex2DLayeredLod<float>(planes, 2.f, 1.f, layer, 0);
}

TEST(layers_are_chosen_by_number_and_held_inside) {
    Picture<float> p(4, 3, 3), q(5, 1, 3);
    OnDevice<float> planes(p, 2, cudaArrayLayered), rows(q, 1, cudaArrayLayered);
    Way way;
    cudaTextureObject_t t = texture_of(planes.resource(), description(way)), u = texture_of(rows.resource(), description(way));
    Buffer<float> out(3 * 5);
    read_layers<<<1, 5>>>(t, u, out.device);
    // A layer is an unsigned number, so -1 is beyond the last.
    const int layers[5] = {2, 0, 1, 2, 2};
    bool right = all(out.fetch(), 15, [&](size_t i) {
        int layer = layers[i / 3];
        return i % 3 == 0 ? p.at(1, 2, layer) : i % 3 == 1 ? q.at(2, 0, layer) : p.at(2, 1, layer);
    });
    CUDA(cudaDestroyTextureObject(t));
    CUDA(cudaDestroyTextureObject(u));
    return right;
}

__global__ void read_levels(cudaTextureObject_t one, cudaTextureObject_t two, cudaTextureObject_t three, float *same) {
    float x = threadIdx.x * 0.37f - 1, y = 4 - threadIdx.x * 0.21f, z = threadIdx.x * 0.13f;
    float2 d = make_float2(0.1f, 0.2f);
    float4 e = make_float4(0.1f, 0.2f, 0.3f, 0);
    bool right = tex1D<float>(one, x) == tex1DLod<float>(one, x, 0) && tex1D<float>(one, x) == tex1DGrad<float>(one, x, .1f, .1f);
    right &= tex2D<float>(two, x, y) == tex2DLod<float>(two, x, y, 2) && tex2D<float>(two, x, y) == tex2DGrad<float>(two, x, y, d, d);
    right &= tex3D<float>(three, x, y, z) == tex3DLod<float>(three, x, y, z, 0);
    right &= tex3D<float>(three, x, y, z) == tex3DGrad<float>(three, x, y, z, e, e);
    same[threadIdx.x] = right;
}

TEST(levels_and_gradients_of_one_level_are_that_level) {
    Picture<float> p(6, 1, 1), q(6, 5, 1), r(6, 5, 4);
    OnDevice<float> one(p, 1), two(q, 2), three(r, 3);
    Way way;
    way.linear = true;
    cudaTextureObject_t t[3];
    const cudaResourceDesc resources[3] = {one.resource(), two.resource(), three.resource()};
    for (int i = 0; i < 3; i++) t[i] = texture_of(resources[i], description(way));
    Buffer<float> same(32);
    read_levels<<<1, 32>>>(t[0], t[1], t[2], same.device);
    for (auto texture : t) CUDA(cudaDestroyTextureObject(texture));
    return all(same.fetch(), 32, [](size_t) { return 1.f; });
}

__global__ void gather(cudaTextureObject_t t, uchar4 *out) {
    int i = threadIdx.x;
    out[2 * i] = tex2Dgather<uchar4>(t, i * 0.5f, 1.75f, 0);
    out[2 * i + 1] = tex2Dgather<uchar4>(t, i * 0.5f, 1.75f, 1);
}

TEST(a_gather_takes_one_component_of_four_neighbours) {
    Picture<uchar2> p(5, 4, 1);
    OnDevice<uchar2> device(p, 2, cudaArrayTextureGather);
    Way way;
    cudaTextureObject_t t = texture_of(device.resource(), description(way));
    Buffer<uchar4> out(2 * 12);
    gather<<<1, 12>>>(t, out.device);
    out.fetch();
    CUDA(cudaDestroyTextureObject(t));
    for (int i = 0; i < 24; i++) {
        int left = int(floorf(i / 2 * 0.5f - 0.5f)), top = 1;
        const int corners[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
        for (int k = 0; k < 4; k++) {
            int x = std::min(std::max(left + corners[k][0], 0), 4), y = std::min(top + corners[k][1], 3);
            if (part(out.host[i], k) != part(p.at(x, y, 0), i % 2)) return false;
        }
    }
    return true;
}

TEST(srgb_is_made_linear_but_for_alpha) {
    Picture<uchar4> p(16, 16, 1);
    OnDevice<uchar4> device(p, 2);
    Way way;
    way.as_float = true;
    cudaTextureDesc desc = description(way);
    desc.sRGB = 1;
    cudaTextureObject_t t = texture_of(device.resource(), desc);
    std::vector<float> at(3 * 256);
    for (int i = 0; i < 256; i++) at[3 * i] = i % 16 + .5f, at[3 * i + 1] = i / 16 + .5f;
    Buffer<float> where(at);
    Buffer<float4> out(256);
    read_texture<float4, 2><<<4, 64>>>(t, where.device, out.device, 256);
    out.fetch();
    CUDA(cudaDestroyTextureObject(t));
    for (int i = 0; i < 256; i++) {
        for (int c = 0; c < 4; c++) {
            double v = part(p.at(i % 16, i / 16, 0), c) / 255.0, want = v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
            // Light has 8 bits and an exponent on a GPU, and its last bit is not always the nearest.
            if (fabs(part(out.host[i], c) - (c == 3 ? v : want)) > (c == 3 ? 1e-6 : want / 128)) return false;
        }
    }
    return true;
}

TEST(halves_are_read_as_floats) {
    const unsigned short halves[4] = {0x3c00, 0xc500, 0x0001, 0x7bff};
    const float values[4] = {1, -5, 5.9604645e-8f, 65504};
    cudaChannelFormatDesc format = cudaCreateChannelDesc(16, 0, 0, 0, cudaChannelFormatKindFloat);
    cudaArray_t array;
    CUDA(cudaMallocArray(&array, &format, 4, 1));
    CUDA(cudaMemcpy2DToArray(array, 0, 0, halves, 8, 8, 1, cudaMemcpyHostToDevice));
    cudaResourceDesc resource = {};
    resource.res.array.array = array;
    Way way;
    cudaTextureObject_t t = texture_of(resource, description(way));
    Buffer<float> at(std::vector<float>{.5f, .5f, 0, 1.5f, .5f, 0, 2.5f, .5f, 0, 3.5f, .5f, 0}), out(4);
    read_texture<float, 2><<<1, 4>>>(t, at.device, out.device, 4);
    bool right = all(out.fetch(), 4, [&](size_t i) { return values[i]; });
    CUDA(cudaDestroyTextureObject(t));
    CUDA(cudaFreeArray(array));
    return right;
}
