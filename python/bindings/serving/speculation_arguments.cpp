#include "python/bindings/serving/speculation_arguments.h"

#include <fmt/format.h>

namespace fairdraw::python {

DraftedArguments::DraftedArguments(const Named& given)
    : is_chain(!given.has("parents")),
      target_(given),
      ids_("draft_token_ids", given["draft_token_ids"], place()),
      parents_("parents", given["parents"], place()),
      lengths_("draft_lengths", given["draft_lengths"], place()),
      accept_rule_("accept_rule", given["accept_rule"], place()),
      draft_(given, target_.axes(), place()),
      tokens_("tokens", given["tokens"],
              target_.view.batch * (given.as<std::int64_t>("max_depth") + 1), place()),
      nodes_("nodes", given["nodes"], target_.view.batch * given.as<std::int64_t>("max_depth"),
             place()),
      accepted_("accepted", given["accepted"], target_.view.batch, place()),
      statuses_("statuses", given["statuses"], target_.view.batch, place()) {
  request.target = target_.view;
  request.max_draft = given.as<std::int64_t>("max_draft");
  request.max_depth = given.as<std::int64_t>("max_depth");
  request.draft_tokens = ids_.view;
  request.parents = parents_.view;
  request.draft_lengths = lengths_.view;
  draft_.into(request);
  request.siblings = given.as<SiblingSampling>("siblings");
  result = {tokens_.view, nodes_.view, accepted_.view, statuses_.view};
}

ChainSamplingArguments::ChainSamplingArguments(const Named& given)
    : target_(rows_of("target_probs", given["target_probs"], 3)),
      draft_(rows_of("draft_probs", given["draft_probs"], 3)),
      place_(place_of(given, target_.array)) {
  if (draft_.array.device_type() != place_.device_type ||
      draft_.array.device_id() != place_.device_id) {
    throw_value_error(fmt::format("draft_probs is on {}; target_probs is on {}",
                                  device_name(draft_.array.device_type(), draft_.array.device_id()),
                                  device_name(place_.device_type, place_.device_id)));
  }
  ids_ = input_array("draft_token_ids", given["draft_token_ids"], &place_);
  const std::int64_t batch = draft_.batch;
  const std::int64_t n = draft_.positions;
  if (ids_.dtype() != nb::dtype<std::int32_t>() || ids_.ndim() != 2) {
    throw_type_error(
        fmt::format("draft_token_ids holds {} along {} axes; int32 [batch, n] is "
                    "needed",
                    dtype_name(ids_.dtype()), ids_.ndim()));
  }
  const auto axis = [this](std::size_t i) { return static_cast<std::int64_t>(ids_.shape(i)); };
  const bool contiguous = ids_.size() <= 1 || ((axis(1) <= 1 || ids_.stride(1) == 1) &&
                                               (axis(0) <= 1 || ids_.stride(0) == axis(1)));
  if (axis(0) != batch || axis(1) != n || !contiguous) {
    throw_value_error(fmt::format("draft_token_ids is [{}, {}]; [{}, {}] is needed, contiguous",
                                  axis(0), axis(1), batch, n));
  }
  if (target_.batch != batch || target_.positions != n + 1) {
    throw_value_error(
        fmt::format("target_probs has {} positions of {} requests; {} of {} are "
                    "needed (one more than drafted)",
                    target_.positions, target_.batch, n + 1, batch));
  }
  options_.emplace(given, 1, place_, false);
  request.draft_probs = draft_.view;
  request.draft_tokens = {static_cast<const std::int32_t*>(ids_.data()), batch * n};
  request.target_probs = target_.view;
  request.batch = batch;
  request.num_draft_tokens = n;
  request.seed = options_->draw.seed;
  request.offset = options_->draw.offset;
  tokens_.emplace("tokens", given["tokens"], batch * (n + 1), place_);
  accepted_.emplace("accepted", given["accepted"], batch, place_);
  emitted_.emplace("emitted", given["emitted"], batch, place_);
  statuses_.emplace("statuses", given["statuses"], batch, place_);
  result = {tokens_->view, accepted_->view, emitted_->view, statuses_->view};
}

}  // namespace fairdraw::python
