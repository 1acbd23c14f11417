// The tests require that a written capsule is read back bit for bit, and that a changed capsule is
// never misread but rejected with the place of the error.
#include "suites/gate/fuzz/capsule.h"

#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "harness/contract/usage_error.h"
#include "suites/gate/fuzz/generate.h"

namespace fairdraw::suites::fuzz {
namespace {

using Json = nlohmann::ordered_json;

const reference::Semantics& fairdraw_semantics() { return *reference::find_profile("fairdraw"); }

Capsule capsule_with(FuzzCase fuzz_case, const char* property) {
  Capsule capsule;
  capsule.tool_version = "0.1.0";
  capsule.sampler = "model";
  capsule.semantics = "fairdraw";
  capsule.property = property;
  capsule.message = "a message";
  capsule.fuzz_case = std::move(fuzz_case);
  return capsule;
}

std::unique_ptr<harness::Sampler> model() { return harness::make_builtin_sampler("model"); }

// Small capsules of each kind of case; the first two have every optional part.
Capsule batch_capsule() {
  FuzzCase c;
  c.salt = ~std::uint64_t{0};
  harness::Request& request = c.request;
  request.rows = 2;
  request.vocab = 3;
  request.row_stride = 5;
  request.misalignment = 7;
  request.logits = {0.1F, -INFINITY, NAN, 1.0F, 1.0F, 1.0F};
  request.parameters = {{.temperature = 0.7F, .top_k = -1}, {.top_p = 0x1p-149F, .min_p = 1}};
  request.allowed = {5, 7};
  request.active = {0, 1};
  request.with_indices = true;
  request.indices = {1, -1, 0};
  request.seed = {1, 2, ~std::uint64_t{0}};
  request.offset = {0, 9, 8};
  request.words = {4, 5, 6, 7, 8, 9};
  request.num_samples = 2;
  reference::RowProcessing processing;
  processing.repetition_penalty = 1.5F;
  processing.presence_penalty = -NAN;
  processing.min_tokens = 4;
  processing.prompt = {-1, 2, 2};
  processing.output = {0};
  processing.output_length = 1;
  processing.biases = {{1, -INFINITY}, {7, 0.1F}};
  processing.stop_ids = {2};
  processing.bad_words = {0, 1, 2};
  processing.bad_word_lengths = {2, 1};
  processing.allowed_ids = {1, 2};
  request.processing = {processing, {}};
  request.history_form.grown = true;
  return capsule_with(c, "model.tokens");
}

Capsule chain_capsule() {
  FuzzCase c;
  c.kind = CaseKind::chain;
  c.chain.batch = 1;
  c.chain.num_draft_tokens = 1;
  c.chain.vocab = 2;
  c.chain.draft_probs = {0.5F, 0.5F};
  c.chain.draft_tokens = {1};
  c.chain.target_probs = {0.25F, 0.75F, 1.0F, 0.0F};
  c.chain.seed = {3};
  c.chain.offset = {4};
  c.chain.accept_words = {1};
  c.chain.recover_words = {2};
  c.chain.bonus_words = {3};
  return capsule_with(c, "chain.model");
}

Capsule distribution_capsule() {
  FuzzCase c;
  c.kind = CaseKind::distribution;
  c.draws = 2048;
  c.request.rows = 1;
  c.request.vocab = 3;
  c.request.logits = {0.0F, -1.0F, 0.5F};
  c.request.parameters = {{}};
  Capsule capsule = capsule_with(c, "law.draws");
  const auto sampler = model();
  add_drawn_distribution(capsule, *sampler, fairdraw_semantics());
  return capsule;
}

Capsule speculation_capsule() {
  FuzzCase c;
  c.kind = CaseKind::speculation;
  c.salt = 5;
  harness::SpeculationRequest& request = c.speculation;
  request.batch = 2;
  request.max_draft = 2;
  request.vocab = 2;
  request.target = {0, 1, 2, 3, 4, -INFINITY, NAN, 1, 0.5F, 0};
  request.parameters = {{.top_k = 1}, {.temperature = 0.5F}};
  request.processing.resize(5);
  request.processing[1].output = {1, 0};
  request.history_form.grown = true;
  request.allowed = {3, 3, 2, 1, 3};
  request.row_begins = {0, 3, 5};
  request.active = {1, 0};
  request.seed = {1, ~std::uint64_t{0}};
  request.offset = {7, 9};
  request.draft_tokens = {1, 0, -1};
  request.draft_lengths = {2, 1};
  request.draft_law = DraftLaw::logits;
  request.draft = {0, 0, 1, 1, 2, 2};
  request.draft_parameters = {{}, {.top_p = 0.5F}};
  return capsule_with(c, "verification.model");
}

std::vector<Capsule> all_kinds() {
  return {batch_capsule(), chain_capsule(), distribution_capsule(), speculation_capsule()};
}

// Returns the reader's error for a text, or an empty string if the reader accepts the text.
std::string complaint(const std::string& text) {
  try {
    from_json(text);
    return {};
  } catch (const harness::UsageError& error) {
    return error.what();
  }
}

TEST(Capsules, ComeBackBitForBit) {
  for (const Capsule& capsule : all_kinds()) {
    const std::string text = to_json(capsule);
    EXPECT_EQ(to_json(from_json(text)), text);
  }
  const Capsule batch = from_json(to_json(batch_capsule()));
  const harness::Request& read = batch.fuzz_case.request;
  const harness::Request wrote = batch_capsule().fuzz_case.request;
  for (std::size_t i = 0; i < wrote.logits.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(read.logits[i]),
              std::bit_cast<std::uint32_t>(wrote.logits[i]));
  }
  EXPECT_EQ(read.indices, wrote.indices);
  EXPECT_EQ(read.words, wrote.words);
  EXPECT_EQ(read.seed, wrote.seed);
  EXPECT_EQ(batch.fuzz_case.salt, ~std::uint64_t{0});
}

TEST(Capsules, GeneratedCasesComeBack) {
  const auto sampler = model();
  for (std::uint64_t number = 0; number < 400; ++number) {
    const bool chain = number % 4 == 3, speculation = number % 4 == 1;
    const GenerateOptions small = {.max_vocab = 65};
    const auto cases = chain         ? chain_cases(sampler->description(), small)
                       : speculation ? speculation_cases(sampler->description(), small)
                                     : batch_cases(sampler->description(), small);
    FuzzCase c = cases(rc::Random(number), 100).value();
    const std::string text = to_json(capsule_with(c, chain         ? "chain.model"
                                                     : speculation ? "verification.model"
                                                                   : "model.tokens"));
    ASSERT_EQ(complaint(text), "");
    ASSERT_EQ(to_json(from_json(text)), text);
  }
}

TEST(Capsules, ThatAreTooLongAreNotWritten) {
  FuzzCase c = batch_capsule().fuzz_case;
  c.request.vocab = 20000;
  c.request.logits.clear();
  for (int i = 0; i < 40000; ++i) c.request.logits.push_back(static_cast<float>(i));
  EXPECT_THROW(to_json(capsule_with(c, "model.tokens")), std::length_error);
}

TEST(BadCapsules, AreTruncated) {
  for (const Capsule& capsule : all_kinds()) {
    const std::string text = to_json(capsule);
    // stops before the last two bytes, which are "}\n"
    for (std::size_t size = 0; size + 2 < text.size(); ++size) {
      ASSERT_NE(complaint(text.substr(0, size))
                    .find("truncated: it ends at byte " + std::to_string(size)),
                std::string::npos)
          << complaint(text.substr(0, size));
    }
  }
}

// Calls `visit` with the JSON pointer of every value in `json`.
void for_all_places(const Json& json, const Json::json_pointer& here,
                    const std::function<void(const Json::json_pointer&)>& visit) {
  if (!here.empty()) visit(here);
  if (json.is_object()) {
    for (const auto& item : json.items()) for_all_places(item.value(), here / item.key(), visit);
  } else if (json.is_array()) {
    for (std::size_t i = 0; i < json.size(); ++i) for_all_places(json[i], here / i, visit);
  }
}

// Expects that an error message names the place, or the field around it (for an array of another
// length).
void expect_place(const std::string& says, const Json::json_pointer& place) {
  const bool named = says.find(place.to_string()) != std::string::npos ||
                     says.find(place.parent_pointer().to_string() + " ") != std::string::npos;
  EXPECT_TRUE(named) << place.to_string() << ": " << says;
}

TEST(BadCapsules, HaveAFieldOfAnotherType) {
  for (const Capsule& capsule : all_kinds()) {
    const Json good = Json::parse(to_json(capsule));
    for_all_places(good, Json::json_pointer(), [&](const Json::json_pointer& place) {
      for (const Json& other : {Json(), Json::array({Json::array()}), Json(1.5), Json("\x01?"),
                                Json({{"a", 1}}), Json(-123456789012345LL)}) {
        Json bad = good;
        bad[place] = other;
        const std::string says = complaint(bad.dump());
        const bool free_text =
            good[place].is_string() && other.is_string() &&
            (place.to_string() == "/message" || place.to_string() == "/sampler" ||
             place.to_string() == "/tool/version");
        if (free_text) continue;
        ASSERT_NE(says, "") << place.to_string() << " = " << other.dump();
        expect_place(says, place);
      }
    });
  }
}

TEST(BadCapsules, LackAFieldOrHaveOneMore) {
  // (The field `grown` belongs to logits processing, so that a case with `grown` must have the
  // field `processing`, too.)
  const std::set<std::string> optional = {"/case/allowed", "/case/active", "/case/words",
                                          "/case/grown", "/case/draft_lengths"};
  for (const Capsule& capsule : all_kinds()) {
    const Json good = Json::parse(to_json(capsule));
    for_all_places(good, Json::json_pointer(), [&](const Json::json_pointer& place) {
      Json bad = good;
      Json& parent = bad[place.parent_pointer()];
      if (parent.is_object()) {
        parent.erase(place.back());
        EXPECT_NE(complaint(bad.dump()).empty(), !optional.contains(place.to_string()));
      } else if (const std::string list = place.parent_pointer().to_string();
                 list.starts_with("/case/processing/")) {
        parent.erase(std::stoul(place.back()));  // lists of ids may have any length
        EXPECT_EQ(complaint(bad.dump()), "") << place.to_string();
      } else {
        parent.erase(std::stoul(place.back()));
        // If an array has one value fewer, the error names this array, or another array of the same
        // length.
        EXPECT_NE(complaint(bad.dump()).find("; expected"), std::string::npos) << place.to_string();
      }
      if (!good[place].is_object()) return;
      Json more = good;
      more[place]["plugin"] = "evil.so";
      const std::string says = complaint(more.dump());
      EXPECT_NE(says.find(place.to_string() + "/plugin is unknown"), std::string::npos) << says;
    });
    Json more = good;
    more["command"] = "rm -rf /";
    EXPECT_NE(complaint(more.dump()).find("/command is unknown"), std::string::npos);
  }
}

struct BadCase {
  const char* pointer;
  Json value;
  const char* says;
};

TEST(BadCapsules, SayWhatIsAllowed) {
  const BadCase cases[] = {
      {"/schema_version", 2, "/schema_version is 2; this version reads 1"},
      {"/kind", "plugin", "allowed: batch, chain, law, verification"},
      {"/tool/name", "other", "/tool/name"},
      {"/semantics", "fairdrow", "/semantics is \"fairdrow\": unknown semantics profile"},
      {"/property", "model.token", "which is no property"},
      {"/property", "chain.model", "which is not for kind batch"},
      {"/case/vocab", 1048577, "/case/vocab is 1048577; expected an integer from 1 to 1048576"},
      {"/case/rows", 1 << 20, "expected an integer from 0 to 4096"},
      {"/case/vocab", 5, "/case/values has 6 values; expected 10"},
      {"/case/values/0", "3f800000*4000000000", "/case/values/0 makes"},
      {"/case/values/0", "3f80000", "/case/values/0 is"},
      {"/case/values/0", "3F800000", "/case/values/0 is"},
      {"/case/values/0", "3f800000*0", "/case/values/0 is"},
      {"/case/values/0", "3f800000*-1", "/case/values/0 is"},
      {"/case/row_stride", 2, "expected 0, or at least vocab"},
      {"/case/misalignment", 64, "from 0 to 63"},
      {"/case/dtype", "bfloat16", "which is no bfloat16"},
      {"/case/num_samples", 0, "from 1 to"},
      {"/case/seed/0", "-1", "/case/seed/0"},
      {"/case/seed/0", "01", "/case/seed/0"},
      {"/case/seed/0", "18446744073709551616", "/case/seed/0"},
      {"/case/active/0", 2, "from 0 to 1"},
      {"/case/indices/0", 2147483648LL, "from -2147483648 to 2147483647"},
      {"/case/processing", Json::array(), "expected an array of 2 objects"},
      {"/case/processing/0/prompt", 3, "/case/processing/0/prompt is 3; expected an array"},
      {"/case/processing/0/prompt/1", 2147483648LL, "/case/processing/0/prompt/1"},
      {"/case/processing/1/min_tokens", "4", "/case/processing/1/min_tokens"},
      {"/case/processing/1/frequency_penalty", 0.5, "/case/processing/1/frequency_penalty"},
      {"/case/processing/0/biases/1/value", "x", "/case/processing/0/biases/1/value"},
      {"/case/processing/0/biases/1/also", 1, "/case/processing/0/biases/1/also"},
      {"/case/grown", 1, "/case/grown"},
      {"/case/input", "probabilities", "rows are probabilities"},
  };
  const Json good = Json::parse(to_json(batch_capsule()));
  for (const BadCase& bad : cases) {
    Json json = good;
    json[Json::json_pointer(bad.pointer)] = bad.value;
    EXPECT_NE(complaint(json.dump()).find(bad.says), std::string::npos)
        << bad.pointer << " = " << bad.value.dump() << ": " << complaint(json.dump());
  }
}

TEST(BadCapsules, HaveRequestsThatDoNotFit) {
  const BadCase cases[] = {
      {"/case/rows", 4, "/case/target/8 makes 8 + 1 values; expected 8"},
      {"/case/row_begins/0", 1, "/case/row_begins is not 0"},
      {"/case/row_begins/1", 0, "/case/row_begins is not 0"},
      {"/case/row_begins/2", 6, "from 0 to 5"},
      {"/case/max_draft", 65, "from 0 to 64"},
      {"/case/draft_tokens", Json::array({1}), "expected an array of 3 integers"},
      {"/case/draft_law", "unknown", "allowed: none, probs, logits"},
      {"/case/draft_law", "none", "/case/draft is unknown"},
      {"/case/draft_parameters", Json::array(), "expected an array of 2 objects"},
      {"/case/trees", true, "/case/parents"},
      {"/case/processing", Json::array(), "expected an array of 5 objects"},
      {"/property", "model.tokens", "which is not for kind verification"},
  };
  const Json good = Json::parse(to_json(speculation_capsule()));
  for (const BadCase& bad : cases) {
    Json json = good;
    json[Json::json_pointer(bad.pointer)] = bad.value;
    EXPECT_NE(complaint(json.dump()).find(bad.says), std::string::npos)
        << bad.pointer << " = " << bad.value.dump() << ": " << complaint(json.dump());
  }
  Json unpacked = good;
  unpacked["case"].erase("row_begins");
  EXPECT_NE(complaint(unpacked.dump()).find("expected 6, batch * (max_draft + 1)"),
            std::string::npos);
}

TEST(BadCapsules, RepeatAField) {
  std::string text = to_json(batch_capsule());
  const std::string field = "\"kind\": \"batch\",";
  text.insert(text.find(field), field);
  EXPECT_NE(complaint(text).find("'kind' twice"), std::string::npos) << complaint(text);
}

TEST(BadCapsules, AreNestedOrLarge) {
  EXPECT_NE(complaint(std::string(20000, '[')).find("nested"), std::string::npos);
  EXPECT_NE(complaint(std::string(kMaxCapsuleBytes + 1, ' ')).find("bytes"), std::string::npos);
  EXPECT_NE(complaint("\xff\xfe{}").find("byte"), std::string::npos);
  EXPECT_NE(complaint("[]").find("expected an object"), std::string::npos);
}

std::string replay_complaint(const Capsule& capsule, const reference::Semantics& semantics) {
  const auto sampler = model();
  try {
    replay(capsule, *sampler, semantics);
    return {};
  } catch (const harness::UsageError& error) {
    return error.what();
  }
}

TEST(BadCapsules, HaveADistributionThatDoesNotSumToOne) {
  Json json = Json::parse(to_json(distribution_capsule()));
  // Changes the eighth digit of the significand by one unit, which is 2^-32 of the probability.
  std::string bits = json["/oracle/probability/0"_json_pointer];
  bits[10] = bits[10] == '0' ? '1' : '0';
  json["/oracle/probability/0"_json_pointer] = bits;
  const std::string says = complaint(json.dump());
  EXPECT_NE(says.find("/oracle/probability sums to"), std::string::npos) << says;
  json["/oracle/probability/0"_json_pointer] = "7ff8000000000000";
  EXPECT_NE(complaint(json.dump()).find("expected 0 to 1"), std::string::npos);
  json["/oracle/probability/0"_json_pointer] = "bff0000000000000";
  EXPECT_NE(complaint(json.dump()).find("expected 0 to 1"), std::string::npos);
}

TEST(BadCapsules, HaveADistributionOfOtherSemantics) {
  Capsule capsule = distribution_capsule();
  ASSERT_EQ(replay_complaint(capsule, fairdraw_semantics()), "");
  std::swap(capsule.distribution->probability[0], capsule.distribution->probability[1]);
  EXPECT_NE(replay_complaint(capsule, fairdraw_semantics()).find("/oracle/probability is"),
            std::string::npos);
  capsule = distribution_capsule();
  capsule.fuzz_case.request.parameters.front().temperature = -1;
  EXPECT_NE(replay_complaint(capsule, fairdraw_semantics()).find("no distribution"),
            std::string::npos);
}

TEST(BadCapsules, AreJudgedByOtherSemanticsThanTheSamplers) {
  Capsule capsule = batch_capsule();
  capsule.semantics = "vllm_torch";
  const std::string says = replay_complaint(capsule, fairdraw_semantics());
  EXPECT_NE(says.find("/semantics is vllm_torch, and model is judged by fairdraw"),
            std::string::npos)
      << says;
}

}  // namespace
}  // namespace fairdraw::suites::fuzz
