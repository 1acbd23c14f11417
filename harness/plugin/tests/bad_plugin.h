// Makes the plugin of bad_plugin.c misbehave in the way that a test selects; the tests of plugins
// share this file.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "harness/plugin/plugin_sampler.h"
#include "harness/run/calls/request.h"

namespace fairdraw::harness::plugin {

// A guard that makes bad_plugin.c misbehave until the end of the scope.
class Bad {
 public:
  explicit Bad(const char* way) { setenv("FAIRDRAW_BAD", way, 1); }
  ~Bad() { unsetenv("FAIRDRAW_BAD"); }
  Bad(const Bad&) = delete;
  Bad& operator=(const Bad&) = delete;
};

inline const std::string kBad = std::string(kPrefix) + FAIRDRAW_BAD_PLUGIN;

// Returns options for tests whose calls must not time out even on a busy machine. Tests of hangs
// set shorter times.
inline Options isolated() {
  Options options;
  options.seconds = 60;
  return options;
}

inline Options trusted() {
  Options options;
  options.trusted = true;
  return options;
}

inline std::unique_ptr<Sampler> make(const Options& options, const std::string& name = kBad) {
  return Loader(options).make(name);
}

// Returns three greedy rows of eight logits, in which row i has its largest logit at id i + 2.
inline Request three_rows() {
  Request request;
  request.rows = 3;
  request.vocab = 8;
  request.logits.assign(24, 0.0F);
  for (std::size_t row = 0; row < 3; ++row) request.logits[row * 8 + row + 2] = 1;
  request.parameters.assign(3, {});
  for (auto& row : request.parameters) row.temperature = 0;
  request.seed = {1, 2, 3};
  request.offset = {0, 0, 0};
  return request;
}

inline const std::vector<std::int32_t> kGreedy = {2, 3, 4};

inline void expect_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' in: " << message;
  }
}

}  // namespace fairdraw::harness::plugin
