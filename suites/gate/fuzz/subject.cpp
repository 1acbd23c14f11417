#include "suites/gate/fuzz/subject.h"

#include <algorithm>

namespace fairdraw::suites::fuzz {

using harness::Request;

namespace {

class RowsOfRequest final : public harness::LogitsSource {
 public:
  explicit RowsOfRequest(const Request& request) : request_(request) {}
  std::string name() const override { return "fuzz"; }
  DType dtype() const override { return request_.dtype; }
  std::int64_t vocab() const override { return request_.vocab; }
  std::int64_t rows() const override { return request_.rows; }
  void fill(std::int64_t row, std::span<float> out) const override {
    const float* const values = request_.row(row % request_.rows);
    std::copy(values, values + request_.vocab, out.begin());
  }

 private:
  const Request& request_;
};

}  // namespace

std::unique_ptr<harness::LogitsSource> rows_of(const Request& request) {
  return std::make_unique<RowsOfRequest>(request);
}

Subject::Subject(harness::Sampler& sampler, const reference::Semantics& semantics,
                 const FuzzCase& fuzz_case)
    : sampler_(sampler), semantics_(semantics), case_(fuzz_case) {
  sampler_.recover();  // damage that another case did to the sampler must not count here
  models_.resize(static_cast<std::size_t>(fuzz_case.request.rows));
}

bool Subject::exact() const { return bare_input().exact(); }

bool Subject::outputs_stand_alone() const {
  const bool own_bits = !request().seed_is_scalar || !request().words.empty();
  return description().per_request_seeds && own_bits;
}

const harness::Response& Subject::response() {
  if (!response_) response_ = run(request());
  return *response_;
}

harness::Response Subject::run(const Request& request) {
  if (const std::string lacks = harness::missing_ability(description(), request); !lacks.empty()) {
    throw MissingAbility(lacks);
  }
  harness::WantedResults wanted = {
      .statuses = true, .support_size = true, .mask = true, .probs = true, .logprobs = true};
  // Draws from probabilities return only tokens and statuses, as in every engine's library.
  if (request.input == harness::RowInput::probabilities) wanted = {.statuses = true};
  harness::Response response =
      harness::run_request(sampler_, request, harness::reported(description(), wanted));
  // A sampler without statuses may reject a call if one of its rows has no token, as in `verify`.
  const bool refused = !response.refused.empty() && response.damage.empty();
  if (refused && harness::may_refuse(bare_input(), request)) {
    throw MissingAbility("refuses a call with a row that has no token: " + response.refused);
  }
  return response;
}

harness::ChainResponse Subject::run_chain(const harness::ChainRequest& chain) {
  return harness::run_chain_request(sampler_, chain);
}

const reference::IntegerRow& Subject::model(std::int64_t row) {
  std::optional<reference::IntegerRow>& known = models_[static_cast<std::size_t>(row)];
  if (!known) known = harness::model_of(request(), row);
  return *known;
}

harness::CheckInput Subject::bare_input() const {
  harness::CheckInput input;
  input.sampler = &sampler_;
  input.semantics = semantics_;
  input.tie_rule = request().tie_rule;
  input.filter_order = request().filter_order;
  input.row_input = request().input;
  return input;
}

std::optional<harness::CheckInput> Subject::check_input() {
  const Request& given = request();
  if (given.rows == 0 || !given.allowed.empty() || given.input != harness::RowInput::logits) {
    return std::nullopt;
  }
  rows_ = rows_of(given);
  harness::CheckInput input = bare_input();
  input.logits = rows_.get();
  input.parameters = given.parameters;
  input.processing = given.processing;
  input.rows = given.rows;
  input.seed = case_.salt;
  return input;
}

}  // namespace fairdraw::suites::fuzz
