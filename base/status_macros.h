// RETURN_IF_ERROR and ASSIGN_OR_RETURN, as in later releases of Abseil.
//
//   RETURN_IF_ERROR(pool.Release(ids));
//   ASSIGN_OR_RETURN(const Trace trace, ReadTrace(path));

#ifndef BASE_STATUS_MACROS_H_
#define BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RETURN_IF_ERROR(expression)                 \
  do {                                              \
    if (::absl::Status status_macro = (expression); \
        ABSL_PREDICT_FALSE(!status_macro.ok())) {   \
      return status_macro;                          \
    }                                               \
  } while (false)

#define INTERLEAVE_CONCAT_INNER(a, b) a##b
#define INTERLEAVE_CONCAT(a, b) INTERLEAVE_CONCAT_INNER(a, b)

#define ASSIGN_OR_RETURN(lhs, expression)                                    \
  INTERLEAVE_ASSIGN_OR_RETURN(INTERLEAVE_CONCAT(status_or_macro_, __LINE__), \
                              lhs, expression)

#define INTERLEAVE_ASSIGN_OR_RETURN(temporary, lhs, expression) \
  auto temporary = (expression);                                \
  if (ABSL_PREDICT_FALSE(!temporary.ok())) {                    \
    return std::move(temporary).status();                       \
  }                                                             \
  lhs = *std::move(temporary)

#endif  // BASE_STATUS_MACROS_H_
