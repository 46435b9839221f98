/* Halves as f16, and nibbles: semantics/narrow.py in C. */

static inline uint32_t from_f16(uint32_t h) {
  uint32_t sign = (h & 0x8000u) << 16, e = h >> 10 & 31, m = h & 1023;
  if (e == 31) return m ? 0x7fc00000u : sign | 0x7f800000u;
  if (e) return sign | (e + 112) << 23 | m << 13;
  return sign | as_bits((float)m * 0x1p-24f);
}
/* To nearest even; 65520 and more are infinite. */
static inline uint32_t to_f16(uint32_t x) {
  uint32_t sign = x >> 16 & 0x8000u, a = x & 0x7fffffffu;
  if (a > 0x7f800000u) return 0x7e00u;
  if (a >= 0x477ff000u) return sign | 0x7c00u;
  if (a < 0x38800000u) return sign | (uint32_t)rintf(as_float(flush(a)) * 0x1p24f);
  return sign | (a + 0xfffu + (a >> 13 & 1) - 0x38000000u) >> 13;
}
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
