// What a Plan holds.

#ifndef ATTENTION_PLAN_STATE_H_
#define ATTENTION_PLAN_STATE_H_

#include <cstdint>

#include "attention/family.h"
#include "attention/kernel_params.h"
#include "attention/params.h"
#include "attention/plan_kernels.h"
#include "attention/tile_schedule.h"

namespace interleave::attention {

class PlanState {
 public:
  PlanConfig config;
  DeviceFacts device;
  SchedulePolicy policy;
  ScheduleBounds bounds;
  // Null where the role cannot occur.
  const KernelFamily* families[kNumRoles] = {nullptr, nullptr};

  // What Update was given last; host spans are dropped.
  BatchMetadata batch;
  bool updated = false;

  ScheduleMemory memory;
  WorkCounter* counters = nullptr;
  float* partial_out = nullptr;
  float* partial_lse = nullptr;
  void* rotated_q = nullptr;  // [max_total_q, num_heads, head_dim] or null
  MetadataReport* report = nullptr;

  void* workspace = nullptr;
  bool owns_workspace = false;
};

}  // namespace interleave::attention

#endif  // ATTENTION_PLAN_STATE_H_
