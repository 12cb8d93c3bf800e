#include "scheduler/registry.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace interleave::scheduler {
namespace {

struct Entry {
  std::string description;
  PolicyFactory factory;
};

// Ordered, so that lists of names do not depend on the order of linking.
std::map<std::string, Entry>& Entries() {
  static auto* const entries = new std::map<std::string, Entry>;
  return *entries;
}

}  // namespace

bool RegisterPolicy(absl::string_view name, absl::string_view description,
                    PolicyFactory factory) {
  const bool inserted =
      Entries()
          .emplace(std::string(name),
                   Entry{std::string(description), std::move(factory)})
          .second;
  CHECK(inserted && "two policies of one name");
  return inserted;
}

absl::StatusOr<std::unique_ptr<Policy>> CreatePolicy(
    absl::string_view name, absl::string_view options) {
  const auto it = Entries().find(std::string(name));
  if (it != Entries().end()) return it->second.factory(options);
  const std::string known =
      absl::StrJoin(Entries(), ", ", [](std::string* out, const auto& entry) {
        absl::StrAppend(out, entry.first);
      });
  return absl::NotFoundError(absl::StrCat("no policy is called \"", name,
                                          "\"; linked in are: ", known));
}

std::vector<PolicyInfo> RegisteredPolicies() {
  std::vector<PolicyInfo> policies;
  for (const auto& [name, entry] : Entries()) {
    policies.push_back({name, entry.description});
  }
  return policies;
}

}  // namespace interleave::scheduler
