// Included by eagercc in front of every CUDA source. clang knows `__managed__` for HIP only and ignores CUDA's own
// definition of the word; the compiler pass reads the annotation. nvcc takes `__managed__` to imply `__device__`.
#undef __managed__
#define __managed__ __attribute__((device, annotate("eager.managed")))
