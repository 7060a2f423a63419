// nvcc: its name is there for C++ sources too, but not __CUDACC__.
#include <cstdio>
#if !defined(__NVCC__) || defined(__CUDACC__)
#error "nvcc's macros"
#endif
int main() { printf("ok\n"); }
