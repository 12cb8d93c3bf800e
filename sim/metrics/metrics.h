// The metrics of a run: what each one means, and the object that gathers them
// in memory that does not grow with the run.
//
//   TTFT            first token - arrival
//   TBT             each gap between two consecutive tokens of a request (also
//                   called ITL)
//   TPOT            mean gap of a request: (last - first token) / (tokens - 1);
//                   requests of one token have none
//   E2E             last token - arrival
//   normalized      E2E / generated tokens
//   queueing delay  first time scheduled - arrival
//
// Interference ledger: every gap is split, exactly, into
//   own work        what the iteration would have taken with its decodes alone
//   prefill         what the prompt chunks in the same iteration added
//   waiting         the time between the iterations that gave the two tokens
//   recomputation   computing anew what a preemption had thrown away, whether
//                   the request's own or a neighbour's in the same iteration
//
// SLO attainment: a request attains its SLO when its TTFT is at most slo.ttft
// and its longest gap at most slo.tbt.  Goodput counts requests that do.

#ifndef SIM_METRICS_METRICS_H_
#define SIM_METRICS_METRICS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/sim_time.h"
#include "scheduler/request_spec.h"
#include "sim/metrics/distribution.h"

namespace interleave::sim {

// A request that has ended.
struct RequestRecord {
  int64_t id = 0;
  int32_t tenant = 0;
  int32_t priority = 0;
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;
  SimTime arrival;
  SimTime first_scheduled;
  SimTime first_token;
  SimTime last_token;
  SimDuration longest_gap;
  int32_t preemptions = 0;
  int64_t prefix_hit_tokens = 0;
  int64_t recomputed_tokens = 0;
  scheduler::Slo slo;
  // Why it was never served; empty for a completed request.  Of a rejected one
  // only id, sizes and arrival mean anything.
  std::string rejection;

  SimDuration ttft() const { return first_token - arrival; }
  SimDuration e2e() const { return last_token - arrival; }
  SimDuration queueing_delay() const { return first_scheduled - arrival; }
  // In nanoseconds; 0 for a request of one token.
  double tpot_nanos() const {
    return output_tokens < 2
               ? 0
               : static_cast<double>((last_token - first_token).nanos()) /
                     (output_tokens - 1);
  }
  bool attains_slo() const {
    return rejection.empty() && ttft() <= slo.ttft && longest_gap <= slo.tbt;
  }
};

// One iteration of a replica.
struct IterationRecord {
  int64_t index = 0;
  int32_t replica = 0;
  SimTime start;
  // end - start = device + host.
  SimTime end;
  SimDuration device;
  SimDuration host;
  // Device time that the cost model predicted; equals `device` where the cost
  // model is the executor.
  SimDuration predicted;
  int64_t prefill_chunks = 0;
  int64_t prefill_tokens = 0;
  // Sum over the chunks of the tokens in the cache before.
  int64_t prefill_context_tokens = 0;
  int64_t decodes = 0;
  // Sum over the decodes of the tokens in the cache before.
  int64_t decode_kv_tokens = 0;
  int64_t recomputed_tokens = 0;
  int64_t preemptions = 0;
  int64_t waiting = 0;
  int64_t running = 0;
  int64_t used_blocks = 0;
};

// Takes records as a run goes on (to write them out); each may be ignored.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual void OnIteration(const IterationRecord& record) = 0;
  virtual void OnRequest(const RequestRecord& record) = 0;
};

// Exact sums of nanoseconds, which a long run takes past 2^63.
using NanosSum = __int128;

// Sums, in nanoseconds, over all gaps of all requests.
struct InterferenceLedger {
  double own_work = 0;
  double prefill = 0;
  double waiting = 0;
  double recomputation = 0;

  double total() const { return own_work + prefill + waiting + recomputation; }
};

// Split of one gap; the parts sum to the gap.
struct GapParts {
  SimDuration own_work;
  SimDuration prefill;
  SimDuration waiting;
  SimDuration recomputation;

  SimDuration total() const {
    return own_work + prefill + waiting + recomputation;
  }
};

struct TenantService {
  int64_t requests = 0;
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
};

class Metrics {
 public:
  // Adds `weight` gaps of the same parts.  On the path of every iteration.
  void AddGap(const GapParts& parts, int64_t weight) {
    tbt_.Add(parts.total(), weight);
    own_work_ += Product(parts.own_work, weight);
    prefill_ += Product(parts.prefill, weight);
    waiting_ += Product(parts.waiting, weight);
    recomputation_ += Product(parts.recomputation, weight);
  }

  // On the path of every iteration; keeps sums only.
  void AddIteration(const IterationRecord& record) {
    ++iterations_;
    const SimDuration length = record.end - record.start;
    busy_ += length;
    host_ += record.host;
    running_time_ += Product(length, record.running);
    block_time_ += Product(length, record.used_blocks);
    prefill_tokens_ += record.prefill_tokens;
    decode_tokens_ += record.decodes;
    decode_kv_tokens_ += record.decode_kv_tokens;
    recomputed_tokens_ += record.recomputed_tokens;
    preemptions_ += record.preemptions;
    if (record.prefill_tokens != 0) ++prefill_iterations_;
  }

  // Iterations of the same decodes and nothing else, each following the one
  // before at once.
  struct DecodeStretch {
    // Of each iteration.
    absl::Span<const SimDuration> lengths;
    // Their sum.
    SimDuration total;
    // Host's share of one iteration.
    SimDuration host;
    int64_t decodes = 0;
    // Of the first iteration: tokens in the cache before.
    int64_t kv_tokens = 0;
    int64_t running = 0;
    // Sum over the iterations of length x blocks in use.
    NanosSum block_time = 0;
  };
  // AddGap and AddIteration of each of them, at a fraction of the cost.
  void AddDecodeStretch(const DecodeStretch& stretch) {
    const auto count = static_cast<int64_t>(stretch.lengths.size());
    tbt_.AddEach(stretch.lengths, stretch.decodes);
    own_work_ += Product(stretch.total, stretch.decodes);
    iterations_ += count;
    busy_ += stretch.total;
    host_ += stretch.host * count;
    running_time_ += Product(stretch.total, stretch.running);
    block_time_ += stretch.block_time;
    decode_tokens_ += count * stretch.decodes;
    // Each iteration finds one token more of each request.
    decode_kv_tokens_ +=
        count * stretch.kv_tokens + count * (count - 1) / 2 * stretch.decodes;
  }

  // Query-key pairs of a prompt chunk, for MFU.
  void AddPrefillPairs(int64_t query_tokens, int64_t context_tokens) {
    prefill_pairs_ +=
        query_tokens * context_tokens + query_tokens * (query_tokens + 1) / 2;
  }

  void AddRequest(const RequestRecord& record);

  // ---- What was gathered ----

  const Distribution& ttft() const { return ttft_; }
  const Distribution& tbt() const { return tbt_; }
  const Distribution& tpot() const { return tpot_; }
  const Distribution& e2e() const { return e2e_; }
  const Distribution& queueing_delay() const { return queueing_delay_; }
  const Distribution& normalized_latency() const { return normalized_; }
  // Longest gap of each request.
  const Distribution& longest_gap() const { return longest_gap_; }
  InterferenceLedger ledger() const {
    return {.own_work = static_cast<double>(own_work_),
            .prefill = static_cast<double>(prefill_),
            .waiting = static_cast<double>(waiting_),
            .recomputation = static_cast<double>(recomputation_)};
  }

  int64_t completed() const { return completed_; }
  int64_t rejected() const { return rejected_; }
  // Rejections by what stands before the colon of their reason.
  const std::map<std::string, int64_t>& rejections() const {
    return rejections_;
  }
  int64_t attained_slo() const { return attained_slo_; }
  int64_t attained_ttft() const { return attained_ttft_; }
  int64_t attained_tbt() const { return attained_tbt_; }
  // Prompt and generated tokens of the completed requests.
  int64_t prompt_tokens() const { return prompt_tokens_; }
  int64_t output_tokens() const { return output_tokens_; }
  int64_t prefix_hit_tokens() const { return prefix_hit_tokens_; }

  int64_t iterations() const { return iterations_; }
  int64_t prefill_iterations() const { return prefill_iterations_; }
  int64_t preemptions() const { return preemptions_; }
  int64_t recomputed_tokens() const { return recomputed_tokens_; }
  // Tokens that iterations computed.
  int64_t prefill_tokens_computed() const { return prefill_tokens_; }
  int64_t decode_tokens_computed() const { return decode_tokens_; }
  int64_t prefill_pairs() const { return prefill_pairs_; }
  // Sum over all decoded tokens of the KV tokens read.
  int64_t decode_kv_tokens() const { return decode_kv_tokens_; }
  SimDuration busy() const { return busy_; }
  SimDuration host() const { return host_; }
  // First arrival to last token.
  SimDuration makespan() const {
    return completed_ == 0 ? SimDuration::Zero() : last_token_ - first_arrival_;
  }
  // Means over the time in which some iteration ran.
  double mean_running() const { return PerBusy(running_time_); }
  double mean_used_blocks() const { return PerBusy(block_time_); }
  const std::vector<TenantService>& tenants() const { return tenants_; }
  // Jain's index over the tokens served to each tenant, in (0, 1]; 1 with one
  // tenant.  Jain, Chiu, Hawe: A Quantitative Measure of Fairness, 1984.
  double JainFairness() const;

 private:
  static NanosSum Product(SimDuration duration, int64_t count) {
    return static_cast<NanosSum>(duration.nanos()) * count;
  }
  double PerBusy(NanosSum sum) const {
    return busy_ == SimDuration::Zero()
               ? 0
               : static_cast<double>(sum) / static_cast<double>(busy_.nanos());
  }

  Distribution ttft_;
  Distribution tbt_;
  Distribution tpot_;
  Distribution e2e_;
  Distribution queueing_delay_;
  Distribution normalized_;
  Distribution longest_gap_;
  // The interference ledger.
  NanosSum own_work_ = 0;
  NanosSum prefill_ = 0;
  NanosSum waiting_ = 0;
  NanosSum recomputation_ = 0;

  int64_t completed_ = 0;
  int64_t rejected_ = 0;
  std::map<std::string, int64_t> rejections_;
  int64_t attained_slo_ = 0;
  int64_t attained_ttft_ = 0;
  int64_t attained_tbt_ = 0;
  int64_t prompt_tokens_ = 0;
  int64_t output_tokens_ = 0;
  int64_t prefix_hit_tokens_ = 0;
  SimTime first_arrival_ = SimTime::Infinity();
  SimTime last_token_;
  std::vector<TenantService> tenants_;

  int64_t iterations_ = 0;
  int64_t prefill_iterations_ = 0;
  int64_t preemptions_ = 0;
  int64_t recomputed_tokens_ = 0;
  int64_t prefill_tokens_ = 0;
  int64_t decode_tokens_ = 0;
  int64_t prefill_pairs_ = 0;
  int64_t decode_kv_tokens_ = 0;
  SimDuration busy_;
  SimDuration host_;
  NanosSum running_time_ = 0;
  NanosSum block_time_ = 0;
};

}  // namespace interleave::sim

#endif  // SIM_METRICS_METRICS_H_
