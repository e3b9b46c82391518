/* The ring all-reduce that bench/net_bench.cc plays, as an MPI program for SimGrid's SMPI: a
 * reduce-scatter and an all-gather around the ring, in messages of 16 floats per rank.
 *
 *   smpirun -np 256 ... smpi_ring [ROUNDS]
 *
 * Rank 0 prints one line of JSON: how many messages all ranks sent, and the seconds of this
 * machine's clock (not of the simulated one) between the first and the last round. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define COUNT 16

/* smpirun replaces the clocks that programs read by the simulated one; this one it leaves alone. */
static double wall(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char** argv) {
  int rank, size;
  const int rounds = argc > 1 ? atoi(argv[1]) : 2;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  float* data = malloc(sizeof(float) * COUNT * (size_t)size);
  float incoming[COUNT];
  for (int i = 0; i < COUNT * size; ++i) data[i] = 1.0f;
  const int next = (rank + 1) % size, last = (rank + size - 1) % size;
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = wall();
  for (int round = 0; round < rounds; ++round) {
    for (int step = 0; step < 2 * (size - 1); ++step) {
      const int out = ((rank - step) % size + size) % size, in = (out + size - 1) % size;
      float* const own = data + (size_t)in * COUNT;
      MPI_Sendrecv(data + (size_t)out * COUNT, COUNT, MPI_FLOAT, next, 0, incoming, COUNT, MPI_FLOAT,
                   last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (int i = 0; i < COUNT; ++i) own[i] = step < size - 1 ? own[i] + incoming[i] : incoming[i];
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    printf("{\"messages\": %lld, \"wall_seconds\": %.6f}\n",
           (long long)rounds * 2 * (size - 1) * size, wall() - begin);
  }
  free(data);
  MPI_Finalize();
  return 0;
}
