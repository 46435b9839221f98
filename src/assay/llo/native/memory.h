/* Loads, stores, DMA and sync flags: semantics/memory.py in C. */

enum { READS, WRITES, WRITES_SOURCE };
static const int64_t CAPACITY[4] = {1 << 29, 1 << 18, 1 << 18, 0}; /* machine.CAPACITY */

/* What is nobody's may be read, as far as there is memory: it holds what memory held before. */
static int owned(VM *vm, int space, int64_t at, int64_t count, int write) {
  if (!write && at >= 0 && at + count <= CAPACITY[space]) return 0;
  if (at < 0 || at + count > vm->units[space]) TRAP(OUT_OF_BOUNDS, space, at, write, 0);
  const uint8_t *o = vm->owners[space] + at;
  for (int64_t i = 0; i < count; i++)
    if (!o[i]) TRAP(OUT_OF_BOUNDS, space, at + i, write, 0);
  return 0;
}
/* How many of `count` from `at` on the machine has a word of; units of the maps below. */
static int64_t kept_of(VM *vm, int space, int64_t at, int64_t count) {
  int64_t units = vm->units[space] * (space == VMEM ? ROW : 1), left = units - at;
  return left < 0 ? 0 : left < count ? left : count;
}
static void flight_maps(VM *vm, int space) {
  if (vm->arriving[space]) return;
  size_t n = (size_t)vm->units[space] * (space == VMEM ? ROW : 1);
  vm->arriving[space] = calloc(n, 2), vm->leaving[space] = calloc(n, 2);
}
/* at, count: in granules, in words of smem. */
static int no_race(VM *vm, int space, int64_t at, int64_t count, int write) {
  if (!vm->flying) return 0;
  flight_maps(vm, space);
  count = kept_of(vm, space, at, count);
  const uint16_t *a = vm->arriving[space] + at, *l = vm->leaving[space] + at;
  for (int64_t i = 0; i < count; i++)
    if (a[i]) TRAP(RACE, space, at + i, write ? WRITES : READS, 0);
  for (int64_t i = 0; write && i < count; i++)
    if (l[i]) TRAP(RACE, space, at + i, WRITES_SOURCE, 0);
  return 0;
}
static inline int row_ok(VM *vm, int64_t row, int write) {
  CHECK(owned(vm, VMEM, row, 1, write));
  return vm->flying ? no_race(vm, VMEM, row * ROW, ROW, write) : 0;
}

/* Sublane k: at + stride * (k / group) + k % group; above the 16 bits of the stride stands the group (semantics/memory.py). */
static inline int64_t row_of(int64_t at, int stride, int k) {
  int group = stride >> 16;
  if (group <= 1) return at + (group == 1 ? (int64_t)(int16_t)stride : stride) * k;
  return at + (int64_t)(int16_t)stride * (k / group) + k % group;
}
/* by: nibble k says which place of the sequence sublane k has. */
static int load_shuffled(VM *vm, uint32_t *out, uint32_t base, int offset, int stride, uint32_t sublanes, uint32_t by) {
  int64_t at = (int64_t)address(base) + offset;
  for (int k = 0; k < 8; k++)
    if (sublanes >> k & 1) CHECK(row_ok(vm, row_of(at, stride, by >> 4 * k & 15), 0));
  for (int k = 0; k < 8; k++) {
    int64_t row = row_of(at, stride, by >> 4 * k & 15);
    if (!(sublanes >> k & 1)) memset(out + k * 128, 0, 512);
    else if (row < vm->units[VMEM]) memcpy(out + k * 128, vm->vmem + row * 128, 512);
    else for (int l = 0; l < 128; l++) out[k * 128 + l] = vm->fill;
  }
  return 0;
}
static int load(VM *vm, uint32_t *out, uint32_t base, int offset, int stride, uint32_t sublanes) {
  return load_shuffled(vm, out, base, offset, stride, sublanes, 0x76543210u);
}
static int store(VM *vm, const uint32_t *in, const uint8_t *mask, uint32_t base, int offset, int stride, uint32_t sublanes) {
  int64_t at = (int64_t)address(base) + offset;
  for (int k = 0; k < 8; k++)
    if (sublanes >> k & 1) CHECK(row_ok(vm, row_of(at, stride, k), 1));
  for (int k = 0; k < 8; k++) {
    if (!(sublanes >> k & 1)) continue;
    uint32_t *out = vm->vmem + row_of(at, stride, k) * 128;
    if (!mask) {
      memcpy(out, in + k * 128, 512);
      continue;
    }
    for (int l = 0; l < 128; l++) {
      uint32_t on = SPREAD(mask[k * 128 + l]);
      out[l] = (in[k * 128 + l] & on) | (out[l] & ~on);
    }
  }
  return 0;
}
static int scalar_load(VM *vm, uint32_t *out, uint32_t base, int offset) {
  int64_t at = (int64_t)address(base) + offset;
  CHECK(owned(vm, SMEM, at, 1, 0));
  CHECK(no_race(vm, SMEM, at, 1, 0));
  *out = at < vm->units[SMEM] ? vm->smem[at] : vm->fill;
  return 0;
}
static int scalar_store(VM *vm, uint32_t x, uint32_t base, int offset) {
  int64_t at = (int64_t)address(base) + offset;
  CHECK(owned(vm, SMEM, at, 1, 1));
  CHECK(no_race(vm, SMEM, at, 1, 1));
  vm->smem[at] = x;
  return 0;
}

/* DMA */
static int reachable(VM *vm, Span p, int write) {
  if (p.space == VMEM) CHECK(owned(vm, VMEM, p.at / ROW, (p.at + p.count + ROW - 1) / ROW - p.at / ROW, write));
  else CHECK(owned(vm, p.space, p.at, p.count, write));
  return no_race(vm, p.space, p.at, p.count, write);
}
static uint32_t *words(VM *vm, Span p) {
  return p.space == SMEM ? vm->smem + p.at : (p.space == HBM ? vm->hbm : vm->vmem) + p.at * 8;
}
static Span span(int space, int64_t base, int64_t at, int64_t granules) {
  Span p = {space, space == SMEM ? base + (at - base) * 8 : at, space == SMEM ? granules * 8 : granules};
  return p;
}
/* A span of what may lie behind all that the machine has to one of the same size. */
static void move(VM *vm, Span written, Span read) {
  int64_t there = kept_of(vm, read.space, read.at, read.count) * (read.space == SMEM ? 1 : 8);
  int64_t size = read.count * (read.space == SMEM ? 1 : 8);
  uint32_t *to = words(vm, written);
  if (there) memmove(to, words(vm, read), (size_t)there * 4);
  for (int64_t i = there; i < size; i++) to[i] = vm->fill;
}
static void keep(Flight *f, Span read, Span written) {
  if (f->spans_used + 2 > f->spans_room) {
    f->spans_room = f->spans_room ? 2 * f->spans_room : 8;
    f->spans = realloc(f->spans, (size_t)f->spans_room * sizeof(Span));
  }
  f->spans[f->spans_used++] = read;
  f->spans[f->spans_used++] = written;
}
/* Counts a flight's spans up or down in the maps; they alternate between read and written. */
static void mark(VM *vm, const Flight *f, int by) {
  for (int64_t k = 0; k < f->spans_used; k++) {
    Span p = f->spans[k];
    flight_maps(vm, p.space);
    uint16_t *map = (k & 1 ? vm->arriving : vm->leaving)[p.space] + p.at;
    for (int64_t i = 0; i < p.count; i++) map[i] = (uint16_t)(map[i] + by);
  }
}
static int dma(VM *vm, const uint32_t *r, int from, int to, int form) {
  int64_t source = r[0], size = r[1], target = r[2], flag = r[3], by_source = r[4], by_target = r[5], steps = r[6];
  int64_t count = (int64_t)1 << 32, outer_source = 0, outer_target = 0, descriptor = r[7];
  CHECK(owned(vm, SFLAG, flag, 1, 1));
  if (form == 2) {
    CHECK(owned(vm, SMEM, descriptor, 6, 0));
    if (kept_of(vm, SMEM, descriptor, 6) < 6) TRAP(OUT_OF_BOUNDS, SMEM, descriptor, 0, 0);
    const uint32_t *w = vm->smem + descriptor;
    outer_source = w[0], outer_target = w[1], count = w[2], by_source = w[3], by_target = w[4], steps = w[5];
  }
  if (form && (!steps || !count)) TRAP(OUT_OF_BOUNDS, from, source, 0, 0);
  Flight f = {flag, size, 0, 0, 0};
  int64_t chunk = form ? steps * ROW : size, done = 0;
  for (int64_t k = 0; done < size || (!form && !k); k++, done += chunk) {
    int64_t o = k / count, i = k % count, n = chunk < size - done ? chunk : size - done;
    Span read = span(from, source, source + o * outer_source + i * by_source, n);
    Span written = span(to, target, target + o * outer_target + i * by_target, n);
    if (reachable(vm, read, 0) || reachable(vm, written, 1)) {
      free(f.spans);
      return 1;
    }
    move(vm, written, read);
    read.count = kept_of(vm, read.space, read.at, read.count);
    keep(&f, read, written);
  }
  mark(vm, &f, 1);
  if (vm->flying == vm->flights_room) {
    vm->flights_room = vm->flights_room ? 2 * vm->flights_room : 8;
    vm->flights = realloc(vm->flights, (size_t)vm->flights_room * sizeof(Flight));
  }
  vm->flights[vm->flying++] = f;
  vm->sflag[flag] = (int32_t)((uint32_t)vm->sflag[flag] + (uint32_t)size);
  return 0;
}

/* What has been issued on the flag is over as far as the granules reach. */
static int wait(VM *vm, uint32_t flag_word, uint32_t granules_word) {
  int64_t flag = address(flag_word), granules = address(granules_word);
  CHECK(owned(vm, SFLAG, flag, 1, 0));
  if (vm->sflag[flag] < granules) TRAP(DEADLOCK, flag, granules, vm->sflag[flag], 0);
  int64_t kept = 0, open = 1;
  for (int64_t k = 0; k < vm->flying; k++) {
    Flight f = vm->flights[k];
    if (open && f.flag == flag) {
      if (granules >= f.due) {
        granules -= f.due;
        mark(vm, &f, -1);
        free(f.spans);
        continue;
      }
      f.due -= granules;
      open = 0;
    }
    vm->flights[kept++] = f;
  }
  vm->flying = kept;
  return 0;
}
static int done(VM *vm, uint32_t flag, uint32_t granules) {
  CHECK(wait(vm, flag, granules));
  vm->sflag[address(flag)] = (int32_t)((uint32_t)vm->sflag[address(flag)] - granules);
  return 0;
}
static int sync_add(VM *vm, uint32_t flag_word, uint32_t x) {
  int64_t flag = address(flag_word);
  CHECK(owned(vm, SFLAG, flag, 1, 1));
  vm->sflag[flag] = (int32_t)((uint32_t)vm->sflag[flag] + x);
  return 0;
}
static int sync_set(VM *vm, uint32_t flag_word, uint32_t x) {
  int64_t flag = address(flag_word);
  CHECK(owned(vm, SFLAG, flag, 1, 1));
  if (x == 1 && vm->sflag[flag]) TRAP(SYNC_FLAG, flag, vm->sflag[flag], 0, 0);
  vm->sflag[flag] = (int32_t)x;
  return 0;
}
