// What the three translation units of dwt2d share.
//
// Trap: the transform of a w x h image fills w * h numbers as four bands one after the other, LL first, and LL holds
// the next level in the same way; it is not the usual picture with quadrants (that is made on the host, for -w).
#ifndef RODINIA_DWT2D_H
#define RODINIA_DWT2D_H

#define APP "dwt2d"

// Sizes of the bands of one level: low and high, along a side of n elements.
struct Split {
  int low;
  int high;
  __host__ __device__ explicit Split(int n) : low((n + 1) / 2), high(n / 2) {}
};

// components.cu: uploads interleaved 8-bit RGB and separates it into three device buffers of width * height signed
// values around 0.
template <typename T>
void rgbToComponents(T *d_r, T *d_g, T *d_b, const unsigned char *src, int width, int height);

// dwt.cu: `levels` levels of the reversible 5/3 transform of one component into `out`; `backup` is overwritten.
template <typename T>
void nStage2dDWT(const T *in, T *out, T *backup, int width, int height, int levels);

#endif
