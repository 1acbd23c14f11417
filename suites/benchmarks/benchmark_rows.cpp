#include "suites/benchmarks/benchmark_rows.h"

#include <algorithm>
#include <stdexcept>

#include "fairdraw/sampling.h"
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

std::vector<float> probabilities(const Rows& rows, float temperature) {
  std::vector<float> probs(rows.values.size());
  const Error error = softmax(rows.view(), temperature, {probs.data(), rows.batch, rows.vocab});
  if (error) throw std::runtime_error("probabilities: " + error.message);
  return probs;
}

Rows probability_rows(const Rows& rows) {
  Rows probs;
  probs.batch = rows.batch;
  probs.vocab = rows.vocab;
  probs.values = probabilities(rows, 1.0F);
  return probs;
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
