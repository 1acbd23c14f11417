// Tests that the description of a call's arrays includes every pointer of the C structs, and that
// all code that walks over arrays uses this description, also for a new array.
#include "harness/contract/call_arrays.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "harness/adapters/device_arrays.h"
#include "harness/contract/serving.h"
#include "harness/contract/serving_arrays.h"
#include "harness/run/calls/chain_request.h"
#include "harness/run/calls/operation_call.h"
#include "harness/run/calls/request.h"
#include "harness/run/calls/request_arrays.h"
#include "harness/run/calls/sequence_event.h"
#include "harness/run/calls/speculation_request.h"

namespace fairdraw::harness {

/// A batch of a later version of the contract, with one more input and one more result.
struct WiderBatch : fairdraw_batch {
  const std::uint16_t* extra;
  std::int32_t* extra_result;
};

template <>
struct CallArrays<WiderBatch> {
  template <class Visit>
  static constexpr void each(const WiderBatch& call, const Visit& visit) {
    CallArrays<fairdraw_batch>::each(call, visit);
    const ArrayDescriber arrays(call, visit);
    arrays.optional(FAIRDRAW_FIELD(extra), call.rows);
    arrays.optional_rows(FAIRDRAW_FIELD(extra_result), call.rows, 2, 3);
  }
};

namespace {

static_assert(array_count<WiderBatch>() == array_count<fairdraw_batch>() + 2);

// --- The description and the C structs -----------------------------------------------------------

/// Returns the names of the pointer members of a struct of the contract and of its nested structs.
std::set<std::string> pointers_in(const std::string& header, const std::string& type) {
  const std::string head = "typedef struct " + type + " {";
  const std::size_t begin = header.find(head);
  const std::size_t end = header.find("} " + type + ";");
  EXPECT_TRUE(begin < end && end != std::string::npos) << type;
  std::istringstream members(header.substr(begin + head.size(), end - begin - head.size()));
  std::set<std::string> pointers;
  for (std::string member; std::getline(members, member, ';');) {
    std::smatch parts;
    if (!std::regex_search(member, parts, std::regex(R"((\w+)\s*(\*?)\s*(\w+)\s*$)"))) continue;
    const std::string of = parts[1], name = parts[3];
    if (parts[2] == "*") pointers.insert(name);
    if (of == "fairdraw_processing") pointers.merge(pointers_in(header, of));
    if (of == "fairdraw_token_lists") {
      for (const std::string& part : pointers_in(header, of)) {
        pointers.insert(part == "data" ? name : name + "." + part);
      }
    }
  }
  return pointers;
}

template <class Call>
std::set<std::string> described() {
  std::set<std::string> names;
  const Call call{};
  each_array(call, [&names](const auto& /*pointer*/, const CallArray& array) {
    EXPECT_TRUE(names.insert(array.name).second) << array.name << " is described twice";
  });
  return names;
}

TEST(CallArrays, everyPointerOfTheStructsIsDescribed) {
  std::stringstream text;
  text << std::ifstream(FAIRDRAW_BATCH_H).rdbuf() << std::ifstream(FAIRDRAW_DRAFTS_H).rdbuf()
       << std::ifstream(FAIRDRAW_SEQUENCE_H).rdbuf() << std::ifstream(FAIRDRAW_OPERATION_H).rdbuf();
  const std::string header =
      std::regex_replace(text.str(), std::regex(R"(/\*[^*]*(\*[^/][^*]*)*\*/)"), "");
  EXPECT_EQ(described<fairdraw_batch>(), pointers_in(header, "fairdraw_batch"));
  EXPECT_EQ(described<fairdraw_chain>(), pointers_in(header, "fairdraw_chain"));
  EXPECT_EQ(described<fairdraw_verification>(), pointers_in(header, "fairdraw_verification"));
  EXPECT_EQ(described<fairdraw_event>(), pointers_in(header, "fairdraw_event"));
  EXPECT_EQ(described<fairdraw_operation>(), pointers_in(header, "fairdraw_operation"));
  EXPECT_EQ(pointers_in(header, "fairdraw_chain").size(), 12U);  // checks that the parser works
}

// --- One array more ------------------------------------------------------------------------------

/// A call with the wider batch that gives only its new arrays.
struct WiderCall {
  WiderBatch batch{};
  PlacedArrays arrays{std::pmr::get_default_resource()};
  struct {
    std::vector<std::uint16_t> extra = {1, 2, 3};
  } prepared;
  std::vector<std::int32_t> extra_result;

  WiderCall() {
    batch.rows = 3;
    CallArrays<WiderBatch>::each(batch, [this](auto field, const CallArray& array) {
      if constexpr (requires { field(prepared); }) {
        field(batch) = arrays.input(array, std::span(std::as_const(field(prepared))));
      } else if constexpr (requires { field(*this); }) {
        field(batch) = arrays.result(array, field(*this));
      }
    });
  }
};

TEST(CallArrays, guardsAndResultsFollowTheDescription) {
  {
    WiderCall call;
    for (const int at : {0, 1, 3, 4, 6, 7}) call.batch.extra_result[at] = at;
    EXPECT_EQ(call.arrays.damage(), "");
    call.arrays.take();
    EXPECT_EQ(call.extra_result, (std::vector<std::int32_t>{0, 1, 3, 4, 6, 7}));
  }
  const auto damage = [](int at) {
    WiderCall call;
    call.batch.extra_result[at] = 7;
    return call.arrays.damage();
  };
  EXPECT_EQ(damage(-1), "wrote in front of extra_result");
  EXPECT_EQ(damage(2), "wrote between two rows of extra_result");
  EXPECT_EQ(damage(9), "wrote past the end of extra_result");
  WiderCall call;
  EXPECT_EQ(call.batch.extra_result[0], kUnwritten);
  call.prepared.extra[1] = 7;
  EXPECT_EQ(call.arrays.damage(), "changed extra, which it may only read");
}

TEST(CallArrays, anInputShorterThanDescribedIsRefused) {
  PlacedArrays arrays(std::pmr::get_default_resource());
  const std::vector<std::uint16_t> two = {1, 2};
  const CallArray array{"extra", false, 2, 1, 3, 3};
  EXPECT_THROW(arrays.input(array, std::span(two)), std::logic_error);
}

TEST(CallArrays, namesFollowTheDescription) {
  const WiderCall call;
  std::set<std::string> names;
  for (const NamedArray& array : named_arrays(call.batch)) names.insert(array.name);
  EXPECT_EQ(names, (std::set<std::string>{"extra", "extra_result"}));
}

/// A stand-in for the device that lists the moved arrays, with addresses of its own.
struct ListedArrays {
  std::vector<std::pair<const void*, std::int64_t>> moved, results;

  void add(const void* host, std::int64_t bytes) { moved.emplace_back(host, bytes); }
  void add_result(const void* host, std::int64_t bytes) {
    add(host, bytes);
    if (host != nullptr) results.push_back(moved.back());
  }
  static Error upload(DeviceState& /*state*/) { return {}; }
  static Error download(DeviceState& /*state*/) { return {}; }
  template <class T>
  T* at(std::size_t number) {
    static std::array<std::int64_t, 128> device;
    return moved[number].first == nullptr ? nullptr : reinterpret_cast<T*>(&device.at(number));
  }
};

TEST(CallArrays, movesToADeviceFollowTheDescription) {
  const WiderCall host;
  ListedArrays arrays;
  DeviceState state;
  DeviceCall<WiderBatch, ListedArrays&> call(host.batch, arrays);
  ASSERT_FALSE(call.upload(state));
  EXPECT_EQ(arrays.moved.size(), array_count<fairdraw_batch>() + 2);
  EXPECT_EQ(arrays.moved[arrays.moved.size() - 2],
            std::pair(static_cast<const void*>(host.batch.extra), std::int64_t{6}));
  const void* const result = host.batch.extra_result;
  EXPECT_EQ(arrays.results, (std::vector{std::pair(result, std::int64_t{32})}));
  EXPECT_NE(call.call().extra, nullptr);
  EXPECT_NE(call.call().extra, host.batch.extra);
  EXPECT_NE(call.call().extra_result, host.batch.extra_result);
  EXPECT_EQ(call.call().logits, nullptr);
}

// --- Every array of a real call ------------------------------------------------------------------

/// A faulty sampler that damages array number `victim` of every call: changes an input, or writes
/// after the end of a result.
class Vandal final : public Serves<> {
 public:
  Vandal() { description_.reports_status = true; }
  const SamplerDescription& description() const override { return description_; }
  std::string run(const fairdraw_batch& batch) override { return damage(batch); }
  std::string run_chain(const fairdraw_chain& chain) override { return damage(chain); }
  std::string run_speculation(const fairdraw_verification& call) override { return damage(call); }
  std::string run_event(const fairdraw_event& event) override { return damage(event); }
  std::string run_operation(const fairdraw_operation& call) override { return damage(call); }

  std::size_t victim = 0;
  std::string expected;  ///< expected message; empty if the call lacks the array

 private:
  template <class Call>
  std::string damage(const Call& call) {
    std::size_t number = 0;
    expected.clear();
    each_array(call, [&](const auto& pointer, const CallArray& array) {
      if (number++ != victim || pointer == nullptr) return;
      const bool result = is_result<decltype(pointer)>;
      auto* const first = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(pointer));
      const std::int64_t room = array.rows * array.stride * array.value_bytes;
      first[result ? room : 0] ^= std::byte{0x5a};
      expected = result ? "wrote past the end of " + std::string(array.name)
                        : "changed " + std::string(array.name) + ", which it may only read";
    });
    return {};
  }

  SamplerDescription description_;
};

/// Damages every array in the calls that `run` makes, and expects each damage to be reported. The
/// calls have several forms; each array, except `in_none` of them, is given in at least one form.
template <class Call, class Run>
void expect_found(int forms, const Run& run, std::size_t in_none = 0) {
  std::set<std::size_t> given;
  Vandal vandal;
  for (vandal.victim = 0; vandal.victim < array_count<Call>(); ++vandal.victim) {
    for (int form = 0; form < forms; ++form) {
      const auto response = run(vandal, form);
      EXPECT_EQ(response.damage, vandal.expected);
      if (!vandal.expected.empty()) given.insert(vandal.victim);
    }
  }
  EXPECT_EQ(given.size() + in_none, array_count<Call>());
}

std::vector<reference::RowProcessing> two_processed_rows() {
  reference::RowProcessing row;
  row.prompt = {1};
  row.output = {2, 3};
  row.output_length = 2;
  row.biases = {{4, 1.0F}};
  row.stop_ids = {5};
  row.bad_words = {6, 7};
  row.bad_word_lengths = {2};
  row.allowed_ids = {1, 2, 3, 4, 5, 6, 7};
  row.top_n_sigma = 1;
  row.p_less = 1;
  row.penalty_window = 4;
  row.forced_tokens = {1};
  row.dry_breakers = {2};
  return {row, row};
}

TEST(CallArrays, damageToAnyArrayOfABatchIsFound) {
  expect_found<fairdraw_batch>(2, [](Vandal& vandal, int form) {
    Request request;
    request.rows = 2;
    request.vocab = 40;
    request.logits.assign(80, 1.0F);
    request.gap = 1;
    request.parameters.resize(2);
    request.processing = two_processed_rows();
    request.history_form = {form == 1, form == 1, false};
    request.allowed.assign(4, ~0U);
    request.active = {1, 1};
    request.with_indices = true;
    request.indices = {0, 1, 0};
    request.seed = request.offset = {1, 2, 3};
    request.num_samples = 2;
    request.words.assign(6, 9);
    request.mark_key = {1, 2};
    request.mark_output = {3, 4};
    return run_request(
        vandal, request,
        {true, true, true, true, true, {.values = true, .ranks = true, .all = true, .top_n = 2}});
  });
}

TEST(CallArrays, damageToAnyArrayOfAChainIsFound) {
  expect_found<fairdraw_chain>(2, [](Vandal& vandal, int form) {
    ChainRequest request;
    request.dtype = form == 0 ? DType::float32 : DType::float16;
    request.batch = 2;
    request.num_draft_tokens = 1;
    request.vocab = 4;
    request.draft_probs.assign(8, 0.25F);
    request.target_probs.assign(16, 0.25F);
    request.draft_tokens = {0, 1};
    request.seed = request.offset = {1, 2};
    request.accept_words = request.recover_words = request.bonus_words = {3, 4};
    return run_chain_request(vandal, request);
  });
}

TEST(CallArrays, damageToAnyArrayOfASpeculationRequestIsFound) {
  expect_found<fairdraw_verification>(2, [](Vandal& vandal, int form) {
    SpeculationRequest request;
    request.batch = 1;
    request.max_draft = request.max_depth = 1;
    request.vocab = 40;
    request.trees = true;
    request.target.assign(80, 1.0F);
    request.parameters.resize(1);
    request.processing = two_processed_rows();
    request.history_form = {form == 1, form == 1, false};
    request.allowed.assign(4, ~0U);
    request.row_begins = {0, 2};
    request.active = {1};
    request.seed = request.offset = {1};
    request.draft_tokens = {3};
    request.draft_lengths = {1};
    request.parents = {-1};
    request.draft_law = DraftLaw::logits;
    request.draft.assign(80, 1.0F);
    request.draft_parameters.resize(1);
    return run_speculation(vandal, request);
  });
}

TEST(CallArrays, damageToAnyArrayOfAnEventIsFound) {
  const auto run = [](Vandal& vandal, int form) {
    SequenceEvent event;
    event.kind = form == 0 ? FAIRDRAW_EVENT_RESTORE : FAIRDRAW_EVENT_STEP;
    event.dtype = DType::float16;
    event.slots = 4;
    event.vocab = 40;
    event.slot = {2};
    if (form == 0) {
      event.parameters.resize(1);
      event.seed = event.offset = {3};
      event.processing = {two_processed_rows().front()};
    } else {
      event.logits.assign(40, 1.0F);
      event.allowed.assign(2, ~0U);
    }
    return run_event(vandal, event);
  };
  expect_found<fairdraw_event>(2, run, /*in_none=*/2);  // histories are lists
}

TEST(CallArrays, damageToAnyArrayOfAnOperationIsFound) {
  constexpr OperationKind kKinds[] = {OperationKind::softmax, OperationKind::top_k_renorm_probs,
                                      OperationKind::top_p_renorm_probs,
                                      OperationKind::min_p_mask_logits};
  expect_found<fairdraw_operation>(4, [&](Vandal& vandal, int form) {
    OperationCall call;
    call.kind = kKinds[form];
    call.dtype = form % 2 == 0 ? DType::float32 : DType::float16;
    call.result_dtype = form == 1 ? DType::float32 : call.dtype;
    call.rows = 2;
    call.vocab = 5;
    call.values.assign(10, 0.25F);
    call.gap = form;
    call.result_gap = 1;
    call.parameters.resize(2);
    return run_operation(vandal, call);
  });
}

}  // namespace
}  // namespace fairdraw::harness
