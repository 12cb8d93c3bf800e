#include "sim/cost/profile_tables.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "sim/cost/csv.h"
#include "sim/cost/text_proto.h"

namespace interleave::sim {
namespace {

constexpr const char* kRequiredFiles[] = {"dense.csv", "per_sequence.csv",
                                          "attention.csv"};
constexpr double kMostSlowdown = 10;
constexpr double kMostThrottleTokens = 1e6;
constexpr double kLargestLevelSize = 1e6;
constexpr double kMostLevel = 10;

constexpr const char* kOptionalFiles[] = {
    "skew_fit.csv", "layers.csv",         "host_overhead.csv", "throttle.csv",
    "levels.csv",   "linear_choices.csv", "meta.yaml"};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Keeps every product of axis lengths far from overflow and memory sane.
constexpr size_t kMaxGridPoints = size_t{1} << 24;

// Points of one grid, each with the line it came from.
struct Measured {
  std::map<std::vector<double>, std::pair<double, int64_t>> points;

  absl::Status Add(std::vector<double> at, double time, const TableRow& row,
                   int64_t line) {
    const auto [entry, fresh] =
        points.emplace(std::move(at), std::make_pair(time, line));
    if (fresh) return absl::OkStatus();
    return row.Error(absl::StrCat(
        "measured already in line ", entry->second.second, " (",
        absl::StrJoin(entry->first, ","), "); remove one of the two"));
  }

  bool TooLarge() const {
    if (points.empty()) return false;
    size_t size = 1;
    for (size_t i = 0; i < points.begin()->first.size(); ++i) {
      std::vector<double> axis;
      for (const auto& entry : points) axis.push_back(entry.first[i]);
      std::sort(axis.begin(), axis.end());
      size *= static_cast<size_t>(std::unique(axis.begin(), axis.end()) -
                                  axis.begin());
      if (size > kMaxGridPoints) return true;
    }
    return false;
  }

  Grid ToGrid() const {
    std::vector<GridPoint> list;
    for (const auto& [at, value] : points) list.push_back({at, value.first});
    return Grid(list);
  }
};

// One line of attention.csv.
struct AttentionRow {
  double chunk = 0;
  double context = 0;
  double sequences = 0;
  double cached = 0;
};

absl::StatusOr<AttentionRow> ReadAttentionRow(const TableRow& row) {
  double values[4];
  for (size_t i = 0; i < 4; ++i) {
    ASSIGN_OR_RETURN(const int64_t value, row.Count(i));
    values[i] = static_cast<double>(value);
  }
  const AttentionRow r = {values[0], values[1], values[2], values[3]};
  if (r.chunk == 0 && r.sequences == 0) {
    return row.Error("neither prefill nor decode; remove the line");
  }
  if (r.chunk == 0 && r.context != 0) {
    return row.Error("kv_prefill without prefill_chunk; remove the line");
  }
  if (r.sequences == 0 && r.cached != 0) {
    return row.Error("kv_decode without n_decode; remove the line");
  }
  return r;
}

absl::StatusOr<double> ParseBound(absl::string_view label,
                                  absl::string_view prefix) {
  absl::string_view rest = label;
  const absl::Status error = absl::InvalidArgumentError(
      absl::StrCat("label \"", label, "\"; expected ", prefix,
                   "<=N, =N or >N, N with an optional k or %"));
  if (!absl::ConsumePrefix(&rest, prefix)) return error;
  const bool above = absl::ConsumePrefix(&rest, ">");
  if (!above && !absl::ConsumePrefix(&rest, "<=") &&
      !absl::ConsumePrefix(&rest, "=")) {
    return error;
  }
  double scale = 1;
  if (absl::ConsumeSuffix(&rest, "k")) scale = 1024;
  if (absl::ConsumeSuffix(&rest, "%")) scale = 0.01;
  double value;
  if (!absl::SimpleAtod(rest, &value) || !(value >= 0 && value <= 1e12)) {
    return error;
  }
  return above ? kInfinity : value * scale;
}

absl::StatusOr<SkewTable::Row> ReadSkewRow(const TableRow& row) {
  constexpr absl::string_view kPrefixes[] = {"", "n", "sr", "kvB", "kp"};
  SkewTable::Row result;
  ASSIGN_OR_RETURN(const int64_t chunk, row.Count(0));
  result.bounds[0] = static_cast<double>(chunk);
  for (size_t i = 1; i < 5; ++i) {
    const absl::StatusOr<double> bound = ParseBound(row.Text(i), kPrefixes[i]);
    if (!bound.ok()) return row.Error(bound.status().message());
    result.bounds[i] = *bound;
  }
  ASSIGN_OR_RETURN(result.alpha, row.Number(5));
  if (!(result.alpha >= -100 && result.alpha <= 100)) {
    return row.Error(absl::StrCat("alpha is ", result.alpha,
                                  "; expected a number near 0 to 1"));
  }
  ASSIGN_OR_RETURN(result.samples, row.NonNegative(6));
  return result;
}

}  // namespace

SkewTable::SkewTable(const std::vector<Row>& rows) {
  for (size_t i = 0; i < 5; ++i) {
    for (const Row& row : rows) axes_[i].push_back(row.bounds[i]);
    std::sort(axes_[i].begin(), axes_[i].end());
    axes_[i].erase(std::unique(axes_[i].begin(), axes_[i].end()),
                   axes_[i].end());
  }
  const auto position = [&](size_t axis, double bound) {
    return static_cast<size_t>(
        std::lower_bound(axes_[axis].begin(), axes_[axis].end(), bound) -
        axes_[axis].begin());
  };
  const size_t inner = axes_[2].size() * axes_[3].size() * axes_[4].size();
  const size_t per_chunk = axes_[1].size() * inner;
  // Weighted sums: of all, by chunk, by chunk and sequences.
  struct Mean {
    double sum = 0;
    double weight = 0;
  };
  Mean all;
  std::vector<Mean> by_chunk(axes_[0].size());
  std::vector<Mean> by_sequences(axes_[0].size() * axes_[1].size());
  for (const Row& row : rows) {
    const size_t chunk = position(0, row.bounds[0]);
    const size_t both = chunk * axes_[1].size() + position(1, row.bounds[1]);
    for (Mean* mean : {&all, &by_chunk[chunk], &by_sequences[both]}) {
      mean->sum += row.alpha * row.samples;
      mean->weight += row.samples;
    }
  }
  alphas_.resize(axes_[0].size() * per_chunk);
  for (size_t i = 0; i < alphas_.size(); ++i) {
    for (const Mean& mean :
         {by_sequences[i / inner], by_chunk[i / per_chunk], all}) {
      if (mean.weight == 0) continue;
      alphas_[i] = mean.sum / mean.weight;
      break;
    }
  }
  for (const Row& row : rows) {
    size_t index = 0;
    for (size_t i = 0; i < 5; ++i) {
      index = index * axes_[i].size() + position(i, row.bounds[i]);
    }
    alphas_[index] = row.alpha;
  }
}

double SkewTable::Alpha(const Query& query) const {
  const double values[5] = {query.chunk, query.sequences, query.skew_rate,
                            query.longest, query.context};
  size_t index = 0;
  for (size_t i = 0; i < 5; ++i) {
    size_t bin = 0;
    while (bin + 1 < axes_[i].size() && axes_[i][bin] < values[i]) ++bin;
    index = index * axes_[i].size() + bin;
  }
  return alphas_[index];
}

absl::StatusOr<LayerCurves> ParseLayerCurves(absl::string_view text,
                                             absl::string_view source,
                                             absl::string_view size_column) {
  std::map<std::string, Measured> layers;
  RETURN_IF_ERROR(ForEachCsvRow(
      text, source, {"layer", size_column, "time_us"},
      [&](const TableRow& row) -> absl::Status {
        ASSIGN_OR_RETURN(const int64_t size, row.Count(1));
        ASSIGN_OR_RETURN(const double time, row.NonNegative(2));
        if (row.Text(0).empty()) return row.Error("no layer; name it");
        if (size < 1) {
          return row.Error(absl::StrCat(size_column, " is 0; remove the line"));
        }
        return layers[std::string(row.Text(0))].Add({static_cast<double>(size)},
                                                    time, row, row.line());
      }));
  LayerCurves curves;
  for (const auto& [layer, measured] : layers) {
    Curve& curve = curves[layer];
    for (const auto& [at, value] : measured.points) {
      curve.x.push_back(at[0]);
      curve.y.push_back(value.first);
    }
  }
  return curves;
}

absl::StatusOr<AttentionTables> ParseAttention(absl::string_view text,
                                               absl::string_view source) {
  Measured prefill;
  Measured decode;
  Measured mixed;
  RETURN_IF_ERROR(ForEachCsvRow(
      text, source,
      {"prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us"},
      [&](const TableRow& row) -> absl::Status {
        ASSIGN_OR_RETURN(const AttentionRow r, ReadAttentionRow(row));
        ASSIGN_OR_RETURN(const double time, row.NonNegative(4));
        if (r.chunk == 0) {
          return decode.Add({r.sequences, r.cached}, time, row, row.line());
        }
        if (r.sequences == 0) {
          return prefill.Add({r.chunk, r.context}, time, row, row.line());
        }
        return mixed.Add({r.chunk, r.context, r.sequences, r.cached}, time, row,
                         row.line());
      }));
  if (prefill.points.empty() || decode.points.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, ":1: no ", prefill.points.empty() ? "prefill" : "decode",
        "-only batch; measure some (n_decode 0, or prefill_chunk 0)"));
  }
  for (const Measured* measured : {&prefill, &decode, &mixed}) {
    if (!measured->TooLarge()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(source, ":1: the grid over all sizes has more than ",
                     kMaxGridPoints, " points; measure on a common grid"));
  }
  AttentionTables tables;
  tables.prefill = prefill.ToGrid();
  tables.decode = decode.ToGrid();
  if (!mixed.points.empty()) tables.mixed = mixed.ToGrid();
  return tables;
}

absl::StatusOr<SkewTable> ParseSkewFit(absl::string_view text,
                                       absl::string_view source) {
  std::vector<SkewTable::Row> rows;
  RETURN_IF_ERROR(ForEachCsvRow(
      text, source,
      {"pc", "n_label", "skew_rate_label", "kv_big_label", "kp_label", "alpha",
       "n_samples"},
      [&](const TableRow& row) -> absl::Status {
        ASSIGN_OR_RETURN(const SkewTable::Row skew, ReadSkewRow(row));
        rows.push_back(skew);
        return absl::OkStatus();
      }));
  double size = 1;
  for (size_t i = 0; i < 5; ++i) {
    std::vector<double> axis;
    for (const SkewTable::Row& row : rows) axis.push_back(row.bounds[i]);
    std::sort(axis.begin(), axis.end());
    size *= static_cast<double>(std::unique(axis.begin(), axis.end()) -
                                axis.begin());
  }
  if (size > static_cast<double>(kMaxGridPoints)) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ":1: the labels make more than ", kMaxGridPoints,
                     " combinations; fit on fewer"));
  }
  return SkewTable(rows);
}

std::map<std::string, std::string> ParseMeta(absl::string_view text) {
  std::map<std::string, std::string> meta;
  if (absl::StartsWith(text, "\xEF\xBB\xBF")) text.remove_prefix(3);
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos || colon == 0) continue;
    if (absl::ascii_isspace(static_cast<unsigned char>(line[0])) ||
        line[0] == '#' || line[0] == '-') {
      continue;
    }
    const absl::string_view value =
        absl::StripAsciiWhitespace(line.substr(colon + 1));
    if (!value.empty()) {
      meta[std::string(line.substr(0, colon))] = std::string(value);
    }
  }
  return meta;
}

absl::StatusOr<std::vector<LayerUse>> ParseLayerUses(absl::string_view text,
                                                     absl::string_view source) {
  std::vector<LayerUse> uses;
  RETURN_IF_ERROR(ForEachCsvRow(
      text, source, {"layer", "per_layer", "per_iteration", "batches"},
      [&](const TableRow& row) -> absl::Status {
        LayerUse use;
        use.set_layer(std::string(row.Text(0)));
        ASSIGN_OR_RETURN(const double per_layer, row.NonNegative(1));
        ASSIGN_OR_RETURN(const double per_iteration, row.NonNegative(2));
        use.set_per_layer(per_layer);
        use.set_per_iteration(per_iteration);
        LayerUse::Batches batches;
        if (!LayerUse::Batches_Parse(absl::AsciiStrToUpper(row.Text(3)),
                                     &batches)) {
          return row.Error(
              absl::StrCat("batches is \"", row.Text(3),
                           "\"; expected all, decodes_alone or with_prefill"));
        }
        use.set_batches(batches);
        uses.push_back(std::move(use));
        return absl::OkStatus();
      }));
  return uses;
}

absl::StatusOr<HostOverhead> ParseHostOverhead(absl::string_view text,
                                               absl::string_view source) {
  std::optional<HostOverhead> host;
  RETURN_IF_ERROR(ForEachCsvRow(
      text, source, {"constant_us", "per_sequence_us"},
      [&](const TableRow& row) -> absl::Status {
        if (host.has_value()) return row.Error("a second line; remove it");
        ASSIGN_OR_RETURN(const double constant, row.NonNegative(0));
        ASSIGN_OR_RETURN(const double per_sequence, row.NonNegative(1));
        if (constant > 1e9 || per_sequence > 1e9) {
          return row.Error("more than 1000 s; expected microseconds");
        }
        host = HostOverhead{SimDuration::Micros(constant),
                            SimDuration::Micros(per_sequence)};
        return absl::OkStatus();
      }));
  return *host;
}

absl::StatusOr<ThrottleTable> ParseThrottle(absl::string_view text,
                                            absl::string_view source) {
  std::optional<ThrottleTable> throttle;
  RETURN_IF_ERROR(ForEachCsvRow(
      text, source,
      {"time_constant_us", "compute_slowdown", "memory_slowdown",
       "memory_tokens", "compute_tokens", "memory_state"},
      [&](const TableRow& row) -> absl::Status {
        if (throttle.has_value()) return row.Error("a second line; remove it");
        double values[6];
        for (size_t i = 0; i < 6; ++i) {
          ASSIGN_OR_RETURN(values[i], row.NonNegative(i));
        }
        throttle = ThrottleTable{values[0], values[1], values[2],
                                 values[3], values[4], values[5]};
        if (values[0] != 0 && (values[0] < 1 || values[0] > 1e9)) {
          return row.Error(
              "time_constant_us must be 0, or between 1 us and 1000 s");
        }
        if (std::max(values[1], values[2]) > kMostSlowdown) {
          return row.Error("a slowdown above 10; expected a share, as 0.12");
        }
        if (values[0] > 0 && values[3] >= values[4]) {
          return row.Error("memory_tokens must be less than compute_tokens");
        }
        if (values[5] >= 1) {
          return row.Error("memory_state must be less than 1");
        }
        if (values[4] > kMostThrottleTokens) {
          return row.Error("compute_tokens is above a million");
        }
        return absl::OkStatus();
      }));
  return *throttle;
}

absl::StatusOr<Levels> ParseLevels(absl::string_view text,
                                   absl::string_view source) {
  std::map<std::string, std::vector<Level::Step>> steps = {
      {"with_prefill", {}}, {"decodes_alone", {}}};
  RETURN_IF_ERROR(ForEachCsvRow(
      text, source, {"batches", "up_to", "factor"},
      [&](const TableRow& row) -> absl::Status {
        const auto kind = steps.find(std::string(row.Text(0)));
        if (kind == steps.end()) {
          return row.Error("batches must be with_prefill or decodes_alone");
        }
        ASSIGN_OR_RETURN(const double up_to, row.NonNegative(1));
        ASSIGN_OR_RETURN(const double factor, row.NonNegative(2));
        if (up_to < 1 || up_to > kLargestLevelSize) {
          return row.Error("up_to must be between 1 and a million");
        }
        if (factor < 1 / kMostLevel || factor > kMostLevel) {
          return row.Error("factor must be between 0.1 and 10");
        }
        const auto last = static_cast<int64_t>(up_to);
        if (!kind->second.empty() && last <= kind->second.back().last) {
          return row.Error("up_to must ascend");
        }
        kind->second.push_back({last, factor});
        return absl::OkStatus();
      }));
  return Levels{Level(std::move(steps["with_prefill"])),
                Level(std::move(steps["decodes_alone"]))};
}

absl::StatusOr<ProfileTables> ParseProfileTables(
    const std::map<std::string, std::string>& files, absl::string_view source) {
  const auto path = [&](const char* file) {
    return absl::StrCat(source, "/", file);
  };
  for (const char* file : kRequiredFiles) {
    if (files.find(file) == files.end()) {
      return absl::NotFoundError(
          absl::StrCat(path(file), ": no such file; a profile has one"));
    }
  }
  ProfileTables tables;
  ASSIGN_OR_RETURN(tables.dense, ParseLayerCurves(files.at("dense.csv"),
                                                  path("dense.csv"), "tokens"));
  ASSIGN_OR_RETURN(tables.per_sequence,
                   ParseLayerCurves(files.at("per_sequence.csv"),
                                    path("per_sequence.csv"), "sequences"));
  ASSIGN_OR_RETURN(tables.attention, ParseAttention(files.at("attention.csv"),
                                                    path("attention.csv")));
  const auto text = [&](const char* file) {
    const auto found = files.find(file);
    return found == files.end() ? nullptr : &found->second;
  };
  if (const std::string* const skew = text("skew_fit.csv"); skew != nullptr) {
    ASSIGN_OR_RETURN(tables.skew, ParseSkewFit(*skew, path("skew_fit.csv")));
  }
  if (const std::string* const uses = text("layers.csv"); uses != nullptr) {
    ASSIGN_OR_RETURN(tables.layers, ParseLayerUses(*uses, path("layers.csv")));
  }
  if (const std::string* const host = text("host_overhead.csv");
      host != nullptr) {
    ASSIGN_OR_RETURN(tables.host,
                     ParseHostOverhead(*host, path("host_overhead.csv")));
  }
  if (const std::string* const throttle = text("throttle.csv");
      throttle != nullptr) {
    ASSIGN_OR_RETURN(tables.throttle,
                     ParseThrottle(*throttle, path("throttle.csv")));
  }
  if (const std::string* const levels = text("levels.csv"); levels != nullptr) {
    ASSIGN_OR_RETURN(tables.levels, ParseLevels(*levels, path("levels.csv")));
  }
  if (const std::string* const choices = text("linear_choices.csv");
      choices != nullptr) {
    tables.linear_choices = *choices;
  }
  if (const std::string* const meta = text("meta.yaml"); meta != nullptr) {
    tables.meta = ParseMeta(*meta);
  }
  return tables;
}

absl::StatusOr<ProfileTables> ReadProfileTables(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const char* file : kRequiredFiles) {
    ASSIGN_OR_RETURN(files[file], ReadFile(absl::StrCat(directory, "/", file)));
  }
  for (const char* file : kOptionalFiles) {
    absl::StatusOr<std::string> text =
        ReadFile(absl::StrCat(directory, "/", file));
    if (text.ok()) {
      files[file] = *std::move(text);
    } else if (!absl::IsNotFound(text.status())) {
      return text.status();
    }
  }
  return ParseProfileTables(files, directory);
}

}  // namespace interleave::sim
