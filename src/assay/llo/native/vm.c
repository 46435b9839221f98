/* The C engine: the loop of interpret.py. `native.py` writes ops.h from the table: one function an op, the array `OPS` of
   them, and OP_JUMP and OP_HALT. */
#include "vm.h"
#include "functions.h"
#include "units.h"
#include "memory.h"
#include "narrow.h"
#include "ops.h"

static void release(VM *vm) {
  for (int q = 0; q < QUEUES; q++)
    for (int u = 0; u < UNITS; u++) {
      vm->left += vm->queues[q][u].count;
      free(vm->queues[q][u].data), free(vm->queues[q][u].tokens);
    }
  for (int u = 0; u < UNITS; u++) {
    for (int k = 0; k < 5; k++) free(vm->mxu[u].staged[k]);
    for (int k = 0; k < 4; k++) free(vm->mxu[u].part[k]);
    free(vm->mxu[u].gains), free(vm->mxu[u].left), free(vm->stack[u]);
  }
  for (int k = 0; k < 3; k++) free(vm->arriving[k]), free(vm->leaving[k]);
  for (int64_t k = 0; k < vm->flying; k++) free(vm->flights[k].spans);
  free(vm->flights);
}

/* given: v, m, s, hbm, vmem, smem, sflag, four maps of owners. sizes: units of the four spaces, fill, implicit latch, bytewise.
   watch: asked every `slice` steps; where it says other than 0 the run ends there. out: steps, trap (0 none), record,
   four words of detail, entries left in queues, DMAs in flight. */
void assay_llo_run(void *const *given, const int64_t *sizes, const int32_t *records, int64_t limit,
                   int (*watch)(int64_t), int64_t slice, int64_t *out) {
  VM *vm = calloc(1, sizeof(VM));
  vm->v = given[0], vm->m = given[1], vm->s = given[2];
  vm->hbm = given[3], vm->vmem = given[4], vm->smem = given[5], vm->sflag = given[6];
  for (int k = 0; k < 4; k++) vm->owners[k] = given[7 + k], vm->units[k] = sizes[k];
  vm->fill = (uint32_t)sizes[4], vm->implicit_latch = (int32_t)sizes[5], vm->bytewise = (int32_t)sizes[6];
  for (int u = 0; u < UNITS; u++) vm->stacked[u] = -1;
  int64_t at = 0, steps = 0, until = limit < slice ? limit : slice;
  for (;;) {
    if (steps >= until) {
      if (steps >= limit) {
        trap(vm, STEP_LIMIT, limit, 0, 0, 0);
        break;
      }
      if (watch(steps)) break;
      until = limit - steps < slice ? limit : steps + slice;
    }
    const int32_t *r = records + at * 8;
    steps++;
    int32_t p = r[7];
    if (p && (vm->s[(p > 0 ? p : -p) - 1] != 0) != (p > 0)) {
      at++;
      continue;
    }
    if (r[0] == OP_JUMP) {
      at = r[6];
      continue;
    }
    if (r[0] == OP_HALT) break;
    if (OPS[r[0]](vm, r[1], r[2], r[3], r[4], r[5], r[6]) || vm->trap) break;
    at++;
  }
  release(vm);
  out[0] = steps, out[1] = vm->trap, out[2] = at, out[7] = vm->left, out[8] = vm->flying;
  for (int k = 0; k < 4; k++) out[3 + k] = vm->detail[k];
  free(vm);
}
