// Exists so that precompiled.h has a translation unit to be compiled with.
