/* Halves as f16, nibbles, and f8: semantics/narrow.py and f8.py in C. */

static inline uint32_t from_f16(uint32_t h) {
  uint32_t sign = (h & 0x8000u) << 16, e = h >> 10 & 31, m = h & 1023;
  if (e == 31) return m ? 0x7fc00000u : sign | 0x7f800000u;
  if (e) return sign | (e + 112) << 23 | m << 13;
  return sign | as_bits((float)m * 0x1p-24f);
}
/* To a type of five bits of exponent without `cut` bits of the fraction: to nearest even; infinite from half a step
   below 65536 on. */
static inline uint32_t to_five(uint32_t x, int cut) {
  uint32_t sign = (x & 0x80000000u) >> (cut + 3), a = x & 0x7fffffffu, half = 1u << (cut - 1);
  if (a > 0x7f800000u) return 0x0fc00000u >> cut;
  if (a >= 0x47800000u - half) return sign | 0x0f800000u >> cut;
  if (a < 0x38800000u) return sign | (uint32_t)rintf(as_float(flush(a)) * (float)(1u << (37 - cut)));
  return sign | (a + half - 1 + (a >> cut & 1) - 0x38000000u) >> cut;
}
static inline uint32_t to_f16(uint32_t x) { return to_five(x, 13); }
static void unpack_f16(uint32_t *out, const uint32_t *in, int k) {
  uint32_t z[SIZE];
  unpack_c16(z, in, k, 0);
  for (int i = 0; i < SIZE; i++) out[i] = from_f16(z[i] >> 16);
}
/* Bytes' low nibbles, rows 8s to 8s + 7 of 64 in word s; `low` first. */
static void pack_c4(uint32_t *out, const uint32_t *low, const uint32_t *high) {
  uint32_t z[SIZE];
  for (int s = 0; s < 8; s++) {
    const uint32_t *x = (s < 4 ? low : high) + (s & 3) * 256;
    for (int l = 0; l < 128; l++) {
      uint32_t word = 0;
      for (int j = 0; j < 8; j++) word |= (x[j / 4 * 128 + l] >> 8 * (j & 3) & 15) << 4 * j;
      z[s * 128 + l] = word;
    }
  }
  memcpy(out, z, sizeof z);
}
/* Sixteen rows of bytes, four words of them, as packed rows of bf16. */
static void unpack_c8_bf16(uint32_t *out, const uint32_t *in) {
  uint32_t z[SIZE];
  for (int s = 0; s < 8; s++)
    for (int l = 0; l < 128; l++) {
      uint32_t x = in[s / 2 * 128 + l] >> 16 * (s & 1);
      z[s * 128 + l] = as_bits((float)(int8_t)x) >> 16 | (as_bits((float)(int8_t)(x >> 8)) & 0xffff0000u);
    }
  memcpy(out, z, sizeof z);
}
static void combine(uint32_t *out, const uint32_t *x, const uint32_t *y) {
  uint32_t z[SIZE];
  memcpy(z, x, SIZE * 2), memcpy(z + SIZE / 2, y, SIZE * 2);
  memcpy(out, z, sizeof z);
}

/* Of eight bits, bias 15 and two of a fraction; 61440 and more are infinite. */
static inline uint32_t from_e5m2(uint32_t code) { return from_f16(code << 8); }
static inline uint32_t to_e5m2(uint32_t x) { return to_five(x, 21); }
/* Bias 11 and three of a fraction; 0x80 is a NaN, and there is no other. */
static inline uint32_t from_if8(uint32_t code) {
  uint32_t sign = (code & 0x80u) << 24, e = code >> 3 & 15, m = code & 7;
  if (code == 0x80u) return 0x7fc00000u;
  return e ? sign | (e + 116) << 23 | m << 20 : sign | as_bits((float)m * 0x1p-13f);
}
static inline uint32_t to_if8(uint32_t x, uint32_t unknown) {
  uint32_t sign = x >> 24 & 0x80u, a = x & 0x7fffffffu, code;
  if (a <= 0x38800000u || a >= 0x7f800000u) return unknown;
  if (a < 0x3a800000u) return sign | (uint32_t)rintf(as_float(a) * 0x1p13f);
  code = (a + 0x7ffffu + (a >> 20 & 1) - 0x3a000000u) >> 20;
  return sign | (code > 127 ? 127 : code);
}
static void unpack_f8(uint32_t *out, const uint32_t *in, int k, uint32_t (*value)(uint32_t)) {
  uint32_t z[SIZE];
  unpack_c8(z, in, k);
  for (int i = 0; i < SIZE; i++) out[i] = value(z[i] & 0xff);
}
static inline uint32_t twice(uint32_t x, uint32_t y, uint32_t unknown) {
  x &= 0xffff, y &= 0xffff;
  return x == y ? x | x << 16 : unknown;
}
static inline uint32_t four_times(uint32_t x, uint32_t y, uint32_t unknown) {
  x &= 0xff00ff, y &= 0xff00ff;
  return x == y && x >> 16 == (x & 0xff) ? (x & 0xff) * 0x01010101u : unknown;
}
