// Included by eagercc in front of every CUDA source. clang knows `__managed__` for HIP only and ignores CUDA's own
// definition of the word. The compiler pass finds the variables by their section, which declarations have as well; in no
// object is anything in it. nvcc takes `__managed__` to imply `__device__`.
#undef __managed__
#define __managed__ __attribute__((device, section(".eager.managed")))
