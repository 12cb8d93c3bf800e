#include "sim/cost/kernel_tables.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "sim/cost/csv.h"

namespace interleave::sim {
namespace {

constexpr size_t kMaxGridPoints = size_t{1} << 24;

// Averages repeated points.
class Averages {
 public:
  void Add(std::vector<double> at, double value) {
    auto& [sum, count] = points_[std::move(at)];
    sum += value;
    count += 1;
  }

  bool empty() const { return points_.empty(); }

  absl::StatusOr<Grid> ToGrid(absl::string_view source) const {
    double size = 1;
    for (size_t i = 0; i < points_.begin()->first.size(); ++i) {
      std::set<double> axis;
      for (const auto& entry : points_) axis.insert(entry.first[i]);
      size *= static_cast<double>(axis.size());
    }
    if (size > static_cast<double>(kMaxGridPoints)) {
      return absl::InvalidArgumentError(
          absl::StrCat(source, ":1: the grid over all sizes has more than ",
                       kMaxGridPoints, " points; measure on a common grid"));
    }
    std::vector<GridPoint> list;
    list.reserve(points_.size());
    for (const auto& [at, value] : points_) {
      list.push_back({at, value.first / value.second});
    }
    return Grid(list);
  }

 private:
  std::map<std::vector<double>, std::pair<double, double>> points_;
};

absl::Status NoRows(absl::string_view source, absl::string_view wanted,
                    const std::set<std::string>& there) {
  return absl::InvalidArgumentError(
      absl::StrCat(source, ":1: no rows for ", wanted,
                   "; there are: ", absl::StrJoin(there, ", ")));
}

// A size: a whole number from 1.
absl::StatusOr<double> Size(const TableRow& row, size_t i) {
  ASSIGN_OR_RETURN(const int64_t value, row.Count(i));
  if (value < 1) return row.Error("a size is 0; remove the line");
  return static_cast<double>(value);
}

}  // namespace

absl::StatusOr<Grid> ParseGemm(absl::string_view text, absl::string_view source,
                               absl::string_view format) {
  Averages averages;
  std::set<std::string> formats;
  RETURN_IF_ERROR(
      ForEachCsvRow(text, source, {"gemm_dtype", "m", "n", "k", "latency_ms"},
                    [&](const TableRow& row) -> absl::Status {
                      if (row.Text(0) != format) {
                        if (formats.size() < 20)
                          formats.insert(std::string(row.Text(0)));
                        return absl::OkStatus();
                      }
                      ASSIGN_OR_RETURN(const double m, Size(row, 1));
                      ASSIGN_OR_RETURN(const double n, Size(row, 2));
                      ASSIGN_OR_RETURN(const double k, Size(row, 3));
                      ASSIGN_OR_RETURN(const double ms, row.NonNegative(4));
                      averages.Add({n, k, m}, ms);
                      return absl::OkStatus();
                    }));
  if (averages.empty()) {
    return NoRows(source, absl::StrCat("gemm_dtype \"", format, "\""), formats);
  }
  return averages.ToGrid(source);
}

absl::StatusOr<Grid> ParseAttentionKernels(absl::string_view text,
                                           absl::string_view source,
                                           const AttentionShape& shape) {
  Averages averages;
  std::set<std::string> shapes;
  RETURN_IF_ERROR(ForEachCsvRow(
      text, source,
      {"batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim",
       "kv_cache_dtype", "step", "window_size", "latency_ms"},
      [&](const TableRow& row) -> absl::Status {
        ASSIGN_OR_RETURN(const int64_t window, row.Count(7));
        if (window != 0) return absl::OkStatus();
        ASSIGN_OR_RETURN(const int64_t kv_heads, row.Count(3));
        ASSIGN_OR_RETURN(const int64_t head_dim, row.Count(4));
        if (kv_heads != shape.kv_heads || head_dim != shape.head_dim ||
            row.Text(5) != shape.kv_format) {
          if (shapes.size() < 50) {
            shapes.insert(
                absl::StrCat(kv_heads, " x ", head_dim, " ", row.Text(5)));
          }
          return absl::OkStatus();
        }
        ASSIGN_OR_RETURN(const double sequences, Size(row, 0));
        ASSIGN_OR_RETURN(const double computed, Size(row, 1));
        ASSIGN_OR_RETURN(const double heads, Size(row, 2));
        ASSIGN_OR_RETURN(const int64_t step, row.Count(6));
        ASSIGN_OR_RETURN(const double ms, row.NonNegative(8));
        averages.Add({heads, sequences, computed + static_cast<double>(step)},
                     ms);
        return absl::OkStatus();
      }));
  if (averages.empty()) {
    return NoRows(source,
                  absl::StrCat("KV heads x head_dim format ", shape.kv_heads,
                               " x ", shape.head_dim, " ", shape.kv_format),
                  shapes);
  }
  return averages.ToGrid(source);
}

absl::StatusOr<Curve> ParseAllReduce(absl::string_view text,
                                     absl::string_view source,
                                     absl::string_view backend,
                                     int64_t num_devices) {
  std::map<double, std::pair<double, double>> points;
  std::set<std::string> there;
  RETURN_IF_ERROR(ForEachCsvRow(
      text, source, {"num_gpus", "message_size", "latency_ms", "backend"},
      [&](const TableRow& row) -> absl::Status {
        ASSIGN_OR_RETURN(const int64_t devices, row.Count(0));
        if (devices != num_devices || row.Text(3) != backend) {
          if (there.size() < 20) {
            there.insert(absl::StrCat(devices, " x ", row.Text(3)));
          }
          return absl::OkStatus();
        }
        ASSIGN_OR_RETURN(const double size, Size(row, 1));
        ASSIGN_OR_RETURN(const double ms, row.NonNegative(2));
        points[size].first += ms;
        points[size].second += 1;
        return absl::OkStatus();
      }));
  if (points.empty()) {
    return NoRows(
        source, absl::StrCat("devices x backend ", num_devices, " x ", backend),
        there);
  }
  Curve curve;
  for (const auto& [size, sum] : points) {
    curve.x.push_back(size);
    curve.y.push_back(sum.first / sum.second);
  }
  return curve;
}

absl::StatusOr<std::string> FindKernelTable(const std::string& directory,
                                            absl::string_view system,
                                            absl::string_view kind) {
  const std::string begin = absl::StrCat(system, "_");
  const std::string end = absl::StrCat("_", kind, "_perf.csv");
  std::error_code error;
  std::filesystem::directory_iterator entries(directory, error);
  std::vector<std::string> found;
  while (!error && entries != std::filesystem::directory_iterator()) {
    const std::string name = entries->path().filename().string();
    if (absl::StartsWith(name, begin) &&
        (absl::EndsWith(name, end) ||
         absl::EndsWith(name, absl::StrCat(end, ".gz")))) {
      found.push_back(entries->path().string());
    }
    entries.increment(error);
  }
  if (error) {
    return absl::NotFoundError(
        absl::StrCat(directory, ": cannot be read: ", error.message()));
  }
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat(directory, ": no file ", begin, "*",
                                            end, " or ", begin, "*", end,
                                            ".gz"));
  }
  return *std::max_element(found.begin(), found.end());
}

}  // namespace interleave::sim
