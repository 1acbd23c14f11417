#include "suites/benchmarks/plugin_overhead.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <utility>

#include "harness/contract/plugin.h"
#include "harness/contract/usage_error.h"
#include "harness/plugin/plugin_sampler.h"
#include "suites/benchmarks/benchmarks.h"

namespace fairdraw::suites {
namespace {

using harness::UsageError;
using harness::plugin::kPrefix;

/// A call of a plugin with one greedy row.
class Call {
 public:
  Call(std::pmr::memory_resource* memory, std::int64_t vocab)
      : logits_(static_cast<std::size_t>(vocab), 0.0F, memory),
        zeros_(2, 0.0F, memory),
        ones_(1, 1.0F, memory),
        top_k_(1, 0, memory),
        seed_(1, 1, memory),
        token_(1, -1, memory) {
    logits_.back() = 1;
    batch.struct_size = sizeof(batch);
    batch.logits = logits_.data();
    batch.rows = batch.outputs = batch.num_samples = 1;
    batch.vocab = batch.row_stride = vocab;
    batch.temperature = batch.min_p = zeros_.data();
    batch.top_p = ones_.data();
    batch.top_k = top_k_.data();
    batch.seed = batch.offset = seed_.data();
    batch.tokens = token_.data();
  }

  void expect_answer(const std::string& refused, const std::string& who) const {
    const auto largest = static_cast<std::int32_t>(logits_.size() - 1);
    if (refused.empty() && token_[0] == largest) return;
    throw UsageError(fmt::format(
        "{}: {}", who,
        !refused.empty() ? refused
                         : fmt::format("a greedy row gives token {}, not {}", token_[0], largest)));
  }

  fairdraw_batch batch{};

 private:
  std::pmr::vector<float> logits_, zeros_, ones_;
  std::pmr::vector<std::int32_t> top_k_;
  std::pmr::vector<std::uint64_t> seed_;
  std::pmr::vector<std::int32_t> token_;
};

// Returns the median time of a call, over as many calls as fit into `milliseconds`. Calls are
// measured in groups of 16, because one call is shorter than a tick of the clock.
template <class Work>
double median_microseconds(const Work& work, double milliseconds) {
  constexpr int kGroup = 16;
  std::vector<double> times;
  for (double spent = 0; spent < milliseconds * 1e3 || times.size() < 15;) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kGroup; ++i) work();
    const std::chrono::duration<double, std::micro> all = std::chrono::steady_clock::now() - begin;
    times.push_back(all.count() / kGroup);
    spent += all.count();
  }
  return median(std::move(times));
}

double direct_microseconds(const std::string& name, std::int64_t vocab, double milliseconds) {
  const std::string path = std::filesystem::absolute(name.substr(std::string(kPrefix).size()));
  const std::unique_ptr<void, int (*)(void*)> library(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL),
                                                      dlclose);
  const auto run =
      reinterpret_cast<decltype(&fairdraw_plugin_run)>(dlsym(library.get(), "fairdraw_plugin_run"));
  const Call call(std::pmr::get_default_resource(), vocab);
  char message[64];
  return median_microseconds([&] { run(&call.batch, message, sizeof(message)); }, milliseconds);
}

}  // namespace

std::vector<harness::BenchmarkRecord> plugin_overhead(const std::string& name, std::int64_t vocab,
                                                      double milliseconds) {
  std::vector<harness::BenchmarkRecord> records;
  for (const bool trusted : {true, false}) {
    harness::plugin::Options options;
    options.trusted = trusted;
    const auto sampler = harness::plugin::Loader(options).make(name);
    const Call call(sampler->memory(), vocab);
    call.expect_answer(sampler->run(call.batch), name);
    const double time = median_microseconds([&] { sampler->run(call.batch); }, milliseconds);
    call.expect_answer(sampler->broken(), name);
    const double direct = direct_microseconds(name, vocab, milliseconds);
    records.push_back({name + (trusted ? "@trusted" : "@isolated"), "call/greedy", 1, vocab,
                       "float32", "one_raised", time, "direct call", direct, time / direct,
                       /*machine=*/{}});
  }
  return records;
}

}  // namespace fairdraw::suites
