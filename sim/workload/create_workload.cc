#include "sim/workload/create_workload.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/random.h"
#include "base/sim_time.h"
#include "base/status_macros.h"
#include "scheduler/request_spec.h"
#include "sim/workload/arrival_law.h"
#include "sim/workload/closed_loop_workload.h"
#include "sim/workload/length_law.h"
#include "sim/workload/open_loop_workload.h"
#include "sim/workload/request_source.h"
#include "sim/workload/token_limits.h"
#include "sim/workload/trace_reader.h"
#include "sim/workload/workload.h"
#include "sim/workload/workload.pb.h"

namespace interleave::sim {
namespace {

using ::interleave::scheduler::RequestSpec;

constexpr double kMinRate = 1e-3;
constexpr double kMaxRate = 1e9;
constexpr double kMaxCv = 100;
constexpr double kMaxSigma = 10;
constexpr double kMaxExponent = 20;
constexpr double kMaxThinkSeconds = 1e6;
constexpr double kMaxSloMillis = 1e12;
constexpr double kMaxWeight = 1e9;
constexpr double kMinWeight = 1e-9;
constexpr int32_t kMaxUsers = 10'000'000;
constexpr int32_t kMaxPrefixes = 1'000'000'000;
constexpr int64_t kMaxRequests = 1'000'000'000'000;

absl::Status FieldError(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(field, " ", what));
}

// Refuses a number outside [low, high], NaN, and one that must be given and is
// not.
template <typename Number>
absl::Status CheckRange(absl::string_view field, bool given, Number value,
                        Number low, Number high) {
  if (!given) {
    return FieldError(field, absl::StrCat("is missing; set it to a number in [",
                                          low, ", ", high, "]"));
  }
  if (!(value >= low && value <= high)) {
    return FieldError(field, absl::StrCat("is ", value, "; it must be in [",
                                          low, ", ", high, "]"));
  }
  return absl::OkStatus();
}

absl::Status CheckRate(absl::string_view field, bool given, double rate) {
  if (given && std::isinf(rate) && rate > 0) {
    return FieldError(field,
                      "is infinite; for all requests at time zero use "
                      "arrival { all_at_once {} }");
  }
  return CheckRange(field, given, rate, kMinRate, kMaxRate);
}

absl::Status CheckTokens(absl::string_view field, bool given, int32_t tokens) {
  return CheckRange(field, given, tokens, 1, kMaxTokens);
}

absl::Status CheckOrder(absl::string_view field, int32_t low, int32_t high) {
  if (low <= high) return absl::OkStatus();
  return FieldError(field, absl::StrCat("has min ", low, " above max ", high,
                                        "; exchange them"));
}

// A trace for its lengths alone.
absl::StatusOr<TraceReadResult> ReadLengthFile(absl::string_view field,
                                               const LengthFileConfig& config) {
  if (config.path().empty()) {
    return FieldError(absl::StrCat(field, ".path"),
                      "is missing; set it to the path of a trace");
  }
  // Its notices speak of arrivals, which do not matter here.
  return ReadTrace(config.path(), config.format());
}

enum class Purpose { kPrompt, kOutput };

absl::StatusOr<std::unique_ptr<LengthLaw>> CreateLogNormal(
    absl::string_view field, const LogNormalLengthConfig& config) {
  RETURN_IF_ERROR(CheckRange(absl::StrCat(field, ".mean"), config.has_mean(),
                             config.mean(), 1.0, double{kMaxTokens}));
  if (config.has_sigma() == config.has_cv()) {
    return FieldError(field, "needs exactly one of sigma and cv");
  }
  RETURN_IF_ERROR(CheckRange(absl::StrCat(field, ".sigma"), true,
                             config.sigma(), 0.0, kMaxSigma));
  RETURN_IF_ERROR(
      CheckRange(absl::StrCat(field, ".cv"), true, config.cv(), 0.0, kMaxCv));
  RETURN_IF_ERROR(CheckTokens(absl::StrCat(field, ".min"), true, config.min()));
  RETURN_IF_ERROR(CheckTokens(absl::StrCat(field, ".max"), true, config.max()));
  RETURN_IF_ERROR(CheckOrder(field, config.min(), config.max()));
  const double sigma =
      config.has_cv() ? LogNormalSigmaFromCv(config.cv()) : config.sigma();
  return MakeLogNormalLength(config.mean(), sigma, config.min(), config.max());
}

absl::StatusOr<std::unique_ptr<LengthLaw>> CreateZipf(
    absl::string_view field, const ZipfLengthConfig& config) {
  RETURN_IF_ERROR(
      CheckTokens(absl::StrCat(field, ".min"), config.has_min(), config.min()));
  RETURN_IF_ERROR(
      CheckTokens(absl::StrCat(field, ".max"), config.has_max(), config.max()));
  RETURN_IF_ERROR(CheckOrder(field, config.min(), config.max()));
  RETURN_IF_ERROR(CheckRange(absl::StrCat(field, ".exponent"),
                             config.has_exponent(), config.exponent(), 0.0,
                             kMaxExponent));
  return MakeZipfLength(config.min(), config.max(), config.exponent());
}

absl::StatusOr<std::unique_ptr<LengthLaw>> CreateUniform(
    absl::string_view field, const UniformLengthConfig& config) {
  RETURN_IF_ERROR(
      CheckTokens(absl::StrCat(field, ".min"), config.has_min(), config.min()));
  RETURN_IF_ERROR(
      CheckTokens(absl::StrCat(field, ".max"), config.has_max(), config.max()));
  RETURN_IF_ERROR(CheckOrder(field, config.min(), config.max()));
  return MakeUniformLength(config.min(), config.max());
}

absl::StatusOr<std::unique_ptr<LengthLaw>> CreateResampled(
    absl::string_view field, const LengthFileConfig& config, Purpose purpose) {
  ASSIGN_OR_RETURN(const TraceReadResult trace, ReadLengthFile(field, config));
  std::vector<int32_t> lengths;
  lengths.reserve(trace.requests.size());
  for (const RequestSpec& spec : trace.requests) {
    lengths.push_back(purpose == Purpose::kPrompt ? spec.prompt_tokens
                                                  : spec.output_tokens);
  }
  return MakeResampledLength(std::move(lengths));
}

absl::StatusOr<std::unique_ptr<LengthLaw>> CreateLengthLaw(
    absl::string_view field, const LengthConfig& config, Purpose purpose) {
  switch (config.law_case()) {
    case LengthConfig::kFixed:
      RETURN_IF_ERROR(CheckTokens(absl::StrCat(field, ".fixed.tokens"),
                                  config.fixed().has_tokens(),
                                  config.fixed().tokens()));
      return MakeFixedLength(config.fixed().tokens());
    case LengthConfig::kUniform:
      return CreateUniform(absl::StrCat(field, ".uniform"), config.uniform());
    case LengthConfig::kLognormal:
      return CreateLogNormal(absl::StrCat(field, ".lognormal"),
                             config.lognormal());
    case LengthConfig::kZipf:
      return CreateZipf(absl::StrCat(field, ".zipf"), config.zipf());
    case LengthConfig::kResampled:
      return CreateResampled(absl::StrCat(field, ".resampled"),
                             config.resampled(), purpose);
    case LengthConfig::LAW_NOT_SET:
      break;
  }
  return FieldError(field,
                    "has no law; set one of fixed, uniform, lognormal, zipf, "
                    "resampled");
}

absl::StatusOr<std::unique_ptr<RequestSource>> CreateGenerator(
    const GeneratorConfig& config, const Rng& rng) {
  if (config.has_length_pairs()) {
    if (config.has_prompt_tokens() || config.has_output_tokens()) {
      return FieldError("generator.length_pairs",
                        "gives prompts and outputs; remove prompt_tokens and "
                        "output_tokens");
    }
    ASSIGN_OR_RETURN(
        const TraceReadResult trace,
        ReadLengthFile("generator.length_pairs", config.length_pairs()));
    std::vector<std::pair<int32_t, int32_t>> pairs;
    pairs.reserve(trace.requests.size());
    for (const RequestSpec& spec : trace.requests) {
      pairs.emplace_back(spec.prompt_tokens, spec.output_tokens);
    }
    return MakePairSource(std::move(pairs), rng);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<LengthLaw> prompt,
                   CreateLengthLaw("generator.prompt_tokens",
                                   config.prompt_tokens(), Purpose::kPrompt));
  ASSIGN_OR_RETURN(std::unique_ptr<LengthLaw> output,
                   CreateLengthLaw("generator.output_tokens",
                                   config.output_tokens(), Purpose::kOutput));
  return MakeLengthSource(std::move(prompt), std::move(output), rng);
}

// The factor by which a trace's arrivals are sped up.
absl::StatusOr<double> RateFactor(const TraceConfig& config,
                                  const std::vector<RequestSpec>& requests) {
  if (config.has_rate_scale() && config.has_rate_rps()) {
    return FieldError("trace", "has both rate_scale and rate_rps; remove one");
  }
  if (config.has_rate_scale()) {
    RETURN_IF_ERROR(
        CheckRange("trace.rate_scale", true, config.rate_scale(), 1e-6, 1e6));
    return config.rate_scale();
  }
  if (!config.has_rate_rps()) return 1.0;
  RETURN_IF_ERROR(CheckRate("trace.rate_rps", true, config.rate_rps()));
  const double span_s =
      (requests.back().arrival - requests.front().arrival).seconds();
  if (span_s <= 0) {
    return FieldError("trace.rate_rps",
                      "cannot be reached: all requests arrive at once; use "
                      "arrival instead");
  }
  const double gaps = static_cast<double>(requests.size() - 1);
  return config.rate_rps() * span_s / gaps;
}

absl::StatusOr<std::vector<SimTime>> ScaledArrivals(
    const TraceConfig& config, const std::vector<RequestSpec>& requests) {
  ASSIGN_OR_RETURN(const double factor, RateFactor(config, requests));
  if (requests.back().arrival.seconds() / factor > kMaxArrivalSeconds) {
    return FieldError(
        "trace", absl::StrCat("stretches over more than ", kMaxArrivalSeconds,
                              " s; raise its rate"));
  }
  std::vector<SimTime> arrivals;
  arrivals.reserve(requests.size());
  for (const RequestSpec& spec : requests) {
    const double nanos = static_cast<double>(spec.arrival.nanos()) / factor;
    arrivals.push_back(factor == 1.0 ? spec.arrival
                                     : SimTime::FromNanos(std::llround(nanos)));
  }
  return arrivals;
}

bool NamesPrefixes(const std::vector<RequestSpec>& requests) {
  return std::any_of(
      requests.begin(), requests.end(),
      [](const RequestSpec& spec) { return !spec.segments.empty(); });
}

absl::StatusOr<RequestClass> CreateClass(int index,
                                         const RequestClassConfig& config) {
  const std::string field = absl::StrCat("request_class[", index, "]");
  RETURN_IF_ERROR(CheckRange(absl::StrCat(field, ".weight"), true,
                             config.weight(), kMinWeight, kMaxWeight));
  RETURN_IF_ERROR(CheckRange(absl::StrCat(field, ".tenant"), true,
                             config.tenant(), 0, kMaxTenant));
  RequestClass result;
  result.weight = config.weight();
  result.tenant = config.tenant();
  result.priority = config.priority();
  constexpr double kMinSloMillis = 1e-6;
  if (config.has_ttft_slo_ms()) {
    RETURN_IF_ERROR(CheckRange(absl::StrCat(field, ".ttft_slo_ms"), true,
                               config.ttft_slo_ms(), kMinSloMillis,
                               kMaxSloMillis));
    result.slo.ttft = SimDuration::Millis(config.ttft_slo_ms());
  }
  if (config.has_tbt_slo_ms()) {
    RETURN_IF_ERROR(CheckRange(absl::StrCat(field, ".tbt_slo_ms"), true,
                               config.tbt_slo_ms(), kMinSloMillis,
                               kMaxSloMillis));
    result.slo.tbt = SimDuration::Millis(config.tbt_slo_ms());
  }
  return result;
}

absl::StatusOr<SharedPrefixes> CreatePrefixes(
    const SharedPrefixConfig& config) {
  RETURN_IF_ERROR(
      CheckRange("shared_prefix.fraction", true, config.fraction(), 0.0, 1.0));
  RETURN_IF_ERROR(CheckRange("shared_prefix.num_prefixes", true,
                             config.num_prefixes(), 1, kMaxPrefixes));
  RETURN_IF_ERROR(CheckTokens("shared_prefix.tokens", config.has_tokens(),
                              config.tokens()));
  RETURN_IF_ERROR(CheckRange("shared_prefix.zipf_exponent", true,
                             config.zipf_exponent(), 0.0, kMaxExponent));
  SharedPrefixes prefixes;
  prefixes.fraction = config.fraction();
  prefixes.num_prefixes = config.num_prefixes();
  prefixes.tokens = config.tokens();
  prefixes.exponent = config.zipf_exponent();
  return prefixes;
}

// Puts a workload together in the order of the configuration's fields.
class WorkloadBuilder {
 public:
  WorkloadBuilder(const WorkloadConfig& config, uint64_t seed,
                  std::vector<std::string>* notices)
      : config_(config), rng_(Rng(seed).Fork("workload")), notices_(notices) {}

  absl::StatusOr<std::unique_ptr<Workload>> Build() {
    if (config_.has_num_requests()) {
      RETURN_IF_ERROR(CheckRange("num_requests", true, config_.num_requests(),
                                 int64_t{1}, kMaxRequests));
    }
    switch (config_.source_case()) {
      case WorkloadConfig::kTrace:
        return BuildFromTrace();
      case WorkloadConfig::kGenerator:
        return BuildFromGenerator();
      case WorkloadConfig::SOURCE_NOT_SET:
        break;
    }
    return absl::InvalidArgumentError(
        "the workload has no source; set trace or generator");
  }

 private:
  absl::StatusOr<std::unique_ptr<Workload>> BuildFromGenerator() {
    if (!config_.has_arrival()) {
      return FieldError("arrival", "is missing; a generator needs it");
    }
    if (!config_.has_num_requests()) {
      return FieldError("num_requests",
                        "is missing; a generator never ends by itself");
    }
    ASSIGN_OR_RETURN(std::unique_ptr<RequestSource> source,
                     CreateGenerator(config_.generator(), rng_));
    ASSIGN_OR_RETURN(source, Decorate(std::move(source)));
    return WithArrivals(std::move(source), config_.num_requests());
  }

  absl::StatusOr<std::unique_ptr<Workload>> BuildFromTrace() {
    const TraceConfig& config = config_.trace();
    if (config.path().empty()) {
      return FieldError("trace.path",
                        "is missing; set it to the path of a trace");
    }
    ASSIGN_OR_RETURN(TraceReadResult trace,
                     ReadTrace(config.path(), config.format()));
    RETURN_IF_ERROR(CheckTraceFits(trace));
    for (std::string& notice : trace.notices) Notify(std::move(notice));
    LimitRequests(trace.requests);
    NotifyOfCutOutputs(trace.requests);
    if (config_.has_arrival()) {
      const int64_t num_requests = static_cast<int64_t>(trace.requests.size());
      ASSIGN_OR_RETURN(std::unique_ptr<RequestSource> source,
                       Decorate(MakeListSource(std::move(trace.requests))));
      return WithArrivals(std::move(source), num_requests);
    }
    ASSIGN_OR_RETURN(std::vector<SimTime> arrivals,
                     ScaledArrivals(config, trace.requests));
    ASSIGN_OR_RETURN(std::unique_ptr<RequestSource> source,
                     Decorate(MakeListSource(std::move(trace.requests))));
    return MakeTimedWorkload(std::move(arrivals), std::move(source));
  }

  // What the trace says must not be said again by the configuration.
  absl::Status CheckTraceFits(const TraceReadResult& trace) const {
    const std::string& path = config_.trace().path();
    if (!trace.has_arrivals && !config_.has_arrival()) {
      return FieldError(
          "arrival",
          absl::StrCat("is missing; ", path, " has lengths only: set a law"));
    }
    if (config_.has_arrival() &&
        (config_.trace().has_rate_scale() || config_.trace().has_rate_rps())) {
      return FieldError("arrival",
                        "replaces the trace's arrivals; remove it, or "
                        "trace.rate_scale and trace.rate_rps");
    }
    if (trace.has_classes && config_.request_class_size() > 0) {
      return FieldError("request_class",
                        absl::StrCat("must be absent: ", path,
                                     " has columns for tenant, priority or "
                                     "SLOs; remove either"));
    }
    if (config_.has_shared_prefix() && NamesPrefixes(trace.requests)) {
      return FieldError("shared_prefix",
                        absl::StrCat("must be absent: ", path,
                                     " names its prompts' prefixes; remove "
                                     "either"));
    }
    return absl::OkStatus();
  }

  void LimitRequests(std::vector<RequestSpec>& requests) {
    if (!config_.has_num_requests()) return;
    const int64_t size = static_cast<int64_t>(requests.size());
    if (config_.num_requests() > size) {
      Notify(absl::StrCat(config_.trace().path(), ": num_requests is ",
                          config_.num_requests(), ", the file has ", size,
                          ": all of them are used"));
      return;
    }
    requests.resize(static_cast<size_t>(config_.num_requests()));
  }

  void NotifyOfCutOutputs(const std::vector<RequestSpec>& requests) {
    if (!config_.has_max_output_tokens()) return;
    const int32_t limit = config_.max_output_tokens();
    const int64_t cut = std::count_if(requests.begin(), requests.end(),
                                      [limit](const RequestSpec& spec) {
                                        return spec.output_tokens > limit;
                                      });
    if (cut == 0) return;
    Notify(absl::StrCat(config_.trace().path(), ": ", cut, " of ",
                        requests.size(), " outputs cut to max_output_tokens ",
                        limit));
  }

  absl::StatusOr<std::unique_ptr<RequestSource>> Decorate(
      std::unique_ptr<RequestSource> source) const {
    if (config_.request_class_size() > 0) {
      std::vector<RequestClass> classes;
      for (int i = 0; i < config_.request_class_size(); ++i) {
        ASSIGN_OR_RETURN(classes.emplace_back(),
                         CreateClass(i, config_.request_class(i)));
      }
      source = WithClasses(std::move(source), std::move(classes), rng_);
    }
    if (config_.has_shared_prefix()) {
      ASSIGN_OR_RETURN(const SharedPrefixes prefixes,
                       CreatePrefixes(config_.shared_prefix()));
      source = WithSharedPrefixes(std::move(source), prefixes, rng_);
    }
    if (config_.has_max_output_tokens()) {
      RETURN_IF_ERROR(
          CheckTokens("max_output_tokens", true, config_.max_output_tokens()));
      source =
          WithMaxOutputTokens(std::move(source), config_.max_output_tokens());
    }
    return source;
  }

  absl::StatusOr<std::unique_ptr<Workload>> WithArrivals(
      std::unique_ptr<RequestSource> source, int64_t num_requests) const {
    if (config_.arrival().has_closed_loop()) {
      ASSIGN_OR_RETURN(const ClosedLoopOptions options,
                       CreateClosedLoop(config_.arrival().closed_loop()));
      return MakeClosedLoopWorkload(options, std::move(source), num_requests,
                                    rng_);
    }
    ASSIGN_OR_RETURN(std::unique_ptr<ArrivalLaw> arrivals,
                     CreateArrivalLaw(config_.arrival(), num_requests));
    return MakeOpenLoopWorkload(std::move(arrivals), std::move(source),
                                num_requests, rng_);
  }

  static absl::StatusOr<ClosedLoopOptions> CreateClosedLoop(
      const ClosedLoopConfig& config) {
    RETURN_IF_ERROR(CheckRange("arrival.closed_loop.users", config.has_users(),
                               config.users(), 1, kMaxUsers));
    RETURN_IF_ERROR(CheckRange("arrival.closed_loop.think_time_s", true,
                               config.think_time_s(), 0.0, kMaxThinkSeconds));
    RETURN_IF_ERROR(CheckRange("arrival.closed_loop.start_gap_s", true,
                               config.start_gap_s(), 0.0, kMaxThinkSeconds));
    ClosedLoopOptions options;
    options.users = config.users();
    options.start_gap_s = config.start_gap_s();
    options.think_time_s = config.think_time_s();
    options.exponential_think_time = config.exponential_think_time();
    return options;
  }

  static absl::Status CheckArrivalRate(absl::string_view field, bool given,
                                       double rate, int64_t num_requests) {
    RETURN_IF_ERROR(CheckRate(field, given, rate));
    if (static_cast<double>(num_requests) / rate >
        static_cast<double>(kMaxArrivalSeconds)) {
      return FieldError(
          field, absl::StrCat("is ", rate, ", at which ", num_requests,
                              " requests take more than ", kMaxArrivalSeconds,
                              " s; raise it or lower num_requests"));
    }
    return absl::OkStatus();
  }

  static absl::StatusOr<std::unique_ptr<ArrivalLaw>> CreateArrivalLaw(
      const ArrivalConfig& config, int64_t num_requests) {
    switch (config.law_case()) {
      case ArrivalConfig::kPoisson:
        RETURN_IF_ERROR(CheckArrivalRate(
            "arrival.poisson.rate_rps", config.poisson().has_rate_rps(),
            config.poisson().rate_rps(), num_requests));
        return MakePoissonArrivals(config.poisson().rate_rps());
      case ArrivalConfig::kGamma:
        RETURN_IF_ERROR(CheckArrivalRate(
            "arrival.gamma.rate_rps", config.gamma().has_rate_rps(),
            config.gamma().rate_rps(), num_requests));
        RETURN_IF_ERROR(CheckRange("arrival.gamma.cv", config.gamma().has_cv(),
                                   config.gamma().cv(), 0.01, kMaxCv));
        return MakeGammaArrivals(config.gamma().rate_rps(),
                                 config.gamma().cv());
      case ArrivalConfig::kConstant:
        RETURN_IF_ERROR(CheckArrivalRate(
            "arrival.constant.rate_rps", config.constant().has_rate_rps(),
            config.constant().rate_rps(), num_requests));
        return MakeConstantArrivals(config.constant().rate_rps());
      case ArrivalConfig::kAllAtOnce:
        return MakeAllAtOnceArrivals();
      case ArrivalConfig::kClosedLoop:
      case ArrivalConfig::LAW_NOT_SET:
        break;
    }
    return FieldError("arrival",
                      "has no law; set one of poisson, gamma, constant, "
                      "closed_loop, all_at_once");
  }

  void Notify(std::string notice) {
    if (notices_ != nullptr) notices_->push_back(std::move(notice));
  }

  const WorkloadConfig& config_;
  const Rng rng_;
  std::vector<std::string>* const notices_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Workload>> CreateWorkload(
    const WorkloadConfig& config, uint64_t seed,
    std::vector<std::string>* notices) {
  return WorkloadBuilder(config, seed, notices).Build();
}

}  // namespace interleave::sim
