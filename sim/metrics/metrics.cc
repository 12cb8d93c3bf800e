#include "sim/metrics/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/sim_time.h"

namespace interleave::sim {

void Metrics::AddRequest(const RequestRecord& record) {
  first_arrival_ = std::min(first_arrival_, record.arrival);
  if (!record.rejection.empty()) {
    ++rejected_;
    ++rejections_[record.rejection.substr(0, record.rejection.find(':'))];
    return;
  }
  ++completed_;
  last_token_ = std::max(last_token_, record.last_token);
  prompt_tokens_ += record.prompt_tokens;
  output_tokens_ += record.output_tokens;
  prefix_hit_tokens_ += record.prefix_hit_tokens;

  ttft_.Add(record.ttft());
  e2e_.Add(record.e2e());
  queueing_delay_.Add(record.queueing_delay());
  normalized_.Add(
      SimDuration::Nanos(record.e2e().nanos() / record.output_tokens));
  if (record.output_tokens > 1) {
    tpot_.Add(
        SimDuration::Nanos(static_cast<int64_t>(record.tpot_nanos() + 0.5)));
    longest_gap_.Add(record.longest_gap);
  }
  const bool ttft_ok = record.ttft() <= record.slo.ttft;
  const bool tbt_ok = record.longest_gap <= record.slo.tbt;
  attained_ttft_ += ttft_ok ? 1 : 0;
  attained_tbt_ += tbt_ok ? 1 : 0;
  attained_slo_ += ttft_ok && tbt_ok ? 1 : 0;

  const size_t tenant = static_cast<size_t>(std::max(0, record.tenant));
  if (tenant >= tenants_.size()) tenants_.resize(tenant + 1);
  tenants_[tenant].requests += 1;
  tenants_[tenant].prompt_tokens += record.prompt_tokens;
  tenants_[tenant].output_tokens += record.output_tokens;
}

double Metrics::JainFairness() const {
  double sum = 0;
  double sum_of_squares = 0;
  int64_t n = 0;
  for (const TenantService& tenant : tenants_) {
    if (tenant.requests == 0) continue;
    const double service =
        static_cast<double>(tenant.prompt_tokens + tenant.output_tokens);
    sum += service;
    sum_of_squares += service * service;
    ++n;
  }
  return n == 0 ? 1 : sum * sum / (static_cast<double>(n) * sum_of_squares);
}

}  // namespace interleave::sim
