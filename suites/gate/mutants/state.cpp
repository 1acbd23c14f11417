// What a sampler keeps from call to call, and what it does to arrays that are not its own.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <thread>

#include "harness/run/calls/random_words.h"
#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using Row = MutatedModel::Row;

const std::string kState = "state";

// What every call of a sampler sees, set by the first one.
template <class T>
std::function<T(T)> kept_from_first() {
  const auto first = std::make_shared<std::optional<T>>();
  return [first](T value) {
    if (!*first) *first = value;
    return **first;
  };
}

// What the call before had.
template <class T>
std::function<T(T)> late_by_one() {
  const auto before = std::make_shared<std::optional<T>>();
  return [before](T value) {
    const T late = before->value_or(value);
    *before = value;
    return late;
  };
}

std::vector<Mutant> sizes() {
  return {
      mutated_distribution(
          {"vocab-of-first-call",
           "systematic",
           kState,
           "buffers have the vocabulary of the first call, and later rows lose what is longer",
           {"replay/*"}},
          [](Mutation& mutation) {
            mutation.row = [vocab = kept_from_first<std::size_t>()](Row& row, const Place&) {
              const std::size_t first = vocab(row.logits.size());
              if (first >= row.logits.size()) return;
              std::fill(row.logits.begin() + static_cast<std::ptrdiff_t>(first), row.logits.end(),
                        row.from_probs ? 0.0F : kOut);
            };
          }),
      mutated_distribution({"tail-of-larger-call-left",
                            "systematic",
                            kState,
                            "a row's scratch is not cleared behind the vocabulary: after a "
                            "longer row, what stood behind "
                            "the end comes back as the last id",
                            {"replay/*"}},
                           [](Mutation& mutation) {
                             const auto longest = std::make_shared<std::size_t>(0);
                             mutation.row = [longest](Row& row, const Place&) {
                               if (row.logits.size() < *longest && !row.from_probs) {
                                 row.logits.back() =
                                     *std::max_element(row.logits.begin(), row.logits.end()) + 4;
                               }
                               *longest = std::max(*longest, row.logits.size());
                             };
                           }),
      mutated_distribution({"tie-rule-of-call-before",
                            "systematic",
                            kState,
                            "the rule for ties is copied to the device after the launch: a call "
                            "has that of the call before",
                            {"replay/*"}},
                           [](Mutation& mutation) {
                             mutation.call = [late = late_by_one<std::uint32_t>()](
                                                 fairdraw_batch& batch, Storage&) {
                               batch.tie_rule = late(batch.tie_rule);
                             };
                           }),
      mutated_distribution({"filter-order-of-call-before",
                            "systematic",
                            kState,
                            "the order of filters is that of the call before",
                            {"replay/*"}},
                           [](Mutation& mutation) {
                             mutation.call = [late = late_by_one<std::uint32_t>()](
                                                 fairdraw_batch& batch, Storage&) {
                               batch.filter_order = late(batch.filter_order);
                             };
                           }),
      mutated_distribution({"given-words-stay",
                            "systematic",
                            kState,
                            "a call without given random words draws with those of the call before",
                            {"replay/*"}},
                           [](Mutation& mutation) {
                             const auto last = std::make_shared<std::vector<std::uint64_t>>();
                             mutation.call = [last](fairdraw_batch& batch, Storage&) {
                               const std::int64_t size = batch.outputs * batch.num_samples;
                               if (batch.words != nullptr) {
                                 last->assign(batch.words, batch.words + size);
                               } else if (static_cast<std::int64_t>(last->size()) >= size &&
                                          !last->empty()) {
                                 batch.words = last->data();
                               }
                             };
                           }),
      mutated_distribution(
          {"greedy-flag-stays",
           "FreeToken PR #471",
           kState,
           "after a call whose rows are all greedy, one of several rows is greedy too",
           {"replay/*"}},
          [](Mutation& mutation) {
            const auto before = std::make_shared<bool>(false);
            const auto sticky = std::make_shared<bool>(false);
            mutation.call = [before, sticky](fairdraw_batch& batch, Storage&) {
              *sticky = *before && batch.rows > 1;
              *before =
                  batch.rows > 1 && std::all_of(batch.temperature, batch.temperature + batch.rows,
                                                [](float t) { return t == 0; });
            };
            mutation.row = [sticky](Row& row, const Place& place) {
              if (*sticky && place.row == 0) row.parameters.temperature = 0;
            };
          }),
      mutated_distribution(
          {"probabilities-flag-stays",
           "systematic",
           kState,
           "after rows of probabilities, the first call with logits takes them without their "
           "temperatures",
           {"replay/*"}},
          [](Mutation& mutation) {
            const auto late = late_by_one<std::uint32_t>();
            const auto stays = std::make_shared<bool>(false);
            mutation.call = [late, stays](fairdraw_batch& batch, Storage&) {
              *stays = late(batch.input) == 1 && batch.input == 0;
            };
            mutation.row = [stays](Row& row, const Place&) {
              if (*stays && row.parameters.temperature != 0) row.parameters.temperature = 1;
            };
          }),
      mutated_distribution(
          {"dtype-of-call-before",
           "systematic",
           kState,
           "a cached view has the dtype of the call before: float16 is read as bfloat16",
           {"replay/*"}},
          [](Mutation& mutation) {
            mutation.call = [late = late_by_one<std::uint32_t>()](fairdraw_batch& batch, Storage&) {
              const std::uint32_t before = late(batch.dtype);
              if (batch.dtype != 0 && before != 0) batch.dtype = before;
            };
          }),
      mutated_distribution(
          {"generator-of-the-thread",
           "cactus PR #508",
           kState,
           "the generator is thread-local: a call from another thread draws something else",
           {"replay/*"}},
          [](Mutation& mutation) {
            const auto first = std::make_shared<std::optional<std::thread::id>>();
            mutation.word = [first](std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                                    std::int64_t) {
              if (!*first) *first = std::this_thread::get_id();
              const bool other = **first != std::this_thread::get_id();
              return harness::random_word(other ? ~seed : seed, offset, Purpose::draw, index);
            };
          }),
  };
}

// A mutant that writes into what it is given to read.
Mutant of_input(MutantText text, void (*change)(const fairdraw_batch&)) {
  return mutated_integers(std::move(text), [change](Mutation& mutation) {
    mutation.finish = [change](const fairdraw_batch& batch) { change(batch); };
  });
}

std::vector<Mutant> inputs() {
  return {
      of_input({"bans-written-into-logits",
                "vllm-ascend PR #2881; SGLang PR #15648",
                kState,
                "banned ids get -inf in the caller's logits",
                {"tokens/*/banned"}},
               [](const fairdraw_batch& batch) {
                 if (batch.allowed == nullptr || batch.dtype != 0) return;
                 auto* const logits = const_cast<float*>(static_cast<const float*>(batch.logits));
                 for (std::int64_t row = 0; row < batch.rows; ++row) {
                   for (std::int64_t id = 0; id < batch.vocab; ++id) {
                     const std::uint32_t word = batch.allowed[row * batch.allowed_stride + id / 32];
                     if (((word >> (id % 32)) & 1U) == 0)
                       logits[row * batch.row_stride + id] = kOut;
                   }
                 }
               }),
      of_input(
          {"greedy-temperature-patched",
           "vLLM PR #22261",
           kState,
           "temperature 0 is replaced by 1 in the caller's array, so that nothing is divided by 0",
           {"tokens/*"}},
          [](const fairdraw_batch& batch) {
            auto* const temperature = const_cast<float*>(batch.temperature);
            std::replace(temperature, temperature + batch.rows, 0.0F, 1.0F);
          }),
      of_input({"top-k-patched",
                "Megatron-LM PR #2456",
                kState,
                "a top_k that is off becomes the vocabulary in the caller's array",
                {"tokens/*"}},
               [](const fairdraw_batch& batch) {
                 auto* const top_k = const_cast<std::int32_t*>(batch.top_k);
                 std::replace(top_k, top_k + batch.rows, 0, static_cast<std::int32_t>(batch.vocab));
               }),
      of_input({"offsets-advanced-in-place",
                "TensorRT-LLM PR #17172",
                kState,
                "the caller's offsets are counted up by the tokens that were drawn",
                {"tokens/*"}},
               [](const fairdraw_batch& batch) {
                 auto* const offset = const_cast<std::uint64_t*>(batch.offset);
                 const std::int64_t count = batch.seed_is_scalar != 0 ? 1 : batch.outputs;
                 for (std::int64_t i = 0; i < count; ++i) {
                   offset[i] += static_cast<std::uint64_t>(batch.num_samples);
                 }
               }),
      of_input({"row-gap-zeroed",
                "systematic",
                kState,
                "the gap between two rows of logits is filled, as if it were padding of the "
                "sampler's own",
                {"replay/*"}},
               [](const fairdraw_batch& batch) {
                 if (batch.dtype != 0 || batch.rows < 2 || batch.row_stride <= batch.vocab) return;
                 auto* const logits = const_cast<float*>(static_cast<const float*>(batch.logits));
                 std::fill(logits + batch.vocab,
                           logits + std::min(batch.row_stride, batch.vocab + 4), 0.0F);
               }),
  };
}

}  // namespace

std::vector<Mutant> state_mutants() { return joined({sizes(), inputs()}); }

}  // namespace fairdraw::suites
