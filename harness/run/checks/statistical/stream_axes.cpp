#include "harness/run/checks/statistical/stream_axes.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/run/calls/random_words.h"

namespace fairdraw::harness {
namespace {

using Kind = StreamPlan::Kind;

// The number of samples per output of Kind::grid. With three outputs of three samples, if sample s
// of output i were drawn as number i + s, four of the eight later draws would repeat earlier draws.
constexpr std::int32_t kGridSamples = 3;

// Offsets with equal upper bits differ by more than the length of any sequence.
constexpr std::uint64_t kOffset = 0x1000;

void add_axes(const SamplerDescription& sampler, std::uint64_t seed,
              std::vector<StreamPlan>& plans) {
  const RandomnessContract& contract = sampler.randomness;
  // The sequences of samples and outputs use offsets a few places before those of the kind
  // `offsets`. If seeds make no difference, outputs have another offset than samples, because two
  // sequences must not coincide by a property that the sampler does not promise.
  const std::uint64_t near = kOffset - 3;
  const std::uint64_t nearer = contract.seeds ? near : near + 1;
  if (contract.offsets) plans.push_back({Kind::offsets, "offsets", "offsets", seed, kOffset});
  if (contract.samples && sampler.num_samples) {
    plans.push_back({Kind::samples, "samples", "samples of one output", seed, near});
  }
  const bool told_apart = contract.seeds || contract.offsets || !contract.samples;
  if (contract.outputs && told_apart) {
    plans.push_back({Kind::outputs, "outputs", "outputs with one seed", seed + 1, nearer});
  }
  if (contract.seeds && contract.offsets) {
    plans.push_back({Kind::offsets, "seeds", "offsets of the next seed", seed + 1, kOffset});
  }
  if (contract.seeds) {
    plans.push_back({Kind::seeds, "seeds", "consecutive seeds", seed + 4, kOffset});
  }
  const auto flipped = [&](int number) {
    plans.push_back({Kind::offsets, "seeds", fmt::format("seed with bit {} flipped", number),
                     seed ^ bit(number), kOffset});
  };
  if (contract.seeds && contract.offsets) {
    for (const int number : {16, 32}) flipped(number);
  }
  if (contract.offsets) {
    plans.push_back({Kind::offsets, "offsets", "offsets 2^32 later", seed, kOffset + bit(32)});
  }
  // Flips of bits 0 to 3 would give neighbouring seeds.
  for (int number = 4; contract.seeds && contract.offsets && number < 64; ++number) {
    if (number != 16 && number != 32) flipped(number);
  }
  // Sequences with flipped offsets use another seed, because the draws before kOffset belong to the
  // samples above. If seeds make no difference, these sequences do not use the offsets of the
  // samples above.
  const std::uint64_t other = ~seed;
  if (contract.offsets && contract.seeds) {
    plans.push_back({Kind::offsets, "offsets", "offsets of another seed", other, kOffset});
  }
  for (int number = contract.seeds ? 3 : 4; contract.offsets && number < 64; ++number) {
    if (number == 32 && !contract.seeds) continue;
    plans.push_back({Kind::offsets, "offsets", fmt::format("offset with bit {} flipped", number),
                     other, kOffset ^ bit(number)});
  }
}

// Adds seeds that some samplers take for "none" or for their neighbours, and flipped bits of the
// offset under the seed whose own bits were flipped, so that a sampler that mixes the two gives
// equal sequences.
void add_special_seeds(const SamplerDescription& sampler, std::uint64_t seed,
                       std::vector<StreamPlan>& plans) {
  if (!sampler.randomness.seeds || !sampler.randomness.offsets) return;
  const std::uint64_t seeds[] = {0,       1,        0x7fffffff, 0xffffffff, ~std::uint64_t{0},
                                 bit(63), ~seed + 1};
  for (const std::uint64_t special : seeds) {
    plans.push_back({Kind::offsets, "seeds", fmt::format("seed {:#x}", special), special, kOffset});
  }
  for (int number = 13; number < 64; ++number) {  // bits above those flipped first
    if (number == 32) continue;
    plans.push_back({Kind::offsets, "offsets",
                     fmt::format("offset with bit {} flipped, of the first seed", number), seed,
                     kOffset ^ bit(number)});
  }
}

// Adds other shapes of a call with one seed.
void add_shapes(const SamplerDescription& sampler, std::uint64_t seed,
                std::vector<StreamPlan>& plans) {
  const RandomnessContract& contract = sampler.randomness;
  if (!contract.seeds) return;  // because these sequences need more distinct seeds
  const bool samples = contract.samples && sampler.num_samples;
  if (contract.outputs) {
    plans.push_back({Kind::rows, "outputs", "rows with one seed", seed + 2, kOffset});
    if (contract.offsets) {
      plans.push_back({.kind = Kind::outputs,
                       .axis = "outputs",
                       .name = "calls of two outputs with one seed",
                       .seed = seed + 2,
                       .offset = kOffset + bit(16),
                       .a_call = 2});
    }
  }
  if (contract.outputs && samples) {
    plans.push_back({Kind::grid, "samples", "samples of outputs with one seed", seed + 3, kOffset});
  }
}

// Returns one call that draws from the first row, with a seed and an offset for each output.
Request outputs_of(const Request& row, const std::vector<std::uint64_t>& seeds,
                   const std::vector<std::uint64_t>& offsets, std::size_t outputs,
                   const SamplerDescription& sampler, bool through_indices = true) {
  Request request = row;
  request.seed = seeds;
  request.offset = offsets;
  request.seed_is_scalar = seeds.size() != outputs || !sampler.per_request_seeds;
  if (outputs == 1) return request;
  if (sampler.indices && through_indices) {
    request.with_indices = true;
    request.indices.assign(outputs, 0);
    return request;
  }
  request.rows = static_cast<std::int64_t>(outputs);
  request.parameters.assign(outputs, row.parameters.front());
  for (std::size_t i = 1; i < outputs; ++i) {
    request.logits.insert(request.logits.end(), row.logits.begin(), row.logits.end());
    request.allowed.insert(request.allowed.end(), row.allowed.begin(), row.allowed.end());
  }
  return request;
}

class Drawing {
 public:
  Drawing(const CheckInput& input, const Request& row, CheckOutcome& outcome)
      : input_(input), row_(row), outcome_(outcome), sampler_(input.sampler->description()) {
    // Without `indices` every output needs its own copy of the row.
    const auto vocab = static_cast<std::size_t>(row.vocab);
    max_outputs_ = sampler_.indices ? std::size_t{1} << 16
                                    : std::max<std::size_t>(kStreamLength, (1U << 22) / vocab);
    if (input.requests_of_call > 0) {
      max_outputs_ = std::min(max_outputs_, static_cast<std::size_t>(input.requests_of_call));
    }
  }

  // Makes draws with a seed and an offset each, which may be divided among calls.
  std::vector<std::int32_t> with_seeds(const std::vector<std::uint64_t>& seeds,
                                       const std::vector<std::uint64_t>& offsets,
                                       std::size_t samples = 1) {
    std::vector<std::int32_t> tokens;
    for (std::size_t first = 0; first < seeds.size() && !outcome_.failed(); first += max_outputs_) {
      const std::size_t last = std::min(first + max_outputs_, seeds.size());
      const auto part = [first, last](const std::vector<std::uint64_t>& all) {
        return std::vector<std::uint64_t>(all.begin() + static_cast<std::ptrdiff_t>(first),
                                          all.begin() + static_cast<std::ptrdiff_t>(last));
      };
      Request request = outputs_of(row_, part(seeds), part(offsets), last - first, sampler_);
      request.num_samples = static_cast<std::int32_t>(samples);
      append(run(request), tokens);
    }
    return tokens;
  }

  // Makes one call with one seed, and returns the tokens [outputs, samples].
  std::vector<std::int32_t> of_one_call(std::uint64_t seed, std::uint64_t offset,
                                        std::size_t outputs, std::size_t samples) {
    Request request = outputs_of(row_, {seed}, {offset}, outputs, sampler_);
    request.seed_is_scalar = true;
    request.num_samples = static_cast<std::int32_t>(samples);
    return run(request);
  }

  // Makes all draws of a sequence with one seed, so that they differ by their number in the call. A
  // sequence that is too long for one call takes further calls, each with its own offset.
  std::vector<std::int32_t> of_one_seed(const StreamPlan& plan, std::size_t length) {
    std::vector<std::int32_t> tokens;
    const bool samples = plan.kind == Kind::samples;
    std::size_t most = samples                    ? std::size_t{1} << 16
                       : plan.kind == Kind::calls ? kStreamLength
                                                  : max_outputs_;
    if (plan.a_call > 0) most = std::min(most, plan.a_call);
    for (std::uint64_t call = 0; tokens.size() < length && !outcome_.failed(); ++call) {
      const std::size_t draws = std::min(most, length - tokens.size());
      Request request;
      if (samples) {
        request = outputs_of(row_, {plan.seed}, {plan.offset + call}, 1, sampler_);
        request.num_samples = static_cast<std::int32_t>(draws);
      } else {
        const bool grid = plan.kind == Kind::grid;
        request = outputs_of(row_, {plan.seed}, {plan.offset + call},
                             grid ? (draws + kGridSamples - 1) / kGridSamples : draws, sampler_,
                             plan.kind != Kind::rows);
        request.seed_is_scalar = true;
        if (grid) request.num_samples = kGridSamples;
      }
      append(run(request), tokens);
    }
    tokens.resize(std::min(tokens.size(), length));
    return tokens;
  }

 private:
  std::vector<std::int32_t> run(const Request& request) {
    const Response response = run_request(*input_.sampler, request, {});
    if (!response.ran()) {
      outcome_.fail(response.trouble());
      return {};
    }
    for (const std::int32_t token : response.tokens) {
      if (token >= 0 && token < row_.vocab) continue;
      outcome_.fail(fmt::format("token {} is outside of the vocabulary", token));
      return {};
    }
    return response.tokens;
  }

  static void append(const std::vector<std::int32_t>& from, std::vector<std::int32_t>& to) {
    to.insert(to.end(), from.begin(), from.end());
  }

  const CheckInput& input_;
  const Request& row_;
  CheckOutcome& outcome_;
  const SamplerDescription& sampler_;
  std::size_t max_outputs_ = 1;
};

}  // namespace

std::vector<StreamPlan> short_streams(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  // Bits 0 to 3 are zero, so that seed + 1 and seed + 4 to seed + 11 do not equal flipped seeds.
  const std::uint64_t seed = mixed(input.seed, 0) & ~std::uint64_t{15};
  std::vector<StreamPlan> plans;
  if (sampler.per_request_seeds) {
    add_axes(sampler, seed, plans);
    add_special_seeds(sampler, seed, plans);
    add_shapes(sampler, seed, plans);
    return plans;
  }
  if (!sampler.randomness.outputs) return plans;
  // For a sampler with its own generator, outputs of consecutive calls are compared, for any seed.
  for (std::uint64_t call = 0; call < 16; ++call) {
    plans.push_back(
        {Kind::calls, "calls", fmt::format("call {}", call), seed + call, kOffset + call});
  }
  if (sampler.num_samples && sampler.randomness.samples) {
    plans.push_back({Kind::samples, "samples", "samples of one output", seed, kOffset + 16});
  }
  return plans;
}

std::vector<StreamPlan> long_streams(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  const RandomnessContract& contract = sampler.randomness;
  const std::uint64_t seed = mixed(input.seed, 1);
  std::vector<StreamPlan> plans;
  if (!sampler.per_request_seeds) {
    if (contract.outputs) plans.push_back({Kind::calls, "calls", "outputs of calls", seed, 0});
  } else {
    if (contract.offsets) plans.push_back({Kind::offsets, "offsets", "offsets", seed, 0});
    if (contract.offsets && contract.seeds) {
      plans.push_back({Kind::offsets, "seeds", "offsets of the next seed", seed + 1, 0});
    }
    if (contract.seeds) {
      plans.push_back({Kind::seeds, "seeds", "consecutive seeds", seed + 2, 0});
    }
    if (contract.outputs) {
      plans.push_back({Kind::outputs, "outputs", "outputs with one seed", ~seed, bit(41)});
    }
  }
  if (contract.samples && sampler.num_samples) {
    plans.push_back({Kind::samples, "samples", "samples of one output", ~seed, bit(40)});
  }
  return plans;
}

std::vector<std::vector<std::int32_t>> draw_streams(const CheckInput& input, const Request& row,
                                                    const std::vector<StreamPlan>& plans,
                                                    std::size_t length, CheckOutcome& outcome) {
  Drawing drawing(input, row, outcome);
  std::vector<std::vector<std::int32_t>> streams;
  std::vector<std::uint64_t> seeds, offsets;  // inputs of plans that wait for their call
  std::size_t waiting = 0;
  const auto flush = [&] {
    const std::vector<std::int32_t> tokens = drawing.with_seeds(seeds, offsets);
    for (std::size_t i = 0; i < waiting && tokens.size() == seeds.size(); ++i) {
      const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(i * length);
      streams.emplace_back(first, first + static_cast<std::ptrdiff_t>(length));
    }
    seeds.clear();
    offsets.clear();
    waiting = 0;
  };
  for (const StreamPlan& plan : plans) {
    if (outcome.failed()) break;
    if (plan.kind == Kind::offsets || plan.kind == Kind::seeds) {
      for (std::uint64_t i = 0; i < length; ++i) {
        seeds.push_back(plan.seed + (plan.kind == Kind::seeds ? i : 0));
        offsets.push_back(plan.offset + (plan.kind == Kind::offsets ? i : 0));
      }
      ++waiting;
      continue;
    }
    flush();
    if (!outcome.failed()) streams.push_back(drawing.of_one_seed(plan, length));
  }
  flush();
  for (const std::vector<std::int32_t>& stream : streams) outcome.draws += stream.size();
  return streams;
}

std::vector<std::int32_t> draw_lattice(const CheckInput& input, const Request& row,
                                       const StreamLattice& lattice, CheckOutcome& outcome) {
  Drawing drawing(input, row, outcome);
  std::vector<std::int32_t> tokens;
  std::vector<std::uint64_t> seeds, offsets;
  for (const std::uint64_t seed : lattice.seeds) {
    for (const std::uint64_t offset : lattice.offsets) {
      if (outcome.failed()) return {};
      if (lattice.a_call_each) {
        const auto call = drawing.of_one_call(seed, offset, lattice.outputs, lattice.samples);
        tokens.insert(tokens.end(), call.begin(), call.end());
      } else {
        seeds.push_back(seed);
        offsets.push_back(offset);
      }
    }
  }
  if (!seeds.empty()) tokens = drawing.with_seeds(seeds, offsets, lattice.samples);
  outcome.draws += tokens.size();
  return tokens;
}

}  // namespace fairdraw::harness
