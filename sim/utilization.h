// MFU and MBU of a run: which share of the device's arithmetic and of its
// memory bandwidth the model itself needed, while some iteration ran.
//
//   MFU = FLOPs of all tokens computed / (busy time x peak FLOP/s)
//   MBU = bytes that must move          / (busy time x bytes/s)
//
// FLOPs: 2 a weight and token in the linear layers (of experts, those a token
// is routed to), 4 x heads x head_dim a query-key pair and layer in attention,
// and the LM head for each token sampled.  Tokens computed again after a
// preemption count.  Bytes: the weights once an iteration (of experts, the
// expected share that its tokens touch), the KV that decodes read and that all
// tokens write; activations and what prompt chunks read are left out, so MBU is
// a lower bound.

#ifndef SIM_UTILIZATION_H_
#define SIM_UTILIZATION_H_

#include "sim/cost/device.pb.h"
#include "sim/cost/model.pb.h"
#include "sim/metrics/metrics.h"

namespace interleave::sim {

struct Utilization {
  double mfu = 0;
  double mbu = 0;
};

// Both 0 for a run without iterations.  `tensor_parallel` devices share the
// work.
Utilization ComputeUtilization(const Metrics& metrics, const ModelSpec& model,
                               const DeviceSpec& device, int tensor_parallel);

}  // namespace interleave::sim

#endif  // SIM_UTILIZATION_H_
