#include "suites/benchmarks/benchmark_processing.h"

#include <algorithm>
#include <array>

#include "harness/inputs/counter_random.h"

namespace fairdraw::suites {
namespace {

constexpr std::int64_t kHistory = 512;
constexpr std::int64_t kRepeated = 8;  ///< last ids of a history that dry finds at its beginning
constexpr std::int64_t kBiases = 64;
constexpr std::int64_t kStopIds = 4;
constexpr std::int64_t kWords = 8;
constexpr std::int64_t kAllowedIds = 1000;

/// The features of logits processing that one benchmark row has.
struct Features {
  bool penalties = false, bias = false, bitmask = false, bans = false, allowed = false;
  bool top_n_sigma = false, typical_p = false, top_h = false, xtc = false;
  bool chain = false;  ///< of filters, in the order of llama.cpp's default request
  bool adaptive_p = false, dry = false, forced = false;
};

Features features_of(const std::string& name, std::int64_t row) {
  const bool all = name == "all";
  Features features{all || name == "penalties",
                    all || name == "bias",
                    all || name == "bitmask",
                    name == "bans",
                    name == "allowed",
                    name == "top_n_sigma",
                    name == "typical_p",
                    name == "top_h",
                    name == "xtc",
                    name == "chain",
                    name == "adaptive_p",
                    name == "dry",
                    name == "forced"};
  if (name != "mixed") return features;
  const std::vector<std::string>& names = processing_names();
  const auto before = std::ranges::find(names, name) - names.begin();
  return features_of(names[static_cast<std::size_t>(row % before)], row);
}

class RowMaker {
 public:
  RowMaker(std::int64_t row, std::int64_t vocab)
      : random_(static_cast<std::uint64_t>(row)), vocab_(static_cast<std::uint64_t>(vocab)) {}

  std::int32_t token() { return static_cast<std::int32_t>(random_.below(vocab_, counter_++)); }
  std::vector<std::int32_t> tokens(std::int64_t count) {
    std::vector<std::int32_t> list(static_cast<std::size_t>(count));
    std::generate(list.begin(), list.end(), [this] { return token(); });
    return list;
  }

 private:
  harness::CounterRandom random_;
  std::uint64_t counter_ = 0;
  std::uint64_t vocab_;
};

void add_row(BatchProcessing& batch, const Features& features, RowMaker make, std::int64_t vocab) {
  harness::ProcessingArrays& lists = batch.lists;
  const auto listed = [&make](bool wanted, std::int64_t count) {
    return make.tokens(wanted ? count : 0);
  };
  std::vector<std::int32_t> history =
      listed(features.penalties || features.bans || features.dry || features.forced, kHistory);
  if (features.dry) std::copy_n(history.begin(), kRepeated, history.end() - kRepeated);
  lists.output.add(history);
  lists.repetition_penalty.push_back(features.penalties ? 1.1F : 1.0F);
  lists.frequency_penalty.push_back(features.penalties ? 0.1F : 0.0F);
  lists.presence_penalty.push_back(features.penalties ? 0.2F : 0.0F);
  lists.bias_ids.add(listed(features.bias, kBiases));
  for (std::int64_t i = 0; features.bias && i < kBiases; ++i) {
    lists.bias_values.push_back(i % 2 == 0 ? 1.5F : -1.5F);
  }
  lists.stop_ids.add(listed(features.bans, kStopIds));
  lists.min_tokens.push_back(features.bans ? static_cast<std::int32_t>(kHistory) + 1 : 0);
  std::vector<std::int32_t> words;
  std::vector<std::int32_t> lengths;
  for (std::int64_t word = 0; features.bans && word < kWords; ++word) {
    lengths.push_back(static_cast<std::int32_t>(1 + word % 3));
    for (std::int32_t i = 0; i < lengths.back(); ++i) words.push_back(make.token());
  }
  lists.bad_words.add(words);
  lists.bad_word_lengths.add(lengths);
  lists.allowed_ids.add(listed(features.allowed, kAllowedIds));
  if (features.top_n_sigma) lists.top_n_sigma.push_back(1.0F);
  if (features.typical_p) lists.typical_p.push_back(0.95F);
  if (features.top_h) lists.top_h.push_back(0.5F);
  if (features.xtc) lists.xtc_probability.push_back(1.0F);
  if (features.chain) {
    lists.filter_chain.push_back(
        filter_chain_of({FilterStep::top_k, FilterStep::top_p, FilterStep::min_p}));
    lists.chain_top_k.push_back(40);
    lists.chain_top_p.push_back(0.95F);
    lists.chain_min_p.push_back(0.05F);
  }
  if (features.adaptive_p) {
    lists.filter_chain.push_back(filter_chain_of({FilterStep::adaptive_p}));
    lists.adaptive_target.push_back(0.3F);
  }
  if (features.dry) lists.dry_multiplier.push_back(0.8F);
  if (features.forced) {
    lists.forced_delay.push_back(static_cast<std::int32_t>(kHistory) / 2);
    lists.forced_after.push_back(history[kHistory / 2]);
    lists.forced_tokens.add({make.token()});
  }
  if (batch.allowed_stride == 0) return;
  for (std::int64_t word = 0; word < batch.allowed_stride; ++word) batch.allowed.push_back(~0U);
  for (std::int64_t i = 0; features.bitmask && i < vocab / 10; ++i) {
    const std::int32_t banned = make.token();
    std::uint32_t* row = batch.allowed.data() + batch.allowed.size() - batch.allowed_stride;
    row[banned / 32] &= ~(1U << (banned % 32));
  }
}

}  // namespace

const std::vector<std::string>& processing_names() {
  static const std::vector<std::string> names = {
      "none",        "penalties", "bias",  "bitmask", "bans",  "allowed",    "all", "mixed",
      "top_n_sigma", "typical_p", "top_h", "xtc",     "chain", "adaptive_p", "dry", "forced"};
  return names;
}

BatchProcessing make_processing(const std::string& name, std::int64_t rows, std::int64_t period,
                                std::int64_t vocab) {
  BatchProcessing batch;
  if (name == "none") return batch;
  if (name == "mixed" || features_of(name, 0).bitmask) batch.allowed_stride = (vocab + 31) / 32;
  batch.lists.rows = rows;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t alike = row % period;
    add_row(batch, features_of(name, alike), RowMaker(alike, vocab), vocab);
  }
  return batch;
}

}  // namespace fairdraw::suites
