/* The machine's state and what ops do lane by lane. Everything here has its twin in NumPy: semantics/floats.py and the
   unit's own file. V, M, S of an op's body name registers; LANES runs over the 1,024 lanes of a vector. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 1024
#define ROW 16 /* granules of 32 bytes in a row of vmem */
#define UNITS 16
#define QUEUES 5
#define DEEPEST 16384

enum { HBM, VMEM, SMEM, SFLAG };
enum { Q_ERF, Q_XLU, Q_TRF, Q_MRF, Q_CCRF };
enum {
  OUT_OF_BOUNDS = 1, QUEUE_EMPTY, QUEUE_ORDER, RACE, DEADLOCK, SYNC_FLAG, BOUNDS_CHECK, STEP_LIMIT, MXU, TRANSPOSE,
  QUEUE_FULL
};

typedef struct { uint32_t *data; int32_t *tokens; int64_t head, count, room; } Queue;

typedef struct {
  double *staged[5];   /* rows in order of pushing, 128 x 128: msra, msrb, both transposed, the left side */
  int blocks[5];       /* how many pushes */
  int rows[5];         /* how many rows, all pushes */
  int block[5][128];   /* rows of each push */
  double *gains;       /* rows of 256: `lanes` of them from 0 and from 128 on, `columns` too */
  int lanes[2], columns[2];
  int diagonal;        /* whether lanes of either half meet columns of the same half alone */
  double *left;        /* 128 x 128, eight rows a product */
  int left_depth, left_next, left_rows;
  double *part[4];     /* of a wide MXU: what vmatprep.subr and .mubr hold, and what is staged, three times 128 x 256 */
  int part_rows[2];
  int wide_blocks[2][3], wide_rows[2][3], wide_block[2][3][128], wide_xpose[2]; /* of vmatpush1, 2 and 3 */
} Unit;

typedef struct { int space; int64_t at, count; } Span;
typedef struct { int64_t flag, due; Span *spans; int64_t spans_used, spans_room; } Flight;

typedef struct {
  uint32_t *v; uint8_t *m; uint32_t *s;
  uint32_t *hbm, *vmem, *smem; int32_t *sflag;
  uint8_t *owners[4];
  int64_t units[4]; /* granules, rows, words, flags */
  uint32_t fill;
  int32_t implicit_latch, bytewise;
  int64_t trap, record, detail[4], steps, left;
  Queue queues[QUEUES][UNITS];
  Unit mxu[UNITS];
  uint32_t *stack[UNITS];
  int stacked[UNITS];
  uint16_t *arriving[3], *leaving[3];
  Flight *flights; int64_t flying, flights_room;
} VM;

static int trap(VM *vm, int kind, int64_t d0, int64_t d1, int64_t d2, int64_t d3) {
  vm->trap = kind;
  vm->detail[0] = d0, vm->detail[1] = d1, vm->detail[2] = d2, vm->detail[3] = d3;
  return 1;
}

#define V(f) (vm->v + (size_t)(f) * SIZE)
#define M(f) (vm->m + (size_t)(f) * SIZE)
#define S(f) (vm->s[f])
#define LANES _Pragma("GCC ivdep") for (int i = 0; i < SIZE; i++)
#define CHECK(x) do { if (x) return 1; } while (0)
#define TRAP(kind, d0, d1, d2, d3) return trap(vm, kind, d0, d1, d2, d3)
#define POP(queue, unit, token, out) CHECK(pop(vm, queue, unit, token, out))

static inline float as_float(uint32_t x) { float f; memcpy(&f, &x, 4); return f; }
static inline uint32_t as_bits(float f) { uint32_t x; memcpy(&x, &f, 4); return x; }
static inline uint32_t flush(uint32_t x) { return x & 0x7f800000u ? x : x & 0x80000000u; }

/* An operand of a float op; the bits of its result; the operand in double. */
static inline float F(uint32_t x) { return as_float(flush(x)); }
static inline uint32_t R(float f) { return f != f ? 0x7fc00000u : flush(as_bits(f)); }
#define D(x) ((double)F(x))

static inline uint32_t bf16(uint32_t x) {
  uint32_t rounded = (x + 0x7fffu + (x >> 16 & 1)) >> 16;
  return (x & 0x7fffffffu) > 0x7f800000u ? x >> 16 | 0x40 : rounded;
}
/* Extremes of f32 by their bits, as integers in the same order, +0 above -0: floats that are chosen are not vectorized. */
static inline int32_t rank(uint32_t x) { return (int32_t)(x ^ ((uint32_t)((int32_t)x >> 31) >> 1)); }
static inline int is_nan(uint32_t x) { return (x & 0x7fffffffu) > 0x7f800000u; }
static inline uint32_t highest(uint32_t x, uint32_t y) {
  x = flush(x), y = flush(y);
  uint32_t z = rank(x) > rank(y) ? x : y;
  z = is_nan(x) ? 0x7fc00000u : z;
  return is_nan(y) ? 0x7fc00000u : z;
}
static inline uint32_t lowest(uint32_t x, uint32_t y) {
  x = flush(x), y = flush(y);
  uint32_t z = rank(x) < rank(y) ? x : y;
  z = is_nan(x) ? 0x7fc00000u : z;
  return is_nan(y) ? 0x7fc00000u : z;
}
static inline float maximum(float x, float y) { return as_float(highest(as_bits(x), as_bits(y))); }
static inline float minimum(float x, float y) { return as_float(lowest(as_bits(x), as_bits(y))); }
static inline uint32_t to_s32(float f) {
  if (f != f) return 0;
  if (f >= 2147483648.0f) return 0x7fffffffu;
  if (f < -2147483648.0f) return 0x80000000u;
  return (uint32_t)(int32_t)f;
}
static inline uint32_t popcount(uint32_t x) {
  x = x - (x >> 1 & 0x55555555u);
  x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
  return ((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}
static inline uint32_t clz(uint32_t x) {
  x |= x >> 1, x |= x >> 2, x |= x >> 4, x |= x >> 8, x |= x >> 16;
  return 32 - popcount(x);
}
/* A nibble as four bytes of ones and zeros. */
static inline uint32_t SPREAD(uint32_t n) {
  uint32_t ones = (n | n << 7 | n << 14 | n << 21) & 0x01010101u;
  return (ones << 8) - ones;
}
static inline int32_t address(uint32_t x) { return (int32_t)x; }

static void vcmask(uint8_t *out, uint32_t k) {
  uint32_t top = k & 7, bottom = k >> 10 & 7, left = k >> 3 & 127, right = k >> 13 & 127, around = top > bottom;
  for (uint32_t i = 0; i < SIZE; i++) {
    uint32_t row = i >> 7, lane = i & 127;
    out[i] = (around ? row >= top || row <= bottom : row >= top && row <= bottom) && lane >= left && lane <= right ? 15 : 0;
  }
}

/* Packing. Rows 2s and 2s + 1 of 16, or 4s to 4s + 3 of 32, are word s; z first. */
static void pack_c16(uint32_t *out, const uint32_t *low, const uint32_t *high, int round) {
  uint32_t z[SIZE];
  for (int s = 0; s < 8; s++) {
    const uint32_t *x = (s < 4 ? low : high) + (s & 3) * 256;
    for (int l = 0; l < 128; l++)
      z[s * 128 + l] = round ? (bf16(x[l]) & 0xffff) | bf16(x[128 + l]) << 16 : (x[l] & 0xffff) | x[128 + l] << 16;
  }
  memcpy(out, z, sizeof z);
}
static void pack_c8(uint32_t *out, const uint32_t *low, const uint32_t *high) {
  uint32_t z[SIZE];
  for (int s = 0; s < 8; s++) {
    const uint32_t *x = (s < 4 ? low : high) + (s & 3) * 256;
    for (int l = 0; l < 128; l++) {
      uint32_t a = x[l], b = x[128 + l];
      z[s * 128 + l] = (a & 255) | (a >> 16 & 255) << 8 | (b & 255) << 16 | (b >> 16 & 255) << 24;
    }
  }
  memcpy(out, z, sizeof z);
}
/* mode 0: to the high half, as bf16 is; 1: sign extended. */
static void unpack_c16(uint32_t *out, const uint32_t *in, int k, int mode) {
  uint32_t z[SIZE];
  for (int s = 0; s < 8; s++) {
    const uint32_t *x = in + (4 * k + s / 2) * 128;
    for (int l = 0; l < 128; l++) {
      uint32_t h = s & 1 ? x[l] & 0xffff0000u : x[l] << 16;
      z[s * 128 + l] = mode ? (uint32_t)((int32_t)h >> 16) : h;
    }
  }
  memcpy(out, z, sizeof z);
}
static void unpack_c8(uint32_t *out, const uint32_t *in, int k) {
  uint32_t z[SIZE];
  for (int s = 0; s < 8; s++) {
    const uint32_t *x = in + (2 * k + s / 4) * 128;
    for (int l = 0; l < 128; l++) z[s * 128 + l] = (uint32_t)((int32_t)(x[l] << (24 - 8 * (s & 3))) >> 24);
  }
  memcpy(out, z, sizeof z);
}
/* Rows of nibbles, eight to a word, to rows of bytes: the lower half. */
static void unpack_c4(uint32_t *out, const uint32_t *in) {
  uint32_t z[SIZE];
  for (int s = 0; s < 8; s++)
    for (int l = 0; l < 128; l++) {
      uint32_t word = in[s / 2 * 128 + l] >> 16 * (s & 1), bytes = 0;
      for (int j = 0; j < 4; j++) bytes |= ((uint32_t)((int32_t)(word << (28 - 4 * j)) >> 28) & 255) << 8 * j;
      z[s * 128 + l] = bytes;
    }
  memcpy(out, z, sizeof z);
}
static void mask_pack16(uint8_t *out, const uint8_t *low, const uint8_t *high) {
  uint8_t z[SIZE];
  for (int s = 0; s < 8; s++) {
    const uint8_t *x = (s < 4 ? low : high) + (s & 3) * 256;
    for (int l = 0; l < 128; l++) z[s * 128 + l] = (uint8_t)((x[l] & 3) | (x[128 + l] & 3) << 2);
  }
  memcpy(out, z, sizeof z);
}
