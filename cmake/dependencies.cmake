# What Lockstep is built from. All of it is in Debian 12 (see `./dev setup`); `./dev bundle` copies it
# next to the tree for machines that have nothing but CMake and a compiler.

# Static: a finished fiber of the shared library touches one page more.
set(Boost_USE_STATIC_LIBS ON)
if(POLICY CMP0167)
  cmake_policy(SET CMP0167 NEW)  # Boost's own files; CMake has no module of it any more.
endif()
find_package(Boost 1.74 REQUIRED COMPONENTS fiber context)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
if(LOCKSTEP_TESTS)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
  include(GoogleTest)
endif()

# Rebuilding after a switch of branches costs seconds with a compiler cache, minutes without.
find_program(LOCKSTEP_CCACHE ccache)
if(LOCKSTEP_CCACHE)
  foreach(language CXX CUDA)
    if(NOT CMAKE_${language}_COMPILER_LAUNCHER)
      # What ccache needs before it caches what includes precompiled headers.
      set(CMAKE_${language}_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env
          CCACHE_SLOPPINESS=pch_defines,time_macros "${LOCKSTEP_CCACHE}")
    endif()
  endforeach()
endif()
mark_as_advanced(LOCKSTEP_CCACHE)
