// RequestSource: what each request of a workload asks for, apart from when.

#ifndef SIM_WORKLOAD_REQUEST_SOURCE_H_
#define SIM_WORKLOAD_REQUEST_SOURCE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "scheduler/request_spec.h"
#include "sim/workload/length_law.h"

namespace interleave::sim {

class RequestSource {
 public:
  virtual ~RequestSource() = default;

  // The next request; `id` and `arrival` are the caller's to set.
  // REQUIRES: fewer than size() taken.
  virtual scheduler::RequestSpec Next() = 0;

  // How many requests there are; INT64_MAX when they never end.
  virtual int64_t size() const = 0;
};

// The given requests, in order.
std::unique_ptr<RequestSource> MakeListSource(
    std::vector<scheduler::RequestSpec> requests);

// Independent prompt and output lengths, each from its own stream of `rng`.
std::unique_ptr<RequestSource> MakeLengthSource(
    std::unique_ptr<LengthLaw> prompt, std::unique_ptr<LengthLaw> output,
    const Rng& rng);

// Prompt and output of a random one of `pairs`, which keeps what correlation
// they have.
// REQUIRES: not empty.
std::unique_ptr<RequestSource> MakePairSource(
    std::vector<std::pair<int32_t, int32_t>> pairs, const Rng& rng);

// One class of requests; see WithClasses.
struct RequestClass {
  // Its share is proportional to this.
  double weight = 1;
  int32_t tenant = 0;
  int32_t priority = 0;
  scheduler::Slo slo;
};

// `source`, each request in a class drawn at random.
// REQUIRES: not empty, weights > 0.
std::unique_ptr<RequestSource> WithClasses(
    std::unique_ptr<RequestSource> source, std::vector<RequestClass> classes,
    const Rng& rng);

struct SharedPrefixes {
  // The share of requests that start with a prefix, in [0, 1].
  double fraction = 1;
  // Prefixes are content ids 0 .. num_prefixes - 1, >= 1.
  int32_t num_prefixes = 1;
  // >= 1.  A prompt that is no longer than this is all prefix: lengths stay as
  // they were.
  int32_t tokens = 1;
  // Prefix i is chosen in proportion to (i + 1)^-exponent; 0: all equally.
  double exponent = 0;
};

// `source`, some of whose requests share prefixes.
std::unique_ptr<RequestSource> WithSharedPrefixes(
    std::unique_ptr<RequestSource> source, const SharedPrefixes& prefixes,
    const Rng& rng);

// `source`, its clients asking for at most `limit` tokens: longer outputs are
// cut to it, and a server that does not know lengths must expect it.
// REQUIRES: limit >= 1.
std::unique_ptr<RequestSource> WithMaxOutputTokens(
    std::unique_ptr<RequestSource> source, int32_t limit);

}  // namespace interleave::sim

#endif  // SIM_WORKLOAD_REQUEST_SOURCE_H_
