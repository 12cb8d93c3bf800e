// The analytic cost model: every kernel takes the longer of its arithmetic and
// its memory traffic, from a model's and a device's published figures.
//
//   linear layers  qkv, o, gate_up, down by tokens; lm_head by sequences:
//                  max(2 T K N / (peak x e), (K N + T (K + N)) b / (bw x e));
//                  experts read the weights of the expected number of distinct
//                  experts that T tokens touch, E (1 - (1 - k/E)^T), uniform
//                  routing
//   elementwise    norms, rotary, activation, cache append: bytes only
//   prefill        a chunk of q tokens after c: 4 q (c + (q + 1) / 2) x width
//                  FLOPs, or reading (c + q) tokens' K and V
//   decode         all sequences: reading their K and V, or 4 x width FLOPs a
//                  cached token
//   all-reduce     two a layer where devices share it: latency +
//                  2 (n - 1) / n x bytes / interconnect
//   swap           blocks x block bytes / host link, out and in one after the
//                  other
//
// Williams, Waterman, Patterson: Roofline (CACM 52(4), 2009) is the idea.
//
// An iteration of one chunk and any number of decodes costs a few tens of
// floating-point operations; DecodeTimes a handful an iteration.  The results
// are the same on every IEEE machine: only +, x, / and max are used.

#ifndef SIM_COST_ROOFLINE_H_
#define SIM_COST_ROOFLINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "sim/cost/cost.pb.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/device.pb.h"
#include "sim/cost/model.pb.h"

namespace interleave::sim {

struct Parallelism {
  // Devices that share each layer.
  int tensor_parallel = 1;
  // Tokens of a KV block, to turn swapped blocks into bytes.
  int block_size = 16;
};

// InvalidArgument for options that cannot be, naming them.
absl::StatusOr<std::unique_ptr<CostModel>> CreateRoofline(
    const ModelSpec& model, const DeviceSpec& device,
    const Parallelism& parallelism, const RooflineOptions& options);

}  // namespace interleave::sim

#endif  // SIM_COST_ROOFLINE_H_
