// The calls of a CUDA driver that fingerprints need. It is looked for while the program runs, so that one
// that links nothing of CUDA starts on every machine.
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::fingerprint {

/// As cuda.h declares them: CUresult is an int, CUdevice an int, the others are pointers.
struct Driver {
  int (*init)(unsigned flags) = nullptr;
  int (*device)(int* device, int ordinal) = nullptr;
  int (*retain_context)(void** context, int device) = nullptr;
  int (*push_context)(void* context) = nullptr;
  int (*pop_context)(void** context) = nullptr;
  int (*load_module)(void** module, const void* image) = nullptr;
  int (*function)(void** function, void* module, const char* name) = nullptr;
  int (*allocate_host)(void** memory, std::size_t n_bytes, unsigned flags) = nullptr;
  int (*free_host)(void* memory) = nullptr;
  int (*launch)(void* function,
                unsigned grid_x,
                unsigned grid_y,
                unsigned grid_z,
                unsigned block_x,
                unsigned block_y,
                unsigned block_z,
                unsigned shared_bytes,
                void* stream,
                void** arguments,
                void** extra) = nullptr;
  int (*wait)(void* stream) = nullptr;
  int (*is_capturing)(void* stream, int* status) = nullptr;
  int (*text)(int result, const char** text) = nullptr;

  /// Errors: there is no such library, or it lacks a call.
  static Result<Driver> open(const std::string& library = "libcuda.so.1");
};

}  // namespace lockstep::fingerprint
