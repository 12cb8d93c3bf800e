#include "sim/profiling/measured_batch.h"

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace interleave::sim {
namespace {

void AppendDecodes(const MeasuredBatch& batch, std::string* key) {
  const std::vector<int32_t>& kv = batch.decode_kv;
  if (kv.empty()) {
    *key += "-";
  } else if (batch.typical_mean > 0) {
    absl::StrAppend(key, kv.size(), "~", batch.typical_mean);
  } else {
    for (size_t i = 0; i < kv.size();) {
      size_t end = i;
      while (end < kv.size() && kv[end] == kv[i]) ++end;
      absl::StrAppend(key, i == 0 ? "" : "+", end - i, "x", kv[i]);
      i = end;
    }
  }
}

}  // namespace

int64_t MeasuredBatch::num_tokens() const {
  int64_t tokens = static_cast<int64_t>(decode_kv.size());
  for (const PrefillChunk& chunk : chunks) tokens += chunk.query_tokens;
  return tokens;
}

int64_t MeasuredBatch::num_sequences() const {
  return static_cast<int64_t>(chunks.size() + decode_kv.size());
}

BatchShape MeasuredBatch::shape() const {
  DecodeGroup decode;
  for (const int32_t kv : decode_kv) decode.Add(kv);
  return ShapeOf(chunks, decode);
}

BatchShape ShapeOf(absl::Span<const PrefillChunk> chunks,
                   const DecodeGroup& decode) {
  BatchShape shape;
  shape.prefill = chunks;
  for (const PrefillChunk& chunk : chunks) {
    shape.prefill_tokens += chunk.query_tokens;
  }
  shape.decode = decode;
  return shape;
}

MeasuredBatch Decodes(int32_t count, int32_t kv) {
  MeasuredBatch batch;
  batch.decode_kv.assign(static_cast<size_t>(count), kv);
  return batch;
}

MeasuredBatch Mixed(PrefillChunk chunk, int32_t count, int32_t kv) {
  MeasuredBatch batch = Decodes(count, kv);
  batch.chunks = {chunk};
  return batch;
}

std::string KeyOf(absl::Span<const PrefillChunk> chunks) {
  std::string key;
  for (const PrefillChunk& chunk : chunks) {
    absl::StrAppend(&key, key.empty() ? "" : "+", chunk.query_tokens, "@",
                    chunk.context_tokens);
  }
  return key.empty() ? "-" : key;
}

std::string KeyOf(const MeasuredBatch& batch) {
  std::string key = absl::StrCat(KeyOf(batch.chunks), "|");
  AppendDecodes(batch, &key);
  switch (batch.part) {
    case BatchPart::kAll:
      key += "|all";
      break;
    case BatchPart::kWithoutAttention:
      key += "|linear";
      break;
    case BatchPart::kAttention:
      key += "|attention";
      break;
  }
  if (batch.layers > 0) absl::StrAppend(&key, " of ", batch.layers);
  return key;
}

}  // namespace interleave::sim
