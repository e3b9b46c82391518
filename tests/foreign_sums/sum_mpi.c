/* MPI_Allreduce of the cases in a folder, started by libraries.py.
 *
 * sum_mpi FOLDER LABEL HOW
 *
 * FOLDER/cases.txt has a line per case: NAME TYPE ELEMENTS; TYPE is f64, f32, f16 or bf16. FOLDER/NAME.in has
 * the contributions of all ranks, one after the other, as they lie in memory; the result of one rank, which
 * the case's number chooses, goes to FOLDER/NAME.LABEL. HOW:
 *
 *   plain      one call; 16-bit types by an operation of ours, which rounds each sum to nearest
 *   two-level  pairs of ranks first, then the first ranks of all pairs
 *   wide       as doubles, rounded once at the end
 *   flushed    the processor flushes subnormal numbers to zero
 *   truncated  16-bit sums are cut off instead of rounded
 */
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xmmintrin.h>

enum { kMaxElements = 1 << 16 };

static int truncates = 0;

static uint32_t word_of(float value) {
  uint32_t word = 0;
  memcpy(&word, &value, sizeof word);
  return word;
}

static float float_of(uint32_t word) {
  float value = 0;
  memcpy(&value, &word, sizeof value);
  return value;
}

static float from_bf16(uint16_t bits) { return float_of((uint32_t)bits << 16); }

static uint16_t to_bf16(float value) {
  const uint32_t word = word_of(value);
  if (isnan(value)) return (uint16_t)(word >> 16 | 0x40u);
  if (truncates) return (uint16_t)(word >> 16);
  return (uint16_t)((word + 0x7FFFu + (word >> 16 & 1u)) >> 16);
}

static float from_f16(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  float size = 0;
  if (exponent == 31) {
    size = mantissa != 0 ? NAN : INFINITY;
  } else if (exponent == 0) {
    size = ldexpf((float)mantissa, -24);
  } else {
    size = ldexpf((float)(mantissa + 1024), exponent - 25);
  }
  return (bits & 0x8000u) != 0 ? -size : size;
}

/* rintf rounds to nearest, ties to even. */
static uint16_t to_f16(float value) {
  const uint16_t sign = signbit(value) ? 0x8000u : 0;
  const float size = fabsf(value);
  if (isnan(value)) return 0x7E00u;
  if (size == 0.0F) return sign;
  if (size >= 65520.0F) return sign | (truncates && !isinf(value) ? 0x7BFFu : 0x7C00u);
  int exponent = 0;
  frexpf(size, &exponent);
  const int shift = exponent < -13 ? 24 : 11 - exponent;
  const float scaled = ldexpf(size, shift);
  const int whole = (int)(truncates ? floorf(scaled) : rintf(scaled));
  /* A carry into the next power of two is one into the exponent's bits. */
  const int base = exponent < -13 ? 0 : (exponent + 13) << 10;
  return (uint16_t)(sign | (base + whole));
}

static void add_bf16(void* in, void* inout, int* n, MPI_Datatype* type) {
  (void)type;
  const uint16_t* a = in;
  uint16_t* b = inout;
  for (int i = 0; i < *n; ++i) b[i] = to_bf16(from_bf16(a[i]) + from_bf16(b[i]));
}

static void add_f16(void* in, void* inout, int* n, MPI_Datatype* type) {
  (void)type;
  const uint16_t* a = in;
  uint16_t* b = inout;
  for (int i = 0; i < *n; ++i) b[i] = to_f16(from_f16(a[i]) + from_f16(b[i]));
}

struct Kind {
  MPI_Datatype type;
  MPI_Op op;
  int size;
};

static struct Kind kind_of(const char* name) {
  struct Kind kind = {MPI_DOUBLE, MPI_SUM, 8};
  if (strcmp(name, "f32") == 0) kind = (struct Kind){MPI_FLOAT, MPI_SUM, 4};
  if (strcmp(name, "f16") == 0 || strcmp(name, "bf16") == 0) {
    kind = (struct Kind){MPI_UINT16_T, MPI_OP_NULL, 2};
    MPI_Op_create(strcmp(name, "f16") == 0 ? add_f16 : add_bf16, 1, &kind.op);
  }
  return kind;
}

static void reduce_in_two_levels(const char* own, char* sum, int n, struct Kind kind, int rank) {
  MPI_Comm pair;
  MPI_Comm firsts;
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2 == 0 ? 0 : MPI_UNDEFINED, rank, &firsts);
  char* partial = malloc((size_t)n * 8);
  MPI_Allreduce(own, partial, n, kind.type, kind.op, pair);
  if (rank % 2 == 0) MPI_Allreduce(partial, sum, n, kind.type, kind.op, firsts);
  MPI_Bcast(sum, n, kind.type, 0, pair);
  free(partial);
  if (firsts != MPI_COMM_NULL) MPI_Comm_free(&firsts);
  MPI_Comm_free(&pair);
}

/* Of f32. */
static void reduce_wide(const char* own, char* sum, int n) {
  double* all = malloc((size_t)n * 16);
  for (int i = 0; i < n; ++i) all[i] = ((const float*)(const void*)own)[i];
  MPI_Allreduce(all, all + n, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < n; ++i) ((float*)(void*)sum)[i] = (float)all[n + i];
  free(all);
}

static void require(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "sum_mpi: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void run_case(char** argv, const char* name, const char* type, int n, int writer) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  require(n <= kMaxElements, "too many elements");
  const struct Kind kind = kind_of(type);
  char* own = calloc((size_t)n, 8);
  char* sum = calloc((size_t)n, 8);
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.in", argv[1], name);
  FILE* in = fopen(path, "rb");
  require(in != NULL, "no contributions");
  fseek(in, (long)rank * n * kind.size, SEEK_SET);
  require(fread(own, (size_t)kind.size, (size_t)n, in) == (size_t)n, "too few contributions");
  fclose(in);
  if (strcmp(argv[3], "two-level") == 0) {
    reduce_in_two_levels(own, sum, n, kind, rank);
  } else if (strcmp(argv[3], "wide") == 0) {
    require(kind.size == 4, "wide is for f32");
    reduce_wide(own, sum, n);
  } else {
    MPI_Allreduce(own, sum, n, kind.type, kind.op, MPI_COMM_WORLD);
  }
  if (rank == writer) {
    snprintf(path, sizeof path, "%s/%s.%s", argv[1], name, argv[2]);
    FILE* out = fopen(path, "wb");
    require(out != NULL, "cannot write a result");
    fwrite(sum, (size_t)kind.size, (size_t)n, out);
    fclose(out);
  }
  free(own);
  free(sum);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  require(argc == 4, "sum_mpi FOLDER LABEL HOW");
  truncates = strcmp(argv[3], "truncated") == 0;
  if (strcmp(argv[3], "flushed") == 0) _mm_setcsr(_mm_getcsr() | 0x8040u);
  char path[4096];
  snprintf(path, sizeof path, "%s/cases.txt", argv[1]);
  FILE* cases = fopen(path, "r");
  require(cases != NULL, "no cases.txt");
  char name[256];
  char type[16];
  int n = 0;
  for (int number = 0; fscanf(cases, "%255s %15s %d", name, type, &n) == 3; ++number) {
    run_case(argv, name, type, n, number % ranks);
  }
  fclose(cases);
  MPI_Finalize();
  return 0;
}
