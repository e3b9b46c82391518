// Matrix products of real size: cuBLAS, loaded when it is wanted.
#pragma once

#include <cstdint>
#include <memory>

namespace lockstep::cuda {

class Stream;

/// out (m, n) = op(a) (m, k) x op(b) (k, n), row major, contiguous.
struct Product {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;  ///< Adds to out.
};

/// A handle of cuBLAS on one stream, with its own workspace and pedantic arithmetic: no TF32,
/// no emulation, so the bits are a function of sizes and values on one model of GPU and one version
/// of the library.
///
/// The library is opened at run time: a program that never asks for it starts without it.
class Blas {
 public:
  /// Errors: DeviceError where the library is not found or refuses.
  explicit Blas(const Stream& stream);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  Blas(Blas&&) = delete;
  Blas& operator=(Blas&&) = delete;

  void multiply(float* out, const float* a, const float* b, const Product& product) const;
  void multiply(double* out, const double* a, const double* b, const Product& product) const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace lockstep::cuda
