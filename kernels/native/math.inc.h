// Elementary functions on sixteen lanes, the same polynomials in every instruction set.
#pragma once

namespace {

// Of two values vmax gives the second where one is no number: so NaN stays NaN here.

// 2^x to 2e-7, and exactly 0 below -126. x at most 127.
ALWAYS F exp2v(F x) {
  F inside = vmax(set1(-126.0f), x);
  F n = round_even(inside), f = sub(inside, n);
  F p = set1(1.5403530e-4f);
  p = fma(p, f, set1(1.3333558e-3f));
  p = fma(p, f, set1(9.6181291e-3f));
  p = fma(p, f, set1(5.5504109e-2f));
  p = fma(p, f, set1(2.4022651e-1f));
  p = fma(p, f, set1(6.9314718e-1f));
  p = fma(p, f, set1(1.0f));
  return where_less(x, set1(-126.0f), set1(0.0f), mul(p, power2(n)));
}

constexpr float kLog2E = 1.44269504088896341f;

// e^x; x at most 88. The product is exact in two parts, so that large negative x keep their precision.
ALWAYS F expv(F x) {
  F inside = vmax(set1(-87.0f), x);
  F n = round_even(mul(inside, set1(kLog2E)));
  F f = fma(n, set1(-0.693359375f), inside);
  f = fma(n, set1(2.12194440e-4f), f);
  F p = set1(1.9875691500e-4f);
  p = fma(p, f, set1(1.3981999507e-3f));
  p = fma(p, f, set1(8.3334519073e-3f));
  p = fma(p, f, set1(4.1665795894e-2f));
  p = fma(p, f, set1(1.6666665459e-1f));
  p = fma(p, f, set1(5.0000001201e-1f));
  p = fma(mul(p, f), f, add(f, set1(1.0f)));
  return where_less(x, set1(-87.0f), set1(0.0f), mul(p, power2(n)));
}

// Zero, NaN where x is no finite number. A largest value does not tell: it passes over what is none.
ALWAYS F spoilt(F x) { return sub(x, x); }

// Natural logarithm of normal positive numbers to about one unit in the last place.
ALWAYS F logv(F x) {
  I bits = as_int(x);
  F e = to_float(subi(shr<23>(bits), seti(126)));
  F m = as_float(ori(andi(bits, seti(0x007fffff)), seti(0x3f000000)));
  F half = set1(0.707106781186547524f);
  e = where_less(m, half, sub(e, set1(1.0f)), e);
  F z = sub(where_less(m, half, add(m, m), m), set1(1.0f));
  F p = set1(7.0376836292e-2f);
  p = fma(p, z, set1(-1.1514610310e-1f));
  p = fma(p, z, set1(1.1676998740e-1f));
  p = fma(p, z, set1(-1.2420140846e-1f));
  p = fma(p, z, set1(1.4249322787e-1f));
  p = fma(p, z, set1(-1.6668057665e-1f));
  p = fma(p, z, set1(2.0000714765e-1f));
  p = fma(p, z, set1(-2.4999993993e-1f));
  p = fma(p, z, set1(3.3333331174e-1f));
  F square = mul(z, z);
  F y = mul(mul(p, z), square);
  y = fma(e, set1(-2.12194440e-4f), y);
  y = fma(square, set1(-0.5f), y);
  return fma(e, set1(0.693359375f), add(z, y));
}

// log(1 - u) for u in (0, 1): what rounding 1 - u loses is put back.
ALWAYS F log1mv(F u) {
  F w = sub(set1(1.0f), u);
  F lost = add(sub(w, set1(1.0f)), u);
  return sub(logv(w), div(lost, w));
}

}  // namespace
