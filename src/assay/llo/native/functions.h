/* Exponential, logarithm and tanh in double, without branches, so that the compiler runs several lanes at once. Off by a
   few units in the last place of a double: rounded to f32 they are what the library's are, but once in some 10^8. */

static inline double as_double(uint64_t x) { double d; memcpy(&d, &x, 8); return d; }
static inline uint64_t double_bits(double d) { uint64_t x; memcpy(&x, &d, 8); return x; }

/* 2^y = scale (1 + *rest), |y| of at most 1000: Taylor's series of the fraction, whose term 14 is below 2^-57. */
static inline double power(double y, double *rest) {
  y = y > 1000.0 ? 1000.0 : y, y = y < -1000.0 ? -1000.0 : y;
  double shifted = y + 0x1.8p52, f = (y - (shifted - 0x1.8p52)) * 0x1.62e42fefa39efp-1, p = 1.0 / 87178291200.0;
  p = p * f + 1.0 / 6227020800.0, p = p * f + 1.0 / 479001600.0, p = p * f + 1.0 / 39916800.0;
  p = p * f + 1.0 / 3628800.0, p = p * f + 1.0 / 362880.0, p = p * f + 1.0 / 40320.0, p = p * f + 1.0 / 5040.0;
  p = p * f + 1.0 / 720.0, p = p * f + 1.0 / 120.0, p = p * f + 1.0 / 24.0, p = p * f + 1.0 / 6.0;
  p = p * f + 0.5, p = p * f + 1.0;
  *rest = p * f;
  return as_double((double_bits(shifted) + 1023) << 52);
}
static inline double exp2_of(double y) {
  double rest, scale = power(y, &rest), result = scale + scale * rest;
  return y != y ? y : result;
}
/* (e^2x - 1) / (e^2x + 1), the numerator without cancellation. */
static inline double tanh_of(double x) {
  double size = x < 0.0 ? -x : x, rest, scale = power(size * 0x1.71547652b82fep1, &rest);
  double less = scale * rest + (scale - 1.0), t = size > 20.0 ? 1.0 : less / (less + 2.0);
  t = as_double(double_bits(t) | (double_bits(x) & 0x8000000000000000u));
  return x != x ? x : t;
}
/* Of a float: no subnormal double comes in. ln m = 2 artanh((m - 1) / (m + 1)), m within sqrt 2 of 1. */
static inline double log2_of(double x) {
  uint64_t bits = double_bits(x), up = (bits & 0xfffffffffffffu) > 0x6a09e667f3bcdu;
  double m = as_double((bits & 0xfffffffffffffu) | (up ? 0x3fe0000000000000u : 0x3ff0000000000000u));
  double e = as_double(0x4330000000000000u | (bits >> 52 & 0x7ff)) - (0x1p52 + 1023.0) + (up ? 1.0 : 0.0);
  double r = (m - 1.0) / (m + 1.0), s = r * r, p = 1.0 / 23.0;
  p = p * s + 1.0 / 21.0, p = p * s + 1.0 / 19.0, p = p * s + 1.0 / 17.0, p = p * s + 1.0 / 15.0;
  p = p * s + 1.0 / 13.0, p = p * s + 1.0 / 11.0, p = p * s + 1.0 / 9.0, p = p * s + 1.0 / 7.0;
  p = p * s + 0.2, p = p * s + 1.0 / 3.0;
  double result = e + (r + r * s * p) * 0x1.71547652b82fep1;
  result = x == 0.0 ? -INFINITY : x < 0.0 ? NAN : x > 0x1p1000 ? x : result;
  return x != x ? x : result;
}
