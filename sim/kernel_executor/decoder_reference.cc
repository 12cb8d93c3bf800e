#include "sim/kernel_executor/decoder_reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "sim/kernel_executor/decoder.h"

namespace interleave::sim {
namespace {

using Vector = std::vector<double>;

Vector Product(const std::vector<float>& weight, const Vector& x) {
  const size_t inputs = x.size();
  Vector y(weight.size() / inputs);
  for (size_t i = 0; i < y.size(); ++i) {
    for (size_t j = 0; j < inputs; ++j) {
      y[i] += static_cast<double>(weight[i * inputs + j]) * x[j];
    }
  }
  return y;
}

Vector Norm(const Vector& x, const std::vector<float>& weight, double epsilon) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  const double scale =
      1 / std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
  Vector y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = x[i] * scale * static_cast<double>(weight[i]);
  }
  return y;
}

void Rotate(double* head, const DecoderShape& shape, size_t position) {
  const int32_t half = shape.head_dim / 2;
  for (int32_t i = 0; i < half; ++i) {
    const double angle =
        static_cast<double>(position) *
        std::pow(shape.rope_theta, -static_cast<double>(i) / half);
    const double x = head[i];
    const double y = head[i + half];
    head[i] = x * std::cos(angle) - y * std::sin(angle);
    head[i + half] = y * std::cos(angle) + x * std::sin(angle);
  }
}

// Attention of the last of `rows` (rotated Q, K, V heads) to all of them.
Vector Attend(const DecoderShape& shape, const std::vector<Vector>& rows) {
  const size_t dim = static_cast<size_t>(shape.head_dim);
  const size_t heads = static_cast<size_t>(shape.num_heads);
  const size_t kv_heads = static_cast<size_t>(shape.num_kv_heads);
  Vector out(heads * dim);
  for (size_t h = 0; h < heads; ++h) {
    const size_t k = (heads + h / (heads / kv_heads)) * dim;
    const size_t v = k + kv_heads * dim;
    Vector weights;
    for (const Vector& row : rows) {
      double dot = 0;
      for (size_t d = 0; d < dim; ++d)
        dot += rows.back()[h * dim + d] * row[k + d];
      weights.push_back(dot / std::sqrt(static_cast<double>(dim)));
    }
    const double top = *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - top);
    for (size_t t = 0; t < rows.size(); ++t) {
      for (size_t d = 0; d < dim; ++d) {
        out[h * dim + d] += weights[t] / sum * rows[t][v + d];
      }
    }
  }
  return out;
}

void Add(const Vector& delta, Vector& x) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += delta[i];
}

}  // namespace

std::vector<double> ReferenceLogits(const ReferenceModel& model,
                                    absl::Span<const int32_t> tokens) {
  const DecoderShape& shape = model.shape;
  const double epsilon = shape.norm_epsilon;
  const size_t hidden = static_cast<size_t>(shape.hidden_size);
  std::vector<Vector> stream;
  for (const int32_t token : tokens) {
    const auto row = model.outer.embedding.begin() +
                     static_cast<std::ptrdiff_t>(token) * shape.hidden_size;
    stream.emplace_back(row, row + shape.hidden_size);
  }
  for (const Decoder::LayerWeights& layer : model.layers) {
    std::vector<Vector> rows;
    for (size_t t = 0; t < stream.size(); ++t) {
      rows.push_back(
          Product(layer.qkv, Norm(stream[t], layer.attention_norm, epsilon)));
      for (int32_t h = 0; h < shape.num_heads + shape.num_kv_heads; ++h) {
        Rotate(rows[t].data() + int64_t{h} * shape.head_dim, shape, t);
      }
      Add(Product(layer.output, Attend(shape, rows)), stream[t]);
      const Vector both =
          Product(layer.gate_up, Norm(stream[t], layer.mlp_norm, epsilon));
      Vector activated(both.size() / 2);
      for (size_t i = 0; i < activated.size(); ++i) {
        activated[i] =
            both[i] / (1 + std::exp(-both[i])) * both[activated.size() + i];
      }
      Add(Product(layer.down, activated), stream[t]);
    }
  }
  Vector last = stream.back();
  last.resize(hidden);
  return Product(model.outer.lm_head,
                 Norm(last, model.outer.final_norm, epsilon));
}

}  // namespace interleave::sim
