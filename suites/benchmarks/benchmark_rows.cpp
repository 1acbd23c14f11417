#include "suites/benchmarks/benchmark_rows.h"

#include <algorithm>
#include <random>

#include "harness/inputs/families.h"
#include "harness/inputs/npy.h"

namespace fairdraw::suites {
namespace {

void narrow_to(Rows& rows, const std::string& dtype) {
  if (dtype == "float32") return;
  rows.dtype = dtype == "float16" ? DType::float16 : DType::bfloat16;
  rows.narrow.resize(rows.values.size());
  const auto count = static_cast<std::int64_t>(rows.values.size());
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    rows.narrow[at] = rows.dtype == DType::float16 ? harness::to_float16(rows.values[at])
                                                   : harness::to_bfloat16(rows.values[at]);
  }
}

}  // namespace

const std::vector<std::string>& logits_names() {
  static const std::vector<std::string> names = {"peaked", "flat", "equal", "captured"};
  return names;
}

const std::vector<std::string>& dtype_names() {
  static const std::vector<std::string> names = {"float32", "float16", "bfloat16"};
  return names;
}

Rows make_rows(const std::string& logits, std::int64_t batch, std::int64_t vocab,
               const std::string& dtype, const std::string& data_directory) {
  Rows rows;
  rows.batch = batch;
  rows.vocab = vocab;
  if (logits == "captured") {
    const harness::CapturedLogits captured =
        harness::load_npy(data_directory + "/lm_logits_f32.npy", /*bfloat16=*/false);
    rows.vocab = captured.vocab;
    if (batch == 0) batch = rows.batch = captured.rows;
    for (std::int64_t i = 0; i < batch; ++i) {
      const std::vector<float> row = captured.row(i % captured.rows);
      rows.values.insert(rows.values.end(), row.begin(), row.end());
    }
  } else {
    rows.values.resize(static_cast<std::size_t>(batch * vocab));
    const harness::Family family = logits == "peaked" ? harness::Family::peaked
                                   : logits == "flat" ? harness::Family::gaussian
                                                      : harness::Family::all_equal;
#pragma omp parallel for schedule(dynamic)
    for (std::int64_t i = 0; i < batch; ++i) {
      harness::generate_row(family, 1, static_cast<std::uint64_t>(i),
                            {rows.values.data() + i * vocab, static_cast<std::size_t>(vocab)});
    }
  }
  narrow_to(rows, dtype);
  return rows;
}

ProcessedRows::ProcessedRows(std::int64_t batch, std::int64_t vocab) {
  constexpr std::size_t kHistory = 256;
  constexpr std::size_t kBiases = 64;
  std::mt19937_64 random(1);
  const auto id = [&random, vocab] {
    return static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab));
  };
  std::vector<reference::RowProcessing> rows(static_cast<std::size_t>(batch));
  for (reference::RowProcessing& row : rows) {
    row.repetition_penalty = 1.1F;
    row.frequency_penalty = 0.2F;
    row.presence_penalty = 0.3F;
    for (std::size_t i = 0; i < kHistory; ++i) {
      row.prompt.push_back(id());
      row.output.push_back(id());
    }
    for (std::size_t i = 0; i < kBiases; ++i) row.biases.push_back({id(), -1.0F});
    for (std::int64_t word = 0; word < (vocab + 31) / 32; ++word) {
      const std::uint64_t either = random();
      allowed_.push_back(static_cast<std::uint32_t>(either | random()));
    }
  }
  arrays_ = harness::pack(rows, vocab);
}

BitRows<const std::uint32_t> ProcessedRows::allowed_view() const {
  const auto rows = static_cast<std::int64_t>(arrays_.min_tokens.size());
  return {allowed_.data(), rows, (arrays_.vocab + 31) / 32};
}

Rows single_row(const Rows& rows, std::int64_t i) {
  Rows single;
  single.dtype = rows.dtype;
  single.batch = 1;
  single.vocab = rows.vocab;
  single.values.assign(rows.row(i), rows.row(i) + rows.vocab);
  if (!rows.narrow.empty()) {
    const auto begin = rows.narrow.begin() + static_cast<std::ptrdiff_t>(i * rows.vocab);
    single.narrow.assign(begin, begin + static_cast<std::ptrdiff_t>(rows.vocab));
  }
  return single;
}

}  // namespace fairdraw::suites
