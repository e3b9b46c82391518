// Functions that exist twice: for the instruction set of the build, and for one with AVX-512.
#pragma once

/// In front of a function whose result does not depend on the instruction set: whole numbers, or
/// floating-point sums in an order that the code spells out. The loader picks the one that the
/// processor has. What it calls is compiled along only if it is inlined.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LOCKSTEP_CLONES [[gnu::target_clones("arch=x86-64-v4", "default")]]
/// In front of the two forms of a function that is written twice: with the registers of either.
#define LOCKSTEP_NARROW [[gnu::target("default")]]
#define LOCKSTEP_WIDE [[gnu::target("arch=x86-64-v4")]]
#else
#define LOCKSTEP_CLONES
#define LOCKSTEP_NARROW
#endif

/// In front of a function whose code is there once, whatever its arguments.
#if defined(__GNUC__) && !defined(__clang__)
#define LOCKSTEP_ONE_COPY [[gnu::noinline, gnu::noclone]]
#else
#define LOCKSTEP_ONE_COPY [[gnu::noinline]]
#endif
