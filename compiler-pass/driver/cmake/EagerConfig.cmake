# find_package(Eager): builds targets with eagercc, so that they run under the Eager scheduler.
#
#   find_package(Eager REQUIRED)        # -DEager_DIR=<this folder>, -DEAGER_HOME=<installation> if not in the source tree
#   add_executable(app main.cpp kernels.cu)
#   eager_enable(app)
#
# Sets Eager_FOUND and Eager_COMPILER. Works with any C++ and CUDA compiler that CMake was configured with (nvcc too):
# eagercc is put in front of it and takes its command lines. A whole project can do without this package by
# -DCMAKE_CUDA_COMPILER=eagercc -DCMAKE_CXX_COMPILER=eagercc -DCMAKE_CUDA_RUNTIME_LIBRARY=Shared.
# Trap: launchers are read by the Makefile and Ninja generators only.
cmake_minimum_required(VERSION 3.21)

get_filename_component(_eager_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
find_program(Eager_COMPILER eagercc
  HINTS "${EAGER_HOME}/bin" "$ENV{EAGER_HOME}/bin"
        "${CMAKE_CURRENT_LIST_DIR}/../../../bin"
        "${_eager_root}/target/release" "${_eager_root}/target/debug"
  DOC "Compiler driver of the Eager scheduler")
unset(_eager_root)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Eager REQUIRED_VARS Eager_COMPILER
  REASON_FAILURE_MESSAGE "eagercc not found: run make build in the source tree of Eager, or set Eager_COMPILER")

# The link of a target goes through the C++ compiler, below: a project of CUDA alone has none yet, and a function cannot
# enable a language.
if(CMAKE_CUDA_COMPILER AND NOT CMAKE_CXX_COMPILER)
  enable_language(CXX)
endif()

# eager_enable(<target>...): compile and link these targets through eagercc.
function(eager_enable)
  foreach(target IN LISTS ARGN)
    if(NOT TARGET ${target})
      message(FATAL_ERROR "eager_enable: there is no target '${target}'")
    endif()
    foreach(language C CXX CUDA)
      set_target_properties(${target} PROPERTIES
        ${language}_COMPILER_LAUNCHER "${Eager_COMPILER}"
        ${language}_LINKER_LAUNCHER "${Eager_COMPILER}")
    endforeach()
    # CMake has no linker launcher for CUDA, which is what links a target of .cu files alone.
    get_target_property(type ${target} TYPE)
    if(type MATCHES "^(EXECUTABLE|SHARED_LIBRARY|MODULE_LIBRARY)$")
      set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
    endif()
    # The loader then chooses between NVIDIA's runtime and the virtual GPU's.
    set_target_properties(${target} PROPERTIES CUDA_RUNTIME_LIBRARY Shared)
  endforeach()
endfunction()
