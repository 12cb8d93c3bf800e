// Debian builds Abseil's archives for executables: four of their objects reach
// thread-local variables in a way that a shared library cannot (local-exec).
// These definitions stand in for the two of them that absl::Status pulls in, so
// that the linker takes those from here and leaves the archives' alone. Only
// shared libraries link this.

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "absl/base/config.h"

#if defined(ABSL_LTS_RELEASE_VERSION) && ABSL_LTS_RELEASE_VERSION == 20220623

#include "absl/base/attributes.h"
#include "absl/base/internal/sysinfo.h"
#include "absl/strings/internal/cordz_functions.h"

namespace absl {
ABSL_NAMESPACE_BEGIN
namespace cord_internal {

// Cords are never sampled, and look again after this many.
constexpr int64_t kNever = int64_t{1} << 62;

ABSL_CONST_INIT thread_local int64_t cordz_next_sample = kNever;

bool cordz_should_profile_slow() {
  cordz_next_sample = kNever;
  return false;
}

int32_t get_cordz_mean_interval() { return 0; }
void set_cordz_mean_interval(int32_t) {}
void cordz_set_next_sample_for_testing(int64_t) {}

}  // namespace cord_internal

namespace base_internal {

double NominalCPUFrequency() { return 1.0; }  // unknown

int NumCPUs() {
  static const int count = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return count > 0 ? count : 1;
}

pid_t GetTID() { return static_cast<pid_t>(syscall(SYS_gettid)); }

pid_t GetCachedTID() {
  static thread_local const pid_t id = GetTID();
  return id;
}

}  // namespace base_internal
ABSL_NAMESPACE_END
}  // namespace absl

#endif  // Debian's Abseil
