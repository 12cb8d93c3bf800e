// A made-up trace with the statistics of a real one.
//
// The real one is the conversation trace of the Azure LLM inference traces of
// 2023 (AzurePublicDataset, CC-BY-4.0; Patel et al., "Splitwise", ISCA 2024):
// 19,366 requests in 58 minutes.  This keeps its format, the quantiles of its
// prompt and output lengths, the rank correlation of the two, and the mean and
// variation of its arrivals' gaps.  It does not keep how the rate moves from
// minute to minute.

#ifndef SIM_WORKLOAD_AZURE_LIKE_TRACE_H_
#define SIM_WORKLOAD_AZURE_LIKE_TRACE_H_

#include <cstdint>
#include <string>

namespace interleave::sim {

// The text of a trace in the azure2023 format, its date made up.  The same on
// every machine for equal arguments.
// REQUIRES: num_requests >= 1.
std::string AzureLikeTrace(int64_t num_requests, uint64_t seed);

}  // namespace interleave::sim

#endif  // SIM_WORKLOAD_AZURE_LIKE_TRACE_H_
