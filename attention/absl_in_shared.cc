// Debian builds Abseil's archives for executables: some of their objects reach
// thread-local variables in ways that a library loaded at run time cannot
// (local-exec and initial-exec). absl::Status pulls two of them in. These
// definitions stand in for what it needs of them, so that the linker leaves
// them alone. Only shared libraries link this.

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/base/config.h"

#if defined(ABSL_LTS_RELEASE_VERSION) && ABSL_LTS_RELEASE_VERSION == 20220623

#include "absl/base/internal/sysinfo.h"
#include "absl/strings/cord.h"
#include "absl/strings/internal/cordz_info.h"

namespace absl {
ABSL_NAMESPACE_BEGIN

// A Cord exists only as the payload of a Status, and no library that links this
// attaches one: none of these is ever called.
void Cord::DestroyCordSlow() { std::abort(); }
void Cord::InlineRep::UnrefTree() { std::abort(); }
bool Cord::EqualsImpl(const Cord&, size_t) const { std::abort(); }
Cord::operator std::string() const { std::abort(); }

namespace cord_internal {

void CordzInfo::MaybeTrackCordImpl(InlineData&, const InlineData&,
                                   MethodIdentifier) {
  std::abort();
}

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
