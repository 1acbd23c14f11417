// A request of an engine with one thing changed: what becomes of it, or how it is refused.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "fairdraw/request_parameters.h"

namespace fairdraw::suites {

inline constexpr std::int64_t kVocab = 1000;
inline const double kNan = std::nan("");
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Translate = std::function<Error(RequestParameters&)>;

inline Translate translate(const VllmRequest& r) {
  return [r](RequestParameters& p) { return from_vllm(r, kVocab, p); };
}
inline Translate translate(const SglangRequest& r) {
  return [r](RequestParameters& p) { return from_sglang(r, kVocab, p); };
}
inline Translate translate(const TensorRtLlmRequest& r) {
  return [r](RequestParameters& p) { return from_tensorrt_llm(r, kVocab, p); };
}
inline Translate translate(const HuggingFaceRequest& r) {
  return [r](RequestParameters& p) { return from_hugging_face(r, kVocab, p); };
}
inline Translate translate(const MaxRequest& r) {
  return [r](RequestParameters& p) { return from_max(r, kVocab, p); };
}
inline Translate translate(const LlamaCppRequest& r) {
  return [r](RequestParameters& p) { return from_llama_cpp(r, kVocab, p); };
}

/// The request with one thing changed.
template <class Request>
RequestParameters taken(const std::function<void(Request&)>& change) {
  Request request;
  change(request);
  RequestParameters parameters;
  const Error error = translate(request)(parameters);
  EXPECT_FALSE(error) << error.message;
  return parameters;
}

template <class Request>
void expect_refused(const std::string& part, const std::function<void(Request&)>& change,
                    ErrorCode code = ErrorCode::invalid_argument) {
  Request request;
  change(request);
  RequestParameters parameters;
  parameters.n = -7;
  const Error error = translate(request)(parameters);
  EXPECT_EQ(error.code, code) << part << ": " << error.message;
  EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("allowed: "), std::string::npos) << error.message;
  EXPECT_EQ(parameters.n, -7);  // nothing was written
}

inline void expect_greedy(const RequestParameters& p) {
  EXPECT_TRUE(p.greedy);
  EXPECT_EQ(p.temperature, 0);
  EXPECT_EQ(p.top_k, 0);
  EXPECT_EQ(p.top_p, 1);
  EXPECT_EQ(p.min_p, 0);
}

}  // namespace fairdraw::suites
