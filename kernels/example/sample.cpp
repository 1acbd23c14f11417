// Samples one batch in which every request has its own parameters: greedy and random rows, a banned
// token, and an invalid row that fails alone.
#include <fairdraw/sample.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
  constexpr std::int64_t kRows = 4;
  constexpr std::int64_t kVocab = 8;
  const std::vector<float> logits = {
      0, 1, 2,   3, 9, 4, 5, 6,  // greedy: token 4
      0, 1, 9,   3, 9, 4, 5, 6,  // greedy, 2 and 4 tie, 2 is banned below: token 4
      5, 0, 0,   5, 0, 0, 0, 0,  // random among the two largest: 0 or 3
      0, 0, NAN, 0, 0, 0, 0, 0,  // fails
  };
  const std::vector<std::uint32_t> allowed = {0xFFU, 0xFFU & ~(1U << 2U), 0xFFU, 0xFFU};
  const std::vector<float> temperature = {0.0F, 0.0F, 0.8F, 1.0F};
  const std::vector<std::int32_t> top_k = {0, 0, 2, 0};
  const std::vector<std::uint64_t> seed = {11, 12, 13, 14};

  fairdraw::SampleRequest request;
  request.logits = {logits.data(), fairdraw::DType::float32, kRows, kVocab, kVocab};
  request.allowed = {allowed.data(), kRows, 1};
  request.temperature = {temperature.data(), kRows};
  request.top_k = {top_k.data(), kRows};
  request.seed = {seed.data(), kRows};

  std::vector<std::int32_t> tokens(kRows);
  std::vector<fairdraw::RowStatus> statuses(kRows);
  fairdraw::SampleResult result;
  result.tokens = {tokens.data(), kRows};
  result.statuses = {statuses.data(), kRows};

  // A generation: the new offset of each step selects new random bits; repeating a call repeats its
  // tokens.
  for (std::uint64_t step = 0; step < 4; ++step) {
    request.offset = step;
    if (const fairdraw::Error error = fairdraw::sample(request, result)) {
      std::fprintf(stderr, "%s\n", error.message.c_str());
      return 1;
    }
    std::printf("step %d:", static_cast<int>(step));
    for (std::size_t row = 0; row < kRows; ++row) {
      std::printf(" %d (%s)", tokens[row], fairdraw::to_string(statuses[row]));
    }
    std::printf("\n");
  }
}
