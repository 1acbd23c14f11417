// Mutants that keep state between calls, or change arrays of the caller.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

// Returns a function that always returns the value of its first call.
template <class T>
std::function<T(T)> kept_from_first() {
  const auto first = std::make_shared<std::optional<T>>();
  return [first](T value) {
    if (!*first) *first = value;
    return **first;
  };
}

// Returns a function that returns the value of its previous call.
template <class T>
std::function<T(T)> late_by_one() {
  const auto before = std::make_shared<std::optional<T>>();
  return [before](T value) {
    const T late = before->value_or(value);
    *before = value;
    return late;
  };
}

constexpr Entry kSizes[] = {
    {"vocab-of-first-call",
     "buffers have the vocabulary of the first call, and later rows lose what is longer",
     [](Mutation& mutation) {
       mutation.row = [vocab = kept_from_first<std::size_t>()](Row& row, const Place&) {
         drop_from(row, vocab(row.logits.size()));
       };
     }},
    {"tail-of-larger-call-left",
     "a row's scratch is not cleared behind the vocabulary: after a longer row, what stood behind "
     "the end comes back as the last id",
     [](Mutation& mutation) {
       const auto longest = std::make_shared<std::size_t>(0);
       mutation.row = [longest](Row& row, const Place&) {
         if (row.logits.size() < *longest && !row.from_probs) {
           row.logits.back() = *std::ranges::max_element(row.logits) + 4;
         }
         *longest = std::max(*longest, row.logits.size());
       };
     }},
    {"tie-rule-of-call-before",
     "the rule for ties is copied to the device after the launch: a call has that of the call "
     "before",
     [](Mutation& mutation) {
       mutation.call = [late = late_by_one<std::uint32_t>()](fairdraw_batch& batch, Storage&) {
         batch.tie_rule = late(batch.tie_rule);
       };
     }},
    {"filter-order-of-call-before", "the order of filters is that of the call before",
     [](Mutation& mutation) {
       mutation.call = [late = late_by_one<std::uint32_t>()](fairdraw_batch& batch, Storage&) {
         batch.filter_order = late(batch.filter_order);
       };
     }},
    {"given-words-stay", "a call without given random words draws with those of the call before",
     [](Mutation& mutation) {
       const auto last = std::make_shared<std::vector<std::uint64_t>>();
       mutation.call = [last](fairdraw_batch& batch, Storage&) {
         const std::int64_t size = batch.outputs * batch.num_samples;
         if (batch.words != nullptr) {
           last->assign(batch.words, batch.words + size);
         } else if (static_cast<std::int64_t>(last->size()) >= size && !last->empty()) {
           batch.words = last->data();
         }
       };
     }},
    {"greedy-flag-stays", "FreeToken PR #471",
     "after a call whose rows are all greedy, one of several rows is greedy too",
     [](Mutation& mutation) {
       const auto before = std::make_shared<bool>(false);
       const auto sticky = std::make_shared<bool>(false);
       mutation.call = [before, sticky](fairdraw_batch& batch, Storage&) {
         *sticky = *before && batch.rows > 1;
         const auto greedy = std::count(batch.temperature, batch.temperature + batch.rows, 0.0F);
         *before = batch.rows > 1 && greedy == batch.rows;
       };
       mutation.row = [sticky](Row& row, const Place& place) {
         if (*sticky && place.row == 0) row.parameters.temperature = 0;
       };
     }},
    {"probabilities-flag-stays",
     "after rows of probabilities, the first call with logits takes them without their "
     "temperatures",
     [](Mutation& mutation) {
       const auto late = late_by_one<std::uint32_t>();
       const auto stays = std::make_shared<bool>(false);
       mutation.call = [late, stays](fairdraw_batch& batch, Storage&) {
         *stays = late(batch.input) == 1 && batch.input == 0;
       };
       mutation.row = [stays](Row& row, const Place&) {
         if (*stays && row.parameters.temperature != 0) row.parameters.temperature = 1;
       };
     }},
    {"dtype-of-call-before",
     "a cached view has the dtype of the call before: float16 is read as bfloat16",
     [](Mutation& mutation) {
       mutation.call = [late = late_by_one<std::uint32_t>()](fairdraw_batch& batch, Storage&) {
         const std::uint32_t before = late(batch.dtype);
         if (batch.dtype != 0 && before != 0) batch.dtype = before;
       };
     }},
    {"generator-of-the-thread", "cactus PR #508",
     "the generator is thread-local: a call from another thread draws something else",
     [](Mutation& mutation) {
       const auto first = std::make_shared<std::optional<std::thread::id>>();
       mutation.word = [first](const WordKey& of) {
         if (!*first) *first = std::this_thread::get_id();
         const bool other = **first != std::this_thread::get_id();
         return draw_word(of, other ? ~of.seed : of.seed, of.offset, of.index);
       };
     }},
};

constexpr Entry kInputs[] = {
    {"bans-written-into-logits", "vllm-ascend PR #2881; SGLang PR #15648",
     "banned ids get -inf in the caller's logits", By("tokens/*/banned"),
     [](const fairdraw_batch& batch) {
       if (batch.allowed == nullptr || batch.dtype != 0) return;
       auto* const logits = const_cast<float*>(static_cast<const float*>(batch.logits));
       for (std::int64_t row = 0; row < batch.rows; ++row) {
         for (std::int64_t id = 0; id < batch.vocab; ++id) {
           const std::uint32_t word = batch.allowed[row * batch.allowed_stride + id / 32];
           if (((word >> (id % 32)) & 1U) == 0) logits[row * batch.row_stride + id] = kOut;
         }
       }
     }},
    {"greedy-temperature-patched", "vLLM PR #22261",
     "temperature 0 is replaced by 1 in the caller's array, so that nothing is divided by 0",
     [](const fairdraw_batch& batch) {
       auto* const temperature = const_cast<float*>(batch.temperature);
       std::replace(temperature, temperature + batch.rows, 0.0F, 1.0F);
     }},
    {"top-k-patched", "Megatron-LM PR #2456",
     "a top_k that is off becomes the vocabulary in the caller's array",
     [](const fairdraw_batch& batch) {
       auto* const top_k = const_cast<std::int32_t*>(batch.top_k);
       std::replace(top_k, top_k + batch.rows, 0, static_cast<std::int32_t>(batch.vocab));
     }},
    {"offsets-advanced-in-place", "TensorRT-LLM PR #17172",
     "the caller's offsets are counted up by the tokens that were drawn",
     [](const fairdraw_batch& batch) {
       auto* const offset = const_cast<std::uint64_t*>(batch.offset);
       const std::int64_t count = batch.seed_is_scalar != 0 ? 1 : batch.outputs;
       for (std::int64_t i = 0; i < count; ++i) {
         offset[i] += static_cast<std::uint64_t>(batch.num_samples);
       }
     }},
    {"row-gap-zeroed",
     "the gap between two rows of logits is filled, as if it were padding of the sampler's own",
     By("replay/*"),
     [](const fairdraw_batch& batch) {
       if (batch.dtype != 0 || batch.rows < 2 || batch.row_stride <= batch.vocab) return;
       auto* const logits = const_cast<float*>(static_cast<const float*>(batch.logits));
       std::fill(logits + batch.vocab, logits + std::min(batch.row_stride, batch.vocab + 4), 0.0F);
     }},
};

}  // namespace

std::vector<Mutant> state_mutants() {
  return joined({mutants_of("state", "replay/*", Base::distribution, kSizes),
                 mutants_of("state", "tokens/*", Base::integers, kInputs)});
}

}  // namespace fairdraw::suites
