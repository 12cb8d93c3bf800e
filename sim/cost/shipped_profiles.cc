#include "sim/cost/shipped_profiles.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "sim/cost/embedded_file.h"

namespace interleave::sim {
namespace {

using Files = std::map<std::string, std::string>;

// By the profile's name.
std::map<std::string, Files> ShippedFiles() {
  std::map<std::string, Files> profiles;
  for (const embedded::EmbeddedFile& file : embedded::ProfileFiles()) {
    const std::string path = file.name;
    const size_t slash = path.find('/');
    CHECK(slash != std::string::npos);
    profiles[path.substr(0, slash)][path.substr(slash + 1)] = file.text;
  }
  return profiles;
}

std::string Describe(const Files& files) {
  const auto text = files.find("meta.yaml");
  if (text == files.end()) return "";
  const std::map<std::string, std::string> meta = ParseMeta(text->second);
  std::vector<std::string> parts;
  for (const char* key : {"model_name", "gpu", "profiled_at"}) {
    const auto found = meta.find(key);
    if (found != meta.end()) parts.push_back(found->second);
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace

std::vector<NamedSpec> ListProfiles() {
  std::vector<NamedSpec> list;
  for (const auto& [name, files] : ShippedFiles()) {
    list.push_back({name, Describe(files)});
  }
  return list;
}

bool IsShippedProfile(absl::string_view name) {
  for (const NamedSpec& profile : ListProfiles()) {
    if (profile.name == name) return true;
  }
  return false;
}

std::string ShippedProfileFor(absl::string_view model,
                              absl::string_view device) {
  for (const auto& [name, files] : ShippedFiles()) {
    const auto text = files.find("meta.yaml");
    if (text == files.end()) continue;
    const std::map<std::string, std::string> meta = ParseMeta(text->second);
    const auto is = [&](const char* key, absl::string_view value) {
      const auto found = meta.find(key);
      return found != meta.end() && found->second == value;
    };
    if (is("model_name", model) && is("device_name", device)) return name;
  }
  return "";
}

absl::StatusOr<ProfileTables> LoadProfile(const ProfileOptions& options) {
  const std::map<std::string, Files> shipped = ShippedFiles();
  const auto known = [&] {
    return absl::StrJoin(
        shipped, ", ",
        [](std::string* out, const auto& entry) { out->append(entry.first); });
  };
  if (options.directory().empty() == options.name().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.name().empty()
            ? "profile option directory is empty; give the folder with "
              "dense.csv, per_sequence.csv and attention.csv, or as name a "
              "shipped profile: "
            : "profile options directory and name are both given; give one of "
              "them; shipped profiles are: ",
        known()));
  }
  if (options.name().empty()) return ReadProfileTables(options.directory());
  const auto found = shipped.find(options.name());
  if (found == shipped.end()) {
    return absl::NotFoundError(absl::StrCat(
        "unknown profile \"", options.name(), "\"; known are: ", known(),
        "; or give a folder with tables as directory"));
  }
  return ParseProfileTables(found->second, options.name());
}

absl::Status SettleHostOverhead(CostModelConfig* config) {
  if (!config->has_profile() || config->has_host_overhead()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const ProfileTables tables, LoadProfile(config->profile()));
  if (!tables.host.has_value()) return absl::OkStatus();
  HostOverheadOptions& host = *config->mutable_host_overhead();
  host.set_constant_us(tables.host->constant.micros());
  host.set_per_sequence_us(tables.host->per_sequence.micros());
  return absl::OkStatus();
}

}  // namespace interleave::sim
