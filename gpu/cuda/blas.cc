#include "lockstep/gpu/cuda/blas.h"

#include <array>
#include <cublas_v2.h>
#include <dlfcn.h>
#include <limits>
#include <string>

#include "lockstep/base/check.h"
#include "lockstep/gpu/cuda/buffer.h"
#include "lockstep/gpu/cuda/check.h"
#include "lockstep/gpu/cuda/stream.h"

namespace lockstep::cuda {

namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20U;  // What cuBLAS asks on Hopper.

/// By the name of the version we were compiled against: on the loader's path, else where the
/// toolkit lay.
void* open_library() {
  const std::array<std::string, 2> names = {
      LOCKSTEP_CUBLAS_NAME, std::string(LOCKSTEP_CUDA_LIBRARIES) + "/" + LOCKSTEP_CUBLAS_NAME};
  std::string reason;
  for (const std::string& name : names) {
    void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) return library;
    const char* const said = ::dlerror();  // NOLINT(concurrency-mt-unsafe): a rank is one thread.
    if (reason.empty() && said != nullptr) reason = said;
  }
  throw DeviceError("cuBLAS", reason + "; LOCKSTEP_CUDA=strict does without it", {});
}

void check_blas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(call, "cublasStatus_t " + std::to_string(static_cast<int>(status)), {});
}

int narrow(std::int64_t size) {
  LOCKSTEP_CHECK(size <= std::numeric_limits<int>::max(), "cuBLAS counts in 32 bits");
  return static_cast<int>(size);
}

}  // namespace

struct Blas::Library {
  explicit Library() : handle(open_library()), workspace(kWorkspaceBytes) {
    find(create, "cublasCreate_v2");
    find(destroy, "cublasDestroy_v2");
    find(set_stream, "cublasSetStream_v2");
    find(set_workspace, "cublasSetWorkspace_v2");
    find(set_math_mode, "cublasSetMathMode");
    find(sgemm, "cublasSgemm_v2");
    find(dgemm, "cublasDgemm_v2");
  }

  template <typename F>
  void find(F& function, const char* name) const {
    void* const symbol = ::dlsym(handle, name);
    if (symbol == nullptr) throw DeviceError("cuBLAS", std::string("it has no ") + name, {});
    function = reinterpret_cast<F>(symbol);
  }

  void* handle;  ///< Stays open: unloading CUDA libraries before the program ends is not defined.
  DeviceBytes workspace;
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  decltype(&cublasSetMathMode) set_math_mode = nullptr;
  decltype(&cublasSgemm_v2) sgemm = nullptr;
  decltype(&cublasDgemm_v2) dgemm = nullptr;
  cublasHandle_t blas = nullptr;
};

Blas::Blas(const Stream& stream) : library_(std::make_unique<Library>()) {
  Library& l = *library_;
  check_blas(l.create(&l.blas), "cublasCreate");
  check_blas(l.set_stream(l.blas, stream.handle()), "cublasSetStream");
  // After the stream: setting that resets the workspace.
  check_blas(l.set_workspace(l.blas, l.workspace.data(), l.workspace.size()), "cublasSetWorkspace");
  check_blas(l.set_math_mode(l.blas, CUBLAS_PEDANTIC_MATH), "cublasSetMathMode");
}

Blas::~Blas() {
  // A destructor cannot report errors; a broken device fails the next call.
  if (library_->blas != nullptr) static_cast<void>(library_->destroy(library_->blas));
}

namespace {

/// cuBLAS counts columns first, where a row-major matrix is its own transpose: out^T = b^T x a^T.
template <typename T, typename F>
void multiply_with(F gemm, cublasHandle_t blas, std::array<const T*, 2> ab, T* out, Product p) {
  const T one{1};
  const T keep = p.accumulate ? T{1} : T{0};
  const int m = narrow(p.m);
  const int n = narrow(p.n);
  const int k = narrow(p.k);
  check_blas(gemm(blas,
                  p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                  p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                  n,
                  m,
                  k,
                  &one,
                  ab[1],
                  p.transpose_b ? k : n,
                  ab[0],
                  p.transpose_a ? m : k,
                  &keep,
                  out,
                  n),
             "cublasGemm");
}

}  // namespace

void Blas::multiply(float* out, const float* a, const float* b, const Product& product) const {
  multiply_with<float>(library_->sgemm, library_->blas, {a, b}, out, product);
}

void Blas::multiply(double* out, const double* a, const double* b, const Product& product) const {
  multiply_with<double>(library_->dgemm, library_->blas, {a, b}, out, product);
}

}  // namespace lockstep::cuda
