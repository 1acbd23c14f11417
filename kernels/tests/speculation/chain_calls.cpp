#include "tests/speculation/chain_calls.h"

#include <random>

namespace fairdraw::suites {

ChainOutputs::ChainOutputs(const ChainCall& call, bool optional_results) {
  prefill(tokens, call.batch * (call.num_draft_tokens + 1));
  if (!optional_results) return;
  prefill(accepted, call.batch);
  prefill(emitted, call.batch);
  prefill(statuses, call.batch);
}

ChainCall random_chain_call(std::uint64_t number, std::int64_t vocab) {
  std::mt19937_64 random(number);
  const auto width = static_cast<std::uint64_t>(vocab);
  ChainCall call;
  call.num_draft_tokens = static_cast<std::int64_t>(number % 6);
  call.batch = static_cast<std::int64_t>(1 + random() % (vocab > 10000 ? 6 : 40));
  const std::int64_t n = call.num_draft_tokens;
  // Half of the calls have the same dtype on both sides, so that drafts can equal the target.
  const auto target_type = static_cast<DType>(random() % 3);
  const auto draft_type = random() % 2 == 0 ? target_type : static_cast<DType>(random() % 3);
  const auto sometimes = [&random](std::uint64_t bound) {
    return random() % 2 == 0 ? 0 : random() % bound;
  };
  const auto allocate = [&](OwnedCall& rows, DType type, std::int64_t count) {
    const auto gap = static_cast<std::int64_t>(sometimes(9));
    rows.allocate(type, count, vocab, vocab + gap, sometimes(20));
  };
  allocate(call.target, target_type, call.batch * (n + 1));
  allocate(call.draft, draft_type, call.batch * n);
  for (std::int64_t b = 0; b < call.batch; ++b) {
    for (std::int64_t i = 0; i <= n; ++i) {
      const std::vector<float> p = random_probs_of(target_type, random, vocab);
      call.target.set_row(b * (n + 1) + i, p.data());
      if (i == n) break;
      std::vector<float> q = p;
      if (random() % 2 == 0) q = random_probs_of(draft_type, random, vocab);
      call.draft.set_row(b * n + i, q.data());
      const auto token = static_cast<std::int32_t>(random() % width);
      const std::int32_t bad = random() % 2 == 0 ? -1 : static_cast<std::int32_t>(vocab);
      call.draft_tokens.push_back(random() % 200 == 0 ? bad : token);
    }
  }
  harness::CallParameter<std::uint64_t>& seed = call.target.seed;
  harness::CallParameter<std::uint64_t>& offset = call.target.offset;
  seed.scalar = random();
  // in some calls the offset wraps around
  offset.scalar = random() % 2 == 0 ? random() : ~std::uint64_t{1};
  if (random() % 4 != 0) seed.make_array(call.batch);
  if (random() % 4 != 0) offset.make_array(call.batch);
  for (std::uint64_t& value : seed.values) value = random();
  for (std::uint64_t& value : offset.values)
    value = random() % 4 == 0 ? ~std::uint64_t{0} : random();
  return call;
}

ChainCall open_chain_call(std::uint64_t number, std::int64_t vocab) {
  constexpr std::int64_t kTokens = 4;
  std::mt19937_64 random(number);
  ChainCall call;
  call.batch = 6;
  call.num_draft_tokens = 3;
  const std::int64_t places = call.batch * call.num_draft_tokens;
  call.target.allocate(DType::float32, call.batch + places, vocab, vocab, 0);
  call.draft.allocate(DType::float32, places, vocab, vocab, 0);
  call.target.seed.scalar = random();
  const std::int64_t apart = vocab / kTokens;
  const auto fill = [&](OwnedCall& rows) {
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      std::vector<float> probs(static_cast<std::size_t>(vocab), 0.0F);
      for (std::int64_t t = 0; t < kTokens; ++t) {
        probs[static_cast<std::size_t>(t * apart)] =
            static_cast<float>(1 + random() % 2) * 0x1p-149F;
      }
      rows.set_row(row, probs.data());
    }
  };
  fill(call.target);
  fill(call.draft);
  for (std::int64_t place = 0; place < places; ++place) {
    const auto token = static_cast<std::int64_t>(random() % kTokens);
    call.draft_tokens.push_back(static_cast<std::int32_t>(token * apart));
  }
  return call;
}

}  // namespace fairdraw::suites
