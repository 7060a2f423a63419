// Linked by eagercc into what has device code of several files (`-fgpu-rdc`), with `--wrap=__cudaRegisterVar`: there the
// linker registers variables, all in one module and none of them as managed.
//
// The pass lists the managed ones: in place of each, the program registers the pointer that the runtime is to fill in.
// Trap: compiled with the pass, which sends `__cudaInitModule` to the shim and tells it of the bytes.
#include <stddef.h>

#define OF_THIS_FILE __attribute__((visibility("hidden")))

// Made by the linker of the section of the pointers' addresses, if there is one.
extern void **const __start_eager_managed[] __attribute__((weak)) OF_THIS_FILE;
extern void **const __stop_eager_managed[] __attribute__((weak)) OF_THIS_FILE;

char __cudaInitModule(void **module);
void __cudaRegisterManagedVar(void **module, void **pointer, char *device_address, const char *name, int is_extern,
                              size_t bytes, int is_constant, int is_global);
void __real___cudaRegisterVar(void **module, char *variable, char *device_address, const char *name, int is_extern,
                              size_t bytes, int is_constant, int is_global);

static void **module_of_managed;

static int is_managed(const void *variable) {
    for (void **const *pointer = __start_eager_managed; pointer < __stop_eager_managed; pointer++)
        if (*pointer == variable) return 1;
    return 0;
}

OF_THIS_FILE void __wrap___cudaRegisterVar(void **module, char *variable, char *device_address, const char *name,
                                           int is_extern, size_t bytes, int is_constant, int is_global) {
    if (is_managed(variable)) {
        module_of_managed = module;
        __cudaRegisterManagedVar(module, (void **)variable, device_address, name, is_extern, bytes, is_constant, is_global);
    } else {
        __real___cudaRegisterVar(module, variable, device_address, name, is_extern, bytes, is_constant, is_global);
    }
}

// Called where a managed variable has no address yet.
OF_THIS_FILE void eager_managed_init(void) {
    if (module_of_managed) __cudaInitModule(module_of_managed);
}
