#include "sim/cost/specs.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "sim/cost/embedded_file.h"
#include "sim/cost/text_proto.h"

namespace interleave::sim {
namespace {

template <typename Spec>
std::vector<NamedSpec> List(absl::Span<const embedded::EmbeddedFile> files) {
  std::vector<NamedSpec> list;
  for (const embedded::EmbeddedFile& file : files) {
    Spec spec;
    CHECK(ParseTextProto(file.text, file.name, &spec).ok());
    list.push_back({file.name, spec.description()});
  }
  return list;
}

bool IsPath(absl::string_view name) {
  return absl::StrContains(name, "/") || absl::EndsWith(name, ".textproto");
}

std::string Names(absl::Span<const embedded::EmbeddedFile> files) {
  return absl::StrJoin(files, ", ",
                       [](std::string* out, const embedded::EmbeddedFile& f) {
                         out->append(f.name);
                       });
}

template <typename Spec>
absl::StatusOr<Spec> Lookup(absl::string_view kind, absl::string_view name,
                            absl::Span<const embedded::EmbeddedFile> files) {
  Spec spec;
  if (IsPath(name)) {
    const std::string path(name);
    ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    RETURN_IF_ERROR(ParseTextProto(text, path, &spec));
    if (!spec.has_name()) spec.set_name(path);
    return spec;
  }
  for (const embedded::EmbeddedFile& file : files) {
    if (name != file.name) continue;
    RETURN_IF_ERROR(ParseTextProto(file.text, file.name, &spec));
    return spec;
  }
  return absl::NotFoundError(absl::StrCat(
      "unknown ", kind, " \"", name, "\"; known are: ", Names(files),
      "; or give the path of a text file that ends in .textproto"));
}

struct Field {
  const char* name;
  double value;
  double smallest;
  double largest;
};

absl::Status CheckFields(absl::string_view spec, absl::string_view kind,
                         absl::Span<const Field> fields) {
  for (const Field& field : fields) {
    // Written so that a NaN fails.
    if (field.value >= field.smallest && field.value <= field.largest) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        kind, " \"", spec, "\": ", field.name, " is ", field.value,
        "; it must be between ", field.smallest, " and ", field.largest));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<NamedSpec> ListModels() {
  return List<ModelSpec>(embedded::ModelFiles());
}

std::vector<NamedSpec> ListDevices() {
  return List<DeviceSpec>(embedded::DeviceFiles());
}

absl::Status ValidateModel(const ModelSpec& m) {
  // Bounds that no model comes near and that keep every product in range.
  const Field fields[] = {
      {"num_layers", static_cast<double>(m.num_layers()), 1, 10'000},
      {"hidden_size", static_cast<double>(m.hidden_size()), 1, 1'000'000},
      {"num_heads", static_cast<double>(m.num_heads()), 1, 100'000},
      {"num_kv_heads", static_cast<double>(m.num_kv_heads()), 1,
       static_cast<double>(m.num_heads())},
      {"head_dim", static_cast<double>(m.head_dim()), 1, 100'000},
      {"intermediate_size", static_cast<double>(m.intermediate_size()), 1,
       10'000'000},
      {"vocab_size", static_cast<double>(m.vocab_size()), 1, 100'000'000},
      {"num_experts", static_cast<double>(m.num_experts()), 0, 100'000},
      {"experts_per_token", static_cast<double>(m.experts_per_token()),
       m.num_experts() > 0 ? 1.0 : 0.0, static_cast<double>(m.num_experts())},
  };
  RETURN_IF_ERROR(CheckFields(m.name(), "model", fields));
  if (m.num_heads() % m.num_kv_heads() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model \"", m.name(), "\": num_heads ", m.num_heads(),
                     " is no multiple of num_kv_heads ", m.num_kv_heads()));
  }
  return absl::OkStatus();
}

absl::Status ValidateDevice(const DeviceSpec& d) {
  const Field fields[] = {
      {"bf16_flops_per_s", d.bf16_flops_per_s(), 1e6, 1e21},
      {"fp8_flops_per_s", d.fp8_flops_per_s(), 0, 1e21},
      {"memory_bytes_per_s", d.memory_bytes_per_s(), 1e3, 1e18},
      {"memory_bytes", static_cast<double>(d.memory_bytes()), 1, 1e18},
      {"host_link_bytes_per_s", d.host_link_bytes_per_s(), 1e3, 1e18},
      {"interconnect_bytes_per_s", d.interconnect_bytes_per_s(), 1e3, 1e18},
      {"all_reduce_latency_us", d.all_reduce_latency_us(), 0, 1e9},
  };
  return CheckFields(d.name(), "device", fields);
}

absl::StatusOr<ModelSpec> LookupModel(absl::string_view name_or_path) {
  ASSIGN_OR_RETURN(ModelSpec model, Lookup<ModelSpec>("model", name_or_path,
                                                      embedded::ModelFiles()));
  RETURN_IF_ERROR(ValidateModel(model));
  return model;
}

absl::StatusOr<DeviceSpec> LookupDevice(absl::string_view name_or_path) {
  ASSIGN_OR_RETURN(
      DeviceSpec device,
      Lookup<DeviceSpec>("device", name_or_path, embedded::DeviceFiles()));
  RETURN_IF_ERROR(ValidateDevice(device));
  return device;
}

}  // namespace interleave::sim
