/* An MPI_Allreduce of drawn numbers: each rank's contribution and the result, as hexadecimal words.
 * sum_mpi float|double ELEMENTS; started by make_foreign_sums.py. */
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64: the same numbers for every library. */
static uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/* Both signs, magnitudes over 24 binary orders: sums round, and orders differ. */
static double drawn(int rank, int element) {
  const uint64_t word = mixed(mixed((uint64_t)rank) + (uint64_t)element);
  const double mantissa = (double)(int64_t)(word >> 11) / 9007199254740992.0 + 0.5;
  return ldexp((word & 1u) != 0 ? mantissa : -mantissa, (int)((word >> 1) % 24) - 12);
}

static void show(const char* what, const void* words, int n, int size) {
  printf("%s", what);
  for (int i = 0; i < n; ++i) {
    uint64_t word = 0;
    memcpy(&word, (const char*)words + i * size, (size_t)size);
    printf(" %0*" PRIx64, 2 * size, word);
  }
  printf("\n");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int wide = strcmp(argv[1], "double") == 0;
  const int n = atoi(argv[2]);
  const int size = wide ? 8 : 4;
  const MPI_Datatype type = wide ? MPI_DOUBLE : MPI_FLOAT;
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  char* own = malloc((size_t)(n * size));
  char* sum = malloc((size_t)(n * size));
  for (int i = 0; i < n; ++i) {
    const double value = drawn(rank, i);
    const float narrow = (float)value;
    memcpy(own + i * size, wide ? (const void*)&value : (const void*)&narrow, (size_t)size);
  }
  MPI_Allreduce(own, sum, n, type, MPI_SUM, MPI_COMM_WORLD);
  char* all = malloc((size_t)(ranks * n * size));
  MPI_Gather(own, n, type, all, n, type, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    for (int r = 0; r < ranks; ++r) show("contribution", all + r * n * size, n, size);
    show("result", sum, n, size);
  }
  MPI_Finalize();
  return 0;
}
