# Decides which of the GPU rooms this build has, and says in one line what it leaves out and why. They
# are compiled wherever nvcc is, GPU or not; a binary built with them starts on a machine without one.
set(LOCKSTEP_GPU AUTO CACHE STRING "Build the CUDA and NCCL rooms: AUTO, ON or OFF")
set_property(CACHE LOCKSTEP_GPU PROPERTY STRINGS AUTO ON OFF)

# lockstep_leave_out(REASON ROOM...)
macro(lockstep_leave_out reason)
  if(LOCKSTEP_GPU STREQUAL ON)
    message(FATAL_ERROR "lockstep: LOCKSTEP_GPU=ON, but ${reason}")
  endif()
  list(APPEND LOCKSTEP_LEFT_OUT ${ARGN})
  list(JOIN LOCKSTEP_LEFT_OUT ", " lockstep_left_out_text)
  message(STATUS "lockstep: left out ${lockstep_left_out_text}: ${reason}")
endmacro()

if(LOCKSTEP_GPU STREQUAL OFF)
  lockstep_leave_out("LOCKSTEP_GPU=OFF" gpu/cuda gpu/nccl/library)
  return()
endif()

find_package(CUDAToolkit 12.0 QUIET)
find_program(LOCKSTEP_NVCC nvcc HINTS ${CUDAToolkit_BIN_DIR} /usr/local/cuda/bin)
mark_as_advanced(LOCKSTEP_NVCC)
if(NOT CUDAToolkit_FOUND OR NOT LOCKSTEP_NVCC)
  lockstep_leave_out("there is no CUDA toolkit of version 12 or later" gpu/cuda gpu/nccl/library)
  return()
endif()

# gpu/cuda chooses its own unless -DCMAKE_CUDA_ARCHITECTURES says otherwise.
if(CMAKE_CUDA_ARCHITECTURES)
  set(LOCKSTEP_CUDA_ARCHITECTURES_GIVEN ON)
else()
  set(LOCKSTEP_CUDA_ARCHITECTURES_GIVEN OFF)
  set(CMAKE_CUDA_ARCHITECTURES 80-virtual)
endif()
if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER "${LOCKSTEP_NVCC}")
endif()
enable_language(CUDA)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
set(CMAKE_CUDA_FLAGS_RELEASE "-O2")
# CMake 3.25 does not know yet that nvcc speaks C++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_COMPILE_FEATURES cuda_std_20)
  list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
endif()
# Bits must be those of the CPU: no contraction of a product and a sum into one rounding.
set(LOCKSTEP_STRICT_CUDA --fmad=false)

list(APPEND CMAKE_MODULE_PATH "${PROJECT_SOURCE_DIR}/cmake")
find_package(NCCL QUIET)
if(NOT NCCL_FOUND)
  lockstep_leave_out("NCCL was not found next to the CUDA toolkit or in a Python wheel"
                     gpu/nccl/library)
endif()
