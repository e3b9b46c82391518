// out[i] += factor * in[i]: what a compiler likes to contract into one rounding.
__global__ void product_and_sum(float* out, const float* in, float factor) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] += factor * in[i];
}
