/* Queues, XLU and MXU: semantics/xlu.py and mxu.py in C. */

static uint32_t *grow_queue(Queue *q) {
  int64_t room = q->room ? 2 * q->room : 8;
  uint32_t *data = malloc((size_t)room * SIZE * 4);
  int32_t *tokens = malloc((size_t)room * 4);
  for (int64_t i = 0; i < q->count; i++) {
    int64_t from = (q->head + i) % q->room;
    memcpy(data + i * SIZE, q->data + from * SIZE, SIZE * 4);
    tokens[i] = q->tokens[from];
  }
  free(q->data), free(q->tokens);
  q->data = data, q->tokens = tokens, q->head = 0, q->room = room;
  return data;
}

/* Room for a new entry at the end; it is there once the caller has written it. A full queue traps after the op. */
static uint32_t *push(VM *vm, int queue, int unit, int token) {
  static uint32_t nowhere[SIZE];
  Queue *q = &vm->queues[queue][unit];
  if (q->count >= DEEPEST) {
    trap(vm, QUEUE_FULL, queue, unit, 0, 0);
    return nowhere;
  }
  if (q->count == q->room) grow_queue(q);
  int64_t at = (q->head + q->count) % q->room;
  q->count++;
  q->tokens[at] = token;
  return q->data + at * SIZE;
}
static int pop(VM *vm, int queue, int unit, int token, uint32_t *out) {
  Queue *q = &vm->queues[queue][unit];
  if (!q->count) TRAP(QUEUE_EMPTY, queue, unit, token, 0);
  if (token && q->tokens[q->head] != token) TRAP(QUEUE_ORDER, queue, unit, token, q->tokens[q->head]);
  memcpy(out, q->data + q->head * SIZE, SIZE * 4);
  q->head = (q->head + 1) % q->room, q->count--;
  return 0;
}

/* XLU */
static void vrot_slane(uint32_t *out, const uint32_t *in, const uint32_t *n) {
  uint32_t z[SIZE];
  for (int i = 0; i < SIZE; i++) z[i] = in[((((uint32_t)i >> 7) + n[i]) & 7) * 128 + (i & 127)];
  memcpy(out, z, sizeof z);
}
static void vrot_lane(uint32_t *out, const uint32_t *in, uint32_t n) {
  n &= 127;
  for (int s = 0; s < 8; s++) {
    memcpy(out + s * 128 + n, in + s * 128, (128 - n) * 4);
    memcpy(out + s * 128, in + s * 128 + 128 - n, n * 4);
  }
}
static void vperm_lane(uint32_t *out, const uint32_t *pattern, const uint32_t *in) {
  for (int i = 0; i < SIZE; i++) out[i] = in[(i & ~127) | (pattern[i] & 127)];
}
static void vperm_slane(uint32_t *out, const uint32_t *in, const uint32_t *pattern, int bytewise) {
  uint32_t z[SIZE] = {0};
  for (int j = 0; bytewise && j < 4; j++)
    for (int i = 0; i < SIZE; i++) {
      uint32_t p = pattern[i] >> 8 * j;
      z[i] |= (in[(p & 7) * 128 + (i & 127)] >> 8 * (p >> 3 & 3) & 255) << 8 * j;
    }
  if (!bytewise) for (int i = 0; i < SIZE; i++) z[i] = in[(pattern[i] & 7) * 128 + (i & 127)];
  memcpy(out, z, sizeof z);
}
static void vbcast_lane(uint32_t *out, const uint32_t *in, uint32_t n) {
  for (uint32_t s = 0; s < 8; s++) {
    uint32_t x = in[s * 128 + (((n & 127) + (n >> 8) * s) & 127)];
    for (int l = 0; l < 128; l++) out[s * 128 + l] = x;
  }
}
static void reduce_lanes(uint32_t *out, const uint32_t *in, int kind) {
  for (int s = 0; s < 8; s++) {
    uint32_t x[128];
    memcpy(x, in + s * 128, 512);
    for (int n = 64; n; n /= 2)
      for (int l = 0; l < n; l++) {
        float a = F(x[l]), b = F(x[l + n]);
        x[l] = R(kind == 0 ? a + b : kind == 1 ? maximum(a, b) : minimum(a, b));
      }
    for (int l = 0; l < 128; l++) out[s * 128 + l] = x[0];
  }
}

/* Puts n vectors on the stack of a transpose. flags: 1 first, 2 last. */
static int stack_up(VM *vm, int unit, int flags, int n, int most, const uint32_t *const *vectors) {
  if (flags & 1) {
    if (!vm->stack[unit]) vm->stack[unit] = malloc(33 * SIZE * 4);
    vm->stacked[unit] = 0;
  } else if (vm->stacked[unit] < 0) TRAP(TRANSPOSE, unit, 0, 0, 0);
  for (int k = 0; k < n; k++) memcpy(vm->stack[unit] + (vm->stacked[unit] + k) * SIZE, vectors[k], SIZE * 4);
  vm->stacked[unit] += n;
  if (vm->stacked[unit] > most) TRAP(TRANSPOSE, unit, vm->stacked[unit], 0, 0);
  return 0;
}
static int transpose32(VM *vm, const uint32_t *x, int width, int flags, int unit, int token) {
  CHECK(stack_up(vm, unit, flags, 1, 16, &x));
  if (!(flags & 2)) return 0;
  int rows = vm->stacked[unit] * 8;
  const uint32_t *in = vm->stack[unit];
  vm->stacked[unit] = -1;
  for (int k = 0; k < width && k < 128; k += 8) {
    uint32_t *out = push(vm, Q_TRF, unit, token);
    for (int s = 0; s < 8; s++)
      for (int l = 0; l < 128; l++) out[s * 128 + l] = l < rows ? in[l * 128 + k + s] : 0;
  }
  return 0;
}

/* n: 1, or 2 for two matrices whose results take turns. */
static int transpose16(VM *vm, int n, const uint32_t *x, const uint32_t *y, int width, int flags, int unit, int token) {
  const uint32_t *both[2] = {x, y};
  CHECK(stack_up(vm, unit, flags, n, 8 * n, both));
  if (!(flags & 2)) return 0;
  int rows = vm->stacked[unit] / n * 16;
  const uint32_t *in = vm->stack[unit];
  vm->stacked[unit] = -1;
  for (int k = 0; k < (width < 128 ? width : 128) / 2; k += 8)
    for (int which = 0; which < n; which++) {
      uint32_t *out = push(vm, Q_TRF, unit, token);
      for (int s = 0; s < 8; s++)
        for (int l = 0; l < 128; l++) {
          /* Column l of row 2(k + s) and of the next: row l of the source, 16 to a vector. */
          const uint32_t *row = in + ((l >> 4) * n + which) * SIZE + (l >> 1 & 7) * 128 + 2 * (k + s);
          uint32_t shift = l & 1 ? 16 : 0, fill = vm->fill & 0xffff;
          out[s * 128 + l] = l < rows ? (row[0] >> shift & 0xffff) | (row[1] >> shift & 0xffff) << 16 : fill | fill << 16;
        }
    }
  return 0;
}

/* MXU */
enum { KIND_F32, KIND_BF16, KIND_S8, KIND_U8 };

/* The rows of a vector: 8 of f32, 16 of bf16, 32 of s8 or u8; how many. */
static int rows_of(const uint32_t *x, const uint8_t *mask, int kind, double *out) {
  uint32_t z[SIZE];
  for (int i = 0; i < SIZE; i++) z[i] = mask ? x[i] & SPREAD(mask[i]) : x[i];
  if (kind == KIND_F32) {
    for (int i = 0; i < SIZE; i++) out[i] = D(bf16(flush(z[i])) << 16);
    return 8;
  }
  if (kind == KIND_BF16) {
    for (int s = 0; s < 8; s++)
      for (int l = 0; l < 128; l++) {
        out[2 * s * 128 + l] = D(z[s * 128 + l] << 16);
        out[(2 * s + 1) * 128 + l] = D(z[s * 128 + l] & 0xffff0000u);
      }
    return 16;
  }
  for (int s = 0; s < 8; s++)
    for (int j = 0; j < 4; j++)
      for (int l = 0; l < 128; l++) {
        uint32_t x = z[s * 128 + l] << (24 - 8 * j);
        out[(4 * s + j) * 128 + l] = kind == KIND_S8 ? (double)((int32_t)x >> 24) : (double)(x >> 24);
      }
  return 32;
}

static int stage(VM *vm, int unit, int slot, const double *rows, int n) {
  Unit *u = &vm->mxu[unit];
  if (!u->staged[slot]) u->staged[slot] = malloc(sizeof(double) * 128 * 128);
  if (u->rows[slot] + n > 128) TRAP(MXU, unit, u->rows[slot] + n, 0, 0);
  memcpy(u->staged[slot] + u->rows[slot] * 128, rows, sizeof(double) * 128 * n);
  u->rows[slot] += n;
  u->block[slot][u->blocks[slot]++] = n;
  return 0;
}
static int mxu_push(VM *vm, const uint32_t *x, const uint8_t *mask, int unit, int kind, int reg, int xpose) {
  double rows[32 * 128];
  int n = rows_of(x, mask, kind, rows);
  return stage(vm, unit, reg + 2 * xpose, rows, n);
}
/* Blocks came last rows first; `left` of each row's `width` lanes from `first` on. They go to row `at` of the gains and to
   lane `to` and so on, or the other way round. */
static void gather(Unit *u, const double *staged, const int *block, int blocks, int rows, int width, int first, int xpose,
                   int at, int to) {
  int lanes = width == 256 && to < 0 ? 256 : 128;
  if (to < 0) to = 0;
  for (int b = blocks - 1, end = rows; b >= 0; b--) {
    end -= block[b];
    for (int k = 0; k < block[b]; k++, at++)
      for (int l = 0; l < lanes; l++) {
        double x = staged[(end + k) * width + first + l];
        u->gains[xpose ? (to + l) * 256 + at : at * 256 + to + l] = x;
      }
  }
}
static void set_shape(Unit *u, int xpose, int rows0, int rows1, int width0, int width1, int diagonal) {
  int *rows = xpose ? u->columns : u->lanes, *widths = xpose ? u->lanes : u->columns;
  rows[0] = rows0, rows[1] = rows1, widths[0] = width0, widths[1] = width1;
  u->diagonal = diagonal;
}
static void latch(VM *vm, int unit, int reg) {
  Unit *u = &vm->mxu[unit];
  if (!u->gains) u->gains = calloc(256 * 256, sizeof(double));
  for (int xpose = 0; xpose < 2; xpose++) {
    int slot = reg + 2 * xpose;
    int *blocks = u->wide_blocks[reg], *rows = u->wide_rows[reg];
    const double *staged = u->part[2 + reg];
    if (u->blocks[slot]) {
      gather(u, u->staged[slot], u->block[slot], u->blocks[slot], u->rows[slot], 128, 0, xpose, 0, 0);
      set_shape(u, xpose, u->rows[slot], 0, 128, 0, 0);
      u->blocks[slot] = u->rows[slot] = 0;
    } else if (u->wide_xpose[reg] != xpose) {
      continue;
    } else if (blocks[2]) {
      const double *both = staged + 2 * 128 * 256;
      for (int half = 0; half < 2; half++)
        gather(u, both, u->wide_block[reg][2], blocks[2], rows[2], 256, 128 * half, xpose, 128 * half, 128 * half);
      set_shape(u, xpose, rows[2], rows[2], 128, 128, 1);
      blocks[2] = rows[2] = 0;
    } else if (blocks[0] || blocks[1]) {
      for (int part = 0; part < 2; part++)
        gather(u, staged + part * 128 * 256, u->wide_block[reg][part], blocks[part], rows[part], 256, 0, xpose, 128 * part, -1);
      set_shape(u, xpose, rows[0], rows[1], 128, 128, 0);
      blocks[0] = blocks[1] = rows[0] = rows[1] = 0;
    }
  }
}
/* n rows times the gains of one half of K: sums in order of K, in double, eight rows and columns at a time; both come in
   eights. out: rows of 256. A product of two operands is exact in double, so it may be added in the same step. */
typedef double Eight __attribute__((vector_size(64)));
#ifndef __clang__
__attribute__((optimize("fp-contract=fast")))
#endif
static void product(const Unit *u, int part, const double *left, int stride, int n, double *out) {
  int from = u->diagonal ? 128 * part : 0;
  int to = u->diagonal ? from + u->columns[part] : u->columns[1] ? 128 + u->columns[1] : u->columns[0];
  const double *gains = u->gains + 128 * 256 * part;
  memset(out, 0, sizeof(double) * n * 256);
  for (int r = 0; r < n; r += 8)
    for (int j = from; j < to; j += 8) {
      const double *x = left + r * stride + 128 * part;
      Eight g, a = {0}, b = {0}, c = {0}, d = {0}, e = {0}, f = {0}, h = {0}, i = {0};
      for (int k = 0; k < u->lanes[part]; k++, x++) {
        memcpy(&g, gains + k * 256 + j, sizeof g);
        a += x[0] * g, b += x[stride] * g, c += x[2 * stride] * g, d += x[3 * stride] * g;
        e += x[4 * stride] * g, f += x[5 * stride] * g, h += x[6 * stride] * g, i += x[7 * stride] * g;
      }
      const Eight sums[8] = {a, b, c, d, e, f, h, i};
      for (int k = 0; k < 8; k++) memcpy(out + (r + k) * 256 + j, &sums[k], sizeof g);
    }
}
/* left: rows of `width`, 128 or 256; a result for eight rows and 128 columns each. */
static int multiply(VM *vm, int unit, int token, const double *left, int width, int n, int kind) {
  Unit *u = &vm->mxu[unit];
  int lanes = u->lanes[0] + u->lanes[1];
  if (!lanes || (width == 128 && u->lanes[1])) TRAP(MXU, unit, lanes, 0, 0);
  double total[2][32 * 256];
  for (int part = 0; part < 2; part++)
    if (u->lanes[part]) product(u, part, left, width, n, total[part]);
  for (int k = 0; k < n; k += 8)
    for (int half = 0; half < width / 128; half++) {
      uint32_t *out = push(vm, Q_MRF, unit, token);
      int first = u->lanes[0] && !(u->diagonal && half), second = u->lanes[1] && !(u->diagonal && !half);
      for (int i = 0; i < SIZE; i++) {
        int at = (k + (i >> 7)) * 256 + half * 128 + (i & 127);
        if ((i & 127) >= u->columns[half]) {
          out[i] = 0;
        } else if (kind >= KIND_S8) {
          out[i] = (first ? (uint32_t)(int64_t)total[0][at] : 0) + (second ? (uint32_t)(int64_t)total[1][at] : 0);
        } else if (first && second) {
          out[i] = R(F(R((float)total[0][at])) + F(R((float)total[1][at])));
        } else {
          out[i] = R((float)total[first ? 0 : 1][at]);
        }
      }
    }
  return 0;
}
static int matmul(VM *vm, const uint32_t *x, const uint8_t *mask, int unit, int token, int kind, int from) {
  double left[32 * 128];
  if (from || vm->implicit_latch) latch(vm, unit, from ? from - 1 : 0);
  int n = rows_of(x, mask, kind, left);
  return multiply(vm, unit, token, left, 128, n, kind);
}

/* What was pushed for the left side, K x 128, last rows first: its first columns become rows. */
static int take_left(VM *vm, int unit, int rows) {
  Unit *u = &vm->mxu[unit];
  if (!u->blocks[4]) TRAP(MXU, unit, 0, 0, 0);
  if (!u->left) u->left = malloc(sizeof(double) * 128 * 128);
  int k = 0, end = u->rows[4];
  for (int b = u->blocks[4] - 1; b >= 0; b--) {
    end -= u->block[4][b];
    for (int i = 0; i < u->block[4][b]; i++, k++)
      for (int l = 0; l < rows; l++) u->left[l * 128 + k] = u->staged[4][(end + i) * 128 + l];
  }
  u->left_depth = k, u->left_next = 0, u->left_rows = rows;
  u->blocks[4] = u->rows[4] = 0;
  return 0;
}
static int multiply_left(VM *vm, int unit, int token, int from) {
  Unit *u = &vm->mxu[unit];
  if (from) latch(vm, unit, from - 1);
  int there = u->left_next < u->left_rows;
  if (!u->lanes[0] || !there) TRAP(MXU, unit, there ? u->left_depth : 0, 0, 0);
  int lanes = u->lanes[0]; /* of gains that meet what was pushed */
  if (u->left_depth < lanes) u->lanes[0] = u->left_depth;
  int trapped = multiply(vm, unit, token, u->left + u->left_next * 128, 128, 8, KIND_BF16);
  u->lanes[0] = lanes;
  CHECK(trapped);
  u->left_next += 8;
  return 0;
}

/* The wide MXU: semantics/mxu_wide.py in C. side: 0 subr, 1 mubr. */
static void prepare(VM *vm, const uint32_t *x, const uint8_t *mask, int unit, int kind, int side) {
  Unit *u = &vm->mxu[unit];
  if (!u->part[side]) u->part[side] = malloc(sizeof(double) * 32 * 128);
  u->part_rows[side] = rows_of(x, mask, kind, u->part[side]);
}
static int push_wide(VM *vm, const uint32_t *x, const uint8_t *mask, int unit, int kind, int reg, int xpose, int number) {
  Unit *u = &vm->mxu[unit];
  double rows[32 * 128];
  int n = rows_of(x, mask, kind, rows), part = number - 1;
  if (u->part_rows[0] != n) TRAP(MXU, unit, u->part_rows[0], 0, 0);
  if (!u->part[2 + reg]) u->part[2 + reg] = malloc(sizeof(double) * 3 * 128 * 256);
  int *have = &u->wide_rows[reg][part];
  if (*have + n > 128) TRAP(MXU, unit, *have + n, 0, 0);
  double *out = u->part[2 + reg] + (part * 128 + *have) * 256;
  for (int k = 0; k < n; k++) {
    memcpy(out + k * 256, rows + k * 128, sizeof(double) * 128);
    memcpy(out + k * 256 + 128, u->part[0] + k * 128, sizeof(double) * 128);
  }
  *have += n;
  u->wide_block[reg][part][u->wide_blocks[reg][part]++] = n;
  u->wide_xpose[reg] = xpose;
  return 0;
}
static int matmul_wide(VM *vm, const uint32_t *x, const uint8_t *mask, int unit, int token, int kind, int from) {
  Unit *u = &vm->mxu[unit];
  if (from || vm->implicit_latch) latch(vm, unit, from ? from - 1 : 0);
  double rows[32 * 128], left[32 * 256];
  int n = rows_of(x, mask, kind, rows);
  if (u->part_rows[1] != n) TRAP(MXU, unit, u->part_rows[1], 0, 0);
  for (int k = 0; k < n; k++) {
    memcpy(left + k * 256, rows + k * 128, sizeof(double) * 128);
    memcpy(left + k * 256 + 128, u->part[1] + k * 128, sizeof(double) * 128);
  }
  return multiply(vm, unit, token, left, 256, n, kind);
}
