/* The header in plain C, as the documentation shows it. */

#include <stddef.h>

#include "attention/c_api.h"

/* A plan for decodes of a Llama-3.1-8B layer; NULL where it is refused. */
InterleaveAttentionPlan* MakeDecodePlan(int32_t max_batch, int32_t head_dim) {
  InterleaveAttentionPlanConfig config = {0};
  InterleaveAttentionPlan* plan = NULL;
  config.size = sizeof(config);
  config.shape.dtype = INTERLEAVE_ATTENTION_BFLOAT16;
  config.shape.num_heads = 32;
  config.shape.num_kv_heads = 8;
  config.shape.head_dim = head_dim;
  config.causal = 1;
  config.window_left = -1;
  config.window_right = -1;
  config.max_batch = max_batch;
  config.max_total_q = max_batch;
  if (interleave_attention_plan_create(&config, NULL, 0, NULL, &plan) !=
      INTERLEAVE_ATTENTION_OK) {
    return NULL;
  }
  return plan;
}
