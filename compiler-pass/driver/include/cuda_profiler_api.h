// nvcc's toolkit has this header; the wheels that setup.sh unpacks do not.
#if __has_include_next(<cuda_profiler_api.h>)
#include_next <cuda_profiler_api.h>
#else
#pragma once
#include <cuda_runtime_api.h>
#ifdef __cplusplus
extern "C" {
#endif
extern cudaError_t cudaProfilerStart(void);
extern cudaError_t cudaProfilerStop(void);
#ifdef __cplusplus
}
#endif
#endif
