// Elementary functions whose results are the same bits on every machine.
//
// libm picks its log and exp by CPU (with and without fused multiply-add), so
// their last bits differ between machines.  These use only the operations that
// IEEE 754 rounds exactly, in a fixed order.  They are accurate to about two
// units in the last place.
//
// REQUIRES: compiled without fast-math and with -ffp-contract=off.

#ifndef BASE_DETERMINISTIC_MATH_H_
#define BASE_DETERMINISTIC_MATH_H_

namespace interleave {

// Natural logarithm.  -inf at 0, NaN below it.
double DeterministicLog(double x);

// e to the power x; overflows to inf, underflows to 0.
double DeterministicExp(double x);

// `base` to the power `exponent`.  The relative error grows with the exponent
// of the result: about 1e-14 for results near 1e10.
// REQUIRES: base >= 0.
double DeterministicPow(double base, double exponent);

}  // namespace interleave

#endif  // BASE_DETERMINISTIC_MATH_H_
