# Finds NCCL next to the CUDA toolkit, in the system, or in Python's nvidia-nccl wheel, and makes the
# target NCCL::nccl. NCCL brings no CMake files.
file(GLOB nccl_wheels
     "$ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/nccl"
     "/usr/local/lib/python3*/dist-packages/nvidia/nccl"
     "/usr/local/lib/python3*/site-packages/nvidia/nccl")
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${nccl_wheels}
          PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2
             HINTS ${CUDAToolkit_LIBRARY_DIR} ${nccl_wheels} PATH_SUFFIXES lib)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
unset(nccl_wheels)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR)
if(NCCL_FOUND AND NOT TARGET NCCL::nccl)
  add_library(NCCL::nccl UNKNOWN IMPORTED)
  set_target_properties(NCCL::nccl PROPERTIES
    IMPORTED_LOCATION "${NCCL_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR}")
endif()
