# The flags every room is compiled with. They are ours alone: an installed Lockstep does not force
# them on the programs that link it.
# As errors only where we have seen what the compiler says: a newer one warns of more, which must not stop a
# user's build.
set(seen OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(seen ON)
endif()
option(LOCKSTEP_WERROR "Treat compiler warnings as errors" ${seen})

# One instruction-set baseline and no silent contraction: promise 1 of docs/determinism.md.
add_library(lockstep_options INTERFACE)
target_compile_features(lockstep_options INTERFACE cxx_std_20)
# Call sites are part of a trace: they must read the same wherever the tree and its build folder lie.
# Of several matching maps GCC takes the last.
target_compile_options(lockstep_options INTERFACE
  "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-march=x86-64-v3;-ffp-contract=off>>"
  "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>>"
  "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${PROJECT_BINARY_DIR}/rooms/=>>")

add_library(lockstep_warnings INTERFACE)
target_compile_options(lockstep_warnings INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wsign-conversion>"
  "$<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor;-Wold-style-cast;-Woverloaded-virtual>"
  "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>"  # Takes a unity build's files for headers.
  "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${LOCKSTEP_WERROR}>>:-Werror>")

# For code whose building takes longer than its running. Debug builds keep their own level. GCC 12 sees overruns
# at this level where there are none (in std::string's own code), hence the warnings that are off.
set(LOCKSTEP_FAST_TO_BUILD
  "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>"
  "$<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<CONFIG:Release>>:-Wno-array-bounds;-Wno-restrict>"
  "$<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<CONFIG:Release>>:-Wno-stringop-overflow;-Wno-mismatched-new-delete>")

# GCC collects its own garbage whenever a heap of 128 MB has grown by a third, for a tenth of the time that
# it takes: with a heap of 512 MB hardly ever. A translation unit takes 0.7 to 1.2 GB then, 0.1 more than before.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=524288>")
endif()

# Two builds in one folder: one that counts what runs, and after it has run one that is optimised as a
# whole for what was counted. Neither changes a result: each function keeps its own flags of arithmetic.
set(LOCKSTEP_PROFILE "" CACHE STRING "generate: count what runs. use: optimise for what was counted")
set_property(CACHE LOCKSTEP_PROFILE PROPERTY STRINGS "" generate use)
if(LOCKSTEP_PROFILE STREQUAL "generate")
  add_compile_options(-fprofile-generate)
  add_link_options(-fprofile-generate)
elseif(LOCKSTEP_PROFILE STREQUAL "use")
  # Code that none of the runs reached has no counts. Frames of functions that are merged must not outgrow
  # the page of stack that a waiting rank takes. Inner loops of kernels are nearly all that is counted: beside
  # them the compiler takes laws and recorders for cold, and makes them small instead of quick. All that ran
  # is hot.
  add_compile_options(-fprofile-use -fprofile-correction -Wno-missing-profile -fconserve-stack)
  add_link_options(-fconserve-stack --param=hot-bb-count-ws-permille=1000)
  set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)
elseif(NOT LOCKSTEP_PROFILE STREQUAL "")
  message(FATAL_ERROR "LOCKSTEP_PROFILE is '${LOCKSTEP_PROFILE}': it is empty, 'generate' or 'use'")
endif()

# libFuzzer is clang's (tests/fuzz).
option(LOCKSTEP_FUZZ "Build tests/fuzz for libFuzzer" OFF)
if(LOCKSTEP_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
endif()

# Boost.Fiber moves exceptions between stacks that AddressSanitizer takes for one; without its stack
# part there is no false report, and the heap is still watched.
option(LOCKSTEP_SANITIZE "Build with AddressSanitizer (heap) and UndefinedBehaviorSanitizer" OFF)
if(LOCKSTEP_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all
                      "SHELL:--param asan-stack=0" -fno-omit-frame-pointer)
  # Its checks of shifts are conversions that the warning then sees.
  target_compile_options(lockstep_warnings INTERFACE
                         "$<$<COMPILE_LANGUAGE:CXX>:-Wno-sign-conversion>")
  add_link_options(-fsanitize=address,undefined)
endif()

# What runs on threads, and in processes that share memory. Fibers are named to it by the engine
# (sim/engine/detail/stack_watch.h): it cannot see Boost's switches.
option(LOCKSTEP_SANITIZE_THREADS "Build with ThreadSanitizer" OFF)
if(LOCKSTEP_SANITIZE_THREADS)
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
endif()

# A short job makes and drops a thousand small blocks. Programs may bring an allocator for that; a library
# never chooses one for those who link it. Sanitizers bring their own.
set(LOCKSTEP_ALLOCATOR "" CACHE STRING
    "What our programs allocate with: mimalloc, system. Empty: mimalloc where it is installed")
set_property(CACHE LOCKSTEP_ALLOCATOR PROPERTY STRINGS "" mimalloc system)
add_library(lockstep_program INTERFACE)
if(NOT LOCKSTEP_ALLOCATOR MATCHES "^(|mimalloc|system)$")
  message(FATAL_ERROR
          "LOCKSTEP_ALLOCATOR is '${LOCKSTEP_ALLOCATOR}': it is empty, 'mimalloc' or 'system'")
elseif(LOCKSTEP_ALLOCATOR STREQUAL "mimalloc")
  find_package(mimalloc REQUIRED)
elseif(LOCKSTEP_ALLOCATOR STREQUAL "system" OR LOCKSTEP_SANITIZE OR LOCKSTEP_SANITIZE_THREADS OR LOCKSTEP_FUZZ)
  set(mimalloc_FOUND OFF)
else()
  find_package(mimalloc QUIET)
endif()
if(mimalloc_FOUND)
  # The first that has it wins. mimalloc's own operator new ends the program where there is no memory, and the
  # standard library's, which asks mimalloc, throws.
  target_link_libraries(lockstep_program INTERFACE stdc++ mimalloc)
endif()
