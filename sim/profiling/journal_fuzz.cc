// libFuzzer: any bytes are a journal, which then goes on, or an error, which
// leaves them alone.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/sim_time.h"
#include "base/text_file.h"
#include "sim/profiling/batch_timer.h"
#include "sim/profiling/journal.h"

namespace interleave::sim {
namespace {

constexpr absl::string_view kSubject = "a card";
constexpr absl::string_view kHead = "# interleave profile: a card";

// A file in memory: a journal writes to the disk at each end.
class MemoryFile {
 public:
  explicit MemoryFile(absl::string_view text)
      : descriptor_(memfd_create("journal", MFD_CLOEXEC)) {
    CHECK(descriptor_ >= 0);
    CHECK_EQ(write(descriptor_, text.data(), text.size()),
             static_cast<ssize_t>(text.size()));
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(descriptor_); }

  std::string path() const {
    return absl::StrCat("/proc/self/fd/", descriptor_);
  }

 private:
  const int descriptor_;
};

void OpenAndGoOn(absl::string_view text) {
  const MemoryFile file(text);
  int64_t resumed = 0;
  {
    const absl::StatusOr<std::unique_ptr<Journal>> journal =
        Journal::Open(file.path(), kSubject);
    if (!journal.ok()) {
      CHECK(ReadTextFile(file.path()).value() == text);
      return;
    }
    // Nothing but a journal, or the beginning of one, was written over.
    CHECK(absl::StrContains(text, kHead) || absl::StartsWith(kHead, text));
    resumed = (*journal)->resumed();
    CHECK((*journal)
              ->Add("1@2|all", {SimDuration::Nanos(5), SimDuration::Nanos(3)})
              .ok());
  }
  const absl::StatusOr<std::unique_ptr<Journal>> again =
      Journal::Open(file.path(), kSubject);
  CHECK(again.ok());
  CHECK_EQ((*again)->resumed(), resumed + 1);
  CHECK_EQ((*again)->Find("1@2|all")->device.nanos(), 5);
  CHECK_EQ((*again)->Find("1@2|all")->host.nanos(), 3);
}

}  // namespace
}  // namespace interleave::sim

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  interleave::sim::OpenAndGoOn(
      absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
