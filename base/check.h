// CHECK and its kin, under Abseil's names: for invariants of this program, not
// for what its input can cause (that is an absl::Status).
//
// A failed check prints file, line and condition and aborts.  DCHECK is CHECK
// in a debug build and nothing, unevaluated, in an optimized one.
//
// The Abseil of Debian 12 (20220623) has no absl/log; where it has, this file
// becomes an #include of absl/log/check.h.

#ifndef BASE_CHECK_H_
#define BASE_CHECK_H_

#include "absl/base/internal/raw_logging.h"
#include "absl/base/optimization.h"

#define CHECK(condition)                                     \
  do {                                                       \
    if (ABSL_PREDICT_FALSE(!(condition))) {                  \
      ABSL_INTERNAL_LOG(FATAL, "Check failed: " #condition); \
    }                                                        \
  } while (false)

#define CHECK_EQ(a, b) CHECK((a) == (b))
#define CHECK_NE(a, b) CHECK((a) != (b))
#define CHECK_LT(a, b) CHECK((a) < (b))
#define CHECK_LE(a, b) CHECK((a) <= (b))
#define CHECK_GT(a, b) CHECK((a) > (b))
#define CHECK_GE(a, b) CHECK((a) >= (b))

#ifdef NDEBUG
#define DCHECK(condition) \
  do {                    \
    if (false) {          \
      CHECK(condition);   \
    }                     \
  } while (false)
#else
#define DCHECK(condition) CHECK(condition)
#endif

#define DCHECK_EQ(a, b) DCHECK((a) == (b))
#define DCHECK_NE(a, b) DCHECK((a) != (b))
#define DCHECK_LT(a, b) DCHECK((a) < (b))
#define DCHECK_LE(a, b) DCHECK((a) <= (b))
#define DCHECK_GT(a, b) DCHECK((a) > (b))
#define DCHECK_GE(a, b) DCHECK((a) >= (b))

#endif  // BASE_CHECK_H_
