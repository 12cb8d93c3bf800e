#include "sim/workload/request_source.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "scheduler/request_spec.h"
#include "sim/workload/length_law.h"

namespace interleave::sim {
namespace {

using ::interleave::scheduler::RequestSpec;

constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

RequestSpec SpecOf(int32_t prompt_tokens, int32_t output_tokens) {
  RequestSpec spec;
  spec.prompt_tokens = prompt_tokens;
  spec.output_tokens = output_tokens;
  spec.max_output_tokens = output_tokens;
  return spec;
}

class ListSource : public RequestSource {
 public:
  explicit ListSource(std::vector<RequestSpec> requests)
      : requests_(std::move(requests)) {}

  // Moved out: each is taken once, and its segments need not stay.
  RequestSpec Next() override {
    DCHECK_LT(next_, requests_.size());
    return std::move(requests_[next_++]);
  }
  int64_t size() const override {
    return static_cast<int64_t>(requests_.size());
  }

 private:
  std::vector<RequestSpec> requests_;
  size_t next_ = 0;
};

class LengthSource : public RequestSource {
 public:
  LengthSource(std::unique_ptr<LengthLaw> prompt,
               std::unique_ptr<LengthLaw> output, const Rng& rng)
      : prompt_(std::move(prompt)),
        output_(std::move(output)),
        prompt_rng_(rng.Fork("prompt_tokens")),
        output_rng_(rng.Fork("output_tokens")) {}

  RequestSpec Next() override {
    return SpecOf(prompt_->Draw(prompt_rng_), output_->Draw(output_rng_));
  }
  int64_t size() const override { return kEndless; }

 private:
  const std::unique_ptr<LengthLaw> prompt_;
  const std::unique_ptr<LengthLaw> output_;
  Rng prompt_rng_;
  Rng output_rng_;
};

class PairSource : public RequestSource {
 public:
  PairSource(std::vector<std::pair<int32_t, int32_t>> pairs, const Rng& rng)
      : pairs_(std::move(pairs)), rng_(rng.Fork("length_pairs")) {}

  RequestSpec Next() override {
    const auto& [prompt, output] = pairs_[static_cast<size_t>(
        rng_.UniformInt(0, static_cast<int64_t>(pairs_.size()) - 1))];
    return SpecOf(prompt, output);
  }
  int64_t size() const override { return kEndless; }

 private:
  const std::vector<std::pair<int32_t, int32_t>> pairs_;
  Rng rng_;
};

class ClassedSource : public RequestSource {
 public:
  ClassedSource(std::unique_ptr<RequestSource> source,
                std::vector<RequestClass> classes, const Rng& rng)
      : source_(std::move(source)),
        classes_(std::move(classes)),
        rng_(rng.Fork("request_class")) {
    for (const RequestClass& c : classes_) total_weight_ += c.weight;
  }

  RequestSpec Next() override {
    RequestSpec spec = source_->Next();
    const RequestClass& c = Draw();
    spec.tenant = c.tenant;
    spec.priority = c.priority;
    spec.slo = c.slo;
    return spec;
  }
  int64_t size() const override { return source_->size(); }

 private:
  const RequestClass& Draw() {
    double left = rng_.Uniform01() * total_weight_;
    for (const RequestClass& c : classes_) {
      left -= c.weight;
      if (left < 0) return c;
    }
    return classes_.back();
  }

  const std::unique_ptr<RequestSource> source_;
  const std::vector<RequestClass> classes_;
  double total_weight_ = 0;
  Rng rng_;
};

class PrefixedSource : public RequestSource {
 public:
  PrefixedSource(std::unique_ptr<RequestSource> source,
                 const SharedPrefixes& prefixes, const Rng& rng)
      : source_(std::move(source)),
        fraction_(prefixes.fraction),
        tokens_(prefixes.tokens),
        rank_(prefixes.num_prefixes, prefixes.exponent),
        whether_rng_(rng.Fork("shared_prefix")),
        which_rng_(rng.Fork("prefix_id")) {}

  RequestSpec Next() override {
    RequestSpec spec = source_->Next();
    if (whether_rng_.Bernoulli(fraction_)) {
      spec.segments = {{.content_id = rank_(which_rng_) - 1,
                        .num_tokens = std::min(tokens_, spec.prompt_tokens)}};
    }
    return spec;
  }
  int64_t size() const override { return source_->size(); }

 private:
  const std::unique_ptr<RequestSource> source_;
  const double fraction_;
  const int32_t tokens_;
  const ZipfDistribution rank_;
  Rng whether_rng_;
  Rng which_rng_;
};

class LimitedSource : public RequestSource {
 public:
  LimitedSource(std::unique_ptr<RequestSource> source, int32_t limit)
      : source_(std::move(source)), limit_(limit) {}

  RequestSpec Next() override {
    RequestSpec spec = source_->Next();
    spec.output_tokens = std::min(spec.output_tokens, limit_);
    spec.max_output_tokens = limit_;
    return spec;
  }
  int64_t size() const override { return source_->size(); }

 private:
  const std::unique_ptr<RequestSource> source_;
  const int32_t limit_;
};

}  // namespace

std::unique_ptr<RequestSource> MakeListSource(
    std::vector<RequestSpec> requests) {
  return std::make_unique<ListSource>(std::move(requests));
}

std::unique_ptr<RequestSource> MakeLengthSource(
    std::unique_ptr<LengthLaw> prompt, std::unique_ptr<LengthLaw> output,
    const Rng& rng) {
  return std::make_unique<LengthSource>(std::move(prompt), std::move(output),
                                        rng);
}

std::unique_ptr<RequestSource> MakePairSource(
    std::vector<std::pair<int32_t, int32_t>> pairs, const Rng& rng) {
  CHECK(!pairs.empty());
  return std::make_unique<PairSource>(std::move(pairs), rng);
}

std::unique_ptr<RequestSource> WithClasses(
    std::unique_ptr<RequestSource> source, std::vector<RequestClass> classes,
    const Rng& rng) {
  CHECK(!classes.empty());
  return std::make_unique<ClassedSource>(std::move(source), std::move(classes),
                                         rng);
}

std::unique_ptr<RequestSource> WithSharedPrefixes(
    std::unique_ptr<RequestSource> source, const SharedPrefixes& prefixes,
    const Rng& rng) {
  CHECK_GE(prefixes.tokens, 1);
  return std::make_unique<PrefixedSource>(std::move(source), prefixes, rng);
}

std::unique_ptr<RequestSource> WithMaxOutputTokens(
    std::unique_ptr<RequestSource> source, int32_t limit) {
  CHECK_GE(limit, 1);
  return std::make_unique<LimitedSource>(std::move(source), limit);
}

}  // namespace interleave::sim
